"""Looking at a backend, and whether its figures are believed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from backends.base import Load, ModelCard, Readiness
from backends.errors import Unreachable
from backends.fake import FakeBackend
from gateway.routing.figures import Figures
from gateway.routing.member import Member
from gateway.routing.prefill import PrefillSpeed
from gateway.routing.shown import Ordered, shown
from gateway.routing.watch import Seen, Watch
from gateway.settings import BackendSettings
from tests.gateway.conftest import eventually


class Scripted(FakeBackend):
    """Says what it is told to of itself, and counts how often it is asked."""

    probe_seconds = 1000.0

    def __init__(self) -> None:
        super().__init__()
        self.answer_now = Readiness.READY
        self.looks = 0
        self.lists = True
        self.figures: Load | None = Load(running=0)

    async def readiness(self) -> Readiness:
        self.looks += 1
        return self.answer_now

    async def models(self) -> list[ModelCard]:
        if not self.lists:
            raise Unreachable("gone")
        return await super().models()

    async def load(self) -> Load:
        if self.figures is None:
            raise Unreachable("gone")
        return self.figures


class Watched:
    def __init__(self) -> None:
        self.backend = Scripted()
        self.seen: list[Seen] = []
        self.held = 0
        self.watch = Watch(self.backend, self.seen.append, lambda: self.held)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.watch.aclose()


async def test_a_look_finds_readiness_models_and_load_and_asks_for_no_token(watched: Watched) -> None:
    await watched.watch.look()
    assert watched.seen == [Seen(Readiness.READY, (ModelCard("fake", 4096),), Load(running=0))]
    assert watched.backend.asked == []


async def test_of_one_that_is_away_nothing_more_is_asked(watched: Watched) -> None:
    watched.backend.answer_now = Readiness.WARMING
    watched.backend.lists = False
    await watched.watch.look()
    assert watched.seen == [Seen(Readiness.WARMING)]


async def test_models_that_cannot_be_read_are_not_none_at_all(watched: Watched) -> None:
    watched.backend.lists = False
    await watched.watch.look()
    assert watched.seen[0].readiness is Readiness.READY
    assert watched.seen[0].models is None


async def test_one_that_is_away_is_looked_at_often_and_one_that_is_ready_in_its_own_time(watched: Watched) -> None:
    watched.backend.answer_now = Readiness.DOWN
    watched.watch.start()
    await eventually(lambda: watched.backend.looks >= 3)
    watched.backend.answer_now = Readiness.READY
    await eventually(lambda: watched.seen[-1].readiness is Readiness.READY)
    looks = watched.backend.looks
    await asyncio.sleep(0.6)
    assert watched.backend.looks == looks


async def test_who_is_in_a_hurry_does_not_wait_and_a_hundred_of_them_are_one_look(watched: Watched) -> None:
    watched.watch.start()
    await eventually(lambda: watched.backend.looks == 1)
    for _ in range(100):
        watched.watch.hurry()
        await asyncio.sleep(0.001)
    await eventually(lambda: watched.backend.looks > 1)
    looks = watched.backend.looks
    assert looks <= 3
    await asyncio.sleep(0.6)  # and the hurry is over
    assert watched.backend.looks <= looks + 1


async def test_a_fresh_look_is_looked_at_once_by_all_who_ask(watched: Watched) -> None:
    await asyncio.gather(*(watched.watch.look(newest=60) for _ in range(10)))
    assert watched.backend.looks == 1
    await watched.watch.look()
    assert watched.backend.looks == 2


async def test_figures_of_one_that_is_known_to_be_late_are_not_held_against_it(watched: Watched) -> None:
    watched.backend.probe_seconds = 0.0
    figures = Watch(watched.backend, watched.seen.append, lambda: 50)
    for _ in range(2):
        await figures.look()
    assert watched.seen[-1].stale
    watched.backend.trusts_load = False
    await figures.look()
    assert watched.seen[-1].stale == ""


async def test_figures_of_one_that_was_away_are_believed_anew(watched: Watched) -> None:
    watched.backend.probe_seconds = 0.02
    watched.backend.figures = None
    watch = Watch(watched.backend, watched.seen.append, lambda: 0)
    for readiness in (Readiness.READY, Readiness.DOWN, Readiness.READY):
        watched.backend.answer_now = readiness
        await watch.look()
        await asyncio.sleep(0.07)
    assert watched.seen[-1] == Seen(Readiness.READY, (ModelCard("fake", 4096),), Load())
    await watch.look()
    assert watched.seen[-1].stale


def stale_after(say: Callable[[], Load | None], held: int) -> float | None:
    figures = Figures(5.0)
    figures.take(Load(running=held), held, 0)
    return next((now for now in range(60) if figures.take(say(), held, now)), None)


def test_figures_that_cannot_be_read_are_stale_after_three_looks() -> None:
    assert stale_after(lambda: None, 0) == 15


def test_figures_that_say_nothing_runs_where_we_have_many_are_stale_after_three_looks() -> None:
    assert stale_after(lambda: Load(running=0, waiting=0), 4) == 15
    assert stale_after(lambda: Load(running=0, waiting=0), 3) is None
    assert stale_after(lambda: Load(running=1), 40) is None
    assert stale_after(lambda: Load(running=0, waiting=4), 40) is None


def test_an_engine_without_figures_has_none_that_could_be_stale() -> None:
    assert stale_after(Load, 40) is None


def test_figures_that_are_right_once_are_believed_again() -> None:
    figures = Figures(5.0)
    figures.take(None, 0, 0)
    assert figures.take(None, 0, 15)
    assert not figures.take(Load(), 0, 16)
    assert not figures.take(None, 0, 30)
    assert figures.take(None, 0, 31)


def test_an_engine_that_was_away_is_believed_anew() -> None:
    figures = Figures(5.0)
    figures.take(None, 0, 0)
    figures.reset()
    assert not figures.take(None, 0, 100)


def test_a_backend_is_shown_with_its_state_and_its_figures() -> None:
    now = time.monotonic()
    given = {"name": "a", "kind": "fake", "url": "http://nowhere", "max_concurrency": 7, "tier": 1}
    member = Member(BackendSettings.model_validate(given), FakeBackend(name="a"))
    member.serves([ModelCard("m")])
    member.health.observe_probe(Readiness.READY, now)
    member.load = Load(running=3, waiting=1, kv_use=0.5)
    member.speed = PrefillSpeed(per_token=0.001)
    with member.used():
        row = shown(member, "line", now, Ordered())
    assert (row.name, row.kind, row.line, row.models, row.tier, row.capacity) == ("a", "fake", "line", ["m"], 1, 7)
    assert (row.state, row.why, row.share) == ("healthy", "", 1.0)
    assert (row.running, row.waiting, row.kv_use, row.held, row.retry_seconds) == (3, 1, 0.5, 1, None)
    assert row.prompt_tokens_per_second == pytest.approx(1000)
