"""Ollama's error bodies in the official form: a text, at times with another engine's error folded into it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from backends.errors import Rejected
from backends.wire.errors import error_body

# The client's mistakes that Ollama answers with 500.
_MISTAKES = re.compile(
    r"invalid JSON schema|invalid format|option \"[^\"]*\" must be of|exceeds the (?:available )?context|illegal base64"
)
_BUSY = "maximum pending requests exceeded"


def official(rejected: Rejected) -> Rejected:
    """The same refusal, a mistake of the client's told from a failure of the engine's."""
    message = message_of(rejected.body)
    status = status_of(message, rejected.status)
    if not message:
        return rejected
    type_ = "server_error" if status >= 500 else "invalid_request_error"
    return Rejected(status, error_body(message, type_), rejected.retry_after)


def message_of(body: bytes) -> str:
    """What is said in `{"error": ...}`, be that a text, an object, or a text that holds such a body again."""
    try:
        value: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    while isinstance(value, dict) and ("error" in value or "message" in value):
        value = value.get("error", value.get("message"))
    if not isinstance(value, str):
        return ""
    return message_of(value.encode()) or value if value.startswith('{"error"') else value


def status_of(message: str, status: int) -> int:
    """`status` is what the engine gave, or would have given had it not begun to answer."""
    if status < 500:
        return status
    if _BUSY in message:
        return 503
    return 400 if _MISTAKES.search(message) else status
