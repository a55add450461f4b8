"""Which tokens' probabilities go with which piece of text. Knows no JSON."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from native_engine.request import Logprobs

UNKNOWN = Logprobs(math.nan, (), 0)


class TokenLogprobs(NamedTuple):
    """`start`: where the token's text begins in the answer, in characters. A prompt's first token is UNKNOWN."""

    token_id: int
    start: int
    logprobs: Logprobs


class HeldLogprobs:
    """Told with the first piece of text that a token is in; those of a stop string, like its text, never."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: deque[TokenLogprobs] = deque()

    def push(self, token: TokenLogprobs) -> None:
        self._held.append(token)

    def show(self, num_shown: int, *, ended: bool) -> list[TokenLogprobs]:
        """`num_shown`: characters of the answer that no stop string can take any more.

        `ended`: no text follows, though not by a stop string; then what is held belongs to the text after all.
        """
        shown = []
        while self._held and (ended or self._held[0].start < num_shown):
            shown.append(self._held.popleft())
        return shown
