"""Weights without a file: random numbers made on the device, in the shapes and formats of a model. For measurements."""

from __future__ import annotations

from pathlib import Path

import torch

from backends.capacity import ModelShape
from kernels.linear import DeviceWeight
from kernels.linear.device_weight import pack
from native_engine.loading.expert_config import ExpertConfig
from native_engine.loading.model_config import ModelConfig
from native_engine.loading.shapes import expected_shape
from native_engine.loading.weights import Weights

GROUP = 128  # columns that share a scale in int4
FORMATS = ("bf16", "fp8", "int8", "int4")  # bf16: plain, in whatever type the model computes in
_HEAD, _ROUTER, _JOINED = "lm_head.weight", "mlp.gate.weight", ("qkv_proj.weight", "gate_up_proj.weight")


def random_matrix(
    n: int, k: int, weight_format: str, device: torch.device, dtype: torch.dtype
) -> torch.Tensor | DeviceWeight:
    """[n, k] with values of about 1 / sqrt(k), so that activations keep their size from layer to layer."""
    size = k**-0.5
    if weight_format == "bf16":
        return torch.empty(n, k, device=device, dtype=dtype).normal_(std=size)
    if weight_format == "int4":
        return DeviceWeight(
            n, k, GROUP, pack(_integers(n, k, 8, device)), _scales(k // GROUP, n, size / 4, device).bfloat16()
        )
    if weight_format == "int8":
        codes, scale = _integers(n, k, 128, device), size / 64
    else:
        codes, scale = torch.randn(n, k, device=device).to(torch.float8_e4m3fn), size
    return DeviceWeight(n, k, k, codes, _scales(1, n, scale, device))


def _scales(groups: int, n: int, about: float, device: torch.device) -> torch.Tensor:
    return (torch.rand(groups, n, device=device) + 0.5) * about


def _integers(n: int, k: int, limit: int, device: torch.device) -> torch.Tensor:
    """int8 from -limit to limit - 1."""
    return torch.randint(-limit, limit, (n, k), device=device, dtype=torch.int8)


def model_config(shape: ModelShape, max_position: int) -> ModelConfig:
    """A Qwen3 of this shape; no token ends its answers."""
    experts = None
    if shape.num_experts:
        experts = ExpertConfig(shape.num_experts, shape.experts_per_token, shape.intermediate_size, normalised=True)
    return ModelConfig(
        architecture="qwen3moe" if experts else "qwen3",
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        rope_scaling=None,
        max_position=max_position,
        tie_embeddings=False,
        qk_norm=True,
        bos_token_id=None,
        eos_token_ids=frozenset(),
        chat_template=None,
        name="random weights",
        experts=experts,
    )


def no_weights(config: ModelConfig) -> Weights:
    """In the place of a file's: the description alone."""
    return Weights(Path(config.name), config, {})


class RandomLoader:
    """As DeviceLoader, of `no_weights`: matrices in the format of FORMATS that `quantization` names ("none": bf16),
    the head of int4 ones in int8, routers plain; norms are ones. `nbytes` is what all of them take."""

    def __init__(self, weights: Weights, quantization: str, dtype: torch.dtype, device: torch.device) -> None:
        self._config, self._dtype, self._device = weights.config, dtype, device
        self._format = "bf16" if quantization == "none" else quantization
        self.nbytes = 0

    def has(self, name: str) -> bool:
        return not name.endswith(_JOINED) and name.endswith(".weight") and bool(expected_shape(self._config, name))

    def linear(self, *names: str) -> torch.Tensor | DeviceWeight:
        if names[0].endswith(_ROUTER):
            return self._made(names, "bf16")
        return self._made(names, "int8" if names == (_HEAD,) and self._format == "int4" else self._format)

    def experts(self, *names: str) -> torch.Tensor | DeviceWeight:
        return self._made(names, self._format)

    def vector(self, *names: str) -> torch.Tensor:
        return torch.ones(sum(self._shape(name)[0] for name in names), device=self._device)

    def embedding(self, name: str) -> torch.Tensor:
        return torch.empty(self._shape(name), device=self._device, dtype=self._dtype).normal_()

    def _made(self, names: tuple[str, ...], weight_format: str) -> torch.Tensor | DeviceWeight:
        shapes = [self._shape(name) for name in names]
        rows, columns = sum(shape[0] for shape in shapes), shapes[0][1]
        weight = random_matrix(rows, columns, weight_format, self._device, self._dtype)
        self.nbytes += weight.nbytes
        return weight

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = expected_shape(self._config, name)
        if shape is None:
            raise ValueError(f"{name} is no tensor of this model")
        return shape
