"""API keys: `sk-skh-<id>-<secret>`. Redis holds a keyed hash, the data folder what keys it.

Used by the door for every request and by the CLI to make, list and revoke keys.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from gateway.errors import BadRequest, Unauthenticated
from gateway.scope import Principal, Role
from gateway.settings import KEY_PATTERN
from gateway.store import keys
from gateway.store.redis import Store

PREFIX = "sk-skh-"
_WELL_FORMED = re.compile(KEY_PATTERN, re.ASCII)
_CACHE_SIZE = 4096
_ID_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as stored: nothing here lets anyone in."""

    id: str
    name: str
    role: Role
    created: int  # Unix seconds
    digest: str

    def principal(self) -> Principal:
        return Principal(subject=self.id, name=self.name, role=self.role, tenant="default")

    def public(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "role": self.role, "created": self.created}


class NewKey(NamedTuple):
    key: str  # shown once, kept nowhere
    record: KeyRecord


class KeyRing:
    """The keys in Redis."""

    def __init__(self, store: Store, server_key: bytes) -> None:
        self._store = store
        self._server_key = server_key

    async def create(self, name: str, role: Role = "user") -> NewKey:
        key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))
        key = f"{PREFIX}{key_id}-{secrets.token_urlsafe(32)}"
        return NewKey(key, await self.put(key, name, role))

    async def put(self, key: str, name: str, role: Role) -> KeyRecord:
        """Store a given key, replacing one of the same id. Raises BadRequest where it is not well-formed."""
        if not _WELL_FORMED.match(key):
            raise BadRequest(f"An API key has the form {PREFIX}<id>-<secret>.")
        if not 1 <= len(name) <= 100 or role not in ROLES:
            raise BadRequest(f"A key has a name of 1 to 100 characters and a role of {' or '.join(ROLES)}.")
        record = KeyRecord(_id_of(key), name, role, int(time.time()), self.digest(key))
        fields = ("name", name, "role", role, "created", record.created, "digest", record.digest)
        await self._store.command("HSET", keys.api_key(record.id), *fields)
        await self._store.command("SADD", keys.API_KEYS, record.id)
        return record

    async def get(self, key_id: str) -> KeyRecord | None:
        flat = await self._store.command("HGETALL", keys.api_key(key_id))
        return _record(key_id, flat)

    async def list(self) -> list[KeyRecord]:
        ids = sorted(key_id.decode() for key_id in await self._store.command("SMEMBERS", keys.API_KEYS))
        records = [await self.get(key_id) for key_id in ids]
        return sorted((record for record in records if record), key=lambda record: record.created)

    async def revoke(self, key_id: str) -> bool:
        """Whether there was such a key."""
        removed = await self._store.command("DEL", keys.api_key(key_id))
        await self._store.command("SREM", keys.API_KEYS, key_id)
        return bool(removed)

    def digest(self, key: str) -> str:
        return hmac.new(self._server_key, key.encode(), hashlib.sha256).hexdigest()


class ApiKeys:
    """The identifier for `Authorization: Bearer sk-skh-…`, with a short memory of what it looked up."""

    def __init__(self, ring: KeyRing, cache_seconds: float) -> None:
        self._ring = ring
        self._cache_seconds = cache_seconds
        self._cache: dict[str, tuple[float, KeyRecord]] = {}

    async def identify(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        key = _bearer(headers)
        if key is None:
            return None
        record = await self._find(_id_of(key)) if _WELL_FORMED.match(key) else None
        # The digest is made and compared even for an unknown id, so that timing does not tell ids apart.
        known = hmac.compare_digest(self._ring.digest(key), record.digest if record else "0" * 64)
        if record is None or not known:
            raise Unauthenticated("Incorrect API key provided. Ask an administrator for a key of the form sk-skh-….")
        return record.principal()

    def forget(self, key_id: str) -> None:
        self._cache.pop(key_id, None)

    async def _find(self, key_id: str) -> KeyRecord | None:
        now = time.monotonic()
        until, record = self._cache.get(key_id, (0.0, None))
        if record is not None and until > now:
            return record
        record = await self._ring.get(key_id)
        self.forget(key_id)
        if record is not None:
            # Only real keys are remembered: made-up ids cannot push them out.
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.pop(next(iter(self._cache)))
            self._cache[key_id] = (now + self._cache_seconds, record)
        return record


def load_server_key(data_dir: Path) -> bytes:
    """The key that API keys are hashed with, made at first use, readable by this user alone."""
    path = data_dir / "server.key"
    data_dir.mkdir(parents=True, exist_ok=True)
    try:
        # O_EXCL: of two processes that start at once one writes, the other reads.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_server_key(path)
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(32))
    return _read_server_key(path)


def _read_server_key(path: Path) -> bytes:
    for _ in range(50):
        if len(key := path.read_bytes()) == 32:
            return key
        time.sleep(0.02)  # the other process is still writing
    raise RuntimeError(f"{path} should hold 32 bytes; restore it, or remove it and make all API keys anew")


def _bearer(headers: Mapping[bytes, bytes]) -> str | None:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not token.strip():
        return None
    return token.strip().decode("latin-1")


def _id_of(key: str) -> str:
    return key.removeprefix(PREFIX).partition("-")[0]


def _record(key_id: str, answer: Any) -> KeyRecord | None:
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    fields = {name.decode(): value.decode() for name, value in pairs}
    if not fields:
        return None
    role: Role = "admin" if fields["role"] == "admin" else "user"
    return KeyRecord(key_id, fields["name"], role, int(fields["created"]), fields["digest"])
