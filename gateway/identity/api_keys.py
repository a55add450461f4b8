"""API keys: `sk-skh-<id>-<secret>`. Redis holds a keyed hash, the data folder what keys it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from gateway.errors import BadRequest, Conflict, Forbidden, Unauthenticated
from gateway.identity import bearer
from gateway.identity.addresses import is_allowed
from gateway.identity.open_webui import OpenWebUI
from gateway.identity.people import People
from gateway.identity.records import LOCAL_ISSUER, Key, ServiceAccount, User, as_principal, user_id
from gateway.identity.uses import Uses
from gateway.scope import Endpoint, Principal, RequestScope
from gateway.settings import KEY_PATTERN
from gateway.store.directory import Actor, Directory
from gateway.store.lookup import Lookup

PREFIX = "sk-skh-"
# What a key may do unless its maker says otherwise. Administration has to be asked for.
DEFAULT_ENDPOINTS: tuple[Endpoint, ...] = (
    "chat",
    "completions",
    "responses",
    "embeddings",
    "rerank",
    "files",
    "batches",
    "models",
)
_WELL_FORMED = re.compile(KEY_PATTERN, re.ASCII)
_ID_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_NO_DIGEST = "0" * 64


class NewKey(NamedTuple):
    key: str  # shown once, kept nowhere
    record: Key


class KeyRing:
    """Makes keys and rotates them."""

    def __init__(self, directory: Directory, server_key: bytes) -> None:
        self._directory = directory
        self._server_key = server_key

    async def issue(self, actor: Actor, draft: Key) -> NewKey:
        """A new key with the limits of `draft`, whose id and digest are made here."""
        key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))
        key = _made(key_id)
        record = msgspec.structs.replace(
            draft, id=key_id, digest=self.digest(key), created=int(time.time()), created_by=actor.subject
        )
        await self._directory.create(actor, record)
        return NewKey(key, record)

    async def rotate(self, actor: Actor, key_id: str, overlap_seconds: int) -> NewKey:
        """A new secret under the same id; the old one opens for `overlap_seconds` more."""
        key, until = _made(key_id), int(time.time()) + overlap_seconds

        def edit(before: Key) -> Key:
            return msgspec.structs.replace(
                before, digest=self.digest(key), previous_digest=before.digest, previous_until=until
            )

        return NewKey(key, await self._directory.change(actor, Key, key_id, edit))

    async def put(self, actor: Actor, key: str, draft: Key) -> Key:
        """Store a given key, in place of one with the same id. Raises BadRequest where it is not well-formed."""
        if not _WELL_FORMED.match(key):
            raise BadRequest(f"An API key has the form {PREFIX}<id>-<secret>.")
        record = msgspec.structs.replace(
            draft, id=id_of(key), digest=self.digest(key), created=int(time.time()), created_by=actor.subject
        )
        try:
            await self._directory.create(actor, record)
            return record
        except Conflict:
            return await self._directory.change(
                actor, Key, record.id, lambda before: msgspec.structs.replace(record, created=before.created)
            )

    async def last_used(self, ids: Sequence[str]) -> list[int]:
        """Unix seconds, to the minute; 0 for never."""
        return await self._directory.last_used(Key, ids)

    def digest(self, key: str) -> str:
        return hmac.new(self._server_key, key.encode(), hashlib.sha256).hexdigest()


class ApiKeys:
    """The identifier for `Authorization: Bearer sk-skh-…`."""

    def __init__(self, ring: KeyRing, lookup: Lookup, people: People, open_webui: OpenWebUI, uses: Uses) -> None:
        self._ring = ring
        self._lookup = lookup
        self._people = people
        self._open_webui = open_webui
        self._uses = uses

    async def identify(self, request: RequestScope) -> Principal | None:
        key = bearer.token(request)
        if key is None or not key.startswith(PREFIX):
            return None
        record = await self._lookup.get(Key, id_of(key)) if _WELL_FORMED.match(key) else None
        if not self._opens(key, record) or record is None:
            raise Unauthenticated("Incorrect API key provided. Ask an administrator for a key of the form sk-skh-….")
        _check_expiry(record)
        if not is_allowed(request.client, record.allowed_ips):
            raise Forbidden("This API key may not be used from your address.", code="address_not_allowed")
        principal = await self._principal(record)
        self._uses.note(record.id)
        return self._open_webui.forwarded(request, principal) if record.forwards_users else principal

    async def holder(self, key_id: str, *, names_others: bool) -> Principal:
        """Whom a key stands for now, where nobody shows it. Raises Unauthenticated and Forbidden."""
        record = await self._lookup.get(Key, key_id)
        if record is None:
            raise Unauthenticated("The API key that this was begun with is gone.", code="credential_revoked")
        _check_expiry(record)
        if names_others and not (record.on_behalf_of or record.forwards_users):
            raise Forbidden("The API key that this was begun with may not name whom it asks for any more.")
        return await self._principal(record)

    def _opens(self, key: str, record: Key | None) -> bool:
        """Digests are made and compared alike whether or not there is such a key, so that timing tells nothing."""
        digest = self._ring.digest(key)
        current = hmac.compare_digest(digest, record.digest if record else _NO_DIGEST)
        previous = hmac.compare_digest(digest, (record.previous_digest if record else "") or _NO_DIGEST)
        return current or (previous and record is not None and time.time() < record.previous_until)

    async def _principal(self, key: Key) -> Principal:
        kind, _, owner_id = key.owner.partition(":")
        owner: User | ServiceAccount | None = (
            await self._people.known(owner_id)
            if kind == User.kind
            else await self._lookup.get(ServiceAccount, owner_id)
        )
        if owner is None:
            raise Unauthenticated("The owner of this API key is gone. Ask an administrator for a new key.")
        if owner.disabled:
            raise Forbidden("The account that this API key belongs to is disabled.", code="account_disabled")
        return as_principal(owner, grant=key.grant(), key_id=key.id)


def _check_expiry(record: Key) -> None:
    if record.expires and record.expires <= time.time():
        raise Unauthenticated("This API key has expired. Ask an administrator for a new one.", code="key_expired")


async def local_admin(directory: Directory) -> User:
    """The operator of this machine, whom no provider knows. Made at first use."""
    admin = User(
        id=user_id(LOCAL_ISSUER, "admin"),
        issuer=LOCAL_ISSUER,
        subject="admin",
        name="Local admin",
        role="admin",
        why=("operates this machine",),
        created=int(time.time()),
    )
    found = await directory.get(User, admin.id)
    if found is not None:
        return found
    with suppress(Conflict):  # another process was quicker; it made the same
        await directory.create(None, admin)
    return admin


def id_of(key: str) -> str:
    return key.removeprefix(PREFIX).partition("-")[0]


def _made(key_id: str) -> str:
    return f"{PREFIX}{key_id}-{secrets.token_urlsafe(32)}"
