"""The OpenAI API: /v1/files. What people leave here to be run as a batch, and what became of it."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from gateway.api.door import Door
from gateway.api.http import send_json
from gateway.api.paging import paged, parameters
from gateway.api.upload import OVERHEAD, Upload, read_upload, too_large
from gateway.batches.records import File, new_id
from gateway.errors import BadRequest, ClientGone, InternalError
from gateway.scope import RequestScope

_LIFE_SECONDS = 30 * 86_400
_SHORTEST_LIFE_SECONDS = 3600
_LONGEST_NAME = 255
_MOST, _CHUNK = 10_000, 256 * 1024


async def create(door: Door, request: RequestScope) -> None:
    subject, limit = request.known().subject, door.settings.max_file_bytes
    file_id, size = new_id("file"), _declared(request, limit)
    await door.files.reserve(subject, file_id, size)
    try:
        descriptor = await asyncio.to_thread(door.files.create, file_id)
        try:
            upload = await read_upload(request, descriptor, limit, door.settings.body_timeout)
        finally:
            await asyncio.to_thread(os.close, descriptor)
        file = _file(subject, file_id, upload)
        await door.files.keep(file)
    except BaseException:
        await asyncio.shield(door.files.discard(subject, file_id))
        raise
    await send_json(request, shown(file))


async def list_(door: Door, request: RequestScope) -> None:
    query = parameters(request.query)
    files = await door.files.listed(request.known().subject)
    if purpose := query.get("purpose"):
        files = [file for file in files if file.purpose == purpose]
    await send_json(request, paged(files, query, _MOST, _MOST, shown))


async def show(door: Door, request: RequestScope) -> None:
    await send_json(request, shown(await _found(door, request)))


async def delete(door: Door, request: RequestScope) -> None:
    file = await _found(door, request)
    await door.files.delete(file)
    await send_json(request, {"id": file.id, "object": "file", "deleted": True})


async def content(door: Door, request: RequestScope) -> None:
    """As it is, a piece at a time. Never as something that a browser would show."""
    file = await _found(door, request)
    try:
        descriptor = await asyncio.to_thread(os.open, door.files.path(file.id), os.O_RDONLY)
    except FileNotFoundError as error:
        raise InternalError from error  # the record is there: not every gateway sees the same folder
    try:
        left = os.fstat(descriptor).st_size
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-disposition", b"attachment"),
            (b"content-length", str(left).encode()),
        ]
        await request.begin(200, headers)
        while left:
            data = await asyncio.to_thread(os.read, descriptor, min(left, _CHUNK))
            if not data:
                raise ClientGone  # it was cut short under our hands: the connection ends before its length
            left -= len(data)
            await request.write(data, more=True)
        await request.write(b"", more=False)
    finally:
        os.close(descriptor)


def shown(file: File) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": file.created,
        "expires_at": file.expires,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }


async def _found(door: Door, request: RequestScope) -> File:
    return await door.files.find(request.known().subject, request.path_value)


def _declared(request: RequestScope, limit: int) -> int:
    """What has to be free for it. Raises BodyTooLarge before anything of it is read."""
    declared = request.headers.get(b"content-length", b"")
    if not declared.isdigit():
        return limit
    if int(declared) > limit + OVERHEAD:
        raise too_large(limit)
    return min(int(declared), limit)


def _file(subject: str, file_id: str, upload: Upload) -> File:
    if upload.fields.get("purpose") != "batch":
        raise BadRequest("Expected the purpose 'batch': files are for batches here.", param="purpose")
    now = int(time.time())
    return File(
        id=file_id,
        subject=subject,
        filename=_label(upload.filename),
        purpose="batch",
        bytes=upload.size,
        created=now,
        expires=now + _life_seconds(upload.fields),
    )


def _life_seconds(fields: dict[str, str]) -> int:
    anchor = fields.get("expires_after[anchor]")
    if anchor is None:
        return _LIFE_SECONDS
    text = fields.get("expires_after[seconds]", "")
    seconds = int(text) if text.isdecimal() and len(text) < 9 else 0
    if anchor != "created_at" or not _SHORTEST_LIFE_SECONDS <= seconds <= _LIFE_SECONDS:
        raise BadRequest(
            f"Expected expires_after with the anchor created_at and {_SHORTEST_LIFE_SECONDS} to {_LIFE_SECONDS} "
            "seconds.",
            param="expires_after",
            code="invalid_value",
        )
    return seconds


def _label(name: str) -> str:
    """A name to be shown, and nothing else: without folders, and without what could move a cursor."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable())[:_LONGEST_NAME] or "file"
