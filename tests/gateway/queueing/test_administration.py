"""Looking at the line disturbs nobody; moving somebody in it breaks none of its rules."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import Conflict, NotFound
from gateway.queueing import administration
from gateway.queueing.administration import LineShown
from gateway.queueing.ask import Room, State
from gateway.queueing.scripts import RECLASS, names
from gateway.store.directory import Actor, Directory
from gateway.store.records import Records
from tests.gateway.queueing.conftest import Line, MakeLine, wanted

ACTOR = Actor("tests", "tests", "cli", "here")


async def looked(line: Line, limit: int = 1000, subject: str = "") -> LineShown:
    await line.store.run(line.permits.tell(["m"]))
    (found,) = (await administration.look(line.store, Directory(Records(line.store)), limit, subject)).lines
    return found


async def move(line: Line, request_id: str, klass: Any) -> Any:
    await line.store.run(line.permits.tell(["m"]))
    directory = Directory(Records(line.store))
    return await administration.change_class(line.store, directory, ACTOR, request_id, klass)


async def test_each_backend_is_shown_and_one_that_is_gone_as_long_as_somebody_runs_there(make_line: MakeLine) -> None:
    line = make_line(rooms={"a": Room(1, 500), "b": Room(2)})
    await line.ask(wanted("r0", at="a", kv_tokens=70))
    await line.ask(wanted("r1", at="b", kv_tokens=30))
    line.permits.rooms = {"a": Room(1, 500)}
    shown = [
        (one.name, one.capacity, one.running, one.kv_tokens, one.kv_tokens_in_use)
        for one in (await looked(line)).backends
    ]
    assert shown == [("a", 1, 1, 500, 70), ("b", 0, 1, None, 30)]
    await line.release("r1")
    assert [one.name for one in (await looked(line)).backends] == ["a"]


async def test_everybody_in_a_long_line_has_a_place(make_line: MakeLine) -> None:
    line = make_line()
    for number in range(51):
        await line.ask(wanted(f"r{number:02}", f"s{number % 7}", ("interactive", "api", "batch")[number % 3]))
    found = await looked(line)
    assert [one.id for one in found.running] == ["r00"]
    assert len(found.waiting) == sum(counts.waiting for counts in found.classes.values()) == 50
    assert [one.place for one in found.waiting] == sorted(one.place or 0 for one in found.waiting)
    assert found.waiting[0].place == 1
    assert {one.id for one in (await looked(line, subject="s3")).waiting} == {f"r{n:02}" for n in range(3, 51, 7)}
    few = await looked(line, limit=5)
    assert few.waiting == found.waiting[:5]
    assert few.has_more


async def test_the_first_in_the_list_are_the_first_to_run(make_line: MakeLine) -> None:
    line = make_line()
    for number in range(12):
        await line.ask(wanted(f"r{number}", klass=("api", "batch")[number % 2]))
    for _ in range(11):
        found = await looked(line)
        await line.release(found.running[0].id)
        assert line.running() == {found.waiting[0].id}


async def test_who_is_looked_at_is_not_taken_to_live(make_line: MakeLine) -> None:
    line = make_line()
    for name in ("runs", "dead", "lives"):
        await line.ask(wanted(name))
    line.kill("runs", "dead")
    assert (await looked(line)).running == []
    assert (await line.ask(wanted("lives"))).state is State.GRANTED
    found = await looked(line)
    assert [one.id for one in found.running] == ["lives"]
    assert found.waiting == []


async def test_a_moved_request_takes_the_rules_of_its_new_class(make_line: MakeLine) -> None:
    line = make_line()
    await line.ask(wanted("runs"))
    for name in ("a1", "a2"):
        await line.ask(wanted(name, "a", "interactive"))
    await line.ask(wanted("late", "b", "batch"))
    before = {one.id: one for one in (await looked(line)).waiting}
    moved = await move(line, "late", "interactive")
    assert (moved.klass, moved.waiting_since) == ("interactive", before["late"].waiting_since)
    # Its subject has had nothing, as the other; in between the other's two.
    assert [one.id for one in (await looked(line)).waiting] == ["a1", "late", "a2"]
    await move(line, "a1", "batch")
    assert {one.id: one.klass for one in (await looked(line)).waiting} == {
        "a1": "batch",
        "a2": "interactive",
        "late": "interactive",
    }
    for _ in range(4):
        (running,) = line.running()
        await line.release(running)
    assert line.is_empty()


async def test_one_that_was_put_into_another_class_stays_there_when_its_turn_moves(make_line: MakeLine) -> None:
    line = make_line()
    await line.ask(wanted("runs"))
    await line.ask(wanted("waits"))
    await move(line, "waits", "batch")
    await line.release("runs")
    await line.store.run(line.permits.move(wanted("waits"), 0))
    (running,) = (await looked(line)).running
    assert (running.id, running.klass, running.line, running.backend) == ("waits", "batch", "line", "a")


async def test_a_move_that_is_sent_twice_is_one(make_line: MakeLine) -> None:
    line = make_line()
    await line.ask(wanted("runs"))
    await line.ask(wanted("waits", klass="batch"))
    await line.store.run(line.permits.tell(["m"]))
    rules = line.permits.acquire(wanted("x")).arguments[0]
    call = RECLASS.call(names("line"), rules, "waits", 1)
    assert [await line.store.run(call) for _ in range(2)] == [3, 1]
    assert len(line.members("line")) == 1
    await line.release("waits")
    await line.release("runs")
    assert line.is_empty()


async def test_only_who_waits_is_moved(make_line: MakeLine) -> None:
    line = make_line()
    await line.ask(wanted("runs"))
    with pytest.raises(Conflict):
        await move(line, "runs", "batch")
    with pytest.raises(NotFound):
        await move(line, "nobody", "batch")
