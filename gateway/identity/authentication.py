"""Who is asking: the throttle, the schemes in turn, and whom the credential speaks for. Every refusal is counted."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import DoorError, Forbidden, TooManyFailures, Unauthenticated
from gateway.identity.base import Identifier
from gateway.identity.behalf import Behalf
from gateway.identity.throttle import Throttle
from gateway.scope import Principal, RequestScope
from gateway.telemetry.metrics import Metrics

# Error code > what the metric calls it.
_REASONS = {
    "missing_api_key": "missing",
    "invalid_authorization": "malformed",
    "invalid_api_key": "unknown_key",
    "key_expired": "expired",
    "address_not_allowed": "address",
    "account_disabled": "disabled",
    "invalid_forwarded_user": "forwarded_user",
    "invalid_token": "token",
    "token_unknown_issuer": "token",
    "token_wrong_issuer": "token",
    "token_wrong_audience": "token_audience",
    "token_not_yet_valid": "token_time",
    "token_expired": "expired",
    "groups_overage": "groups",
    "too_many_groups": "groups",
    "session_ended": "session",
    "foreign_origin": "origin",
    "too_many_failures": "throttled",
}
# What a guess comes to. Whoever shows nothing, or what is another's or was good once, is not guessing.
_GUESSES = frozenset({"malformed", "unknown_key", "token"})


class Authentication:
    def __init__(self, identifiers: Sequence[Identifier], throttle: Throttle, behalf: Behalf, metrics: Metrics) -> None:
        self._identifiers = identifiers
        self._throttle = throttle
        self.behalf = behalf
        self._metrics = metrics
        for reason in _REASONS.values():  # so that the first of each is seen as one more
            metrics.auth_failures.add(reason, by=0)

    async def principal(self, request: RequestScope) -> Principal:
        """Raises Unauthenticated, Forbidden, TooManyFailures, and what a scheme's own services raise while away."""
        try:
            self._throttle.check(request)
            found = await self._identified(request)
        except (Unauthenticated, Forbidden, TooManyFailures) as error:
            self._note(request, error)
            raise
        self._throttle.note_good(request)
        return await self.behalf.in_header(request, found)

    async def _identified(self, request: RequestScope) -> Principal:
        """The first scheme whose credential is there decides; a bad one is never passed to the next."""
        for identifier in self._identifiers:
            found = await identifier.identify(request)
            if found is not None:
                return found
        if b"authorization" in request.headers:
            raise Unauthenticated(
                "Incorrect API key provided. Send a key of the form sk-skh-…, or your provider's token."
            )
        raise Unauthenticated(
            "You didn't provide an API key. Send it in a header: Authorization: Bearer YOUR_KEY.",
            code="missing_api_key",
        )

    def _note(self, request: RequestScope, error: DoorError) -> None:
        reason = _REASONS.get(error.code or "", "other")
        self._metrics.auth_failures.add(reason)
        if reason in _GUESSES:
            self._throttle.note_bad(request)
