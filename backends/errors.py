"""What can go wrong between the door and an engine, and the one translation of transport errors into it.

    BackendError
    ├── Unreachable      no connection could be made: nothing was sent
    ├── TimedOut         connected or sent, then no answer in time
    ├── Rejected         the engine answered with an error status and a body
    └── Broken           the answer began, or was awaited, and the connection ended early

The door decides what a user sees of these; nothing here knows of users.
"""

from __future__ import annotations

import aiohttp


class BackendError(Exception):
    """Anything an engine did that is not an answer."""


class Unreachable(BackendError):
    """No connection could be made, so trying elsewhere is safe."""


class TimedOut(BackendError):
    """The engine took longer than it was given."""


class Broken(BackendError):
    """The connection ended before the answer did."""


class Rejected(BackendError):
    """The engine refused: its status and its own error body, as sent."""

    def __init__(self, status: int, body: bytes = b"", retry_after: str | None = None) -> None:
        super().__init__(f"the engine answered {status}")
        self.status = status
        self.body = body
        self.retry_after = retry_after


# Most specific first, for aiohttp's classes overlap: ServerTimeoutError is also a TimeoutError.
_TRANSLATION: tuple[tuple[type[BaseException], type[BackendError]], ...] = (
    (aiohttp.ConnectionTimeoutError, Unreachable),
    (aiohttp.ServerTimeoutError, TimedOut),
    (TimeoutError, TimedOut),
    (aiohttp.ClientConnectorError, Unreachable),
    (aiohttp.ServerFingerprintMismatch, Unreachable),
    (aiohttp.InvalidURL, Unreachable),
    (aiohttp.ClientError, Broken),
    (OSError, Broken),
)


def counterpart(foreign: type[BaseException]) -> type[BackendError] | None:
    """The class of ours that stands for a class of the transport's; None if it is not the transport's."""
    return next((ours for known, ours in _TRANSLATION if issubclass(foreign, known)), None)


def translate(error: BaseException) -> BackendError:
    """The BackendError that stands for an error of the transport.

    Its message goes into logs. A parser's words are left out: they quote what it could not read, perhaps an answer.
    """
    ours = counterpart(type(error)) or Broken
    return ours(f"{type(error).__name__}: {error}" if isinstance(error, OSError) else type(error).__name__)
