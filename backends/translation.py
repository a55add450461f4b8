"""A body on its way to an engine: what the client left open is left out, what the door decides is put in. Pure."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

# The first goes first.
CLASSES = ("interactive", "api", "batch")

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_GENERATES = frozenset({"/v1/chat/completions", "/v1/completions"})


def split(body: bytes) -> dict[str, Any]:
    """The fields, each value as the bytes it was. Null and absent mean the same, and not every engine takes null.

    Who asks to go on with the last message asks for no new one, which several engines want to be told.
    """
    fields: dict[str, Any] = {name: value for name, value in _split(body).items() if bytes(value) != b"null"}
    if bytes(fields.get("continue_final_message", b"")) == b"true":
        fields["add_generation_prompt"] = False
    return fields


def generates(path: str) -> bool:
    return path in _GENERATES


def rank(headers: Mapping[str, str]) -> int:
    """0 for whoever goes first; a class that is not known is a program's."""
    name = headers.get("x-sekisho-class", "")
    return CLASSES.index(name if name in CLASSES else "api")


def salt(headers: Mapping[str, str]) -> dict[str, str]:
    """Tenants share no prefix in the engine's cache, and the engine learns no tenant's name."""
    tenant = headers.get("x-sekisho-cache-salt")
    return {"cache_salt": hashlib.sha256(tenant.encode()).hexdigest()} if tenant else {}


def attempt_id(headers: Mapping[str, str]) -> str:
    """An id that no other attempt has, even at the same request, and that is the beginning of no other."""
    return f"{headers.get('x-request-id', '')}-{secrets.token_hex(4)}"
