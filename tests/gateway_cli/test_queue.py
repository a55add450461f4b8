"""`sekisho queue`, in process, on a line whose gateway is elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from gateway.queueing.ask import CLASSES, Ask, Choice, ClassLimits, QueueLimits, Room
from gateway.queueing.permits import Permits
from gateway.store import keys
from gateway.store.redis import Store
from tests.gateway_cli.conftest import Terminal

_CLASS = ClassLimits(weight=1.0, longest_line=100, wait_seconds=60, starvation_seconds=3600)
_LIMITS = QueueLimits(100, dict.fromkeys(CLASSES, _CLASS), lease_seconds=60, heartbeat_seconds=20)


@pytest.fixture
def line(terminal: Terminal) -> Terminal:
    """One runs, one waits in haste, one does not."""

    async def fill(store: Store) -> None:
        permits = Permits(store, "line", _LIMITS, {"gpu": Room(1, 1000)})
        choices = (Choice("gpu", 0.0),)
        asks = [
            Ask("runs", "api", "a", 10, choices, 50, model="m"),
            Ask("slow", "batch", "b\x1b[31m", 10, choices, 20, model="m"),
            Ask("quick", "interactive", "c", 10, choices, 20, model="m"),
        ]
        await store.run_all(permits.tell(["m", "n"]), *(permits.acquire(ask) for ask in asks))

    terminal.does_on_store(fill)
    return terminal


def shown(line: Terminal, *options: str) -> dict[str, Any]:
    (found,) = line.json("queue", "list", *options)["lines"]
    return dict(found)


def test_the_line_is_listed_in_the_order_of_turns(line: Terminal) -> None:
    found = shown(line)
    assert [one["id"] for one in found["running"] + found["waiting"]] == ["runs", "quick", "slow"]
    assert (found["name"], found["models"]) == ("line", ["m", "n"])
    (backend,) = found["backends"]
    assert backend == {
        "name": "gpu",
        "object": "backend",
        "capacity": 1,
        "running": 1,
        "kv_tokens": 1000,
        "kv_tokens_in_use": 50,
    }
    assert [one["backend"] for one in found["running"] + found["waiting"]] == ["gpu", None, None]
    assert [one["id"] for one in shown(line, "--subject", "c")["waiting"]] == ["quick"]
    printed = line.tells("queue", "list")
    assert printed.index("runs") < printed.index("quick") < printed.index("slow")
    assert "gpu: 1 running, room for 1, 50 of 1000" in printed
    assert "\x1b[31m" not in printed
    assert shown(line, "--limit", "1")["has_more"] is True


def test_without_a_gateway_there_is_no_line(terminal: Terminal) -> None:
    assert terminal.json("queue", "list") == {"object": "queue", "lines": [], "draining": []}
    assert terminal.run("queue", "list").exit_code == 0


def test_a_request_is_moved_and_ended(line: Terminal) -> None:
    assert line.json("queue", "class", "slow", "interactive")["class"] == "interactive"
    assert "waits as batch, at place 2" in line.tells("queue", "class", "slow", "batch")
    assert "is cancelled" in line.tells("queue", "cancel", "slow")
    assert line.json("queue", "cancel", "runs")["state"] == "running"
    # The gateway that has them hears of it; this is what it hears.
    with redis.Redis.from_url(line.url) as server:
        assert set(server.zrange(keys.CANCELLED, 0, -1)) == {b"slow", b"runs"}
    lines = line.json("audit", "list")["data"]
    assert [one["action"] for one in lines] == ["queue.cancel", "queue.cancel", "queue.class", "queue.class"]
    assert {one["actor"]["subject"] for one in lines} == {"cli"}


def test_a_model_is_drained_and_taken_back(line: Terminal) -> None:
    assert "takes nobody new" in line.tells("queue", "drain", "n")
    assert "n is draining" in line.tells("queue", "list")
    assert line.json("queue", "undrain", "n")["draining"] is False
    assert line.json("queue", "list")["draining"] == []
    assert [one["action"] for one in line.json("audit", "list")["data"]] == ["drain.delete", "drain.create"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cancel", "nobody"), "nobody"),
        (("class", "nobody", "batch"), "nobody"),
        (("class", "runs", "batch"), "has its turn"),
        (("class", "slow", "first"), "class"),
        (("drain", "other"), "other"),
        (("undrain", "m"), "not draining"),
    ],
)
def test_what_cannot_be_is_refused(line: Terminal, arguments: tuple[str, ...], said: str) -> None:
    assert said in line.refuses("queue", *arguments)
    assert line.json("audit", "list")["data"] == []
