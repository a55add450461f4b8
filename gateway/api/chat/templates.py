"""/chat/v1/templates: prompts that a tenant's people share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.api.chat.asker import form_of, person, send
from gateway.api.door import Door
from gateway.chat.templates import Template, may_change
from gateway.errors import BadRequest
from gateway.identity.administration.forms import Form, Text
from gateway.identity.administration.forms import Name as Printable
from gateway.identity.records import User
from gateway.scope import Principal, RequestScope

_LONGEST_TEXT = 16 * 1024  # characters
_MOST_BYTES = 256 * 1024
_LONGEST_NAME = 100


class _Put(Form, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=_LONGEST_TEXT)]
    description: Text = ""


async def list_(door: Door, request: RequestScope) -> None:
    who = person(request)
    found = await door.chat.templates.all_of(who.tenant)
    await send(request, {"data": await _shown(door, who, found)})


async def show(door: Door, request: RequestScope) -> None:
    who = person(request)
    (shown,) = await _shown(door, who, [await door.chat.templates.find(who.tenant, request.path_value)])
    await send(request, shown)


async def put(door: Door, request: RequestScope) -> None:
    who, name = person(request), _name(request.path_value)
    form = await form_of(door, request, _Put, _MOST_BYTES)
    (shown,) = await _shown(door, who, [await door.chat.templates.put(who, name, form.text, form.description)])
    await send(request, shown)


async def delete(door: Door, request: RequestScope) -> None:
    await door.chat.templates.delete(person(request), request.path_value)
    await send(request, {"name": request.path_value, "object": "template", "deleted": True})


def _name(text: str) -> str:
    try:
        name = msgspec.convert(text, Printable)
    except msgspec.ValidationError:
        name = ""
    if not name.strip() or len(name) > _LONGEST_NAME or "/" in name:
        raise BadRequest(
            f"A template's name has 1 to {_LONGEST_NAME} printable characters, and no slash.", param="name"
        )
    return name


async def _shown(door: Door, who: Principal, templates: Sequence[Template]) -> list[dict[str, Any]]:
    """Whose they are by name: ids of people are nobody else's business. `by_gone`: they are no user here any more, so
    that only an administrator may change it."""
    known = {user.id for user in await door.directory.some(User, list({one.owner for one in templates}))}
    return [
        {name: value for name, value in msgspec.structs.asdict(one).items() if name != "owner"}
        | {"may_change": may_change(who, one), "by_gone": one.owner not in known}
        for one in templates
    ]
