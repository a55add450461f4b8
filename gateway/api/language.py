"""In which language whoever asks is answered: the pages, and the sentences of the API behind them."""

from __future__ import annotations

from typing import Any

import msgspec

from backends.wire.errors import error_body
from gateway.errors import DoorError
from gateway.scope import RequestScope
from gateway.web.told import told
from gateway.web.words import Language, language_of

# What our own pages ask. Clients of the official API get its English, whatever they say.
_FOR_PAGES = ("/admin/v1/", "/chat/v1/", "/plan/v1/")
# Fields of answers that hold sentences of ours, or several.
_SENTENCES = frozenset({"why", "stale", "error", "message", "todo", "reason", "notes"})


def language(request: RequestScope) -> Language:
    return language_of(request.headers.get(b"accept-language", b""), request.headers.get(b"cookie", b""))


def answered(request: RequestScope, answer: Any) -> Any:
    """The answer with its sentences as they are read here."""
    return answer if language(request) == "en" else _told(msgspec.to_builtins(answer))


def refused(request: RequestScope, error: DoorError) -> bytes:
    """The body of an error; only its message is anybody's language."""
    if language(request) == "en" or not request.path.startswith(_FOR_PAGES):
        return error.body()
    return error_body(told(error.message, language(request)), error.type, error.param, error.code)


def _told(value: Any, is_sentence: bool = False) -> Any:
    if isinstance(value, dict):
        return {name: _told(one, name in _SENTENCES) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_told(one, is_sentence) for one in value]
    return told(value, "ja") if is_sentence and isinstance(value, str) else value
