"""Chooses one token a row, from its own logits and its own random stream: never by its neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
import torch

from native_engine.batch import ScheduledSequence
from native_engine.request import Logprobs, SamplingParams, Sequence

NOT_FINITE = -1
HEAD_SIZES = (256, 4096)  # sorting all takes milliseconds; what top_p lets through nearly always lies in the first few


class Sampler:
    """`seed` makes the requests that bring no seed of their own repeatable, in the order of their arrival."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeds = np.random.SeedSequence(None if seed is None else seed % 2**64)

    def sample(self, logits: torch.Tensor, greedy: list[int], items: Iterable[ScheduledSequence]) -> list[list[int]]:
        """The new tokens of each item that samples; [-1] where its row was not finite or its constraint failed.

        logits [rows, vocabulary] and their argmax: `num_logits` rows for each item, in order.
        """
        tokens, end = [], 0
        for item in items:
            end += item.num_logits
            if item.samples:
                tokens.append([self._next(logits[end - 1], greedy[end - 1], item.sequence)])
        return tokens

    def _next(self, logits: torch.Tensor, best: int, sequence: Sequence) -> int:
        token, count = self._choose(logits, best, sequence), sequence.params.logprobs
        if count is not None and token != NOT_FINITE:
            sequence.logprobs = [logprobs_of(logits, token, count)]
        return token

    def _choose(self, logits: torch.Tensor, best: int, sequence: Sequence) -> int:
        if best == NOT_FINITE or sequence.constraint is None:
            return self._choose_freely(logits, best, sequence)
        allowed = sequence.constraint.allowed()
        if allowed is None:
            return NOT_FINITE
        logits = mask(logits, allowed)
        token = self._choose_freely(logits, int(logits.argmax()), sequence)
        sequence.constraint.push(token)
        return token

    def _choose_freely(self, logits: torch.Tensor, best: int, sequence: Sequence) -> int:
        params = sequence.params
        too_early = sequence.num_output_tokens < params.min_tokens and bool(sequence.stop_ids)
        if best == NOT_FINITE or (params.is_greedy and not too_early):
            return best
        if too_early:
            logits = logits.clone()
            logits[list(sequence.stop_ids)] = float("-inf")
        if params.is_greedy:
            return int(logits.argmax())
        return draw(logits / params.temperature, params, self._uniform(sequence))

    def _uniform(self, sequence: Sequence) -> float:
        """The next number of the request's own stream: the same seed gives the same text in any batch."""
        if sequence.rng is None:
            seed = sequence.params.seed
            own = self._seeds.spawn(1)[0] if seed is None else np.random.SeedSequence(seed % 2**64)
            sequence.rng = np.random.Generator(np.random.Philox(own))
        return float(cast(np.random.Generator, sequence.rng).random())


def mask(logits: torch.Tensor, allowed: bytes) -> torch.Tensor:
    """A copy in which only tokens whose bit is set can be chosen."""
    bits = np.unpackbits(np.frombuffer(allowed, np.uint8), count=len(logits), bitorder="little")
    return torch.where(torch.from_numpy(bits.view(np.bool_)), logits, float("-inf"))


def logprobs_of(logits: torch.Tensor, token: int, count: int) -> Logprobs:
    """Of the chosen token and of the `count` likeliest ones, best first."""
    logprobs = torch.log_softmax(logits.float(), -1)
    values, tokens = torch.topk(logprobs, min(count, len(logprobs)))
    return Logprobs(float(logprobs[token]), tuple(zip(tokens.tolist(), values.tolist(), strict=True)))


def draw(logits: torch.Tensor, params: SamplingParams, uniform: float) -> int:
    """The token at `uniform` of the cumulative distribution: over all tokens, or those that the limits pass."""
    if params.top_p >= 1.0 and not params.top_k and not params.min_p:
        return _pick(torch.softmax(logits, -1), uniform)
    total = torch.logsumexp(logits, -1)
    for size in (*(size for size in HEAD_SIZES if size < len(logits)), len(logits)):
        values, tokens = torch.topk(logits, size)
        probabilities = torch.exp(values - total)
        if _holds_all(probabilities, params):
            break
    return int(tokens[_pick(probabilities[: _kept(probabilities, params)], uniform)])


def _holds_all(probabilities: torch.Tensor, params: SamplingParams) -> bool:
    """Whether the sorted head contains every token that the limits let through."""
    if params.top_k and params.top_k <= len(probabilities):
        return True
    if params.min_p and probabilities[-1] < params.min_p * probabilities[0]:
        return True
    return params.top_p < 1.0 and float(probabilities.sum()) >= params.top_p


def _kept(probabilities: torch.Tensor, params: SamplingParams) -> int:
    """How many of the sorted tokens pass top_k, then top_p of what is left (at least one), and min_p."""
    if params.top_k:
        probabilities = probabilities[: params.top_k]
    mass = float(probabilities.sum()) if params.top_k else 1.0
    before = probabilities.cumsum(-1) - probabilities
    passes = (before < params.top_p * mass) & (probabilities >= params.min_p * probabilities[0])
    return max(1, int(passes.sum()))


def _pick(weights: torch.Tensor, uniform: float) -> int:
    """The index whose share of the total holds `uniform`; the sums in float64, or 50,000 small terms would drift."""
    sums = weights.cumsum(-1, dtype=torch.float64)
    return min(int(torch.searchsorted(sums, uniform * sums[-1], right=True)), len(sums) - 1)
