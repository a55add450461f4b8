"""Gateways die at any moment, and every line has one result: what has one is never asked again."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.batches import run
from gateway.batches.book import Book
from gateway.batches.files import Files
from gateway.batches.lease import Lease
from gateway.batches.records import Batch, File, new_id
from gateway.batches.results import Results, Taken, encode
from gateway.batches.run import Answer, Parts
from gateway.batches.runner import Runner
from gateway.errors import Forbidden, StoreAway
from gateway.scope import Principal
from gateway.store.directory import Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from gateway.telemetry.metrics import Metrics
from tests.gateway.batches.conftest import URL, jsonl, request
from tests.gateway.conftest import eventually

LEASE = 3.0
OK = {"choices": []}
Ask = Callable[[Principal, str, bytes], Awaitable[Answer]]


async def principal_of(batch: Batch) -> Principal:
    return Principal(batch.subject, "", "user", "default")


async def says_ok(principal: Principal, path: str, body: bytes) -> Answer:
    await asyncio.sleep(random.random() / 500)
    return Answer(200, None, "r", OK)


class World:
    """A folder and a Redis that outlive the gateways."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.directory = Directory(Records(store))
        self.files = Files(store, self.directory, folder, 10**9)
        self.book = Book(store, self.directory)
        self.runners: list[Runner] = []

    def gateway(self, ask: Ask, principal: Any = principal_of, parallel: int = 4) -> Runner:
        parts = Parts(self.directory, self.files, Metrics(lambda _: True), ask, principal, parallel, 10_000)
        runner = Runner(self.store, self.book, parts, LEASE)
        runner.start()
        self.runners.append(runner)
        return runner

    async def begin(self, lines: list[Any], **changes: Any) -> Batch:
        now = int(time.time())
        file_id = new_id("file")
        self.files.prepare()
        self.files.path(file_id).write_bytes(jsonl(*lines))
        await self.files.keep(
            File(id=file_id, subject="anna", filename="in", purpose="batch", bytes=1, expires=now + 9999)
        )
        batch = Batch(
            id=new_id("batch"),
            created=now,
            subject="anna",
            endpoint=URL,
            input_file=file_id,
            output_file=new_id("file"),
            error_file=new_id("file"),
            completion_window="24h",
            expires=now + 86_400,
            output_life=3600,
        )
        batch = replace(batch, **changes)
        await self.book.begin(batch)
        return batch

    async def now(self, batch: Batch) -> Batch:
        return await self.directory.find(Batch, batch.id)

    async def ended(self, batch: Batch, seconds: float = 15) -> Batch:
        deadline = time.monotonic() + seconds
        while not (found := await self.now(batch)).has_ended:
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.01)
        return found

    def results(self, batch: Batch) -> list[dict[str, Any]]:
        """Of both files. What stands behind the last end of a line is no result."""
        paths = [self.files.path(file_id) for file_id in (batch.output_file, batch.error_file)]
        data = [path.read_bytes() for path in paths if path.exists()]
        return [msgspec.json.decode(line) for each in data for line in each.split(b"\n")[:-1]]


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[World]:
    world = World(store, tmp_path / "files")
    yield world
    for runner in world.runners:
        await runner.aclose()


class Engine:
    """Answers some lines well and some badly, and now and then asks for patience; keeps count of what it was asked."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    async def ask(self, principal: Principal, path: str, body: bytes) -> Answer:
        name = msgspec.json.decode(body)["messages"][0]["content"]
        self.asked[name] += 1
        await asyncio.sleep(self.random.random() / 200)
        self.answered[name] += 1
        bad = int(name.removeprefix("r")) % 3 == 0
        return Answer(400, None, name, {"error": {"code": "bad"}}) if bad else Answer(200, None, name, OK)


@pytest.mark.parametrize("seed", range(6))
async def test_whenever_a_gateway_dies_each_line_has_one_result_and_what_has_one_is_not_asked_again(
    world: World, seed: int
) -> None:
    dice = random.Random(seed)
    names = [f"r{number}" for number in range(dice.randint(1, 60))]
    batch = await world.begin([request(name, name) for name in names])
    for _ in range(4):
        engine = Engine(seed)
        recorded = {result["custom_id"] for result in world.results(batch)}
        runner = world.gateway(engine.ask, parallel=dice.randint(1, 8))
        await asyncio.sleep(dice.random() / 10)
        await runner.aclose()
        assert not recorded & set(engine.asked)
        if not (await world.now(batch)).has_ended:
            tear(world, batch, dice)
    engine = Engine(seed)
    recorded = {result["custom_id"] for result in world.results(batch)}
    world.gateway(engine.ask)
    found = await world.ended(batch)
    assert not recorded & set(engine.asked)
    assert found.status == "completed"
    results = world.results(batch)
    assert sorted(result["custom_id"] for result in results) == sorted(names)
    failed = sum(int(name[1:]) % 3 == 0 for name in names)
    assert (found.counts.total, found.counts.completed, found.counts.failed) == (
        len(names),
        len(names) - failed,
        failed,
    )
    assert found.has_errors == bool(failed)


def tear(world: World, batch: Batch, dice: random.Random) -> None:
    """As a crash of the machine does: the last that was written is not there, or not whole."""
    for file_id in (batch.output_file, batch.error_file):
        path = world.files.path(file_id)
        if path.exists():
            data = path.read_bytes()
            path.write_bytes(data[: max(0, len(data) - dice.choice([0, 1, dice.randint(0, 300)]))])


async def test_two_gateways_do_not_run_the_same_batch(world: World) -> None:
    asked: Counter[bytes] = Counter()

    async def ask(principal: Principal, path: str, body: bytes) -> Answer:
        asked[body] += 1
        return await says_ok(principal, path, body)

    runners = [world.gateway(ask) for _ in range(3)]
    batches = [await world.begin([request(f"{name}-{number}", f"{name}{number}") for number in range(20)])
               for name in "abc"]  # fmt: skip
    for runner in runners:
        runner.wake()
    for batch in batches:
        assert (await world.ended(batch)).counts.completed == 20
    assert set(asked.values()) == {1}


async def test_a_gateway_that_lost_its_lease_stops_and_touches_nothing(world: World) -> None:
    ends = asyncio.Event()

    async def hangs(principal: Principal, path: str, body: bytes) -> Answer:
        try:
            await asyncio.sleep(60)
        finally:
            ends.set()
        raise AssertionError

    runner = world.gateway(hangs)
    batch = await world.begin([request("a")])
    await eventually(lambda: runner.running == 1)
    await world.store.command("SET", f"{{sekisho}}:batch-lease:{batch.id}", "another")
    await asyncio.wait_for(ends.wait(), 5)
    await eventually(lambda: runner.running == 0)
    assert (await world.now(batch)).status == "in_progress"
    assert world.files.path(batch.output_file).exists()
    assert await world.store.command("GET", f"{{sekisho}}:batch-lease:{batch.id}") == b"another"


async def test_results_that_another_process_still_writes_are_left_to_it(world: World, tmp_path: Path) -> None:
    first, second = Results(), Results()
    first.open(tmp_path / "out", tmp_path / "err")
    with pytest.raises(Taken):
        second.open(tmp_path / "out", tmp_path / "err")
    await second.aclose()
    await first.add(encode("a", OK, None, ok=True))
    await first.aclose()
    third = Results()
    third.open(tmp_path / "out", tmp_path / "err")
    assert third.done == {"a"}
    await third.aclose()


async def test_a_result_whose_wait_was_given_up_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: time.sleep(0.05))
    results = Results()
    results.open(tmp_path / "out", tmp_path / "err")
    tasks = [asyncio.create_task(results.add(encode(f"r{n}", OK, None, ok=n % 2 == 0))) for n in range(20)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await results.settled()
    written = (tmp_path / "out").read_bytes().splitlines() + (tmp_path / "err").read_bytes().splitlines()
    assert len(written) == len(results.done) == 20
    assert (results.completed, results.failed) == (10, 10)
    await results.aclose()


async def test_what_is_written_together_fails_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    results = Results()
    results.open(tmp_path / "out", tmp_path / "err")
    told = await asyncio.gather(
        *(results.add(encode(name, OK, None, ok=True)) for name in "abc"), return_exceptions=True
    )
    assert [type(one) for one in told] == [OSError] * 3
    assert not results.done
    assert (tmp_path / "out").read_bytes() == b""
    await results.aclose()


def full(file: int) -> None:
    raise OSError(28, "No space left on device")


async def test_a_disk_that_takes_no_results_fails_the_batch_and_loses_none_that_it_took(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, fsync = 0, os.fsync

    def fills(file: int) -> None:
        nonlocal written
        written += 1
        (full if written > 3 else fsync)(file)

    monkeypatch.setattr(os, "fsync", fills)
    world.gateway(says_ok, parallel=1)
    batch = await world.ended(await world.begin([request(f"r{number}") for number in range(10)]))
    assert (batch.status, batch.counts.completed) == ("failed", 3)
    assert [fault.code for fault in batch.faults] == ["storage_failed"]
    assert len(world.results(batch)) == 3


@pytest.mark.parametrize(
    ("answer", "attempts", "pause"),
    [
        (Answer(503, 7, "", {}), 50, 7),
        (Answer(503, None, "", {}), 1, 5),
        (Answer(429, 0, "", {"error": {"code": "rate_limit_exceeded"}}), 1, 5),
        (Answer(429, 5, "", {"error": {"code": "queue_full"}}), 9, 5),
        (Answer(429, 5, "", {"error": {"code": "insufficient_quota"}}), 1, None),
        (Answer(502, None, "", None), 2, 5),
        (Answer(502, None, "", None), 3, None),
        (Answer(504, None, "", {}), 1, None),
        (Answer(500, None, "", {}), 1, None),
        (Answer(404, None, "", {}), 1, None),
        (Answer(200, None, "", {}), 1, None),
    ],
)
def test_only_what_may_come_right_by_itself_is_waited_out(answer: Answer, attempts: int, pause: float | None) -> None:
    assert run._pause(answer, attempts) == pause


async def test_a_limit_is_waited_out_and_then_the_line_has_its_answer(world: World) -> None:
    answers = [Answer(429, 1, "", {"error": {"code": "rate_limit_exceeded"}}), Answer(200, None, "r", OK)]

    async def ask(principal: Principal, path: str, body: bytes) -> Answer:
        return answers.pop(0)

    world.gateway(ask)
    batch = await world.ended(await world.begin([request("a")]))
    assert (batch.counts.completed, batch.counts.failed) == (1, 0)


async def test_whoever_may_not_ask_any_more_fails_the_batch_and_no_line_is_asked(world: World) -> None:
    async def gone(batch: Batch) -> Principal:
        raise Forbidden("Your account is disabled.", code="account_disabled")

    engine = Engine(0)
    world.gateway(engine.ask, gone)
    batch = await world.ended(await world.begin([request("a")]))
    assert batch.status == "failed"
    assert [(fault.code, fault.message) for fault in batch.faults] == [
        ("account_disabled", "Your account is disabled.")
    ]
    assert not engine.asked


async def test_while_nobody_can_say_who_asks_the_batch_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_RETRY_SECONDS", 0.05)
    away = [StoreAway("away"), StoreAway("away")]

    async def sometimes(batch: Batch) -> Principal:
        if away:
            raise away.pop()
        return await principal_of(batch)

    world.gateway(says_ok, sometimes)
    assert (await world.ended(await world.begin([request("a")]))).status == "completed"


async def test_a_cancelled_batch_that_nobody_ran_is_ended_by_the_next_gateway(world: World) -> None:
    engine = Engine(0)
    batch = await world.begin([request("a")])
    await world.book.cancel(batch)
    world.gateway(engine.ask)
    assert (await world.ended(batch)).status == "cancelled"
    assert not engine.asked


async def test_a_gateway_that_dies_at_the_very_end_leaves_it_to_the_next(world: World) -> None:
    """Between the last result and the word that the batch has ended."""
    batch = await world.begin([request("a")])
    world.gateway(says_ok)
    ended = await world.ended(batch)
    await world.runners[0].aclose()
    await world.directory.change(None, Batch, batch.id, lambda before: replace(before, status="finalizing"))
    await world.store.command("ZADD", "{sekisho}:open-batches", 0, batch.id)
    engine = Engine(0)
    world.gateway(engine.ask)
    again = await world.ended(batch)
    assert (again.status, again.counts, again.has_output) == (ended.status, ended.counts, True)
    assert not engine.asked


async def test_one_person_with_many_batches_leaves_room_for_others(world: World) -> None:
    going = asyncio.Event()

    async def hangs(principal: Principal, path: str, body: bytes) -> Answer:
        if principal.subject == "anna":
            await going.wait()
        return Answer(200, None, "r", OK)

    runner = world.gateway(hangs)
    for _ in range(6):
        await world.begin([request("a")])
    await eventually(lambda: runner.running == 4)
    ben = await world.begin([request("a")], subject="ben")
    assert (await world.ended(ben)).status == "completed"
    assert runner.running == 4
    going.set()


async def test_ended_batches_are_forgotten_after_thirty_days(world: World) -> None:
    world.gateway(says_ok)
    batch = await world.ended(await world.begin([request("a")]))
    await world.book.sweep(time.time() + 29 * 86_400)
    assert [one.id for one in await world.book.listed("anna")] == [batch.id]
    await world.book.sweep(time.time() + 31 * 86_400)
    assert await world.book.listed("anna") == []


async def test_a_lease_is_over_once_its_time_is_whatever_redis_says(store: Store) -> None:
    first, second = (Lease(store, "b", seconds) for seconds in (0.2, 5))
    assert first.is_over
    assert await first.take()
    assert not first.is_over
    assert not await second.take()
    await second.release()
    assert await first.take()
    await asyncio.sleep(0.25)
    assert first.is_over
    assert await second.take()
    assert not await first.take()
