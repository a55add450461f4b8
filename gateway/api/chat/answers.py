"""/chat/v1/…/answers: asked for, read again from any place, stopped. Whoever asks may leave and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.api.chat.asker import form_of, person, query_of, send, waiting
from gateway.api.chat.conversations import check_kept, check_length, found, longest_body
from gateway.api.door import Door
from gateway.api.openai import chat_completions
from gateway.chat.asking import Asked, Question, ask, whole
from gateway.chat.events import Numbered, framed
from gateway.chat.records import NO_PARAMETERS, Parameters
from gateway.chat.running import Order
from gateway.chat.sink import Gathering
from gateway.errors import ClientGone, ClientStalled, DoorError, RequestTooLarge
from gateway.identity import access
from gateway.identity.administration.forms import Form
from gateway.scope import Principal, RequestScope
from gateway.streaming.disconnect import cut_off, unless_gone

Model = Annotated[str, Meta(min_length=1, max_length=200)]
MessageId = Annotated[str, Meta(max_length=64)]
_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_SIGN_OF_LIFE = b": keep-alive\n\n"
# A prompt's tokens are an estimate: only what is far too long is refused before the engine has counted.
_SURELY = 1.25


class _Ask(Form, frozen=True, kw_only=True):
    model: Model
    parent: MessageId | None = None
    content: Annotated[str, Meta(min_length=1)] | None = None
    parameters: Parameters = NO_PARAMETERS
    going_on: MessageId | None = msgspec.field(default=None, name="continue")


class _Turn(Form, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant"]
    content: str


class _AskWhole(Form, frozen=True, kw_only=True):
    model: Model
    messages: Annotated[tuple[_Turn, ...], Meta(min_length=1)]
    parameters: Parameters = NO_PARAMETERS
    goes_on: bool = msgspec.field(default=False, name="continue")


class _Events(Form, frozen=True, kw_only=True):
    first: Annotated[int, Meta(ge=0, le=10**9)] | None = msgspec.field(default=None, name="from")


async def create(door: Door, request: RequestScope) -> None:
    """In a conversation that is kept here."""
    principal = person(request)
    check_kept(door)
    form = await form_of(door, request, _Ask, longest_body(door))
    check_length(door, form.content or "", "content")
    conversation = await found(door, request)
    asked = ask(conversation, Question(form.model, form.parent, form.content, form.parameters, form.going_on))
    order = _order(principal, request, conversation.id, asked)
    await door.chat.answers.begin(order, asked.question, asked.title)
    await _tell(door, request, principal, asked.answer.id, 1)


async def create_whole(door: Door, request: RequestScope) -> None:
    """Of a conversation that is kept in the browser: nothing of it stays here but the answer, for a while."""
    principal = person(request)
    form = await form_of(door, request, _AskWhole, door.settings.max_body_bytes)
    messages = [{"role": turn.role, "content": turn.content} for turn in form.messages]
    asked = whole(messages, Question(form.model, parameters=form.parameters), goes_on=form.goes_on)
    await door.chat.answers.begin(_order(principal, request, "", asked))
    await _tell(door, request, principal, asked.answer.id, 1)


async def events(door: Door, request: RequestScope) -> None:
    """From `from` on, or from behind `Last-Event-ID`; all of them without either."""
    first = query_of(request, _Events).first
    last = request.headers.get(b"last-event-id", b"")
    if first is None:
        first = int(last) + 1 if last.isdigit() and len(last) < 10 else 1
    await _tell(door, request, person(request), request.path_value, max(1, first))


async def stop(door: Door, request: RequestScope) -> None:
    await door.chat.answers.stop(person(request).subject, request.path_value)
    await send(request, {"id": request.path_value, "object": "answer", "stopping": True})


async def into(door: Door, request: RequestScope, sink: Gathering) -> None:
    """As /v1/chat/completions, with the answer going into a sink: what the chat asks for is a request as any other."""
    request.route, request.status = "/chat/v1/answers", 200
    access.check_route(request.known(), "chat", "user")

    def checked(asked: RequestScope) -> Gathering:
        if asked.context and asked.prompt_estimate > _SURELY * asked.context:
            raise RequestTooLarge(
                f"This conversation is about {asked.prompt_estimate} tokens long, and {asked.model} takes "
                f"{asked.context}. Begin a new one, branch off at an earlier message, or take another model.",
                param="messages",
            )
        return sink

    try:
        await chat_completions(door, request, checked)
    except ClientGone:  # it was made to end
        raise
    except DoorError as error:
        await sink.fail(error)
        raise


def _order(principal: Principal, request: RequestScope, conversation_id: str, asked: Asked) -> Order:
    return Order(waiting(principal), request.client, conversation_id, asked.body, asked.answer)


async def _tell(door: Door, request: RequestScope, principal: Principal, answer_id: str, first: int) -> None:
    told = await door.chat.answers.read(principal.subject, answer_id, first)
    ended = asyncio.Event()
    try:
        await unless_gone(request.receive, _write(door, request, told, ended), ended.is_set)
    except ClientStalled:
        await cut_off(request.send)
        raise


async def _write(
    door: Door, request: RequestScope, told: AsyncGenerator[list[Numbered], None], ended: asyncio.Event
) -> None:
    silence, patience = door.settings.keepalive_seconds, door.settings.client_stall_timeout
    await request.begin(200, _STREAM)
    following = asyncio.ensure_future(anext(told, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=silence)
            some = following.result() if done else []
            data = b"" if some is None else framed(some) or _SIGN_OF_LIFE
            try:
                async with asyncio.timeout(patience):
                    await request.write(data, more=some is not None)
            except TimeoutError:
                raise ClientStalled from None
            if some is None:
                ended.set()
                return
            if done:
                following = asyncio.ensure_future(anext(told, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await told.aclose()
