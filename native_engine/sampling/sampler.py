"""Chooses one token a row, from its own logits and its own random stream: never by its neighbours.

What is done to a row, in vLLM's order: the grammar's mask, then `adjustments` (bad words, min_tokens, logit_bias,
penalties); a temperature of 0 takes the best of what is left, any other draws (temperature, min_p, top_k, top_p,
typical_p). Log probabilities are of the untouched row.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as ListLike
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from native_engine.batch import ScheduledSequence
from native_engine.request import Sequence, is_ready
from native_engine.sampling.adjustments import Adjustments, adjustments_of
from native_engine.sampling.draw import draw
from native_engine.sampling.logprobs import logprobs_of
from native_engine.sampling.stream import Stream

logger = logging.getLogger(__name__)

NOT_FINITE = -1
Logits = npt.NDArray[np.float32]


@dataclass(slots=True)
class SamplerState:
    """What the sampler keeps with a sequence; it stays there through preemption. Who is greedy needs no stream."""

    stream: Stream | None
    adjustments: Adjustments | None


class Sampler:
    """`seed` makes the requests that bring no seed of their own repeatable, in the order of their arrival."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeds = np.random.SeedSequence(None if seed is None else seed % 2**64)

    def sample(
        self, logits: torch.Tensor, greedy: list[int], items: ListLike[ScheduledSequence], *, alone: bool = True
    ) -> list[list[int]]:
        """The new tokens of each item that samples; [-1] where its row was not finite or nothing may be chosen.

        logits [rows, vocabulary], float32, and their argmax: `num_logits` rows for each item, in order. One whose mask
        is not made yet gets none, so that the others need not wait; where there are no others, the first is waited for.
        `alone`: nobody else is in the step.
        """
        rows, tokens, end = logits.numpy(), list[list[int]](), 0
        waits = alone and not any(is_ready(item.sequence) or not item.samples for item in items)
        for item in items:
            end += item.num_logits
            if item.sequence.wants_prompt_logprobs:
                _tell_of_prompt(item, rows[end - item.num_logits : end])
            if not item.samples:
                continue
            if waits or is_ready(item.sequence):
                first = end - 1 - len(item.drafts)
                tokens.append(self._sample(rows[first:end], greedy[first:end], item))
                waits = False
            else:
                tokens.append([])
        return tokens

    def _sample(self, rows: Logits, greedy: list[int], item: ScheduledSequence) -> list[int]:
        """What the model itself says: on, as long as the drafts said the same."""
        tokens: list[int] = []
        item.sequence.logprobs = []
        for row, best, draft in zip(rows, greedy, (*item.drafts, None), strict=True):
            place = item.sequence.num_output_tokens + len(tokens)
            tokens.append(self._next(row, best, item.sequence, place))
            if tokens[-1] != draft:
                break
        return tokens

    def _next(self, logits: Logits, best: int, sequence: Sequence, place: int) -> int:
        if best == NOT_FINITE:
            return NOT_FINITE
        try:
            token = self._choose(logits, best, sequence, place)
        except Exception:
            logger.exception("no token could be chosen for %s; it ends with an error", sequence.request_id)
            return NOT_FINITE
        count = sequence.params.logprobs
        if count is not None and token != NOT_FINITE:
            sequence.logprobs.append(logprobs_of(logits, token, count))
        return token

    def _choose(self, logits: Logits, best: int, sequence: Sequence, place: int) -> int:
        state, changed = self.state(sequence), logits
        if sequence.constraint is not None:
            allowed = sequence.constraint.allowed()
            if allowed is None:
                return NOT_FINITE
            changed = mask(changed, allowed)
        if state.adjustments is not None:
            changed = state.adjustments.apply(changed)
        if changed is not logits:
            best = int(changed.argmax())
            if not np.isfinite(changed[best]):
                return NOT_FINITE
        token = best if state.stream is None else draw(changed, sequence.params, state.stream.at(place))
        if sequence.constraint is not None:
            sequence.constraint.push(token)
        return token

    def state(self, sequence: Sequence) -> SamplerState:
        """Made when a token is first chosen for it."""
        if not isinstance(sequence.sampler_state, SamplerState):
            sequence.sampler_state = SamplerState(self._stream(sequence), adjustments_of(sequence))
        return sequence.sampler_state

    def _stream(self, sequence: Sequence) -> Stream | None:
        """The request's own stream: the same seed gives the same text in any batch."""
        if sequence.params.is_greedy:
            return None
        seed = sequence.params.seed
        own = self._seeds.spawn(1)[0] if seed is None else np.random.SeedSequence(seed % 2**64)
        return Stream(own)


def _tell_of_prompt(item: ScheduledSequence, rows: npt.NDArray[np.float32]) -> None:
    """Each row says what the model thought of the token after its own, if that is one of the prompt's."""
    sequence = item.sequence
    first = sequence.num_computed_tokens + item.num_new_tokens - item.num_logits + 1
    followers = sequence.token_ids[first : min(first + item.num_logits, sequence.num_prompt_tokens)]
    for row, token in zip(rows, followers, strict=False):
        sequence.prompt_logprobs.append(logprobs_of(row, token, sequence.params.prompt_logprobs or 0))


def mask(logits: Logits, allowed: bytes) -> Logits:
    """A copy in which only tokens whose bit is set can be chosen."""
    bits = np.unpackbits(np.frombuffer(allowed, np.uint8), count=len(logits), bitorder="little")
    return np.where(bits.view(np.bool_), logits, np.float32("-inf"))
