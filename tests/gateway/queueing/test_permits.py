"""Turns and the waiting line: bounds, hand-over, being told, and what happens to those who die."""

from __future__ import annotations

import asyncio
import time

import pytest

from backends.capacity import wait_seconds
from gateway.errors import QueueFull, QueueTimeout, StoreAway
from gateway.queueing.ask import Room, State
from gateway.store import keys
from gateway.store.scripts import Call
from tests.gateway.conftest import eventually
from tests.gateway.queueing.conftest import MakeLine, OpenLine, wanted


async def test_a_free_turn_is_given_at_once(open_line: OpenLine) -> None:
    line = await open_line(capacity=2)
    turn = await line.turn(wanted("a"))
    assert not turn.waited
    assert abs(turn.granted_ms / 1000 - time.time()) < 5
    assert line.permits.held == 1


async def test_one_subject_has_its_turns_in_the_order_of_arrival(open_line: OpenLine) -> None:
    line = await open_line(capacity=1)
    await line.turn(wanted("first", "one"))
    order: list[str] = []

    async def request(name: str) -> None:
        await line.turn(wanted(name, "one"))
        order.append(name)
        await line.release(name)

    names = [f"r{i}" for i in range(15)]
    tasks = []
    for number, name in enumerate(names, 1):
        tasks.append(asyncio.create_task(request(name)))
        await eventually(lambda number=number: len(line.members("line")) == number)
    await line.release("first")
    await asyncio.gather(*tasks)
    assert order == names


async def test_no_more_than_the_capacity_ever_run(open_line: OpenLine) -> None:
    line = await open_line(capacity=3)
    running, most = 0, 0

    async def request(name: str) -> None:
        nonlocal running, most
        await line.turn(wanted(name, f"s{int(name) % 4}"))
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        await line.release(name)

    await asyncio.gather(*(request(str(i)) for i in range(40)))
    assert most == 3
    assert line.is_empty()


async def test_a_freed_turn_is_taken_by_the_message_not_by_the_heartbeat(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=30)
    await line.turn(wanted("a"))
    for before, after in (("a", "b"), ("b", "c"), ("c", "d")):
        waiting = asyncio.create_task(line.turn(wanted(after)))
        await eventually(lambda after=after: line.members("beats") == [after])
        await line.release(before)
        async with asyncio.timeout(5):
            await waiting


async def test_two_processes_share_one_line(open_line: OpenLine) -> None:
    one, other = await open_line(capacity=1), await open_line(capacity=1)
    await one.turn(wanted("a"))
    waiting = asyncio.create_task(other.turn(wanted("b")))
    await eventually(lambda: other.members("beats") == ["b"])
    assert not waiting.done()
    await one.release("a")
    assert (await waiting).waited


async def test_past_its_bound_the_line_refuses(make_line: MakeLine) -> None:
    line = make_line(capacity=2, longest_line=3)
    states = [(await line.ask(wanted(name))).state for name in "abcdef"]
    assert states == [State.GRANTED] * 2 + [State.WAITING] * 3 + [State.FULL]
    with pytest.raises(QueueFull, match="3 requests are waiting") as caught:
        await line.turn(wanted("g"))
    assert caught.value.retry_after
    assert line.members("line") != []
    for name in "abcdefg":
        await line.release(name)
    assert line.is_empty()


async def test_a_class_has_a_bound_of_its_own(make_line: MakeLine) -> None:
    line = make_line(capacity=1, class_line=1)
    await line.ask(wanted("a"))
    assert (await line.ask(wanted("b", klass="batch"))).state is State.WAITING
    assert (await line.ask(wanted("c", klass="batch"))).state is State.FULL
    assert (await line.ask(wanted("d", klass="interactive"))).state is State.WAITING


async def test_one_subject_alone_does_not_fill_the_line(make_line: MakeLine) -> None:
    line = make_line(capacity=1, longest_line=10)
    states = [(await line.ask(wanted(f"g{i}", "greedy"))).state for i in range(12)]
    assert states.count(State.WAITING) == 5
    assert [(await line.ask(wanted(f"o{i}"))).state for i in range(6)] == [State.WAITING] * 5 + [State.FULL]


async def test_waiting_ends_after_its_time(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, wait_seconds=0.15)
    await line.turn(wanted("a"))
    with pytest.raises(QueueTimeout) as caught:
        await line.turn(wanted("b"))
    assert caught.value.retry_after
    await line.release("b")
    assert line.members("line") == line.members("beats") == []


async def test_who_leaves_while_waiting_is_gone_and_the_next_moves_up(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    for name in ("a", "b", "c"):
        await line.ask(wanted(name, "one"))
    await line.release("b", 0)
    assert line.members("beats") == ["c"]
    assert (await line.ask(wanted("c", "one"))).place == 1
    await line.release("a")
    assert line.running() == {"c"}


async def test_a_lease_of_a_killed_holder_expires_and_its_turn_is_given_on(open_line: OpenLine) -> None:
    dead = await open_line(capacity=1, lease_seconds=0.5)
    await dead.turn(wanted("a"))
    await dead.permits.aclose()  # it renews no more, and never releases
    line = await open_line(capacity=1, lease_seconds=5, heartbeat_seconds=30)
    started = time.monotonic()
    await line.turn(wanted("b"))  # not by a heartbeat, but because it is known when the lease ends
    assert time.monotonic() - started > 0.1
    assert line.running() == {"b"}


async def test_a_lease_in_use_is_renewed(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, wait_seconds=0.9, lease_seconds=0.6)
    await line.turn(wanted("a"))
    with pytest.raises(QueueTimeout):  # longer than a lease, and "a" still has it
        await line.turn(wanted("b"))


async def test_a_dead_waiter_does_not_block_the_line(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=0.1)
    await line.turn(wanted("a"))
    dead = asyncio.create_task(line.turn(wanted("dead")))
    await eventually(lambda: line.members("beats") == ["dead"])
    dead.cancel()  # leaves its place in the line behind, as a killed process does
    waiting = asyncio.create_task(line.turn(wanted("b")))
    await eventually(lambda: "b" in line.members("beats"))
    await line.release("a")
    async with asyncio.timeout(5):
        await waiting


async def test_one_heartbeat_keeps_all_waiters_of_a_process_alive(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=0.2)
    await line.turn(wanted("a"))
    waiting = [asyncio.create_task(line.turn(wanted(f"w{i}"))) for i in range(5)]
    await eventually(lambda: len(line.members("beats")) == 5)
    await asyncio.sleep(1.0)  # longer than three heartbeats
    order = line.members("line")
    await line.release("a")
    await eventually(lambda: line.members("line") != order)
    assert len(line.members("line")) == 4
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_waiter_whose_place_was_lost_joins_again(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=0.1)
    await line.turn(wanted("a"))
    waiting = asyncio.create_task(line.turn(wanted("b")))
    await eventually(lambda: line.members("beats") == ["b"])
    line.redis.flushall()  # Redis came back empty
    assert (await waiting).waited
    assert line.running() == {"b"}


async def test_releasing_twice_and_renewing_after_release_change_nothing(make_line: MakeLine) -> None:
    line = make_line(capacity=2)
    await line.turn(wanted("a"))
    await line.turn(wanted("b"))
    renewal = line.permits.renew()
    for _ in range(3):
        await line.release("a")
    await line.store.run(renewal)
    assert line.running() == {"b"}


async def test_a_lost_script_cache_is_filled_again(make_line: MakeLine) -> None:
    line = make_line()
    line.redis.script_flush()
    await line.turn(wanted("a"))
    line.redis.script_flush()
    await line.store.run_all(line.permits.release("a", 1), line.permits.release("a", 1))
    assert line.is_empty()


async def test_waiters_are_told_their_place_at_once_and_at_each_change(open_line: OpenLine) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=30)
    told: dict[str, list[int]] = {"b": [], "c": [], "d": []}
    await line.turn(wanted("a", "one"))

    async def wait(name: str) -> None:
        ask = wanted(name, "one")
        answer = await line.store.run(line.permits.acquire(ask))
        await line.permits.wait(ask, answer, lambda place, eta: told[name].append(place))

    tasks = {}
    for number, name in enumerate(told, 1):
        tasks[name] = asyncio.create_task(wait(name))
        await eventually(lambda name=name, number=number: told[name] == [number])
    tasks["c"].cancel()
    await line.release("c", 0)
    await eventually(lambda: told["d"] == [3, 2])
    await line.release("a")
    await tasks["b"]
    await eventually(lambda: told["d"] == [3, 2, 1])
    assert told["b"] == [1]
    await line.release("b")
    await tasks["d"]


async def test_one_who_cannot_be_told_troubles_nobody_else(open_line: OpenLine) -> None:
    line = await open_line(capacity=1)
    await line.turn(wanted("a"))
    other = asyncio.create_task(line.turn(wanted("b")))
    await eventually(lambda: line.members("beats") == ["b"])

    def fails(place: int, eta: float | None) -> None:
        raise RuntimeError

    ask = wanted("c")
    with pytest.raises(RuntimeError):
        await line.permits.wait(ask, await line.store.run(line.permits.acquire(ask)), fails)
    await line.release("c", 0)
    await line.release("a")
    await other


async def test_without_its_reservation_a_request_gets_no_turn(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    first, second = wanted("a", reserved=True), wanted("b", reserved=True)
    assert (await line.ask(first)).state is State.UNRESERVED
    assert line.is_empty()
    for ask in (first, second):
        line.redis.set(keys.reservation(ask.request_id), "x")
    assert (await line.ask(first)).state is State.GRANTED
    assert (await line.ask(second)).state is State.WAITING
    line.redis.delete(keys.reservation("b"))
    with pytest.raises(QueueTimeout, match="reservation"):
        await line.turn(second)
    assert line.members("line") == []


async def test_one_that_would_wait_too_long_is_refused_at_once_and_told_when_to_come_back(make_line: MakeLine) -> None:
    line = make_line(capacity=1, wait_seconds=6)
    await line.ask(wanted("a", "one"))
    # Ten turns came back in twenty seconds of one being in use.
    line.set_state(busy=20_000, done=10)
    places = [await line.ask(wanted(name, "one")) for name in ("b", "c")]
    assert [answer.place for answer in places] == [1, 2]
    assert [round(answer.eta_ms, -3) for answer in places] == [2000, 4000]
    refused = await line.ask(wanted("d", "one"))
    assert (refused.state, refused.place) == (State.LATE, 3)
    with pytest.raises(QueueTimeout) as caught:
        await line.turn(wanted("e", "one"))
    assert caught.value.retry_after == 3  # eight seconds to be sure, of which it would wait six; rounded up
    assert line.members("beats") == ["b", "c"]
    # Somebody else, who had nothing yet, would not wait that long.
    assert (await line.ask(wanted("f", "other"))).state is State.WAITING


@pytest.mark.parametrize("turns", [1, 3, 7])
async def test_the_wait_told_is_the_one_that_a_plan_computes(make_line: MakeLine, turns: int) -> None:
    line = make_line(capacity=turns, wait_seconds=10_000)
    for number in range(turns):
        await line.ask(wanted(f"a{number}"))
    line.set_state(busy=900_000, done=300)  # 3 seconds a turn
    answers = [await line.ask(wanted(f"b{number}", "one")) for number in range(4)]
    for answer in answers:
        assert answer.eta_ms / 1000 == pytest.approx(wait_seconds(answer.place, 3.0, turns), rel=0.01)
    assert [answer.place for answer in answers] == [1, 2, 3, 4]


async def test_the_rate_is_what_was_measured_while_turns_were_in_use(make_line: MakeLine) -> None:
    line = make_line(capacity=2)
    for number in range(4):
        await line.ask(wanted(f"a{number}"))
    assert (await line.ask(wanted("x"))).eta_ms == -1  # nothing has come back yet
    for number in range(4):
        await line.release(f"a{number}")
    await line.release("x")
    assert line.state("done") == pytest.approx(5, rel=0.01)
    line.set_state(seen=line.state("seen") - 3_600_000)  # an idle hour
    busy = line.state("busy")
    await line.ask(wanted("b"))
    assert (line.state("done"), line.state("busy")) == (pytest.approx(5, rel=0.01), busy)


async def test_while_redis_is_away_waiters_are_told_so(open_line: OpenLine, monkeypatch: pytest.MonkeyPatch) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=0.05)
    await line.turn(wanted("a"))
    waiting = asyncio.create_task(line.turn(wanted("b")))
    await eventually(lambda: line.members("beats") == ["b"])

    async def away(call: Call) -> None:
        raise StoreAway("away")

    monkeypatch.setattr(line.store, "run", away)
    with pytest.raises(StoreAway):
        await waiting


async def test_a_short_absence_of_redis_costs_nobody_a_place(
    open_line: OpenLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = await open_line(capacity=1, heartbeat_seconds=0.2)
    await line.turn(wanted("a"))
    waiting = asyncio.create_task(line.turn(wanted("b")))
    await eventually(lambda: line.members("beats") == ["b"])
    run, failures = line.store.run, 0

    async def sometimes(call: Call) -> object:
        nonlocal failures
        if failures < 2:
            failures += 1
            raise StoreAway("away")
        return await run(call)

    monkeypatch.setattr(line.store, "run", sometimes)
    await eventually(lambda: failures == 2, seconds=5)
    await line.release("a")
    await waiting


async def test_what_the_engine_has_room_for_may_change_at_any_time(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    for name in "abcd":
        await line.ask(wanted(name))
    line.permits.rooms = {"a": Room(capacity=3)}
    await line.ask(wanted("d"))
    assert len(line.running()) == 3
    line.permits.rooms = {"a": Room(capacity=1)}
    await line.release("a")
    assert line.running() == {"b", "c"}  # nobody is thrown out


async def test_a_request_runs_only_where_its_tokens_fit_the_engines_cache(make_line: MakeLine) -> None:
    line = make_line(capacity=10, kv_tokens=1000)
    asks = [wanted(name, kv_tokens=size) for name, size in (("a", 600), ("b", 300), ("c", 200), ("d", 50))]
    # What is small does not overtake what is large, which would wait for ever.
    assert [(await line.ask(ask)).state for ask in asks] == [State.GRANTED] * 2 + [State.WAITING] * 2
    await line.release("b")
    assert line.running() == {"a", "c", "d"}
    assert line.at("a") == (3, 850)
    for name in "acd":
        await line.release(name)
    assert (await line.ask(wanted("huge", kv_tokens=5000))).state is State.GRANTED  # it would never fit better
    assert (await line.ask(wanted("e", kv_tokens=1))).state is State.WAITING


async def test_nothing_is_left_of_those_who_were_killed(make_line: MakeLine) -> None:
    line = make_line(capacity=2)
    for name in ("a", "b", "c", "d"):
        await line.ask(wanted(name, kv_tokens=10))
    line.kill("a", "b", "c")
    await line.release("d")
    assert line.is_empty()
