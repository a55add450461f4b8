"""Guesses of what a sequence says next, from what it holds already. Knows neither model nor scheduling.

Prompt lookup (Saxena, 2023; "ngram" speculation in vLLM): what followed the last NGRAM tokens the last time is guessed
to follow again. Answers that quote their prompt, code and lists do so. A guess never changes an answer: it is kept only
where the model, asked about all guesses in one step, chooses that very token by the request's own random stream.
"""

from __future__ import annotations

from collections.abc import Sequence as ListLike

NGRAM = 3
MOST_REST = 32


class PromptLookup:
    """Belongs to one sequence, and stays with it through preemption.

    A guess that fails costs a row of the step. So the next guesses are as long as the last ones went well, and after
    failures in a row there are none for a while: twice as many steps each time.
    """

    __slots__ = ("_ends", "_failures", "_indexed", "_length", "_most", "_rest")

    def __init__(self, most: int) -> None:
        """`most`: tokens in one guess."""
        self._most = self._length = most
        self._ends: dict[tuple[int, ...], int] = {}  # where the last n-gram of these tokens ended
        self._indexed = NGRAM
        self._failures = self._rest = 0

    def guess(self, tokens: ListLike[int], room: int) -> ListLike[int]:
        """At most `room` tokens that may follow `tokens`, which have only grown since the last call."""
        if self._rest:
            self._rest -= 1
            return ()
        for end in range(self._indexed, len(tokens)):
            self._ends[tuple(tokens[end - NGRAM : end])] = end
        self._indexed = max(self._indexed, len(tokens))
        found = self._ends.get(tuple(tokens[-NGRAM:]))
        return () if found is None else tokens[found : found + min(self._length, room)]

    def learn(self, kept: int) -> None:
        """How many tokens of the last guess came true."""
        self._length = min(self._most, 2 * kept + 1)
        self._failures = 0 if kept else self._failures + 1
        if self._failures > 1:
            self._rest = min(2**self._failures, MOST_REST)
