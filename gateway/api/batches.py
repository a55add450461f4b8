"""The OpenAI API: /v1/batches. Begins, shows and cancels them; who runs them is elsewhere."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.api.door import Door
from gateway.api.http import read_body, send_json
from gateway.api.paging import paged, parameters
from gateway.batches import records
from gateway.batches.records import Batch, Status, new_id, window_seconds
from gateway.errors import BadRequest
from gateway.identity import access
from gateway.scope import Endpoint, Principal, RequestScope

_MOST_BYTES = 64 * 1024
_LIFE_SECONDS = 30 * 86_400
_MOST, _USUAL = 100, 20

# What a key has to be good for, beside batches.
_ENDPOINTS: dict[records.Endpoint, Endpoint] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/responses": "responses",
}
# As the official API names the moments of a batch.
_MOMENTS: dict[str, Status] = {
    "in_progress_at": "in_progress",
    "finalizing_at": "finalizing",
    "completed_at": "completed",
    "failed_at": "failed",
    "expired_at": "expired",
    "cancelling_at": "cancelling",
    "cancelled_at": "cancelled",
}


class _Expiry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=3600, le=_LIFE_SECONDS)]


class _New(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input_file_id: Annotated[str, Meta(max_length=64)]
    endpoint: records.Endpoint
    completion_window: Annotated[str, Meta(max_length=8)]
    metadata: (
        Annotated[
            dict[Annotated[str, Meta(min_length=1, max_length=64)], Annotated[str, Meta(max_length=512)]],
            Meta(max_length=16),
        ]
        | None
    ) = None
    output_expires_after: _Expiry | None = None


_decode = msgspec.json.Decoder(_New).decode


async def create(door: Door, request: RequestScope) -> None:
    form = _read(await read_body(request, _MOST_BYTES, door.settings.body_timeout))
    principal = request.known()
    access.check_route(principal, _ENDPOINTS[form.endpoint], "user")
    file = await door.files.find(principal.subject, form.input_file_id)
    if file.purpose != "batch":
        raise BadRequest("This file is the result of a batch, not the input of one.", param="input_file_id")
    batch = _batch(principal, form)
    await door.batches.begin(batch)
    door.runner.wake()
    await send_json(request, shown(batch))


async def list_(door: Door, request: RequestScope) -> None:
    batches = await door.batches.listed(request.known().subject)
    await send_json(request, paged(batches, parameters(request.query), _MOST, _USUAL, shown))


async def show(door: Door, request: RequestScope) -> None:
    await send_json(request, shown(await _found(door, request)))


async def cancel(door: Door, request: RequestScope) -> None:
    await send_json(request, shown(await door.batches.cancel(await _found(door, request))))


def shown(batch: Batch) -> dict[str, Any]:
    faults = {"object": "list", "data": batch.faults} if batch.faults else None
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model or None,
        "errors": faults,
        "input_file_id": batch.input_file,
        "completion_window": batch.completion_window,
        "status": batch.status,
        "output_file_id": batch.output_file if batch.has_output else None,
        "error_file_id": batch.error_file if batch.has_errors else None,
        "created_at": batch.created,
        "expires_at": batch.expires,
        **{name: batch.at.get(status) for name, status in _MOMENTS.items()},
        "request_counts": batch.counts,
        "metadata": batch.metadata or None,
    }


async def _found(door: Door, request: RequestScope) -> Batch:
    return await door.batches.find(request.known().subject, request.path_value)


def _read(body: bytes) -> _New:
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"This is no batch: {error}.", code="invalid_value") from None


def _batch(principal: Principal, form: _New) -> Batch:
    now, expiry = int(time.time()), form.output_expires_after
    return Batch(
        id=new_id("batch"),
        created=now,
        subject=principal.subject,
        name=principal.name,
        key_id=principal.key_id,
        acting=principal.acting,
        endpoint=form.endpoint,
        input_file=form.input_file_id,
        output_file=new_id("file"),
        error_file=new_id("file"),
        completion_window=form.completion_window,
        expires=now + window_seconds(form.completion_window),
        output_life=expiry.seconds if expiry else _LIFE_SECONDS,
        metadata=form.metadata or {},
    )
