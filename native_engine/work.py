"""What steps compute and what they read of memory, by the capacity arithmetic on a model's shape. Knows no tensor.

Estimates: of a step's batch, not of the kernels that ran. With the machine's peaks they give model FLOP utilisation
and the part of the bandwidth in use.
"""

from __future__ import annotations

from functools import lru_cache

from backends.capacity import ModelShape, active_parameters, kv_bytes_per_token, model_weight_bytes, step_weight_bytes
from native_engine.batch import ScheduledBatch
from native_engine.loading.model_config import ModelConfig


class Work:
    """The sums over all steps. `weight_bytes` are all that the weights take, `cache_bytes` an element of the KV cache.

    FLOP: two for each parameter that a token is multiplied by, the head only for tokens whose logits are wanted, and
    four for each dimension of each query head and each token that it attends to. Bytes read: the weights that a step
    needs, once, in their formats' proportion, and the keys and values of every sequence, those behind a sliding window
    too.
    """

    def __init__(self, shape: ModelShape, weight_bytes: int, cache_bytes: int) -> None:
        self.flops = 0.0
        self.read_bytes = 0.0
        self._per_token = 2 * active_parameters(shape)
        self._per_logit = 2 * shape.vocab_size * shape.hidden_size
        self._per_attended = 4 * shape.num_layers * shape.num_heads * shape.head_dim
        self._kv_bytes = kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, cache_bytes)
        whole = model_weight_bytes(shape)
        # Experts make it depend on the tokens, of which there are few numbers.
        self._weights = lru_cache(1024)(lambda tokens: weight_bytes * step_weight_bytes(shape, tokens) / whole)

    def add(self, batch: ScheduledBatch) -> None:
        """A step is launched."""
        items, logits = batch.items, len(batch.items)
        held = sum(item.sequence.num_computed_tokens for item in items)
        attended = read = held + batch.num_tokens
        if batch.num_tokens > len(items):  # else each has one token, and attends to all that is read for it
            logits, attended = 0, 0
            for item in items:
                tokens = item.num_new_tokens + len(item.drafts)
                logits += item.num_logits
                attended += tokens * item.sequence.num_computed_tokens + tokens * (tokens + 1) // 2
        self.flops += self._per_token * batch.num_tokens + self._per_logit * logits + self._per_attended * attended
        self.read_bytes += self._weights(batch.num_tokens) + self._kv_bytes * read


def shape_of(model: ModelConfig) -> ModelShape:
    """As the capacity arithmetic has it."""
    experts = model.experts
    return ModelShape(
        model.vocab_size,
        model.hidden_size,
        experts.width if experts else model.intermediate_size,
        model.num_layers,
        model.num_heads,
        model.num_kv_heads,
        model.head_dim,
        experts.count if experts else 0,
        experts.per_token if experts else 0,
    )
