"""How often each token is in a text, in arrays that grow with it. Knows no penalties and no logits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_FIRST_ROOM = 64


class TokenCounts:
    """Each token that was ever seen has a place; a new one costs the same whatever the vocabulary or the text."""

    __slots__ = ("_counts", "_place_of", "_tokens")

    def __init__(self, seen: Iterable[int] = ()) -> None:
        """`seen`: tokens that have a place from the start, counted as none."""
        self._place_of = {token: place for place, token in enumerate(dict.fromkeys(seen))}
        room = max(_FIRST_ROOM, 2 * len(self._place_of))
        self._tokens = np.zeros(room, np.int64)
        self._counts = np.zeros(room, np.float32)
        self._tokens[: len(self._place_of)] = list(self._place_of)

    @property
    def tokens(self) -> npt.NDArray[np.int64]:
        return self._tokens[: len(self._place_of)]

    @property
    def counts(self) -> npt.NDArray[np.float32]:
        """Of `tokens`, in the same order."""
        return self._counts[: len(self._place_of)]

    def add(self, token: int) -> None:
        place = self._place_of.setdefault(token, len(self._place_of))
        if place == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._tokens[place] = token
        self._counts[place] += 1
