"""Operations for administrators: API keys."""

from __future__ import annotations

import msgspec

from gateway.api.door import Door
from gateway.api.http import read_body, send_json
from gateway.errors import BadRequest
from gateway.scope import RequestScope, Role

_BODY_LIMIT = 64 * 1024


class _NewKey(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    role: Role = "user"


async def list_keys(door: Door, request: RequestScope) -> None:
    await send_json(request, {"object": "list", "data": [record.public() for record in await door.key_ring.list()]})


async def create_key(door: Door, request: RequestScope) -> None:
    """The only answer that ever holds a key."""
    body = await read_body(request, _BODY_LIMIT, door.settings.body_timeout)
    try:
        wanted = msgspec.json.decode(body, type=_NewKey)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f'Send {{"name": "...", "role": "user" or "admin"}}: {error}') from None
    created = await door.key_ring.create(wanted.name, wanted.role)
    await send_json(request, created.record.public() | {"key": created.key}, 201)


async def revoke_key(door: Door, request: RequestScope) -> None:
    key_id = request.path_value
    revoked = await door.key_ring.revoke(key_id)
    door.api_keys.forget(key_id)
    if not revoked:
        raise BadRequest(f"There is no key with the id {key_id[:64]!r}.", param="id", code="key_not_found")
    await send_json(request, {"id": key_id, "object": "key", "deleted": True})
