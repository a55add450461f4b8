"""/chat/v1/templates: prompts that a tenant's people share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.api.chat.asker import form_of, person, send
from gateway.api.door import Door
from gateway.chat.templates import Template, may_change
from gateway.errors import BadRequest
from gateway.identity.administration.forms import Form, Text
from gateway.identity.administration.forms import Name as Printable
from gateway.scope import Principal, RequestScope

_LONGEST_TEXT = 16 * 1024  # characters
_MOST_BYTES = 256 * 1024
_LONGEST_NAME = 100


class _Put(Form, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=_LONGEST_TEXT)]
    description: Text = ""


async def list_(door: Door, request: RequestScope) -> None:
    who = person(request)
    await send(request, {"data": [_shown(who, one) for one in await door.chat.templates.all_of(who.tenant)]})


async def show(door: Door, request: RequestScope) -> None:
    who = person(request)
    await send(request, _shown(who, await door.chat.templates.find(who.tenant, request.path_value)))


async def put(door: Door, request: RequestScope) -> None:
    who, name = person(request), _name(request.path_value)
    form = await form_of(door, request, _Put, _MOST_BYTES)
    await send(request, _shown(who, await door.chat.templates.put(who, name, form.text, form.description)))


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


def _shown(who: Principal, template: Template) -> dict[str, Any]:
    """Whose it is by name: ids of people are nobody else's business."""
    fields = msgspec.structs.asdict(template)
    del fields["owner"]
    return fields | {"may_change": may_change(who, template)}
