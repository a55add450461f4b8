"""Prompt templates that a tenant's people share. Whoever made one may change it, and administrators may."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gateway.errors import BadRequest, Conflict, Forbidden, NotFound
from gateway.scope import Principal
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script
from gateway.store.sealing import Sealer

MOST_TEMPLATES = 200  # of a tenant

# KEYS 1 the tenant's templates; ARGV 1 name  2 before  3 after  4 most; empty: there is none.
_CHANGE = Script(
    """
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if now == ARGV[3] then return 1 end
if now ~= ARGV[2] then return 0 end
if ARGV[3] == '' then return redis.call('HDEL', KEYS[1], ARGV[1]) end
if now == '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return -1 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""
)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix seconds."""

    name: str
    text: str
    description: str = ""
    owner: str  # a subject
    by: str  # what people call the owner
    created: int
    updated: int


class Templates:
    """Raises StoreAway."""

    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer

    async def all_of(self, tenant: str) -> list[Template]:
        """In order of their names."""
        found: Sequence[bytes] = await self._store.command("HGETALL", keys.chat_templates(tenant))
        pairs = zip(found[::2], found[1::2], strict=True)
        opened = [self._open(tenant, name.decode(), sealed) for name, sealed in pairs]
        return sorted((one for one in opened if one is not None), key=lambda one: one.name)

    async def find(self, tenant: str, name: str) -> Template:
        """Raises NotFound."""
        found = self._open(tenant, name, await self._stored(tenant, name))
        if found is None:
            raise NotFound(f"There is no template {name[:100]!r}.", param="name")
        return found

    async def put(self, who: Principal, name: str, text: str, description: str) -> Template:
        """Made, or changed whole. Raises Forbidden, BadRequest and Conflict."""
        stored, now = await self._stored(who.tenant, name), int(time.time())
        before = self._open(who.tenant, name, stored)
        if before is None:
            after = Template(
                name=name,
                text=text,
                description=description,
                owner=who.subject,
                by=who.name,
                created=now,
                updated=now,
            )
        else:
            _check(who, before)
            after = replace(before, text=text, description=description, updated=now)
        sealed = self._sealer.seal(msgspec.json.encode(after), _place(who.tenant, name))
        await self._change(who.tenant, name, stored, sealed)
        return after

    async def delete(self, who: Principal, name: str) -> None:
        """Raises NotFound, Forbidden and Conflict."""
        stored = await self._stored(who.tenant, name)
        _check(who, await self.find(who.tenant, name))
        await self._change(who.tenant, name, stored, "")

    async def _stored(self, tenant: str, name: str) -> bytes:
        found: bytes | None = await self._store.command("HGET", keys.chat_templates(tenant), name)
        return found or b""

    async def _change(self, tenant: str, name: str, before: bytes, after: str) -> None:
        call = _CHANGE.call((keys.chat_templates(tenant),), name, before, after, MOST_TEMPLATES)
        answer = await self._store.run(call)
        if answer == 0:
            raise Conflict(f"Somebody else has just changed {name[:100]!r}. Look at it again and retry.")
        if answer < 0:
            raise BadRequest(
                f"There are {MOST_TEMPLATES} templates, which is as many as are kept. Delete some.",
                code="too_many_templates",
            )

    def _open(self, tenant: str, name: str, sealed: bytes) -> Template | None:
        plain = self._sealer.open(sealed.decode(), _place(tenant, name))
        return None if plain is None else msgspec.json.decode(plain, type=Template)


def may_change(who: Principal, template: Template) -> bool:
    return who.role == "admin" or who.subject == template.owner


def _check(who: Principal, template: Template) -> None:
    if not may_change(who, template):
        raise Forbidden(f"This template is {template.by[:100]!r}'s to change. Make one under another name.")


def _place(tenant: str, name: str) -> str:
    return f"{tenant}/{name}"
