"""A transformers model as a GGUF file, named and ordered as llama.cpp's converter does it. Carries no tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.native_engine.tiny_model import add_key


def write_as_gguf(model: Any, path: Path, architecture: str, extras: dict[str, Any]) -> Path:
    """`extras` are further keys of the architecture. The names of tensors are the gguf library's, not ours."""
    config = model.config
    kind = next(each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (_shape(config) | extras).items():
        add_key(writer, f"{architecture}.{key}", value)
    for name, values in _tensors(model):
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            values = permute(values, config.num_attention_heads if "q_proj" in name else config.num_key_value_heads)
        if architecture.startswith("gemma") and "norm" in name:
            values = values + 1
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(values))
    for part in ("short", "long"):
        if f"{part}_factor" in config.rope_parameters:
            factors = np.array(config.rope_parameters[f"{part}_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{part}.weight", factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Those of the model, the experts' gate and up taken apart."""
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if ".experts." not in name:
            yield name.replace(".sinks", ".sinks.weight"), values
            continue
        name, kind = (name.removesuffix("_bias"), "bias") if name.endswith("bias") else (name, "weight")
        gpt_oss = model.config.model_type == "gpt_oss"
        if gpt_oss and kind == "weight":
            values = values.swapaxes(1, 2)
        if name.endswith("gate_up_proj"):
            gate, up = (values[:, 0::2], values[:, 1::2]) if gpt_oss else np.split(values, 2, axis=1)
            yield name.replace("gate_up", "gate") + f".{kind}", gate
            yield name.replace("gate_up", "up") + f".{kind}", up
        else:
            yield f"{name}.{kind}", values


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to Q and K of the llama architecture."""
    paired = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return paired.swapaxes(1, 2).reshape(weight.shape)


def _shape(config: Any) -> dict[str, Any]:
    return {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": config.rope_parameters.get("full_attention", config.rope_parameters)["rope_theta"],
        "rope.dimension_count": int(config.head_dim * config.rope_parameters.get("partial_rotary_factor", 1)),
    }
