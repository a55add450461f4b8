"""The OpenAI API: /v1/embeddings; and /v1/rerank, which engines share with Jina and Cohere."""

from __future__ import annotations

import msgspec

from backends.wire.embeddings import parse_embeddings
from backends.wire.errors import InvalidRequest
from backends.wire.rerank import parse_rerank
from gateway.api.door import Door
from gateway.api.openai import body_of, split
from gateway.errors import from_invalid
from gateway.scope import Form, RequestScope


async def embeddings(door: Door, request: RequestScope) -> None:
    body = await body_of(door, request)
    try:
        parsed = parse_embeddings(body, allowed=door.settings.allowed_fields)
    except InvalidRequest as error:
        raise from_invalid(error) from None
    request.body, request.fields = body, split(body)
    await _complete(door, request, "embeddings", parsed.model, parsed.user)


async def rerank(door: Door, request: RequestScope) -> None:
    body = await body_of(door, request)
    try:
        parsed = parse_rerank(body, allowed=door.settings.allowed_fields)
    except InvalidRequest as error:
        raise from_invalid(error) from None
    documents = msgspec.Raw(msgspec.json.encode(parsed.texts))  # objects are not every engine's way
    request.body, request.fields = body, split(body) | {"documents": documents}
    await _complete(door, request, "rerank", parsed.model, parsed.user)


async def _complete(door: Door, request: RequestScope, form: Form, model: str, user: str | None) -> None:
    await door.pipeline.speak_for(request, user)
    request.form, request.model = form, model
    await door.pipeline.complete(request)
