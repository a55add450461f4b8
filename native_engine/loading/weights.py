"""Raw tensors under Hugging Face names, whichever file they come from. Knows no torch; dequantises nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from native_engine.loading import safetensors
from native_engine.loading.errors import ModelError
from native_engine.loading.experts import one_by_one
from native_engine.loading.gguf import GGUFModel, GGUFTensor
from native_engine.loading.model_config import ModelConfig, config_from_folder, read_json
from native_engine.loading.raw import RawTensor
from native_engine.loading.shapes import expected_shape
from native_engine.quantization import checkpoints

__all__ = ["RawTensor", "Weights", "open_weights"]

_GGUF_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "rope_freqs.weight": "model.rope_freqs.weight",
    "rope_factors_short.weight": "model.rope_freqs.weight",
    "rope_factors_long.weight": "model.rope_factors_long.weight",
}
_GGUF_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
_GEMMA_NORMS = {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GGUF_LAYER_OF = {
    "phi3": _GGUF_LAYER | {"ffn_up": "mlp.gate_up_proj"},  # gate and up in one
    "gemma2": _GGUF_LAYER | _GEMMA_NORMS,
    "gemma3": _GGUF_LAYER | _GEMMA_NORMS,
    "gpt-oss": _GGUF_LAYER | {"post_attention_norm": "post_attention_layernorm", "attn_sinks": "self_attn.sinks"},
}
# A model that sees pictures has its language model inside, in either of the layouts that transformers has had.
_PICTURES = re.compile(r"(?:model\.)?(?:vision_tower|multi_modal_projector)\.")
_INSIDE = re.compile(r"^(?:model\.language_model\.|language_model\.model\.)")
_GGUF_LAYER_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


@dataclass(frozen=True)
class Weights:
    """A model's configuration and its tensors, each read from the file when it is asked for."""

    path: Path
    config: ModelConfig
    _readers: dict[str, Callable[[], RawTensor]]

    def names(self) -> list[str]:
        return list(self._readers)

    def get(self, name: str) -> RawTensor:
        if name not in self._readers:
            raise ModelError(
                f"{self.path}: tensor {name} is missing; the model is not whole or not of its stated kind."
            )
        raw, expected = self._readers[name](), expected_shape(self.config, name)
        if expected not in (None, raw.shape):
            raise ModelError(
                f"{self.path}: tensor {name} has the shape {list(raw.shape)}, but the model's description makes it "
                f"{list(expected or ())}; fetch the model again."
            )
        return raw


def open_weights(path: str | Path) -> Weights:
    """A .gguf file, or a Hugging Face folder with safetensors."""
    path = Path(path)
    if not path.exists():
        raise ModelError(f"{path}: no such file or folder.")
    return _open_folder(path) if path.is_dir() else _open_gguf(path)


def _open_folder(path: Path) -> Weights:
    config = config_from_folder(path)
    tensors = _language_model(safetensors.open_folder(path))
    readers = {name: _plain(each) for name, each in tensors.items() if each.type_name in safetensors.WHOLE_TYPES}
    quantised = read_json(path / "config.json").get("quantization_config")
    if quantised is not None:
        readers |= checkpoints.readers(path, quantised, tensors)
    return Weights(path, config, _one_by_one(config, readers))


def _language_model(tensors: dict[str, safetensors.SafeTensor]) -> dict[str, safetensors.SafeTensor]:
    """Under the names that it has when it is saved alone, with its head."""
    prefix = "model." if "embed_tokens.weight" in tensors else ""
    kept = {_INSIDE.sub("model.", name): each for name, each in tensors.items() if not _PICTURES.match(name)}
    return {prefix + name.removeprefix("language_model."): each for name, each in kept.items()}


def _open_gguf(path: Path) -> Weights:
    model = GGUFModel.open(path)
    config = model.config()
    readers = {}
    for name, tensor in model.tensors.items():
        canonical = _canonical_name(name, _GGUF_LAYER_OF.get(config.architecture, _GGUF_LAYER))
        if canonical is None:
            raise ModelError(f"{path}: tensor {name} does not belong to a {config.architecture} model.")
        readers[canonical] = _gguf_reader(config, canonical, tensor)
    return Weights(path, config, _one_by_one(config, readers))


def _one_by_one(config: ModelConfig, readers: dict[str, Callable[[], RawTensor]]) -> dict[str, Callable[[], RawTensor]]:
    return one_by_one(readers, config.experts.count) if config.experts else readers


def _canonical_name(name: str, parts: Mapping[str, str]) -> str | None:
    match = _GGUF_LAYER_NAME.fullmatch(name)
    if match is None:
        return _GGUF_TOP.get(name)
    layer, part, kind = match.groups()
    return f"model.layers.{layer}.{parts[part]}.{kind}" if part in parts else None


def _plain(tensor: GGUFTensor | safetensors.SafeTensor) -> Callable[[], RawTensor]:
    return lambda: RawTensor(tensor.type_name, tensor.shape, tensor.data)


def _gguf_reader(config: ModelConfig, canonical: str, tensor: GGUFTensor) -> Callable[[], RawTensor]:
    """llama.cpp reorders the rows of Q and K of the llama architecture for its own rotary form; put them back."""
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}.get(canonical.split(".")[-2], 0)
    if config.architecture != "llama" or not heads:
        return _plain(tensor)
    return lambda: RawTensor(tensor.type_name, tensor.shape, _unpermute_rows(tensor, heads))


def _unpermute_rows(tensor: GGUFTensor, heads: int) -> npt.NDArray[np.uint8]:
    """Rows of a head lie as (pair, half); Hugging Face wants (half, pair). Whole rows move, so blocks stay whole."""
    rows = np.arange(tensor.shape[0]).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
    if len(tensor.shape) == 1:  # a bias: its elements are its rows
        return tensor.data.reshape(tensor.shape[0], -1)[rows].reshape(1, -1)
    return tensor.data[rows]
