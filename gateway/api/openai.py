"""The OpenAI API: /v1/chat/completions, /v1/completions, /v1/models. Checks what the door needs, keeps the bytes."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from backends.base import ModelCard
from backends.wire.errors import InvalidRequest
from backends.wire.requests import ChatRequest, CompletionRequest, parse_chat, parse_completion
from gateway.api.door import Door
from gateway.api.http import read_body, send_json
from gateway.errors import BadRequest, ModelNotFound, from_invalid
from gateway.pipeline import NewSink
from gateway.scope import RequestScope
from gateway.settings import Settings

# Values stay as the bytes they were: nothing is rounded or reordered inside them on the way to the engine.
split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_STARTED = int(time.time())


async def chat_completions(door: Door, request: RequestScope, new_sink: NewSink | None = None) -> None:
    body = await body_of(door, request)
    try:
        parsed = parse_chat(body, allowed=door.settings.allowed_fields)
    except InvalidRequest as error:
        raise from_invalid(error) from None
    check_messages(len(parsed.messages), door.settings)
    await _complete(door, request, body, parsed, new_sink)


async def completions(door: Door, request: RequestScope) -> None:
    body = await body_of(door, request)
    try:
        parsed = parse_completion(body, allowed=door.settings.allowed_fields)
    except InvalidRequest as error:
        raise from_invalid(error) from None
    request.form = "completions"
    await _complete(door, request, body, parsed)


async def models(door: Door, request: RequestScope) -> None:
    """What this caller may use, by key, policy and where the data of the request may go."""
    cards = [card for card in door.fleet.models() if await door.pipeline.may_use(request, card.id)]
    await send_json(request, {"object": "list", "data": [_model(card) for card in cards]})


async def model(door: Door, request: RequestScope) -> None:
    card = await door.fleet.card(request.path_value)
    if not await door.pipeline.may_use(request, card.id):
        raise ModelNotFound(f"The model {request.path_value[:100]!r} does not exist, or your key may not use it.")
    await send_json(request, _model(card))


async def _complete(
    door: Door,
    request: RequestScope,
    body: bytes,
    parsed: ChatRequest | CompletionRequest,
    new_sink: NewSink | None = None,
) -> None:
    await door.pipeline.speak_for(request, parsed.user)
    request.model = parsed.model
    request.streaming = bool(parsed.stream)
    request.choices = parsed.answers_each * (len(parsed.prompts) if isinstance(parsed, CompletionRequest) else 1)
    request.output_limit = (parsed.output_limit or 0) * request.choices
    options = parsed.stream_options
    request.wants_usage = bool(options and options.include_usage)
    request.body, request.fields = body, split(body)
    await door.pipeline.complete(request, new_sink)


async def body_of(door: Door, request: RequestScope) -> bytes:
    body = await read_body(request, door.settings.max_body_bytes, door.settings.body_timeout)
    request.read = time.monotonic()
    return body


def check_messages(number: int, settings: Settings, param: str = "messages") -> None:
    if number > settings.max_messages:
        raise BadRequest(
            f"There are {number} messages; at most {settings.max_messages} are taken in one request.",
            param=param,
            code="too_many_messages",
        )


def _model(card: ModelCard) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": card.id, "object": "model", "created": _STARTED, "owned_by": card.owned_by}
    return shown if card.context_length is None else shown | {"max_model_len": card.context_length}
