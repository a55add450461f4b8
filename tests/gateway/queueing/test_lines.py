"""All lines of a gateway: made when first needed, dropped when nobody is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.queueing.ask import Lost, Room
from gateway.queueing.lines import Lines
from gateway.store.redis import Store
from tests.gateway.conftest import eventually
from tests.gateway.queueing.conftest import limits, wanted


@pytest.fixture
async def lines(store: Store) -> AsyncIterator[Lines]:
    lines = Lines(store, limits(heartbeat_seconds=0.1))
    yield lines
    await lines.aclose()


async def test_a_line_is_one_and_the_same_under_its_name(lines: Lines) -> None:
    assert lines.line("x") is lines.line("x")
    assert lines.line("x") is not lines.line("y")


async def test_lines_do_not_know_one_another(lines: Lines, store: Store) -> None:
    ask = wanted("r0")
    for name in "xy":
        lines.line(name).rooms = {"a": Room(1)}
        await lines.line(name).wait(ask, await store.run(lines.line(name).acquire(ask)))
    assert lines.held == 2


@pytest.mark.parametrize("before", [True, False])
async def test_a_line_is_at_work_whether_it_was_made_before_the_start_or_after(
    lines: Lines, store: Store, before: bool
) -> None:
    if before:
        lines.line("x")
    lines.start()
    line = lines.line("x")
    line.rooms = {"a": Room(1)}
    await store.run(line.acquire(wanted("r0")))
    ask = wanted("r1")
    waits = asyncio.create_task(line.wait(ask, await store.run(line.acquire(ask))))
    await eventually(lambda: lines.waiting == 1)
    await store.run(line.release("r0", 0))
    assert (await asyncio.wait_for(waits, 5)).backend == "a"


async def test_a_line_that_is_no_more_is_dropped_once_nobody_is_there(lines: Lines, store: Store) -> None:
    lines.start()
    gone, kept = lines.line("gone"), lines.line("kept")
    gone.rooms = {"a": Room(1)}
    await gone.wait(wanted("r0"), await store.run(gone.acquire(wanted("r0"))))
    await lines.keep(["kept"])
    assert lines.line("gone") is gone
    with pytest.raises(Lost):
        await gone.wait(wanted("r1"), await store.run(gone.acquire(wanted("r1"))))
    await store.run(gone.release("r0", 0))
    await lines.keep(["kept"])
    assert lines.line("gone") is not gone
    assert lines.line("kept") is kept
