"""What one request changes in its logits before a token is chosen. Draws nothing, and knows no grammar.

The order is vLLM's: bad words, ends that come before min_tokens, logit_bias, then the penalties for repetition (of the
prompt and the answer), frequency and presence (in the answer alone).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from native_engine.request import Sequence
from native_engine.sampling.token_counts import TokenCounts

Logits = npt.NDArray[np.float32]
_NEVER = np.float32("-inf")


class Adjustments:
    """Belongs to one sequence and stays with it through preemption, since its tokens do."""

    __slots__ = ("_bans", "_biased", "_biases", "_counted", "_counts", "_ends", "_sequence", "_words")

    def __init__(self, sequence: Sequence) -> None:
        params = sequence.params
        words = params.bad_words_ids
        self._sequence = sequence
        self._bans = np.array([word[0] for word in words if len(word) == 1], np.int64)
        self._words = [(list(word[:-1]), word[-1]) for word in words if len(word) > 1]
        self._ends = np.array(sorted(sequence.stop_ids) if params.min_tokens else [], np.int64)
        self._biased = np.array(list(params.logit_bias or {}), np.int64)
        self._biases = np.array(list((params.logit_bias or {}).values()), np.float32)
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        self._counts = TokenCounts(prompt if params.repetition_penalty != 1.0 else ()) if params.penalises else None
        self._counted = sequence.num_prompt_tokens

    def apply(self, logits: Logits) -> Logits:
        """A changed copy of logits [vocabulary], or the same where nothing is to change at this token."""
        sequence = self._sequence
        early = len(self._ends) > 0 and sequence.num_output_tokens < sequence.params.min_tokens
        if not (early or len(self._bans) or self._words or len(self._biased) or self._counts):
            return logits
        logits = logits.copy()
        logits[self._bans] = _NEVER
        for before, last in self._words:
            if _ends_with(sequence, before):
                logits[last] = _NEVER
        if early:
            logits[self._ends] = _NEVER
        logits[self._biased] += self._biases
        if self._counts is not None:
            self._penalise(logits, self._counts)
        return logits

    def _penalise(self, logits: Logits, counts: TokenCounts) -> None:
        params, tokens = self._sequence.params, self._sequence.token_ids
        for place in range(self._counted, len(tokens)):
            counts.add(tokens[place])
        self._counted = len(tokens)
        values = logits[counts.tokens]
        values = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
        values -= params.frequency_penalty * counts.counts
        values -= params.presence_penalty * (counts.counts > 0)
        logits[counts.tokens] = values


def adjustments_of(sequence: Sequence) -> Adjustments | None:
    """None where the request changes nothing."""
    params = sequence.params
    asked = params.min_tokens or params.bad_words_ids or params.logit_bias or params.penalises
    return Adjustments(sequence) if asked else None


def _ends_with(sequence: Sequence, tokens: list[int]) -> bool:
    """Whether the answer, not the prompt, ends with them."""
    return sequence.num_output_tokens >= len(tokens) and sequence.token_ids[-len(tokens) :] == tokens
