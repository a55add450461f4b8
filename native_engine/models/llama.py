"""Llama and its like: SmolLM2, Llama 2 and 3, Mistral, Qwen2 (biases on q, k, v), Qwen3 (norms on q and k), Phi-3
(matrices joined in the file); Mixtral, Qwen3-MoE and gpt-oss (experts; sinks in attention).

Written once, as every family: over tensors it computes at once in plain torch, over buffers it records the native
program.
"""

from __future__ import annotations

import torch

from kernels.activation import Activation, Step
from kernels.attention import attention
from kernels.attention.cache import LayerCache
from kernels.gated import gated
from kernels.linear import linear
from kernels.rms_norm import rms_norm
from kernels.rotary import HeadNorms, RotaryTables, rotary
from native_engine.loading.model_config import ModelConfig
from native_engine.models.experts import ExpertFeedForward
from native_engine.parallel.group import Group
from native_engine.quantization.weights import Matrix, WeightLoader


class GatedFeedForward:
    """Two matrices around a gated activation."""

    def __init__(self, config: ModelConfig, loader: WeightLoader, prefix: str) -> None:
        gate_up = _stored(loader, prefix, "mlp.gate_up_proj", ["mlp.gate_proj", "mlp.up_proj"])
        self.activation = config.activation
        self.gate_up, self.gate_up_bias = _weight_and_bias(loader, gate_up)
        self.down, self.down_bias = _weight_and_bias(loader, [f"{prefix}mlp.down_proj"])

    def forward(self, x: Activation, residual: Activation | None) -> Activation:
        """x [rows, hidden] to [rows, hidden], residual added."""
        h = gated(linear(x, self.gate_up, self.gate_up_bias), self.activation)
        return linear(h, self.down, self.down_bias, residual=residual)


class LlamaLayer:
    """One decoder layer: attention and a gated feed-forward, each with a norm before and the residual around it."""

    def __init__(self, config: ModelConfig, loader: WeightLoader, index: int, group: Group) -> None:
        self.config, self.window, self.group = config, config.windows[index], group
        prefix = f"model.layers.{index}."
        qkv = _stored(loader, prefix, "self_attn.qkv_proj", [f"self_attn.{part}_proj" for part in "qkv"])
        output = [f"{prefix}self_attn.o_proj"]
        self.attention_norm = loader.vector(f"{prefix}input_layernorm.weight")
        self.qkv, self.qkv_bias = _weight_and_bias(loader, qkv)
        self.head_norms = self._head_norms(loader, prefix) if config.qk_norm else None
        sinks = f"{prefix}self_attn.sinks.weight"
        self.sinks = loader.vector(sinks) if loader.has(sinks) else None
        self.output, self.output_bias = _weight_and_bias(loader, output)
        self.mlp_norm = loader.vector(f"{prefix}post_attention_layernorm.weight")
        self.feed_forward = _feed_forward(config, loader, prefix)

    def _head_norms(self, loader: WeightLoader, prefix: str) -> HeadNorms:
        q, k = (loader.vector(f"{prefix}self_attn.{part}_norm.weight") for part in "qk")
        return HeadNorms(q, k, self.config.rms_norm_eps)

    def forward(self, x: Activation, step: Step, tables: RotaryTables, cache: LayerCache) -> Activation:
        """x [rows, hidden] to [rows, hidden]; writes this step's keys and values to the cache."""
        config, group = self.config, self.group
        h = rms_norm(x, self.attention_norm, config.rms_norm_eps)
        qkv = linear(h, self.qkv, self.qkv_bias)
        qkv = rotary(qkv, tables, cache, step, config.num_heads, self.head_norms)
        h = attention(qkv, cache, step, config.num_heads, config.attention_scale, self.window, sinks=self.sinks)
        x = group.sum(linear(h, self.output, self.output_bias, residual=group.once(x)))
        h = rms_norm(x, self.mlp_norm, config.rms_norm_eps)
        return group.sum(self.feed_forward.forward(h, residual=group.once(x)))


def _feed_forward(config: ModelConfig, loader: WeightLoader, prefix: str) -> GatedFeedForward | ExpertFeedForward:
    """Experts where the layer has them: some layers of such a model may not."""
    if config.experts and loader.has(f"{prefix}mlp.gate.weight"):
        return ExpertFeedForward(config.experts, config.activation, loader, prefix)
    return GatedFeedForward(config, loader, prefix)


def _stored(loader: WeightLoader, prefix: str, joined: str, parts: list[str]) -> list[str]:
    """The names under which the file holds one matrix of ours: its parts, or joined already."""
    in_parts = any(loader.has(f"{prefix}{part}.weight") for part in parts)
    return [prefix + part for part in parts] if in_parts else [prefix + joined]


def _weight_and_bias(loader: WeightLoader, names: list[str]) -> tuple[Matrix, torch.Tensor | None]:
    """A bias where the file has one: which matrices have them differs from model to model."""
    biases = [f"{name}.bias" for name in names]
    bias = loader.vector(*biases) if any(map(loader.has, biases)) else None
    return loader.linear(*(f"{name}.weight" for name in names)), bias
