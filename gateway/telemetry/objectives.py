"""Whether a request was served as people need it: the objectives that goodput counts by. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gateway.scope import GENERATES, RequestScope

# met: in time and quick enough. late: the first token was. slow: the tokens after it were. failed: no fault of its own.
Result = Literal["met", "late", "slow", "failed"]

# What a client, or who may end its requests, decided. The rest of what goes wrong is ours to answer for.
_OTHERS_DOING = frozenset({"client_gone", "client_stalled", "credential_revoked", "cancelled_by_administrator"})
_NO_ROOM = frozenset({"queue_full"})  # a 4xx, but not for what was asked


class Objectives(NamedTuple):
    """`tokens_per_second`: of each answer by itself; 0: any speed will do."""

    first_token_seconds: float = 2.0
    tokens_per_second: float = 20.0

    def result(self, request: RequestScope, seconds: float) -> Result | None:
        """Of a request that ended after so many seconds. None: it says nothing of how people are served."""
        if request.form not in GENERATES:
            return None
        if request.outcome in _OTHERS_DOING and not request.first_token:
            return "late" if seconds > self.first_token_seconds else None
        if request.outcome not in _OTHERS_DOING and request.outcome != "ok":
            is_ours = bool(request.first_token) or request.status >= 500 or request.outcome in _NO_ROOM
            return "failed" if is_ours else None
        return self._of_answer(request)

    def _of_answer(self, request: RequestScope) -> Result | None:
        if not request.first_token:
            return None
        if request.first_token - request.received > self.first_token_seconds:
            return "late"
        pace = token_seconds(request)
        return "slow" if pace is not None and pace * self.tokens_per_second > 1 else "met"


USUAL = Objectives()


def token_seconds(request: RequestScope) -> float | None:
    """Time of each token after the first, the mean of an answer; None where there was none after the first."""
    following = request.tokens.get("completion_tokens", 0) / request.choices - 1
    if following <= 0 or request.upstream_ended <= request.first_token:
        return None
    return (request.upstream_ended - request.first_token) / following
