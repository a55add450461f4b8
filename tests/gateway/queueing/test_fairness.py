"""Who goes first: classes by their weight, people by the service they had lately, nobody never."""

from __future__ import annotations

import pytest

from gateway.queueing.ask import State
from gateway.scope import QueueClass
from tests.gateway.queueing.conftest import Line, MakeLine, wanted


async def serve_in_turn(line: Line, turns: int, served: float = 100) -> list[str]:
    """Releases who runs, one after the other. The ids, in the order in which they had a turn."""
    order = []
    for _ in range(turns):
        (running,) = line.running()
        order.append(running)
        await line.release(running, served)
        if not line.running():
            break
    return order


def subjects(order: list[str]) -> str:
    """Ids here are a letter for the subject and a number."""
    return "".join(name[0] for name in order)


async def fill(line: Line, letter: str, count: int, klass: QueueClass = "api", tokens: float = 100) -> None:
    for number in range(count):
        await line.ask(wanted(f"{letter}{number}", letter, klass, tokens))


async def test_two_hundred_requests_delay_a_colleagues_first_by_one_turn(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    await fill(line, "g", 200)
    await line.ask(wanted("o0", "o"))
    assert (await line.ask(wanted("o0", "o"))).place <= 2
    assert "o" in subjects(await serve_in_turn(line, 3))


@pytest.mark.parametrize(("one", "other"), [(100, 100), (50, 400)])
async def test_two_who_always_want_more_get_the_same_service_whatever_their_size(
    make_line: MakeLine, one: float, other: float
) -> None:
    line = make_line(capacity=1)
    await fill(line, "a", 200, tokens=one)
    await fill(line, "b", 200, tokens=other)
    service = {"a": 0.0, "b": 0.0}
    for _ in range(100):
        (running,) = line.running()
        size = one if running[0] == "a" else other
        service[running[0]] += size
        await line.release(running, size)
        assert abs(service["a"] - service["b"]) <= 2 * (one + other)
    assert service["a"] == pytest.approx(service["b"], rel=0.1)


async def test_the_charge_is_corrected_to_what_was_really_served(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    await fill(line, "a", 30)
    await fill(line, "b", 30)
    order = []
    for _ in range(30):
        (running,) = line.running()
        order.append(running)
        await line.release(running, 300 if running[0] == "a" else 100)  # both were expected to take 100
    counts = subjects(order)
    assert counts.count("b") == pytest.approx(3 * counts.count("a"), abs=3)


async def test_a_request_that_was_not_served_costs_nothing(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    await fill(line, "a", 1)
    await line.release("a0", 0)
    assert line.service() == {"2a": 0.0}


async def test_classes_share_by_their_weights_while_all_of_them_wait(make_line: MakeLine) -> None:
    line = make_line(capacity=1, weights=(8, 4, 1))
    await fill(line, "b", 130, "batch")
    await fill(line, "p", 130, "api")
    await fill(line, "i", 130, "interactive")
    order = subjects(await serve_in_turn(line, 1 + 13 * 5))[1:]
    assert [order.count(letter) for letter in "ipb"] == pytest.approx([40, 20, 5], abs=2)


async def test_a_class_that_was_away_has_saved_nothing_up(make_line: MakeLine) -> None:
    line = make_line(capacity=1, weights=(1, 1, 1))
    await fill(line, "p", 60, "api")
    await serve_in_turn(line, 40)
    await fill(line, "i", 20, "interactive")
    order = subjects(await serve_in_turn(line, 20))
    assert order.count("p") == pytest.approx(10, abs=1)


async def test_a_person_who_was_away_has_saved_nothing_up(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    await fill(line, "a", 100)
    await fill(line, "b", 100)
    await serve_in_turn(line, 40)
    await fill(line, "c", 40)
    order = subjects(await serve_in_turn(line, 30))
    assert [order.count(letter) for letter in "abc"] == pytest.approx([10, 10, 10], abs=2)


async def test_people_who_had_much_are_not_behind_somebody_new_with_many_requests(make_line: MakeLine) -> None:
    line = make_line(capacity=2)
    for number in range(50):
        await line.ask(wanted(f"a{number}", "a"))
        await line.release(f"a{number}")
    await fill(line, "g", 100)
    await line.ask(wanted("a50", "a"))
    await line.release("g0")
    await line.release("g1")
    assert "a50" in line.running()


async def test_who_had_much_before_has_it_forgotten_with_time(make_line: MakeLine) -> None:
    line = make_line(capacity=1, half_life_seconds=60)
    await line.ask(wanted("a0", "a", tokens=1000))
    await line.release("a0", 1000)
    line.set_state(epoch=line.state("epoch") - 20 * 60_000)  # twenty half-lives ago
    await line.ask(wanted("x0", "x"))
    await line.ask(wanted("b0", "b", tokens=1))
    await line.ask(wanted("a1", "a", tokens=1))
    await line.release("x0", 1)
    # Twenty half-lives of 1000 are a thousandth of a token: less than b's one.
    assert line.running() == {"b0"}
    await line.ask(wanted("b1", "b", tokens=1))
    await line.release("b0", 1)
    assert line.running() == {"a1"}


async def test_one_of_a_class_that_waited_too_long_goes_first_and_then_another_class_may(make_line: MakeLine) -> None:
    line = make_line(capacity=1, weights=(1000, 1, 1), starvation_seconds=60)
    await fill(line, "i", 40, "interactive")
    for letter in "uvw":
        await fill(line, letter, 2, "batch")
    line.redis.zadd("{sekisho}:due:line", {"3u\0a": 1, "3v\0a": 2, "3w\0a": 3}, xx=True)
    # The turn that runs now, then one who is late and one who is not, by turns.
    assert subjects(await serve_in_turn(line, 7))[1:] == "uiviwi"


@pytest.mark.parametrize("bound", [0.05, 3600])
async def test_nobody_waits_for_ever_however_many_come_later(make_line: MakeLine, bound: float) -> None:
    """One who had much, while somebody new who had nothing comes with every turn."""
    line = make_line(capacity=1, starvation_seconds=bound)
    await line.ask(wanted("h0", "h", tokens=10_000))
    await line.ask(wanted("n0"))
    await line.ask(wanted("h1", "h"))
    (running,) = line.running()
    for number in range(1, 200):
        await line.ask(wanted(f"n{number}"))
        await line.release(running, 10_000 if running == "h0" else 100)
        (running,) = line.running()
        if running == "h1":
            break
    assert (running == "h1") is (bound == 0.05)


async def test_the_place_told_is_the_place_kept_when_nobody_else_comes(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    await line.ask(wanted("x0", "x"))
    for name in ("a0", "a1", "a2", "b0", "b1", "c0", "a3", "c1"):
        await line.ask(wanted(name, name[0]))
    for name in ("i0", "i1", "j0"):
        await line.ask(wanted(name, name[0], "interactive"))
    await line.ask(wanted("z0", "z", "batch"))
    waiting = line.members("beats")
    places = {name: (await line.ask(wanted(name, name[0]))).place for name in waiting}
    order = await serve_in_turn(line, 20)
    assert sorted(places.values()) == list(range(1, len(waiting) + 1))
    assert {name: order.index(name) for name in waiting} == places


async def test_a_newcomer_is_told_the_place_that_it_then_has(make_line: MakeLine) -> None:
    line = make_line(capacity=1)
    await line.ask(wanted("x0", "x"))
    for number in range(12):
        ask = wanted(f"s{number}", f"s{number % 3}", ("interactive", "api", "batch")[number % 2])
        told = await line.ask(ask)
        assert told.state is State.WAITING
        assert (await line.ask(ask)).place == told.place


async def test_moving_the_epoch_changes_no_order_and_forgets_who_is_gone(make_line: MakeLine) -> None:
    line = make_line(capacity=1, half_life_seconds=10)
    await line.ask(wanted("gone", "gone"))
    await line.release("gone", 50)
    await line.ask(wanted("run", "run"))
    for number, size in enumerate((70, 10, 50, 30, 90, 20)):
        await line.ask(wanted(f"{number}a", str(number), tokens=size))
        await line.ask(wanted(f"{number}b", str(number), tokens=size))
    await serve_in_turn(line, 6)
    (running,) = line.running()
    before, service = line.members("order:api"), line.service()
    epoch = line.state("epoch")
    line.set_state(epoch=epoch - 401 * 10_000)
    await line.ask(wanted(running, running[0]))
    assert line.members("order:api") == before
    after = line.service()
    assert line.state("epoch") >= epoch
    assert "2gone" not in after
    kept = [subject for subject in service if subject in after and service[subject]]
    assert len(kept) >= 5
    assert len({after[subject] / service[subject] for subject in kept}) == 1  # to the last digit


async def test_no_clock_makes_numbers_overflow(make_line: MakeLine) -> None:
    line = make_line(capacity=1, half_life_seconds=1)
    await line.ask(wanted("a0", "a"))
    await line.ask(wanted("a1", "a"))
    for jump in (-100_000, 3_000_000, 10**11, -(10**9)):
        line.set_state(epoch=line.state("epoch") - jump, seen=line.state("seen") - jump)
        answer = await line.ask(wanted("a1", "a"))
        assert (answer.state, answer.place) == (State.WAITING, 1)
    await line.release("a0", 100)
    assert line.running() == {"a1"}
    await line.release("a1", 100)
    assert line.is_empty()
