"""One line before several backends: where a turn is given, whom nobody holds up, and what becomes of the lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from gateway.errors import QueueTimeout
from gateway.queueing.ask import CLASSES, Ask, Choice, Lost, Room, State
from gateway.store import keys
from tests.gateway.conftest import eventually
from tests.gateway.queueing.conftest import Line, MakeLine, OpenLine, wanted


def rooms(*names: str, capacity: int = 1, kv_tokens: int = 0, each_seconds: float = 0.0) -> dict[str, Room]:
    return {name: Room(capacity, kv_tokens, each_seconds) for name in names}


def costing(request_id: str, **seconds: float) -> Ask:
    return wanted(request_id, choices=tuple(Choice(name, value) for name, value in seconds.items()))


async def moved(line: Line, ask: Ask, served: float = 0) -> State:
    call = line.permits.move(ask, served)
    first, second = await line.store.run_all(call, call)
    assert first[0] == second[0]
    return State(second[0])


class Stored(msgspec.Struct):
    asked: float


def asked_at(line: Line, request_id: str) -> float:
    packed = line.redis.hget("{sekisho}:grants:line", request_id)
    assert isinstance(packed, bytes)
    return msgspec.msgpack.decode(packed, type=Stored).asked


async def test_a_turn_is_given_where_the_first_token_is_soonest(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", capacity=8, each_seconds=0.1))
    went = [(await line.ask(costing(f"r{number}", a=0.0, b=0.25))).backend for number in range(6)]
    assert "".join(went) == "aaabab"


async def test_equal_backends_share_evenly_and_none_is_always_the_first(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", "c", "d", capacity=10))
    went = Counter([(await line.ask(wanted(f"r{number}", at="abcd"))).backend for number in range(24)])
    assert went == {"a": 6, "b": 6, "c": 6, "d": 6}
    for number in range(24):
        await line.release(f"r{number}")
    first = set()
    for number in range(100, 200):
        first.add((await line.ask(wanted(f"r{number}", at="abcd"))).backend)
        await line.release(f"r{number}")
    assert len(first) > 1


async def test_the_larger_of_two_equals_takes_the_more(make_line: MakeLine) -> None:
    line = make_line(rooms={"a": Room(2), "b": Room(6)})
    went = Counter([(await line.ask(wanted(f"r{number}", at="ab"))).backend for number in range(4)])
    assert went == {"a": 1, "b": 3}


async def test_nobody_is_held_up_by_those_who_want_another_backend(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"), wait_seconds=10)
    for number in range(100):
        await line.ask(wanted(f"a{number}", klass=CLASSES[number % 3], at="a"))
    line.set_state(busy=4_000, done=4)
    assert (await line.ask(wanted("b0", at="b"))).state is State.GRANTED  # at once
    line.set_state(busy=4_000, done=4)
    waits = [await line.ask(wanted(f"b{number}", at="b")) for number in (1, 2)]
    assert [(answer.state, answer.place) for answer in waits] == [(State.WAITING, 1), (State.WAITING, 2)]
    assert (await line.ask(wanted("late", at="a"))).state is State.LATE
    await line.release("b0")
    assert line.running() == {"a0", "b1"}
    await line.release("a0")
    await line.release("b1")
    assert "b2" in line.running()


async def test_ones_own_requests_to_another_backend_hold_nothing_up(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"))
    for name, at in (("a0", "a"), ("b0", "b"), ("a1", "a"), ("a2", "a"), ("b1", "b")):
        await line.ask(wanted(name, "one", at=at))
    await line.release("b0")
    assert line.running() == {"a0", "b1"}


async def test_a_large_request_keeps_its_backends_from_those_behind_it_and_no_others(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", capacity=9, kv_tokens=1000))
    for name, at in (("r0", "a"), ("r1", "b")):
        await line.ask(wanted(name, at=at, kv_tokens=600))
    assert (await line.ask(wanted("large", at="a", kv_tokens=700))).state is State.WAITING
    assert (await line.ask(wanted("small", at="a", kv_tokens=1))).state is State.WAITING
    assert (await line.ask(wanted("other", at="ab", kv_tokens=1))).backend == "b"
    await line.release("r1")
    assert line.running() == {"r0", "other"}
    await line.release("r0")
    assert line.at("a") == (2, 701)


async def test_a_drained_backend_takes_nobody_new_and_who_runs_there_finishes(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", capacity=2))
    await line.ask(wanted("r0", at="a"))
    line.permits.rooms = {"a": Room(0), "b": Room(1)}
    assert (await line.ask(wanted("r1", at="ab"))).backend == "b"
    assert (await line.ask(wanted("r2", at="a"))).state is State.WAITING  # it may come back
    await line.release("r1")
    assert line.running() == {"r0"}
    line.permits.rooms = rooms("a", "b", capacity=2)
    await line.release("r1")
    assert line.running() == {"r0", "r2"}


async def test_whose_choices_are_all_gone_is_told_at_once(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a"))
    assert (await line.ask(wanted("r0", at="ba"))).backend == "a"  # what is not known is passed over
    with pytest.raises(Lost):
        await line.turn(wanted("r1", at="b"))
    assert line.members("line") == []


async def test_who_waits_for_a_backend_that_goes_hears_of_it_and_keeps_its_place(open_line: OpenLine) -> None:
    line = await open_line(rooms=rooms("a", "b"), heartbeat_seconds=0.1)
    await line.turn(wanted("r0", at="a"))
    await line.turn(wanted("r1", at="b"))
    first = asyncio.create_task(line.turn(wanted("first", "one", at="b")))
    await eventually(lambda: line.members("beats") == ["first"])
    second = asyncio.create_task(line.turn(wanted("second", "one", at="a")))
    await eventually(lambda: len(line.members("beats")) == 2)
    line.permits.rooms = rooms("a")
    with pytest.raises(Lost):
        await asyncio.wait_for(first, 5)
    again = asyncio.create_task(line.turn(wanted("first", "one", at="a")))
    await eventually(lambda: {member.split("\0")[1] for member in line.members("line")} == {"a"})
    await line.release("r0")
    assert (await again).backend == "a"
    assert not second.done()
    await line.release("first")
    await second


async def test_a_moved_request_goes_before_all_who_wait_where_there_is_room(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"))
    for name in ("r0", "r1", "r2"):
        await line.ask(wanted(name, at="a"))
    assert await moved(line, wanted("r0", at="b")) is State.GRANTED
    assert (line.running(), line.at("a"), line.at("b")) == ({"r0", "r1"}, (1, 0), (1, 0))
    # And at its old backend, should that be the only one.
    assert await moved(line, wanted("r1", at="a")) is State.GRANTED
    assert line.running() == {"r0", "r1"}


async def test_a_moved_request_that_finds_no_room_is_the_next(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"))
    for name, at in (("r0", "a"), ("r1", "b"), ("r2", "ab"), ("r3", "a")):
        await line.ask(wanted(name, name[0], at=at))
    line.permits.rooms = {"a": Room(0), "b": Room(1)}
    came = asked_at(line, "r0")
    await asyncio.sleep(0.002)
    assert await moved(line, wanted("r0", "r", at="ab")) is State.WAITING
    assert len(line.members("line")) == 3
    await line.release("r1")
    assert line.running() == {"r0"}
    assert asked_at(line, "r0") == came
    for name in ("r0", "r2", "r3"):
        await line.release(name)
    assert line.is_empty()


async def test_a_moved_request_is_charged_for_what_it_had_and_for_what_it_is_to_have(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"), half_life_seconds=1e9)
    await line.ask(wanted("r0", "one", at="a", tokens=100))
    await line.ask(wanted("waits", "other", at="b", tokens=1))
    assert await moved(line, wanted("r0", "one", at="a", tokens=60), served=40) is State.GRANTED
    assert line.service()["2one"] == pytest.approx(100)
    await line.release("r0", 30)
    assert line.service()["2one"] == pytest.approx(70)


async def test_a_move_again_is_another_move(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", "c"))
    await line.ask(wanted("r0", at="a"))
    for backend in "bcab":
        assert await moved(line, wanted("r0", at=backend)) is State.GRANTED
        assert line.at(backend) == (1, 0)
    await line.release("r0")
    assert line.is_empty()


async def test_a_turn_that_ran_out_may_be_moved_all_the_same(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a"))
    await line.ask(wanted("r0"))
    line.kill("r0")
    assert (await line.ask(wanted("r1"))).state is State.GRANTED
    assert await moved(line, wanted("r0")) is State.WAITING  # somebody else has it
    assert line.running() == {"r1"}


async def test_where_a_moved_one_could_go_nowhere_it_says_so_and_has_nothing(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"))
    await line.ask(wanted("r0", at="a"))
    await line.ask(wanted("r1", at="b"))
    await line.ask(wanted("r2", "r2", at="b"))
    assert await moved(line, wanted("r0", at="x")) is State.LOST
    assert line.running() == {"r1"}
    assert (await line.ask(wanted("r0", at="b"))).state is State.WAITING
    await line.release("r1")
    assert line.running() == {"r0"}  # before one who came first: it had its turn
    for name in ("r0", "r2"):
        await line.release(name)
    assert line.is_empty()


async def test_without_its_reservation_nothing_is_moved(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"))
    ask = wanted("r0", at="a", reserved=True)
    line.redis.set(keys.reservation("r0"), "x")
    await line.ask(ask)
    line.redis.delete(keys.reservation("r0"))
    with pytest.raises(QueueTimeout, match="reservation"):
        await line.permits.wait(ask, await line.store.run(line.permits.move(replace(ask, choices=()), 0)))
    assert line.is_empty()


async def test_the_time_told_counts_only_backends_that_take_somebody(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", "c"))
    for name in "abc":
        await line.ask(wanted(name, at=name))
    line.set_state(busy=40_000, done=10)
    assert (await line.ask(wanted("r0", at="abc"))).eta_ms == pytest.approx(4000 / 3, rel=0.01)
    line.permits.rooms = {"a": Room(1), "b": Room(0)}
    assert (await line.ask(wanted("r0", at="abc"))).eta_ms == pytest.approx(4000, rel=0.01)
    line.permits.rooms = {"a": Room(0), "b": Room(0)}
    assert (await line.ask(wanted("r0", at="abc"))).eta_ms == -1


async def test_each_backend_has_a_speed_of_its_own(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b", capacity=4))
    for name, at in (("r0", "a"), ("r1", "a"), ("r2", "b")):
        await line.ask(wanted(name, at=at))
    await asyncio.sleep(0.02)
    await line.release("r0", pace=0.05)
    await line.release("r2", pace=0.01)
    line.permits.renewed(await line.store.run(line.permits.renew()))
    speeds = line.permits.speeds
    assert [(speeds[name].n, speeds[name].y) for name in "ab"] == [(1, 0.05), (1, 0.01)]
    assert speeds["b"].x == 1
    assert 1 < speeds["a"].x <= 2


async def test_sums_that_were_lost_are_counted_anew(make_line: MakeLine) -> None:
    line = make_line(rooms=rooms("a", "b"))
    for name, at in (("r0", "a"), ("r1", "b"), ("r2", "a"), ("r3", "ab")):
        await line.ask(wanted(name, at=at, kv_tokens=5))
    line.redis.delete("{sekisho}:queue:line")
    assert (await line.ask(wanted("r4", at="b"))).state is State.WAITING
    assert (line.at("a"), line.at("b")) == ((1, 5), (1, 5))
    for name in ("r0", "r1", "r2", "r3", "r4"):
        await line.release(name)
    assert line.is_empty()
