"""Lines of the log of door and engine: one JSON object each, in ASCII, so that nothing said can look like another line.

Prompts, answers and secrets are never in them. An exception is told by types and places where its message may quote
what was asked or answered: within a request, and where words are handled beside one.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

# They handle words outside of any request's block, or fail for those who do.
_NEAR_WORDS = frozenset({"asyncio", "uvicorn.error", "sekisho.batches", "native_engine.sampling.sampler"})
_escaped = json.JSONEncoder(default=str).encode
_ABOUT: ContextVar[Mapping[str, str] | None] = ContextVar("about", default=None)


@contextmanager
def about(request_id: str, trace_id: str) -> Iterator[None]:
    """Every line of the block, and of the tasks that it starts, names the request, and the trace where there is one."""
    token = _ABOUT.set({"request_id": request_id, "trace_id": trace_id} if trace_id else {"request_id": request_id})
    try:
        yield
    finally:
        _ABOUT.reset(token)


class JsonFormatter(logging.Formatter):
    """`always`: fields of every line. What a record has as `fields` is added."""

    def __init__(self, always: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._always = always or {}

    def format(self, record: logging.LogRecord) -> str:
        request = _ABOUT.get()
        fields: dict[str, Any] = {
            "time": _rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._always,
            **(request or {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            may_quote = request is not None or record.name in _NEAR_WORDS
            fields["exception"] = _places(record.exc_info[1]) if may_quote else self.formatException(record.exc_info)
        return _encode(fields)


def setup(level: str | int, always: Mapping[str, Any] | None = None) -> None:
    """All logs of the process to standard error, from `level` on. Nobody writes beside them in another form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(always))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)


def _rfc3339(seconds: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03}Z"


def _encode(fields: Mapping[str, Any]) -> str:
    """Quickly where all is ASCII already, as it mostly is."""
    try:
        line = msgspec.json.encode(fields, enc_hook=str)
    except UnicodeEncodeError:  # half of a surrogate pair
        return _escaped(fields)
    return line.decode() if line.isascii() else _escaped(fields)


def _places(error: BaseException) -> str:
    """The traceback of an error and of those behind it, without a word of theirs."""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [_places(behind)] if behind is not None else []
    lines += traceback.format_tb(error.__traceback__)
    lines.append(f"{type(error).__module__}.{type(error).__qualname__}\n")
    return "".join(lines)
