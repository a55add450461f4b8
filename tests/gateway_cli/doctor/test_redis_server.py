"""`sekisho doctor` on Redis: each fault with a real Valkey that has it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from gateway.cli.doctor import redis_server
from gateway.cli.findings import Finding
from gateway.settings import load
from gateway.store import keys, schema
from tests.gateway.conftest import start_valkey

Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*options: str) -> str:
        folder = tmp_path / f"valkey{len(started)}"
        folder.mkdir()
        process, url = start_valkey(folder, *options)
        started.append(process)
        return url

    yield begin
    for process in started:
        process.terminate()
        process.wait()


def found_at(url: str, folder: Path) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in redis_server.examine(load(redis_url=url), folder):
        found.setdefault(finding.subject, []).append(finding)
    return found


def verdicts(found: dict[str, list[Finding]]) -> set[str]:
    return {finding.verdict for findings in found.values() for finding in findings}


def test_one_that_keeps_everything_is_well_and_is_not_changed(start: Start, tmp_path: Path) -> None:
    url = start("--appendonly", "yes")
    found = found_at(url, tmp_path)
    assert verdicts(found) == {"ok"}, found
    assert found["Redis, what it keeps"][0].found == "an append-only file"
    assert redis.Redis.from_url(url).dbsize() == 0
    assert not (tmp_path / "server.key").exists()


def test_what_would_be_lost_is_told(start: Start, tmp_path: Path) -> None:
    (nothing,) = found_at(start("--appendonly", "no"), tmp_path)["Redis, what it keeps"]
    assert (nothing.verdict, "appendonly yes" in nothing.remedy) == ("fail", True)
    (snapshots,) = found_at(start("--save", "900 1"), tmp_path)["Redis, what it keeps"]
    assert (snapshots.verdict, "save 900 1" in snapshots.found) == ("warn", True)


def test_one_that_forgets_is_told(start: Start, tmp_path: Path) -> None:
    (found,) = found_at(start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), tmp_path)["Redis, memory"]
    assert (found.verdict, "allkeys-lru" in found.found, "noeviction" in found.remedy) == ("fail", True, True)
    (unlimited,) = found_at(start("--maxmemory-policy", "volatile-lru"), tmp_path)["Redis, memory"]
    assert unlimited.verdict == "warn"


def test_a_full_one_is_told(start: Start, tmp_path: Path) -> None:
    (found,) = found_at(start("--maxmemory", "1kb"), tmp_path)["Redis, memory"]
    assert (found.verdict, found.remedy) == ("fail", "raise maxmemory")


def test_a_failed_snapshot_is_told(start: Start, tmp_path: Path) -> None:
    url = start("--appendonly", "yes", "--dbfilename", "dump.rdb")
    with redis.Redis.from_url(url) as client:
        client.set("x", "y")
        (tmp_path / "valkey0" / "dump.rdb").mkdir()
        with pytest.raises(redis.ResponseError):
            client.save()
        client.bgsave()
        while client.info()["rdb_bgsave_in_progress"]:
            pass
    assert [finding.verdict for finding in found_at(url, tmp_path)["Redis, what it keeps"]] == ["ok", "fail"]


def test_a_replica_is_told(start: Start, tmp_path: Path) -> None:
    (found,) = found_at(start("--replicaof", "127.0.0.1 1", "--appendonly", "yes"), tmp_path)["Redis"]
    assert (found.verdict, "is a replica" in found.found) == ("fail", True)


def test_one_that_does_not_answer_is_told_without_its_password(tmp_path: Path) -> None:
    (found,) = found_at("redis://:hunter2@127.0.0.1:1", tmp_path)["Redis"]
    assert found.verdict == "fail"
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(("version", "remedy"), [(7, "newer one"), (schema.RESTORING, "sekisho restore")])
def test_data_that_this_release_cannot_read_is_told(version: int, remedy: str, start: Start, tmp_path: Path) -> None:
    url = start("--appendonly", "yes")
    redis.Redis.from_url(url).hset(keys.SCHEMA, mapping={"version": version, "cursor": ""})
    (found,) = found_at(url, tmp_path)["Redis, data"]
    assert (found.verdict, remedy in found.remedy) == ("fail", True)


def test_a_server_key_of_another_installation_is_told(start: Start, tmp_path: Path) -> None:
    url = start("--appendonly", "yes")
    redis.Redis.from_url(url).set(keys.SERVER_KEY, "another")
    (tmp_path / "server.key").write_bytes(b"k" * 32)
    assert found_at(url, tmp_path)["server.key"][0].verdict == "fail"


async def test_a_clock_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ahead:
        async def command(self, *_: str) -> list[bytes]:
            return [str(int(redis_server.time.time()) + 100).encode(), b"0"]

    found = await redis_server._clock(Ahead())  # type: ignore[arg-type]
    assert (found.verdict, "ahead of" in found.found) == ("warn", True)
    assert round(float(found.found.split()[0])) in (99, 100)


def test_where_none_is_named_up_starts_one(tmp_path: Path) -> None:
    (found,) = redis_server.examine(load(), tmp_path)
    assert (found.verdict, "`sekisho up` starts" in found.found) == ("ok", True)
