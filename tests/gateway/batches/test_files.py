"""Files: who sees them, how much of them there may be, where they lie, and what a client may send."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from msgspec.structs import replace

from gateway.batches.records import File
from tests.gateway.batches.conftest import ClientOf, begun, ended, jsonl, refusal, request
from tests.gateway.batches.test_batches import key
from tests.gateway.conftest import RunningDoor, StartDoor, error_of, eventually

DATA = jsonl(request("one"))


def contents(folder: Path) -> list[Path]:
    return sorted((folder / "files").glob("*"))


async def uploaded(client: openai.AsyncOpenAI, name: str = "in.jsonl", data: bytes = DATA) -> Any:
    return await client.files.create(file=(name, data), purpose="batch")


async def test_a_file_comes_back_as_it_was_and_is_gone_once_deleted(
    door: RunningDoor, client_of: ClientOf, tmp_path: Path
) -> None:
    client, data = client_of(door), os.urandom(300_000)
    file = await uploaded(client, data=data)
    assert (file.object, file.bytes, file.filename, file.purpose) == ("file", 300_000, "in.jsonl", "batch")
    assert file.expires_at - file.created_at == 30 * 86_400
    assert await client.files.retrieve(file.id) == file
    answer = await client.files.content(file.id)
    assert answer.content == data
    assert answer.response.headers["content-type"] == "application/octet-stream"
    assert [path.read_bytes() for path in contents(tmp_path)] == [data]
    assert (await client.files.delete(file.id)).deleted
    assert contents(tmp_path) == []
    await refusal(client.files.retrieve(file.id), 404)
    await refusal(client.files.content(file.id), 404)
    await refusal(client.files.delete(file.id), 404)


async def test_only_this_user_of_the_machine_can_read_contents(
    door: RunningDoor, client_of: ClientOf, tmp_path: Path
) -> None:
    client = client_of(door)
    await ended(client, await begun(client, [request("one")]))
    assert len(contents(tmp_path)) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in contents(tmp_path)} == {0o600}
    assert stat.S_IMODE((tmp_path / "files").stat().st_mode) == 0o700


async def test_a_file_is_nobodys_but_its_owners_not_even_an_administrators(
    door: RunningDoor, client_of: ClientOf
) -> None:
    owner, admin = client_of(door, await key(door)), client_of(door)
    file = await uploaded(owner)
    for call in (admin.files.retrieve(file.id), admin.files.content(file.id), admin.files.delete(file.id)):
        assert (await refusal(call, 404))["message"] == f"No such File object: {file.id}."
    create = admin.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    await refusal(create, 404)
    assert (await admin.files.list()).data == []
    assert (await owner.files.content(file.id)).content == DATA


@pytest.mark.parametrize(
    ("name", "label"),
    [("../../etc/passwd", "passwd"), ("a\\b\\c.jsonl", "c.jsonl"), ("x\x1b[31m", "x[31m"), ("é" * 400, "é" * 255)],
)
async def test_a_name_is_a_label_and_never_a_path(
    door: RunningDoor, client_of: ClientOf, tmp_path: Path, name: str, label: str
) -> None:
    file = await uploaded(client_of(door), name)
    assert file.filename == label
    assert [path.name for path in contents(tmp_path)] == [file.id]


@pytest.mark.parametrize("path", ["..%2F..%2Fserver.key", "../server.key", "file-" + "0" * 36, "x" * 3000])
async def test_what_is_no_id_of_ours_names_no_file(door: RunningDoor, path: str) -> None:
    await uploaded_raw(door)
    async with door.client.get(f"/v1/files/{path}/content") as response:
        assert response.status == 404


async def uploaded_raw(door: RunningDoor, data: bytes = DATA, **fields: str) -> tuple[int, Any]:
    form = aiohttp.FormData({"purpose": "batch"} | fields)
    form.add_field("file", data, filename="in.jsonl")
    async with door.client.post("/v1/files", data=form) as response:
        return response.status, await response.json()


async def test_a_file_past_the_bound_is_refused_and_leaves_nothing(
    start_door: StartDoor, client_of: ClientOf, tmp_path: Path
) -> None:
    door = await start_door(max_file_bytes=10_000)
    client = client_of(door)
    await uploaded(client, data=b"x" * 10_000)
    before = contents(tmp_path)
    assert (await uploaded_raw(door, b"x" * 10_001))[0] == 413
    assert (await uploaded_raw(door, b"x" * 500_000))[0] == 413
    assert contents(tmp_path) == before
    assert len((await client.files.list()).data) == 1


async def test_what_one_person_may_store_is_bounded_and_deleting_makes_room(
    start_door: StartDoor, client_of: ClientOf
) -> None:
    door = await start_door(max_stored_bytes_per_subject=10_000)
    client, other = client_of(door), client_of(door, await key(door))
    first = await uploaded(client, data=b"x" * 6000)
    assert (await refusal(uploaded(client, data=b"x" * 6000), 400))["code"] == "storage_limit_exceeded"
    await uploaded(other, data=b"x" * 6000)
    await client.files.delete(first.id)
    await uploaded(client, data=b"x" * 6000)


async def test_an_upload_that_is_broken_off_leaves_nothing_and_takes_no_room(
    start_door: StartDoor, client_of: ClientOf, tmp_path: Path
) -> None:
    door = await start_door(max_stored_bytes_per_subject=10_000, body_timeout=0.5)
    _, writer = await asyncio.open_connection(*door.url.removeprefix("http://").split(":"))
    authorization = door.client.headers["authorization"]
    head = f"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\ncontent-length: 9000\r\n"
    writer.write(head.encode() + b"content-type: multipart/form-data; boundary=b\r\n\r\n--b\r\n")
    await writer.drain()
    await eventually(lambda: contents(tmp_path))
    writer.close()
    await eventually(lambda: not contents(tmp_path))
    await uploaded(client_of(door), data=b"x" * 8000)


async def test_an_upload_that_stalls_is_ended(start_door: StartDoor, tmp_path: Path) -> None:
    door = await start_door(body_timeout=0.2)

    async def slowly() -> Any:
        yield b"--b\r\n"
        await asyncio.sleep(30)

    headers = {"content-type": "multipart/form-data; boundary=b"}
    async with door.client.post("/v1/files", data=slowly(), headers=headers) as response:
        await error_of(response, 408, "body_timeout")
    assert contents(tmp_path) == []


PART = b'--b\r\ncontent-disposition: form-data; name="%s"\r\n\r\n%s\r\n'
FILE = b'--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n{}\r\n'
PURPOSE = PART % (b"purpose", b"batch")
END = b"--b--\r\n"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        END,
        PURPOSE + END,
        FILE + END,
        PURPOSE + FILE,
        PURPOSE + FILE[:-4],
        b"not multipart",
        PURPOSE + FILE + FILE + END,
        PURPOSE + PURPOSE + FILE + END,
        PART % (b"purpose", b"fine-tune") + FILE + END,
        PART % (b"purpose", b"b" * 2000) + FILE + END,
        PURPOSE + b"".join(PART % (b"f%d" % number, b"") for number in range(30)) + FILE + END,
        PURPOSE + b"--b\r\n\r\nnameless\r\n" + FILE + END,
        PURPOSE + PART % (b"expires_after[anchor]", b"created_at") + FILE + END,
        PURPOSE + b"--b\r\nx: " + b"y" * 20_000 + b"\r\n\r\n" + FILE + END,
    ],
)
async def test_a_body_that_is_no_upload_is_refused_and_leaves_nothing(
    door: RunningDoor, tmp_path: Path, body: bytes
) -> None:
    headers = {"content-type": "multipart/form-data; boundary=b"}
    async with door.client.post("/v1/files", data=body, headers=headers) as response:
        await error_of(response, 400)
    assert contents(tmp_path) == []
    async with door.client.get("/v1/files") as response:
        assert (await response.json())["data"] == []


async def test_a_body_of_another_kind_is_refused(door: RunningDoor) -> None:
    async with door.post({"purpose": "batch"}, path="/v1/files") as response:
        assert "multipart/form-data" in (await error_of(response, 400))["message"]


async def test_files_are_listed_by_purpose_a_page_at_a_time(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door)
    batch = await ended(client, await begun(client, [request("one")]))
    second = await uploaded(client)
    ids = [file.id async for file in client.files.list(limit=1, order="asc")]
    assert sorted(ids) == sorted([batch.input_file_id, batch.output_file_id, second.id])
    assert ids == list(reversed([file.id async for file in client.files.list(limit=2)]))
    outputs = await client.files.list(purpose="batch_output")
    assert [file.id for file in outputs.data] == [batch.output_file_id]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=99999999", "order=up", "after=file-unknown"])
async def test_a_bad_query_is_refused(door: RunningDoor, query: str) -> None:
    async with door.client.get(f"/v1/files?{query}") as response:
        assert (await error_of(response, 400))["param"] == query.partition("=")[0]


async def test_what_has_expired_is_there_for_nobody_and_then_swept_away(
    door: RunningDoor, client_of: ClientOf, tmp_path: Path
) -> None:
    assert door.app.door is not None
    client = client_of(door)
    short = await client.files.create(
        file=("in.jsonl", DATA), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert (short.expires_at or 0) - short.created_at == 3600
    kept = await uploaded(client)
    past = int(time.time()) - 1
    await door.app.door.directory.change(None, File, short.id, lambda file: replace(file, expires=past))
    await refusal(client.files.retrieve(short.id), 404)
    assert [file.id for file in (await client.files.list()).data] == [kept.id]
    assert len(contents(tmp_path)) == 2
    await door.app.door.files.sweep(time.time())
    assert [path.name for path in contents(tmp_path)] == [kept.id]
    await door.app.door.files.sweep(time.time() + 29 * 86_400)
    assert [path.name for path in contents(tmp_path)] == [kept.id]


async def test_what_a_dead_gateway_left_behind_is_swept_away_once_it_is_old(
    door: RunningDoor, client_of: ClientOf, tmp_path: Path
) -> None:
    assert door.app.door is not None
    await uploaded(client_of(door))
    left = tmp_path / "files" / ("file-" + "0" * 36)
    left.write_bytes(b"x")
    young = door.app.door.files.path(f"file-{time.time_ns() // 1_000_000:012x}{'0' * 24}")
    young.write_bytes(b"x")
    await door.app.door.files.sweep(time.time())
    assert not left.exists()
    assert young.exists()
    assert len(contents(tmp_path)) == 2
