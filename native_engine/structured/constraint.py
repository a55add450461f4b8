"""The place of one answer in its grammar. Knows neither logits nor requests.

Tokens only ever join an answer, so its place outlives a preemption: what is recomputed is the cache, never the text.
"""

from __future__ import annotations

import logging
from concurrent.futures import Executor

from llguidance import LLMatcher

logger = logging.getLogger(__name__)


class GrammarConstraint:
    """`request.Constraint` on a matcher. A mask is made in `masks` as soon as its token is known, while others compute.

    A matcher is used by one thread at a time: whoever pushes has had the mask before.
    """

    __slots__ = ("_mask", "_masks", "_matcher")

    def __init__(self, matcher: LLMatcher, masks: Executor) -> None:
        self._matcher = matcher
        self._masks = masks
        self._mask = masks.submit(self._next_mask)

    @property
    def ready(self) -> bool:
        return self._mask.done()

    def allowed(self) -> bytes | None:
        """One bit a token, the lowest first; None where the grammar's limits were met, and nothing can be said."""
        return self._mask.result()

    def push(self, token: int) -> None:
        self._mask = self._masks.submit(self._next_mask, token)

    def _next_mask(self, token: int | None = None) -> bytes | None:
        if token is not None:
            self._matcher.consume_token(token)
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            # Its message quotes the answer; the reason does not.
            logger.warning("a grammar could not be followed (%s); its request ends", self._matcher.stop_reason())
            return None
        return mask
