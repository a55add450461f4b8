"""Engines die, hang, come back and are taken away in the middle of answers, and no client can tell."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.conftest import eventually, start_valkey
from tests.system.engines import LOADING_SECONDS, Answer, Engine, Gateway, question, undisturbed

pytestmark = pytest.mark.slow
CLIENTS = 20
TOKENS = 40
BEGUN = 10  # pieces of an answer that is under way
SUBJECTS = (
    "the sea", "a lighthouse", "bread", "winter", "a clock", "trains", "the moon", "an old dog", "maps", "bees",
    "a violin", "rivers", "glass", "a market", "snow", "letters", "gardens", "a bridge", "tea", "salt",
)  # fmt: skip
Start = Callable[..., Awaitable[Gateway]]


class Place(NamedTuple):
    """What all tests here share."""

    redis_url: str
    engines: dict[str, Engine]
    known: dict[str, Any]  # answers that nothing disturbed, by subject


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("failover")
    (folder / "models").symlink_to(models)
    valkey, redis_url = start_valkey(folder)
    engines = {name: Engine(name, folder, folder) for name in ("a", "b")}
    try:
        for engine in engines.values():
            engine.start()
        yield Place(redis_url, engines, {})
    finally:
        for engine in engines.values():
            if engine.runs:
                engine.kill()
        valkey.terminate()
        valkey.wait()


@pytest.fixture
async def start(place: Place, tmp_path: Path) -> AsyncIterator[Start]:
    """A gateway before these engines, which are well."""
    async with AsyncExitStack() as stack:

        async def start(names: str, **settings: Any) -> Gateway:
            engines = [place.engines[name] for name in names]
            for engine in engines:
                if not engine.runs:
                    engine.start()
            await asyncio.gather(*(engine.ready() for engine in engines))
            if not place.known:
                answers = await undisturbed(engines[-1], list(map(body, SUBJECTS)))
                place.known.update(zip(SUBJECTS, answers, strict=True))
            gateway = Gateway(tmp_path, place.redis_url, engines, **settings)
            stack.push_async_callback(gateway.stop)
            await gateway.start()
            return gateway

        yield start


def body(subject: str) -> dict[str, Any]:
    return question(f"Write a long story about {subject}.", TOKENS)


class Streams:
    """Clients that ask, each about a subject of its own."""

    def __init__(self, gateway: Gateway, subjects: tuple[str, ...]) -> None:
        self.answers = {subject: Answer() for subject in subjects}
        asking = {each: gateway.ask(body(each), answer) for each, answer in self.answers.items()}
        self._tasks = {each: asyncio.create_task(ask) for each, ask in asking.items()}

    async def begun(self) -> None:
        await eventually(lambda: all(len(one.pieces) >= BEGUN for one in self.answers.values()), 120)

    async def leave(self, subject: str) -> str:
        """One of them has had enough. The id of its request."""
        task = self._tasks.pop(subject)
        task.cancel()
        await asyncio.wait([task])
        return self.answers.pop(subject).request_id

    async def whole(self, known: dict[str, Any]) -> list[dict[str, int]]:
        """What the clients were told that they used, once all have ended as if nothing had been."""
        await asyncio.gather(*self._tasks.values())
        for subject, answer in self.answers.items():
            assert answer.status == 200
            assert not [event for event in answer.events if "error" in event], answer.events[-1]
            assert answer.done
            assert len({event["id"] for event in answer.events}) == 1
            assert [one["finish_reason"] for one in answer.choices if one["finish_reason"]] == ["length"]
            assert [one["delta"]["role"] for one in answer.choices if "role" in one["delta"]] == ["assistant"]
            is_as_known(known[subject], answer.text, answer.usage)
        return [answer.usage for answer in self.answers.values()]


def is_as_known(known: dict[str, Any], text: str, usage: dict[str, Any]) -> None:
    assert text == known["choices"][0]["message"]["content"]
    of_both = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert {part: usage[part] for part in of_both} == {part: known["usage"][part] for part in of_both}
    assert usage["completion_tokens"] == TOKENS


async def the_books_are_right(gateway: Gateway, told: list[dict[str, int]], failed: int = 0) -> None:
    await eventually(lambda: not gateway.left_over(), 10)
    booked = await gateway.booked()
    assert booked["requests"] == len(told)
    for part in ("prompt_tokens", "completion_tokens"):
        assert booked[part] == sum(usage[part] for usage in told)
    assert not booked["estimated"]
    assert booked["failed"] == failed


async def test_an_engine_is_killed_under_twenty_streams_and_no_client_can_tell(start: Start, place: Place) -> None:
    gateway = await start("ab")
    streams = Streams(gateway, SUBJECTS)
    wholes = [asyncio.create_task(gateway.ask_whole(body(subject))) for subject in SUBJECTS[:4]]
    await streams.begun()
    held = {name: one["held"] for name, one in (await gateway.backends()).items()}
    assert min(held.values()) >= 1
    place.engines["a"].kill()
    told = await streams.whole(place.known)
    for subject, answer in zip(SUBJECTS, await asyncio.gather(*wholes), strict=False):
        assert answer["status"] == 200
        assert answer["choices"][0]["finish_reason"] == "length"
        is_as_known(place.known[subject], answer["choices"][0]["message"]["content"], answer["usage"])
        told.append(answer["usage"])
    print(f"held at the kill: {held}")
    assert await gateway.moved("continued") + await gateway.moved("again") == held["a"]
    assert gateway.log.count("is continued elsewhere: backend a failed") == await gateway.moved("continued")
    await gateway.until(lambda shown: shown["a"]["state"] == "down")
    await the_books_are_right(gateway, told)
    place.engines["a"].start()  # it loads while the next test runs


async def test_the_only_engine_is_killed_and_its_streams_wait_for_it(start: Start, place: Place) -> None:
    gateway = await start("b", recovery_timeout=LOADING_SECONDS)
    streams = Streams(gateway, SUBJECTS[:6])
    await streams.begun()
    place.engines["b"].kill()
    await asyncio.sleep(1)
    place.engines["b"].start()
    await place.engines["b"].ready()
    said = {subject: len(answer.pieces) for subject, answer in streams.answers.items()}
    await eventually(lambda: all(len(streams.answers[each].pieces) > said[each] for each in said), 60)
    request_id = await streams.leave(SUBJECTS[0])
    told = await streams.whole(place.known)
    assert await gateway.moved("continued") >= 6
    # The engine that went on has what the other said in its prompt.
    count, prompt = await place.engines["b"].account(request_id), place.known[SUBJECTS[0]]["usage"]["prompt_tokens"]
    said_before = count["prompt_tokens"] - prompt
    assert said_before >= BEGUN
    told.append({"prompt_tokens": prompt, "completion_tokens": said_before + count["completion_tokens"]})
    await the_books_are_right(gateway, told, failed=1)


async def test_an_engine_that_hangs_is_left_and_taken_back_by_and_by(start: Start, place: Place) -> None:
    gateway = await start("ab", first_token_timeout=8, stall_timeout=4)
    streams = Streams(gateway, SUBJECTS[:6])
    await streams.begun()
    assert (await gateway.backends())["a"]["held"]
    place.engines["a"].signal(signal.SIGSTOP)
    try:
        late = Streams(gateway, SUBJECTS[6:10])
        told = await streams.whole(place.known) + await late.whole(place.known)
        assert await gateway.moved("continued")
        assert await gateway.moved("again")
        await gateway.until(lambda shown: shown["a"]["state"] == "down")
        await the_books_are_right(gateway, told)
    finally:
        place.engines["a"].signal(signal.SIGCONT)
    async with asyncio.timeout(LOADING_SECONDS):
        while (shown := await gateway.backends())["a"]["state"] != "healthy":
            await gateway.ask_whole(question("Are you there?", 2))  # somebody has to try it
    assert shown["a"]["share"] < 1 == shown["b"]["share"]


async def test_engines_are_restarted_one_after_the_other_and_no_client_can_tell(start: Start, place: Place) -> None:
    gateway = await start("ab")
    asked: list[dict[str, Any]] = []

    async def keeps_asking() -> None:
        while True:
            asked.append(await gateway.ask_whole(question("Are you there?", 2)))

    asking = [asyncio.create_task(keeps_asking()) for _ in range(3)]
    for name, subjects in (("a", SUBJECTS[:4]), ("b", SUBJECTS[4:8])):
        streams = Streams(gateway, subjects)
        await streams.begun()
        await gateway.order(name, "drained")
        await gateway.until(lambda shown, name=name: not shown[name]["held"], LOADING_SECONDS)
        await asyncio.to_thread(place.engines[name].end)
        await streams.whole(place.known)
        place.engines[name].start()
        await place.engines[name].ready()
        await gateway.order(name, "enabled")
        await gateway.until(lambda shown, name=name: shown[name]["state"] == "healthy")
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert {one["status"] for one in asked} == {200}
    assert await gateway.moved("continued") + await gateway.moved("again") == 0


async def test_an_engine_that_leaves_the_settings_finishes_what_it_has_begun(start: Start, place: Place) -> None:
    gateway = await start("ab")
    streams = Streams(gateway, SUBJECTS[:10])
    await streams.begun()
    assert (await gateway.backends())["a"]["held"]
    gateway.put([place.engines["b"]])
    await gateway.until(lambda shown: set(shown) == {"b"})
    assert "backend a has left" not in gateway.log
    told = await streams.whole(place.known)
    await eventually(lambda: "backend a has left" in gateway.log)
    assert await gateway.moved("continued") + await gateway.moved("again") == 0
    await the_books_are_right(gateway, told)
