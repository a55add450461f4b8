"""Bytes of a model's weights by format: the parameters of each matrix times the bits that one takes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

# Format -> bits a weight, with the scales of its groups; and bits a row, for a scale that stands once in it.
WEIGHT_BITS: dict[str, tuple[float, int]] = {
    "F32": (32, 0),
    "F16": (16, 0),
    "BF16": (16, 0),
    "Q8_0": (8.5, 0),
    "Q6_K": (6.5625, 0),
    "Q5_1": (6, 0),
    "Q5_0": (5.5, 0),
    "Q5_K": (5.5, 0),
    "Q4_1": (5, 0),
    "Q4_0": (4.5, 0),
    "Q4_K": (4.5, 0),
    "MXFP4": (4.25, 0),
    "INT8": (8, 32),
    "INT8_32": (9, 0),
    "INT8_64": (8.5, 0),
    "INT8_128": (8.25, 0),
    "INT4": (4, 32),
    "INT4_32": (5, 0),
    "INT4_64": (4.5, 0),
    "INT4_128": (4.25, 0),
    "INT4_128_F16": (4.125, 0),  # with scales of two bytes, as a GPU holds it
    "FP8_E4M3": (8, 32),
    "FP8_E4M3_128": (8.25, 0),
}


class ModelShape(NamedTuple):
    """A decoder of gated feed-forwards; with experts in every layer, `intermediate_size` is that of one."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_experts: int = 0
    experts_per_token: int = 0


def matrix_bytes(rows: int, columns: int, weight_format: str) -> float:
    """Bytes of a matrix [rows, columns] in a format of WEIGHT_BITS."""
    bits, bits_per_row = WEIGHT_BITS[weight_format]
    return rows * (columns * bits + bits_per_row) / 8


def layer_bytes(shape: ModelShape, weight_format: str, experts: float | None = None) -> float:
    """Bytes of one layer's matrices: attention, and the feed-forwards of every expert, or of so many of them."""
    hidden, inner, heads = shape.hidden_size, shape.intermediate_size, shape.num_heads
    qkv = matrix_bytes((heads + 2 * shape.num_kv_heads) * shape.head_dim, hidden, weight_format)
    output = matrix_bytes(hidden, heads * shape.head_dim, weight_format)
    feed_forward = matrix_bytes(2 * inner, hidden, weight_format) + matrix_bytes(hidden, inner, weight_format)
    if experts is None:
        experts = shape.num_experts
    return qkv + output + (experts if shape.num_experts else 1) * feed_forward


def experts_read(shape: ModelShape, tokens: int) -> float:
    """Experts of a layer that a step of so many tokens is expected to read, each choosing its own at random."""
    if not shape.num_experts:
        return 0
    return shape.num_experts * (1 - (1 - shape.experts_per_token / shape.num_experts) ** tokens)


def experts_read_skewed(shape: ModelShape, tokens: int, exponent: float = 1.0) -> float:
    """The same where some experts are liked better: the i-th by popularity in proportion to 1 / i^exponent (Zipf).

    A token takes its experts one after the other, each by popularity among those left. Rosen 1972 (Asymptotic theory
    for successive sampling, Ann. Math. Statist. 43): expert i is then among them with about 1 - exp(-popularity_i x
    t), where t makes these sum to as many as a token takes. With exponent 0 this is `experts_read`.
    """
    number, each = shape.num_experts, shape.experts_per_token
    if each >= number:
        return float(number)
    return _expected(number, exponent, tokens * _time_of(number, exponent, each))


def _expected(number: int, exponent: float, time: float) -> float:
    return sum(1 - math.exp(-time * rank**-exponent) for rank in range(1, number + 1))


@lru_cache(64)
def _time_of(number: int, exponent: float, each: int) -> float:
    """The t of `experts_read_skewed`."""
    low, high = 0.0, 1.0
    while _expected(number, exponent, high) < each:
        high *= 2
    for _ in range(60):  # halvings: to the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if _expected(number, exponent, middle) < each else (low, middle)
    return high


def step_weight_bytes(
    shape: ModelShape, batch: int, layers: str = "BF16", *, head: str | None = None, routers: str = "BF16"
) -> float:
    """Bytes of weights that a decode step of `batch` sequences reads: of the embedding it needs a row for each."""
    vocabulary, hidden = shape.vocab_size, shape.hidden_size
    layer = layer_bytes(shape, layers, experts_read(shape, batch)) + matrix_bytes(shape.num_experts, hidden, routers)
    norms = (2 * shape.num_layers + 1) * hidden * 4
    return shape.num_layers * layer + matrix_bytes(vocabulary, hidden, head or layers) + norms


def active_parameters(shape: ModelShape) -> int:
    """Parameters that every token of a prompt is multiplied by: those of the layers, but only the experts that it
    chooses; the head works on a prompt's last token alone."""
    values = layer_bytes(shape, "F32", shape.experts_per_token) / 4 + shape.num_experts * shape.hidden_size
    return round(shape.num_layers * values)


def model_weight_bytes(
    shape: ModelShape, layers: str = "BF16", *, head: str | None = None, embedding: str = "BF16", routers: str = "BF16"
) -> float:
    """Bytes of all weights, each kind in its format of WEIGHT_BITS; the head is as the layers unless it is given.

    Norms are float32, biases left out. A head tied to the embedding counts like any other: an engine that packs it for
    its kernels holds both.
    """
    vocabulary, hidden = shape.vocab_size, shape.hidden_size
    router = matrix_bytes(shape.num_experts, hidden, routers)
    norms = (2 * shape.num_layers + 1) * hidden * 4
    ends = matrix_bytes(vocabulary, hidden, head or layers) + matrix_bytes(vocabulary, hidden, embedding)
    return shape.num_layers * (layer_bytes(shape, layers) + router) + ends + norms
