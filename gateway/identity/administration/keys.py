"""API keys: made, limited, rotated, ended. The key itself is in the answer to its making alone."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from gateway.errors import BadRequest, NotFound
from gateway.identity.administration.forms import KeyChange, KeyNew, KeyQuery, Rotation, check_networks
from gateway.identity.administration.office import Office, page, records
from gateway.identity.administration.views import Deleted, KeyMade, KeyShown, Page, of_key, of_new_key
from gateway.identity.records import Key, ServiceAccount, User
from gateway.store.directory import Actor


async def listed(office: Office, query: KeyQuery) -> Page[KeyShown]:
    now = time.time()

    def wanted(key: Key) -> bool:
        if query.state is not None and bool(key.expires and key.expires <= now) != (query.state == "expired"):
            return False
        return query.owner in ("", key.owner)

    is_asked = query.owner or query.state
    found, following = await records(office, Key, query.after, query.limit, wanted if is_asked else None)
    return page(await _shown(office, found), following)


async def shown(office: Office, key: str) -> KeyShown:
    return (await _shown(office, [await office.directory.find(Key, key)]))[0]


async def create(office: Office, actor: Actor, form: KeyNew) -> KeyMade:
    limits = _stored(form)
    _check(limits | {"owner": form.owner})
    await _find_owner(office, form.owner)
    made = await office.key_ring.issue(actor, Key(id="", digest="", **limits))
    try:
        await _find_owner(office, form.owner)
    except BadRequest:  # deleted at the same moment, with the keys that were there then
        await office.directory.delete(actor, Key, made.record.id)
        raise
    return of_new_key(made.record, made.key)


async def change(office: Office, actor: Actor, key: str, form: KeyChange) -> KeyShown:
    limits = _stored(form)

    def edit(before: Key) -> Key:
        _check(limits | {"owner": before.owner})
        return msgspec.structs.replace(before, **limits)

    return (await _shown(office, [await office.directory.change(actor, Key, key, edit)]))[0]


async def rotate(office: Office, actor: Actor, key: str, form: Rotation) -> KeyMade:
    made = await office.key_ring.rotate(actor, key, form.overlap_seconds)
    used = await office.key_ring.last_used([key])
    return of_new_key(made.record, made.key, used[0] or None)


async def delete(office: Office, actor: Actor, key: str) -> Deleted:
    await office.directory.delete(actor, Key, key)
    return Deleted(id=key, object=Key.kind)


async def delete_all_of(office: Office, actor: Actor, owner: str) -> None:
    following: str | None = ""
    while following is not None:
        found, following = await records(office, Key, following, 1000, lambda key: key.owner == owner)
        for key in found:
            try:
                await office.directory.delete(actor, Key, key.id)
            except NotFound:  # ended by somebody else meanwhile
                continue


def _stored(form: KeyNew | KeyChange) -> dict[str, Any]:
    """As the record spells it: 0 for a key that never expires."""
    limits = form.given()
    if "expires" in limits:
        limits["expires"] = limits["expires"] or 0
    return limits


def _check(limits: dict[str, Any]) -> None:
    check_networks(limits.get("allowed_ips", ()))
    if limits.get("expires") and limits["expires"] <= time.time():
        raise BadRequest("expires: expected a time that is still to come, in Unix seconds.", param="expires")
    for name in ("on_behalf_of", "forwards_users"):
        if limits.get(name) and not limits["owner"].startswith(ServiceAccount.kind):
            raise BadRequest(f"{name}: only a service account's key may name other people.", param=name)


async def _find_owner(office: Office, owner: str) -> None:
    kind, _, owner_id = owner.partition(":")
    found = await office.directory.get(User if kind == User.kind else ServiceAccount, owner_id)
    if found is None:
        raise BadRequest(f"owner: there is no {owner[:100]!r}.", param="owner", code="owner_not_found")


async def _shown(office: Office, found: list[Key]) -> list[KeyShown]:
    used = await office.key_ring.last_used([key.id for key in found]) if found else []
    return [of_key(key, seconds or None) for key, seconds in zip(found, used, strict=True)]
