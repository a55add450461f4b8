"""Gemma 2 and 3: a norm before and one after attention and feed-forward, layers with a window between layers without.

What differs between the two stands in the configuration: soft caps in Gemma 2; norms on q and k, and rotary positions
of their own in the layers with a window, in Gemma 3.
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
from native_engine.parallel.group import Group
from native_engine.quantization.weights import WeightLoader


class GemmaLayer:
    """One decoder layer; the residual is added behind the norm that follows each half."""

    def __init__(self, config: ModelConfig, loader: WeightLoader, index: int, group: Group) -> None:
        self.config, self.window, self.group = config, config.windows[index], group
        prefix = f"model.layers.{index}."

        def norm(name: str) -> torch.Tensor:
            return loader.vector(f"{prefix}{name}.weight") + config.norm_offset

        self.attention_norm, self.after_attention_norm = norm("input_layernorm"), norm("post_attention_layernorm")
        self.mlp_norm, self.after_mlp_norm = norm("pre_feedforward_layernorm"), norm("post_feedforward_layernorm")
        self.head_norms = None
        if config.qk_norm:
            self.head_norms = HeadNorms(norm("self_attn.q_norm"), norm("self_attn.k_norm"), config.rms_norm_eps)
        self.qkv = loader.linear(*(f"{prefix}self_attn.{part}_proj.weight" for part in "qkv"))
        self.output = loader.linear(f"{prefix}self_attn.o_proj.weight")
        self.gate_up = loader.linear(f"{prefix}mlp.gate_proj.weight", f"{prefix}mlp.up_proj.weight")
        self.down = loader.linear(f"{prefix}mlp.down_proj.weight")

    def forward(self, x: Activation, step: Step, tables: RotaryTables, cache: LayerCache) -> Activation:
        """x [rows, hidden] to [rows, hidden]; writes this step's keys and values to the cache."""
        config, eps = self.config, self.config.rms_norm_eps
        qkv = linear(rms_norm(x, self.attention_norm, eps), self.qkv)
        qkv = rotary(qkv, tables, cache, step, config.num_heads, self.head_norms)
        h = attention(
            qkv, cache, step, config.num_heads, config.attention_scale, self.window, config.attention_soft_cap
        )
        x = rms_norm(self.group.sum(linear(h, self.output)), self.after_attention_norm, eps, residual=x)
        h = linear(rms_norm(x, self.mlp_norm, eps), self.gate_up)
        h = self.group.sum(linear(gated(h, config.activation), self.down))
        return rms_norm(h, self.after_mlp_norm, eps, residual=x)
