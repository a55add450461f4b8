"""Backup and restore by wiping a real Valkey and the data folder: what people had before works afterwards."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import shutil
import stat
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from backends.fake import FakeBackend
from gateway.app import App
from gateway.cli.main import app as cli
from gateway.settings import load
from gateway.store import copying, schema
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.batches.conftest import ClientOf, begun, client_of, ended, lines_of, request
from tests.gateway.chat.conftest import answer, begin, look, text_of
from tests.gateway.conftest import ADMIN_KEY, CHAT, RunningDoor, ask, running, start_valkey
from tests.system.redis_servers import free_ports, until

__all__ = ["client_of"]


class Installation:
    def __init__(self, redis_url: str, folder: Path) -> None:
        self.redis_url = redis_url
        self.data = folder / "data"
        self.file = folder / "backup.tar.gz"

    @asynccontextmanager
    async def door(self) -> Any:
        own = {"redis_url": self.redis_url, "redis_timeout": REDIS_TIMEOUT, "data_dir": self.data}
        settings = load(**own, bootstrap_key=ADMIN_KEY, engine_kind="fake", key_cache_seconds=0)
        fake = FakeBackend()
        async with running(App(settings, {"fake": fake}), fake, settings) as door:
            yield door

    async def run(self, *arguments: str, stdin: bytes | None = None) -> Result:
        where = ("--data-dir", str(self.data), "--redis-url", self.redis_url)
        return await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *where], input=stdin)

    async def backup(self) -> Result:
        result = await self.run("backup", str(self.file))
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    async def restore(self, *more: str) -> Result:
        result = await self.run("restore", str(self.file), *more)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    async def refused(self, *arguments: str) -> str:
        result = await self.run(*arguments)
        assert result.exit_code == 1, result.output
        return str(result.exception)

    def wipe(self) -> None:
        redis.Redis.from_url(self.redis_url).flushall()
        shutil.rmtree(self.data)

    def everything(self) -> dict[bytes, Any]:
        with redis.Redis.from_url(self.redis_url) as client:
            return {key: client.dump(key) for key in client.scan_iter("*") if not copying.is_passing(key.decode())}


@pytest.fixture
def installation(redis_url: str, tmp_path: Path) -> Installation:
    return Installation(redis_url, tmp_path)


async def status_of(door: RunningDoor, key: str) -> int:
    async with door.client.post(CHAT, json=ask(), headers={"authorization": f"Bearer {key}"}) as response:
        return int(response.status)


async def trail(door: RunningDoor) -> list[str]:
    async with door.client.get("/admin/v1/audit") as response:
        return [line["action"] for line in (await response.json())["data"]]


async def test_all_works_as_before_after_everything_was_wiped(installation: Installation, client_of: ClientOf) -> None:
    async with installation.door() as door:
        key = (await installation.run("keys", "create", "a program")).stdout.strip()
        policy = {"applies_to": ["service_account:a-program"], "requests_per_day": 3}
        async with door.client.put("/admin/v1/policies/three", json=policy) as response:
            assert response.status < 300, await response.text()
        assert [await status_of(door, key) for _ in range(2)] == [200, 200]
        conversation = (await begin(door, title="Mine"))["id"]
        said = text_of(await answer(door, conversation, content="Hello"))
        batch = await ended(client_of(door), await begun(client_of(door), [request("a"), request("b")]))
        results = await lines_of(client_of(door), batch.output_file_id)
        before = await trail(door)
        told = await installation.backup()
        assert "gateways run on this Redis; stop them" in await installation.refused("restore", str(installation.file))
    assert stat.S_IMODE(installation.file.stat().st_mode) == 0o600
    assert "server.key is in it" in told.stderr
    installation.wipe()
    restored = await installation.restore()
    assert "  key: 2" in restored.stderr
    async with installation.door() as door:
        assert [await status_of(door, key) for _ in range(2)] == [200, 429], "what was used before still counts"
        messages = (await look(door, conversation))["messages"]
        assert [message["content"] for message in messages] == ["Hello", said]
        assert await lines_of(client_of(door), batch.output_file_id) == results
        assert await trail(door) == ["backup.restore", *before]


async def test_every_key_that_is_no_passing_one_is_the_same_again(installation: Installation) -> None:
    with redis.Redis.from_url(installation.redis_url) as client:
        client.hset("{sekisho}:usage:user:x:20300101", mapping={f"field{n}": "v" * 90 for n in range(1000)})
        client.zadd("{sekisho}:usage-subjects:20300101", {f"user:{n}": n / 7 for n in range(1000)})
        client.expire("{sekisho}:usage-subjects:20300101", 5000)
        client.set("{sekisho}:quota:p:requests_per_day:x:20300101", b"12:\x00\xff", px=5_000_000)
        client.rpush("{sekisho}:answer-events:m", *(f"{n}" for n in range(1000)))
        for number in range(1000):
            client.xadd("{sekisho}:audit", {"entry": f"{{{number}}}"}, id=f"{number + 1}-{number}")
        client.set("{sekisho}:new-in-a-later-release", "kept")
        client.set("{sekisho}:session:x", "passing")
        client.set("others:key", "not ours")
    await installation.run("keys", "create", "program")
    before, life = installation.everything(), ends(installation)
    await installation.backup()
    installation.wipe()
    await installation.restore()
    after = installation.everything()
    audit, trailing = b"{sekisho}:audit", after.pop(b"{sekisho}:audit")
    assert before.pop(audit) != trailing, "the restore itself is in the trail"
    assert set(after) == set(before) - {b"others:key"}
    for key in after:
        assert same(installation, before[key], after[key]), key
    assert ends(installation) == life
    with redis.Redis.from_url(installation.redis_url) as client:
        entries = client.xrange("{sekisho}:audit", count=1001)
        assert [entry for entry, _ in entries[:1000]] == [f"{n + 1}-{n}".encode() for n in range(1000)]
        assert not client.exists("{sekisho}:session:x")


def ends(installation: Installation) -> dict[bytes, int]:
    with redis.Redis.from_url(installation.redis_url) as client:
        return {key: client.pexpiretime(key) for key in client.scan_iter("{sekisho}:*") if client.pexpiretime(key) > 0}


def same(installation: Installation, first: bytes, second: bytes) -> bool:
    """DUMP of what is equal may differ in the order of its members."""
    with redis.Redis.from_url(installation.redis_url) as client:
        values = []
        for name, dumped in (("one", first), ("two", second)):
            client.restore(name, 0, dumped, replace=True)
            values.append(value_of(client, name))
            client.delete(name)
    return bool(values[0] == values[1])


def value_of(client: Any, name: str) -> Any:
    match client.type(name):
        case b"hash":
            return client.hgetall(name)
        case b"zset":
            return client.zrange(name, 0, -1, withscores=True)
        case b"list":
            return client.lrange(name, 0, -1)
        case _:
            return client.get(name)


async def test_what_is_there_is_deleted_only_if_that_was_asked_for(installation: Installation) -> None:
    await installation.run("keys", "create", "first")
    await installation.backup()
    await installation.run("keys", "create", "second")
    held = (installation.data / "server.key").read_bytes()
    assert "--replace deletes it" in await installation.refused("restore", str(installation.file))
    assert "second" in (await installation.run("keys", "list")).stdout
    (installation.data / "server.key").write_bytes(b"x" * 32)
    await installation.restore("--replace")
    assert (installation.data / "server.key").read_bytes() == held
    (aside,) = installation.data.glob("server.key.*")
    assert aside.read_bytes() == b"x" * 32
    listed = (await installation.run("keys", "list")).stdout
    assert "first" in listed
    assert "second" not in listed


async def test_another_server_key_is_not_overwritten_unasked(installation: Installation) -> None:
    await installation.run("keys", "create", "first")
    await installation.backup()
    installation.wipe()
    installation.data.mkdir()
    (installation.data / "server.key").write_bytes(b"x" * 32)
    assert "is another key than the backup's" in await installation.refused("restore", str(installation.file))
    assert installation.everything() == {}


def flipped(data: bytes) -> bytes:
    """One byte of the content another, with sums of gzip that fit."""
    content = bytearray(gzip.decompress(data))
    content[content.index(b"record")] ^= 1
    return gzip.compress(bytes(content))


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"no archive", flipped],
    ids=["cut", "other", "flipped"],
)
async def test_a_damaged_backup_changes_nothing(damage: Any, installation: Installation) -> None:
    await installation.run("keys", "create", "first")
    await installation.backup()
    installation.file.write_bytes(damage(installation.file.read_bytes()))
    before = installation.everything()
    assert "backup" in await installation.refused("restore", str(installation.file), "--replace")
    assert installation.everything() == before


async def test_a_backup_of_newer_data_is_refused(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "newest", lambda *_: 9)
    await installation.backup()
    monkeypatch.undo()
    monkeypatch.setenv("SEKISHO_REDIS_TIMEOUT", str(REDIS_TIMEOUT))
    assert "whose data is of version 9" in await installation.refused("restore", str(installation.file), "--replace")


async def test_a_restore_that_broke_off_is_told_until_it_is_done_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await installation.run("keys", "create", "first")
    await installation.backup()

    async def breaks(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(copying, "write", breaks)
    assert (await installation.run("restore", str(installation.file), "--replace")).exit_code != 0
    monkeypatch.undo()
    assert "begin it again: sekisho restore FILE --replace" in await installation.refused("keys", "list")
    await installation.restore("--replace")
    assert "first" in (await installation.run("keys", "list")).stdout


async def test_it_goes_through_pipes_as_what_encrypts_it_needs(installation: Installation) -> None:
    await installation.run("keys", "create", "first")
    written = await installation.run("backup", "-")
    installation.wipe()
    assert (await installation.run("restore", "-", stdin=written.stdout_bytes)).exit_code == 0
    assert "first" in (await installation.run("keys", "list")).stdout


async def test_a_backup_under_load_holds_what_was_there_before_it_began(
    installation: Installation, store: Store
) -> None:
    await installation.run("keys", "create", "first")
    names = [f"{{sekisho}}:quota:p:l:{number}" for number in range(2000)]
    await asyncio.gather(*(store.command("SET", name, "1") for name in names))

    async def load() -> None:
        number = 0
        while True:
            number += 1
            await store.command("SET", f"{{sekisho}}:quota:p:l:later{number}", "1")
            await store.command("INCRBY", names[number % 2000], "1")

    loading = asyncio.create_task(load())
    await installation.backup()
    loading.cancel()
    await asyncio.gather(loading, return_exceptions=True)
    installation.wipe()
    await installation.restore()
    values = await asyncio.gather(*(store.command("GET", name) for name in names))
    assert all(int(value) >= 1 for value in values)


async def test_it_goes_through_a_cluster_too(installation: Installation, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    process, at = start_valkey(tmp_path, "--cluster-enabled", "yes", "--port", str(port))
    try:
        client = redis.Redis.from_url(at)
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"))
        installation.redis_url = f"redis+cluster://127.0.0.1:{port}"
        await installation.run("keys", "create", "first")
        await installation.backup()
        client.flushall()
        await installation.restore()
        assert "first" in (await installation.run("keys", "list")).stdout
    finally:
        process.terminate()
        process.wait()


async def test_the_valkey_of_up_is_started_for_it_where_up_does_not_run(
    installation: Installation, tmp_path: Path
) -> None:
    await installation.run("keys", "create", "first")
    await installation.backup()
    here = ("--data-dir", str(tmp_path / "here"))
    for arguments in (("restore", str(installation.file)), ("backup", str(tmp_path / "again"))):
        result = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *here])
        assert result.exit_code == 0, (result.output, result.exception)
        assert "  key: 1" in result.stderr
    assert "no `sekisho up` runs" in str(CliRunner().invoke(cli, ["keys", "list", *here]).exception)


def test_an_archive_can_be_looked_into_with_common_tools(installation: Installation, tmp_path: Path) -> None:
    asyncio.run(installation.run("keys", "create", "first"))
    asyncio.run(installation.backup())
    shutil.unpack_archive(installation.file, tmp_path / "looked", "gztar", filter="data")
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "looked" / "sha256sums").read_text().splitlines())
    assert {"backup.json", "server.key", "redis/00000000"} == set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256((tmp_path / "looked" / name).read_bytes()).hexdigest() == digest
    head = json.loads((tmp_path / "looked" / "backup.json").read_text())
    assert (head["format"], head["schema"]) == (1, schema.newest())
