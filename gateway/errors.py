"""Every way the door says no. Each class knows its status, OpenAI type and code, log level and when to come back.

    DoorError
    ├── BadRequest 400              what was sent cannot be used
    │   ├── SignInFailed 400        a browser's sign-in ends here: too late, refused, or not to be trusted
    │   ├── UnknownUrl 404          no such path
    │   ├── ModelNotFound 404       no engine serves that model
    │   ├── RequestTooLarge 400     a policy allows no request of that many tokens
    │   ├── NotFound 404            no such user, key, session ...
    │   ├── MethodNotAllowed 405    the path exists, for another method
    │   ├── BodyTimeout 408         the body did not arrive in time
    │   ├── Conflict 409            exists already, or was changed by somebody else meanwhile
    │   ├── BodyTooLarge 413
    │   └── HeadersTooLarge 431
    ├── Unauthenticated 401         no key, or not a key of ours
    ├── Forbidden 403               a known key that may not do this
    ├── StaysInside 403             only engines outside the house would do, and this may not go there
    ├── CancelledByAdministrator 403  somebody in charge ended this request
    ├── TooManyFailures 429         this address keeps showing credentials that are not ours
    ├── QuotaExceeded 429           a limit of a policy is reached
    ├── ProviderAway 503            nobody can say now whether the token is good
    ├── QueueFull 429               the waiting line has reached its bound
    ├── QueueTimeout 503            waited its time without a turn
    ├── ModelDraining 503           nobody new for this model, by an administrator's order
    ├── GatewayStopping 503         this gateway ends, and could not wait for the request any longer
    ├── StoreAway 503               Redis is away: nothing is admitted unmetered
    ├── EngineAway 503              the engine cannot be reached, or is not ready
    ├── EngineRefused               the engine's own error, in our shape
    ├── EngineBroken 502            the answer ended before its end
    ├── EngineSilent 504            no token in time
    ├── InternalError 500           a fault of ours, with its traceback in the log only
    └── ClientGone 499              nobody is left to answer: logged, never sent
        └── ClientStalled 499       the client has stopped reading

Knows nothing of HTTP servers; `api` turns these into responses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from backends.errors import BackendError, Broken, Rejected, TimedOut, Unreachable
from backends.wire.errors import InvalidRequest, error_body, normalise

# Seconds that an official client waits before it tries again; told to wait longer, it tries much sooner.
_WORTH_WAITING = 60


class DoorError(Exception):
    """`message` is for the user and says what to do."""

    status = 500
    type = "server_error"
    code: str | None = None
    param: str | None = None
    log_level = logging.ERROR
    retry_after: int | None = None
    # The official clients retry every 5xx; where that would only repeat a long wait they are told not to.
    may_retry = True

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param or self.param
        self.code = code or self.code

    def body(self) -> bytes:
        return error_body(self.message, self.type, self.param, self.code)

    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        if not self.may_retry:
            headers.append((b"x-should-retry", b"false"))
        return headers


class BadRequest(DoorError):
    status = 400
    type = "invalid_request_error"
    log_level = logging.INFO


class SignInFailed(BadRequest):
    """`detail`: what the identity provider said, where it did."""

    def __init__(self, message: str, *, code: str, detail: str = "") -> None:
        super().__init__(message, code=code)
        self.detail = detail


class UnknownUrl(BadRequest):
    status = 404
    code = "unknown_url"


class ModelNotFound(BadRequest):
    status = 404
    code = "model_not_found"
    param = "model"


class RequestTooLarge(BadRequest):
    code = "context_length_exceeded"


class NotFound(BadRequest):
    status = 404
    code = "not_found"


class Conflict(BadRequest):
    status = 409
    code = "conflict"


class MethodNotAllowed(BadRequest):
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"allow", ", ".join(self.allowed).encode())]


class BodyTimeout(BadRequest):
    status = 408
    code = "body_timeout"


class BodyTooLarge(BadRequest):
    status = 413
    code = "body_too_large"

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"connection", b"close")]


class HeadersTooLarge(BadRequest):
    status = 431
    code = "headers_too_large"

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"connection", b"close")]


class Unauthenticated(DoorError):
    status = 401
    type = "invalid_request_error"
    code = "invalid_api_key"
    log_level = logging.INFO

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"www-authenticate", b"Bearer")]


class Forbidden(DoorError):
    status = 403
    type = "permission_error"
    code = "insufficient_permissions"
    log_level = logging.INFO


class StaysInside(DoorError):
    status = 403
    type = "permission_error"
    code = "external_not_allowed"
    param = "model"
    log_level = logging.INFO

    def __init__(self, model: str, data_class: str) -> None:
        super().__init__(
            f"The model `{model[:200]}` runs outside the house, and your requests of the data class {data_class!r} may "
            "not go there. Take another model, or ask an administrator."
        )


class CancelledByAdministrator(DoorError):
    status = 403
    type = "permission_error"
    code = "cancelled_by_administrator"
    log_level = logging.INFO
    may_retry = False

    def __init__(self) -> None:
        super().__init__("An administrator ended this request. Ask them before you send it again.")


class TooManyFailures(DoorError):
    status = 429
    type = "rate_limit_error"
    code = "too_many_failures"
    log_level = logging.INFO
    retry_after = 30


class QuotaExceeded(DoorError):
    """As the official service tells them apart: what frees by itself in a while, and what is used up."""

    status = 429
    code = "rate_limit_exceeded"
    log_level = logging.INFO

    def __init__(
        self,
        message: str,
        *,
        type: str,
        code: str,
        retry_after: int | None,
        limit: str,
        rates: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message, code=code)
        self.limit = limit  # the name of the one that is reached
        self.type = type  # requests, tokens or insufficient_quota
        self.retry_after = retry_after
        self.may_retry = retry_after is not None and retry_after <= _WORTH_WAITING
        self._rates = rates

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers(), *self._rates]


class ProviderAway(DoorError):
    status = 503
    code = "identity_provider_unavailable"
    log_level = logging.WARNING
    retry_after = 10


class QueueFull(DoorError):
    status = 429
    type = "rate_limit_error"
    code = "queue_full"
    log_level = logging.WARNING
    retry_after = 5


class QueueTimeout(DoorError):
    status = 503
    code = "queue_timeout"
    log_level = logging.WARNING
    retry_after = 10


class ModelDraining(DoorError):
    status = 503
    code = "model_draining"
    param = "model"
    log_level = logging.INFO
    retry_after = 30


class GatewayStopping(DoorError):
    status = 503
    code = "gateway_stopping"
    log_level = logging.WARNING
    retry_after = 1  # another one is there, or soon will be

    def __init__(self) -> None:
        super().__init__("This gateway was stopped before the answer was complete. Ask again.")


class StoreAway(DoorError):
    status = 503
    code = "store_unavailable"
    # The store logs the change of state once; a line a request would only melt the disk.
    log_level = logging.INFO
    retry_after = 2
    unasked = False  # Redis was not even asked: what was wanted was certainly not done


class EngineAway(DoorError):
    status = 503
    code = "engine_unavailable"
    log_level = logging.WARNING

    def __init__(self, message: str, retry_after: float = 5) -> None:
        super().__init__(message)
        self.retry_after = math.ceil(retry_after)


# What an engine says then is about the gateway: its key, and which other models there are.
_ABOUT_US = {
    401: "The engine refuses this gateway's credential. Tell an administrator.",
    403: "The engine lets this gateway do less than was asked for. Tell an administrator.",
    404: "The engine does not have what was asked for. Tell an administrator.",
}


class EngineRefused(DoorError):
    log_level = logging.INFO

    def __init__(self, status: int, body: bytes, retry_after: str | None = None) -> None:
        foreign = normalise(status, body)
        super().__init__(_ABOUT_US.get(foreign.status, foreign.message), code=foreign.code)
        self.status = _public_status(foreign.status)
        self.type = foreign.type if self.status == foreign.status else "server_error"
        if self.status in (429, 503):
            self.retry_after = int(retry_after) if retry_after and retry_after.isdigit() else 5


class EngineBroken(DoorError):
    status = 502
    code = "engine_error"


class EngineSilent(DoorError):
    status = 504
    code = "engine_timeout"
    may_retry = False


class InternalError(DoorError):
    code = "internal_error"

    def __init__(self) -> None:
        super().__init__("Something went wrong here. Tell an administrator the request id.")


class ClientGone(DoorError):
    status = 499
    code = "client_gone"
    log_level = logging.INFO

    def __init__(self) -> None:
        super().__init__("The client closed the connection.")


class ClientStalled(ClientGone):
    code = "client_stalled"


def _public_status(status: int) -> int:
    """The engine's status as the user's: its 401 or 404 is about us, not about the user."""
    if status in (400, 413, 422):
        return 400
    if status in (429, 501, 503):
        return status
    return 502


def from_backend(error: BackendError) -> DoorError:
    """What a user is told of an engine's failure. The transport's own words stay in the log."""
    if isinstance(error, Rejected):
        return EngineRefused(error.status, error.body, error.retry_after)
    if isinstance(error, Unreachable):
        return EngineAway("The engine cannot be reached. Try again shortly.")
    if isinstance(error, TimedOut):
        return EngineSilent("The engine did not answer in time.")
    if isinstance(error, Broken):
        return EngineBroken("The engine's answer ended before it was complete. Try again.")
    return EngineBroken("The engine failed. Try again.")


def from_invalid(error: InvalidRequest) -> BadRequest:
    return BadRequest(error.message, param=error.param, code=error.code)
