"""/chat/v1/conversations: begun, listed, searched, changed, exported, deleted."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gateway.api.chat.asker import NO_STORE, form_of, person, query_of, send
from gateway.api.door import Door
from gateway.api.http import send_bytes
from gateway.chat.export import as_json, as_markdown
from gateway.chat.records import LONGEST_TITLE, NO_PARAMETERS, Conversation, Parameters
from gateway.chat.search import listed
from gateway.errors import BadRequest, Conflict
from gateway.identity.administration.forms import Form
from gateway.scope import RequestScope

Title = Annotated[str, Meta(max_length=LONGEST_TITLE)]
ModelName = Annotated[str, Meta(max_length=200)]
# A character may be six bytes of JSON.
_ESCAPED = 6
_OVERHEAD = 64 * 1024


class _New(Form, frozen=True, kw_only=True):
    title: Title = ""
    model: ModelName = ""
    system: str = ""
    parameters: Parameters = NO_PARAMETERS


class _Change(Form, frozen=True, kw_only=True):
    title: Title | UnsetType = UNSET
    model: ModelName | UnsetType = UNSET
    system: str | UnsetType = UNSET
    parameters: Parameters | UnsetType = UNSET
    head: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET


class _Listing(Form, frozen=True, kw_only=True):
    search: Annotated[str, Meta(max_length=200)] = ""
    after: Annotated[str, Meta(max_length=100)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class _Export(Form, frozen=True, kw_only=True):
    format: Literal["json", "markdown"] = "json"


async def list_(door: Door, request: RequestScope) -> None:
    query = query_of(request, _Listing)
    found = await listed(door.chat.book, person(request).subject, query.search, query.after, query.limit)
    await send(request, {"data": found.data, "has_more": found.next is not None, "next": found.next})


async def create(door: Door, request: RequestScope) -> None:
    subject = person(request).subject
    check_kept(door)
    form = await form_of(door, request, _New, longest_body(door))
    check_length(door, form.system, "system")
    made = await door.chat.book.create(subject, form.title, form.model, form.system, form.parameters)
    await send(request, made, 201)


async def delete_all(door: Door, request: RequestScope) -> None:
    await door.chat.forgetting.all_of(person(request).subject)
    await send(request, {"object": "conversations", "deleted": True})


async def show(door: Door, request: RequestScope) -> None:
    await send(request, await found(door, request))


async def change(door: Door, request: RequestScope) -> None:
    form = await form_of(door, request, _Change, longest_body(door))
    conversation = await found(door, request)
    if form.system is not UNSET:
        check_length(door, form.system, "system")
    if form.head is not UNSET and form.head not in {message.id for message in conversation.messages}:
        raise BadRequest("There is no such message in this conversation.", param="head")
    await door.chat.book.change(person(request).subject, conversation.id, **form.given())
    await send(request, await found(door, request))


async def delete(door: Door, request: RequestScope) -> None:
    await door.chat.forgetting.one(person(request).subject, request.path_value)
    await send(request, {"id": request.path_value, "object": "conversation", "deleted": True})


async def export(door: Door, request: RequestScope) -> None:
    conversation = await found(door, request)
    markdown = query_of(request, _Export).format == "markdown"
    text = as_markdown(conversation) if markdown else as_json(conversation)
    kind, ending = ("text/markdown", "md") if markdown else ("application/json", "json")
    # By its id, not by its title: that is people's to choose, and headers are no place for it.
    named = f'attachment; filename="{conversation.id}.{ending}"'.encode("ascii")
    headers = [*NO_STORE, (b"content-disposition", named)]
    await send_bytes(request, text, f"{kind}; charset=utf-8", headers=headers)


async def found(door: Door, request: RequestScope) -> Conversation:
    """Raises NotFound for what is not theirs, whoever asks."""
    subject = person(request).subject
    return await door.chat.answers.settled(subject, await door.chat.book.find(subject, request.path_value))


def check_kept(door: Door) -> None:
    if door.settings.chat_storage != "server":
        raise Conflict("Conversations are kept in the browser here, not on the server.", code="kept_in_the_browser")


def check_length(door: Door, text: str, param: str) -> None:
    size, most = len(text.encode()), door.settings.chat_max_message_bytes
    if size > most:
        raise BadRequest(f"This is {size} bytes long; at most {most} are taken.", param=param, code="message_too_long")


def longest_body(door: Door) -> int:
    return _ESCAPED * door.settings.chat_max_message_bytes + _OVERHEAD
