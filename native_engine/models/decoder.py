"""What every family of decoders shares: embedding, layers, a last norm, and the head. A family's file has its layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kernels.activation import Activation, Step
from kernels.attention.cache import LayerCache
from kernels.embedding import embedding, sampled_rows
from kernels.linear import linear
from kernels.rms_norm import rms_norm
from kernels.rotary import RotaryTables
from kernels.soft_cap import soft_cap
from native_engine.layers.rotary import rotary_tables
from native_engine.loading.model_config import ModelConfig
from native_engine.parallel.group import ALONE, Group
from native_engine.quantization.weights import WeightLoader

_EMBEDDING = "model.embed_tokens.weight"


class Layer(Protocol):
    """One decoder layer with its weights."""

    def forward(self, x: Activation, step: Step, tables: RotaryTables, cache: LayerCache) -> Activation:
        """x [rows, hidden] to [rows, hidden]; writes this step's keys and values to the cache."""
        ...


MakeLayer = Callable[[ModelConfig, WeightLoader, int, Group], Layer]


class Backbone:
    """A decoder without its head: the last hidden state, normed, of each row to sample."""

    def __init__(
        self, config: ModelConfig, loader: WeightLoader, max_model_len: int, layer: MakeLayer, group: Group = ALONE
    ) -> None:
        self.config = config
        self.tables = self._tables(loader, max_model_len)
        self.embedding = loader.embedding(_EMBEDDING)
        self.layers = [layer(config, loader, index, group) for index in range(config.num_layers)]
        self.norm = loader.vector("model.norm.weight") + config.norm_offset

    def _tables(self, loader: WeightLoader, max_model_len: int) -> list[RotaryTables]:
        """One for each layer; layers of a kind share theirs."""
        config = self.config
        factors = loader.vector("model.rope_freqs.weight") if loader.has("model.rope_freqs.weight") else None
        far = rotary_tables(config.rotary_dim, config.rope_theta, config.rope_scaling, max_model_len, factors)
        near = far
        if config.local_rope_theta is not None:
            near = rotary_tables(config.rotary_dim, config.local_rope_theta, None, max_model_len)
        return [far if window is None else near for window in config.windows]

    def forward(self, step: Step, caches: list[LayerCache]) -> Activation:
        """[rows to sample, hidden] of one step; writes the step's keys and values to the caches."""
        x: Activation = embedding(self.embedding, step, self.config.embedding_scale)
        for layer, tables, cache in zip(self.layers, self.tables, caches, strict=True):
            x = layer.forward(x, step, tables, cache)
        return rms_norm(sampled_rows(x, step), self.norm, self.config.rms_norm_eps)


class Decoder:
    """A whole language model, or a rank's part of it. The head works only on the rows to sample."""

    def __init__(
        self, config: ModelConfig, loader: WeightLoader, max_model_len: int, layer: MakeLayer, group: Group = ALONE
    ) -> None:
        self.backbone = Backbone(config, loader, max_model_len, layer, group)
        self.soft_cap, self.vocab_size, self.group = config.final_soft_cap, config.vocab_size, group
        self.head = loader.linear(_EMBEDDING if config.tie_embeddings else "lm_head.weight")

    def forward(self, step: Step, caches: list[LayerCache]) -> Activation:
        """Logits [rows to sample, vocabulary] of one step; writes the step's keys and values to the caches."""
        logits = linear(self.backbone.forward(step, caches), self.head)
        logits = logits if self.soft_cap is None else soft_cap(logits, self.soft_cap)
        return self.group.join(logits, self.vocab_size)
