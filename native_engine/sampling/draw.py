"""From one row of logits and one uniform number to a token. Knows no request but its parameters.

The order is vLLM's: temperature, min_p, top_k of what is left, top_p of what is left then. typical_p comes last, as in
transformers.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kernels.sampling import BLOCK, survey
from native_engine.request import SamplingParams
from native_engine.sampling.likeliest import likeliest

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]
# How far below the best, in exponents, a token is still looked at, and how many of those are sorted. What top_p keeps
# nearly always lies in the first few hundred tokens; sorting a whole vocabulary takes milliseconds.
_DEPTHS = (8.0, 14.0, math.inf)
_HEADS = (256, 1024, 4096, 16384)


def draw(logits: Floats, params: SamplingParams, uniform: float) -> int:
    """The token at `uniform` of the cumulative distribution: over all tokens, or those that the limits let through.

    logits [vocabulary], one of them finite and none NaN or +infinity; the temperature is not 0.
    """
    if params.top_p == 1.0 and not params.top_k and not params.min_p and params.typical_p == 1.0:
        return _draw_from_all(logits, params.temperature, uniform)
    tokens, weights = _limited(logits, params)
    if params.typical_p < 1.0:
        tokens, weights = _typical(tokens, weights, params.typical_p)
    return int(tokens[_pick(weights, uniform)])


def _draw_from_all(logits: Floats, temperature: float, uniform: float) -> int:
    """First a block of tokens by its sum, then a token of the block."""
    seen = survey(logits, 1 / temperature, 0.0)
    block = _pick(seen.sums, uniform)
    start, ends = block * BLOCK, seen.sums.cumsum()
    within = (uniform * ends[-1] - (ends[block] - seen.sums[block])) / seen.sums[block]
    weights = np.exp((logits[start : start + BLOCK] - seen.peak) / temperature)
    return start + _pick(weights, min(max(within, 0.0), 1.0))


def _limited(logits: Floats, params: SamplingParams) -> tuple[Tokens, Floats]:
    """The tokens that pass min_p, top_k and top_p, the best first and the lower id first of equals, and their weights:
    probabilities up to a factor."""
    tokens, weights, mass = _candidates(logits, params)
    for size in (params.top_k,) if params.top_k else (*_HEADS, len(tokens)):
        head = likeliest(weights, size)
        if params.top_k or float(weights[head].sum(dtype=np.float64)) >= params.top_p * mass:
            break
    tokens, weights = tokens[head], weights[head]
    if params.top_k:
        mass = float(weights.sum(dtype=np.float64))
    before = weights.cumsum(dtype=np.float64) - weights
    kept = max(1, int((before < params.top_p * mass).sum()))
    return tokens[:kept], weights[:kept]


def _candidates(logits: Floats, params: SamplingParams) -> tuple[Tokens, Floats, float]:
    """Every token that can pass the limits among some that cannot, in the order of their ids; their weights, and what
    all tokens that pass min_p weigh."""
    if params.min_p:
        tokens, weights, _ = _down_to(logits, params, -math.log(params.min_p) * 1.0001 + 1e-4)
        passes = weights >= params.min_p
        return tokens[passes], weights[passes], float(weights[passes].sum(dtype=np.float64))
    for depth in _DEPTHS:
        tokens, weights, mass = _down_to(logits, params, depth)
        held = float(weights.sum(dtype=np.float64))
        if len(tokens) >= params.top_k if params.top_k else held >= params.top_p * mass:
            break
    return tokens, weights, mass


def _down_to(logits: Floats, params: SamplingParams, depth: float) -> tuple[Tokens, Floats, float]:
    seen = survey(logits, 1 / params.temperature, depth)
    weights: Floats = np.exp((logits[seen.tokens] - seen.peak) / params.temperature)
    return seen.tokens, weights, float(seen.sums.sum())


def _typical(tokens: Tokens, weights: Floats, typical_p: float) -> tuple[Tokens, Floats]:
    """Those whose surprise is nearest to the expected one, until they hold `typical_p` of the probability: Meister et
    al., "Locally Typical Sampling", 2022."""
    weights, tokens = weights[weights > 0], tokens[weights > 0]
    probabilities = weights.astype(np.float64) / weights.sum(dtype=np.float64)
    surprise = -np.log(probabilities)
    order = np.argsort(np.abs(surprise - probabilities @ surprise), kind="stable")
    kept = order[: int((probabilities[order].cumsum() < typical_p).sum()) + 1]
    return tokens[kept], weights[kept]


def _pick(weights: npt.NDArray[np.floating], uniform: float) -> int:
    """The index whose share of the total holds `uniform`, never one that has no share. The sums are in float64: in
    float32 thousands of small terms would drift."""
    ends = weights.cumsum(dtype=np.float64)
    index = int(np.searchsorted(ends, uniform * ends[-1], side="right"))
    return index if index < len(ends) else int(np.flatnonzero(weights)[-1])
