"""The OpenAI API: /v1/responses. Every engine is asked for a chat completion, and a response is made of its answer."""

from __future__ import annotations

import time

import msgspec

from backends.wire.errors import InvalidRequest
from gateway.api.door import Door
from gateway.api.openai import body_of, check_messages, split
from gateway.errors import NotFound, from_invalid
from gateway.responses.answer import Answer
from gateway.responses.chat import chat_fields
from gateway.responses.framing import EventFraming, whole_response
from gateway.responses.head import head
from gateway.responses.requests import parse_responses
from gateway.scope import RequestScope
from gateway.streaming.collect import CollectSink
from gateway.streaming.relay import Sink, StreamSink


async def create(door: Door, request: RequestScope) -> None:
    body = await body_of(door, request)
    try:
        parsed = parse_responses(body, allowed=door.settings.allowed_fields)
    except InvalidRequest as error:
        raise from_invalid(error) from None
    fields = chat_fields(parsed)
    check_messages(len(fields["messages"]), door.settings, "input")
    await door.pipeline.speak_for(request, parsed.request.user)
    request.model = parsed.request.model
    request.streaming = bool(parsed.request.stream)
    request.wants_usage = True  # whoever asks for a response gets it
    request.output_limit = parsed.request.max_output_tokens or 0
    request.body = msgspec.json.encode(fields)
    request.fields = split(request.body)

    def sink(request: RequestScope) -> Sink:
        told = head(parsed, request.request_id, int(time.time())) | {"model": request.model}  # an alias seen through
        answer = Answer(request.request_id, told)
        if request.streaming:
            return StreamSink(request, door.settings.keepalive_seconds, EventFraming(answer))
        return CollectSink(request, lambda chat: whole_response(answer, chat))

    await door.pipeline.complete(request, sink)


async def stored(door: Door, request: RequestScope) -> None:
    raise NotFound("Responses are not stored here: there is nothing to fetch or delete once one has been answered.")
