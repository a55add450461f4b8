"""Spans as the stages of a request see them, and their null twin. Knows no OpenTelemetry, which may not be there.

Nothing here takes an exception's message: it may quote a prompt. An error is told by its type.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Literal, Protocol

from backends.errors import BackendError, Rejected

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]
Kind = Literal["internal", "server", "client"]

# https://www.w3.org/TR/trace-context/#traceparent-header: version, trace id, parent's id, flags; no id of zeros only.
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_CODE = re.compile(r"[a-z0-9_]{1,64}")


class Span(Protocol):
    """One stage of a request. As a context manager it ends with its block, and notes what the block raised."""

    @property
    def recording(self) -> bool:
        """Where not, nobody will see what it is told: it need not be worked out."""
        ...

    @property
    def traceparent(self) -> str:
        """The header for whoever is asked as a part of this stage; empty where there is none."""
        ...

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits, or nothing."""
        ...

    def child(self, name: str, kind: Kind = "internal", began_ns: int | None = None) -> Span:
        """A stage within this one. `began_ns`: nanoseconds since the epoch, where it is not now."""
        ...

    def rename(self, name: str) -> None: ...

    def set(self, attributes: Attributes) -> None: ...

    def event(self, name: str, attributes: Attributes, at_ns: int) -> None: ...

    def fail(self, error_type: str, *, ours: bool = True) -> None:
        """`ours`: it counts as an error of this side; a client that left does not."""
        ...

    def end(self, at_ns: int | None = None) -> None: ...

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SilentSpan:
    """Where nothing is traced: it keeps nothing, but passes on the `traceparent` that it was given."""

    recording = False

    def __init__(self, traceparent: str = "") -> None:
        self.traceparent = traceparent
        self.trace_id = traceparent[3:35]

    def child(self, name: str, kind: Kind = "internal", began_ns: int | None = None) -> Span:
        return self

    def rename(self, name: str) -> None:
        """Nobody sees it."""

    def set(self, attributes: Attributes) -> None:
        """Nobody sees it."""

    def event(self, name: str, attributes: Attributes, at_ns: int) -> None:
        """Nobody sees it."""

    def fail(self, error_type: str, *, ours: bool = True) -> None:
        """Nobody sees it."""

    def end(self, at_ns: int | None = None) -> None:
        """It never began."""

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nobody sees it."""


NO_SPAN: Span = SilentSpan()


def traceparent_of(header: bytes | None) -> str:
    """The header's value where it is valid, else nothing."""
    return header.decode() if header and _TRACEPARENT.fullmatch(header) else ""


def error_type(error: BaseException) -> str:
    """For `error.type`: an engine's status or how it failed, a code of ours, or the name of a class."""
    cause = error if isinstance(error, BackendError) else error.__cause__
    if isinstance(cause, Rejected):
        return str(cause.status)
    if isinstance(cause, BackendError):
        return type(cause).__name__.lower()
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return coded(getattr(error, "code", None)) or type(error).__name__


def coded(code: object) -> str:
    """The code where it is one; engines may put there what they like."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""
