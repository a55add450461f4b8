"""Several engines behind one door: which is asked, what happens when one fails, and what may leave the house."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends.base import Account, Readiness, Refusal
from backends.errors import Broken, Rejected, Unreachable
from backends.fake import DONE, FakeBackend, Script, chat_chunk, chat_script, event, usage_chunk
from gateway.app import App
from gateway.routing.health import State
from gateway.settings import load
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, ask, error_of, eventually, running
from tests.gateway.test_pipeline import events

Two = Callable[..., Awaitable[RunningDoor]]
WORDS = ("The ", "sun ", "is ", "a ", "star.")


def engine(name: str, answer: Callable[[bytes], Script] | None = None, models: tuple[str, ...] = ("m",)) -> FakeBackend:
    made = FakeBackend(answer, models, name)
    made.continues = True
    return made


def named(*names: str, **settings: Any) -> list[dict[str, Any]]:
    return [{"name": name, "kind": "fake", "url": "http://nowhere"} | settings for name in names]


@pytest.fixture
def start(start_door: StartDoor) -> Two:
    """A door before these engines; settings of single ones under their names."""

    async def begin(*engines: FakeBackend, each: dict[str, Any] | None = None, **settings: Any) -> RunningDoor:
        described = [named(one.name)[0] | (each or {}).get(one.name, {}) for one in engines]
        return await start_door(engines={one.name: one for one in engines}, backends=described, **settings)

    return begin


def raising(error: Exception) -> Callable[[bytes], Script]:
    def answer(body: bytes) -> Script:
        raise error

    return answer


def dying(words: tuple[str, ...], error: Exception | None = None) -> Callable[[bytes], Script]:
    """Says these words and then breaks."""
    said = [
        event(chat_chunk({"role": "assistant", "content": ""})),
        *(event(chat_chunk({"content": w})) for w in words),
    ]
    return lambda body: Script([*said, error or Broken("killed")])


def going_on(body: bytes) -> Script:
    """Goes on where the last message of the assistant ends; without one it says all."""
    sent = json.loads(body)
    last = sent["messages"][-1]
    said = last["content"] if last["role"] == "assistant" else ""
    assert not said or (sent["continue_final_message"] and not sent["add_generation_prompt"])
    rest = "".join(WORDS)[len(said) :]
    words = [rest[index : index + 3] for index in range(0, len(rest), 3)]
    prompt = 7 + (len(said) and 2)
    ended = [event(chat_chunk({}, "stop")), event(usage_chunk(prompt, len(words))), DONE]
    return Script(
        [event(chat_chunk({"role": "assistant"})), *(event(chat_chunk({"content": w})) for w in words), *ended]
    )


async def text_of(door: RunningDoor, **fields: Any) -> str:
    async with door.post(ask(stream=True, model="m", **fields)) as response:
        assert response.status == 200, await response.text()
        received = events(await response.text())
    assert received[-1] == "[DONE]", received
    chunks = [one for one in received[:-1] if one["choices"]]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"][0]["finish_reason"]] == [
        "stop"
    ]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


async def test_engines_that_serve_a_model_share_its_requests(start: Two) -> None:
    one, other = (
        engine("a", lambda body: chat_script(WORDS, gap=0.01)),
        engine("b", lambda body: chat_script(WORDS, gap=0.01)),
    )
    door = await start(one, other)
    await asyncio.gather(*(text_of(door) for _ in range(20)))
    assert len(one.asked) + len(other.asked) == 20
    assert min(len(one.asked), len(other.asked)) >= 5


async def test_an_engine_that_has_no_room_left_is_passed_over(start: Two) -> None:
    slow = lambda body: chat_script(WORDS, gap=0.05)  # noqa: E731
    one, other = engine("a", slow), engine("b", slow)
    door = await start(one, other, each={"a": {"max_concurrency": 1}, "b": {"max_concurrency": 5}})
    await asyncio.gather(*(text_of(door) for _ in range(6)))
    assert (len(one.asked), len(other.asked)) == (1, 5)


@pytest.mark.parametrize(
    "error",
    [Unreachable("gone"), Broken("cut"), Rejected(503, b"{}"), Rejected(429, b"{}", "7"), Rejected(401), Rejected(500)],
    ids=repr,
)
async def test_before_the_first_token_another_engine_answers_and_nobody_notices(start: Two, error: Exception) -> None:
    sick, well = engine("a", raising(error)), engine("b", going_on)
    door = await start(sick, well, each={"b": {"weight": 0.001}})
    assert await text_of(door) == "".join(WORDS)
    assert (len(sick.asked), len(well.asked)) == (1, 1)
    async with door.client.get("/metrics") as response:
        assert 'sekisho_moved_total{how="again"} 1.0' in await response.text()


async def test_a_refusal_inside_a_stream_is_one_like_any_other(start: Two) -> None:
    refused = event({"error": {"message": "The request queue is full.", "code": 503}})
    full, well = engine("a", lambda body: Script((refused, DONE))), engine("b", going_on)
    door = await start(full, well, each={"b": {"weight": 0.001}})
    assert await text_of(door) == "".join(WORDS)
    assert len(full.asked) == 1
    async with door.client.get("/metrics") as response:
        assert 'sekisho_attempts_total{backend="a",result="rejected"} 1.0' in await response.text()


async def test_what_is_wrong_with_the_request_is_asked_of_one_engine_alone(start: Two) -> None:
    refusing = raising(Rejected(400, b'{"error":{"message":"too long"}}'))
    one, other = engine("a", refusing), engine("b", refusing)
    door = await start(one, other)
    async with door.post(ask(model="m")) as response:
        assert (await error_of(response, 400))["message"] == "too long"
    assert len(one.asked) + len(other.asked) == 1


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("said", range(1, len(WORDS) + 1))
async def test_an_answer_that_breaks_off_is_continued_elsewhere_without_a_seam(
    start: Two, said: int, streaming: bool
) -> None:
    sick, well = engine("a", dying(WORDS[:said])), engine("b", going_on)
    door = await start(sick, well, each={"b": {"weight": 0.001}})
    if streaming:
        assert await text_of(door) == "".join(WORDS)
    else:
        async with door.post(ask(model="m")) as response:
            answer = await response.json()
        assert answer["choices"][0]["message"]["content"] == "".join(WORDS)
        assert (
            answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]
        )
    assert len(well.asked) == 1
    async with door.client.get("/metrics") as response:
        assert 'sekisho_moved_total{how="continued"} 1.0' in await response.text()


async def test_an_answer_survives_several_engines_that_die(start: Two) -> None:
    engines = [engine("a", dying(WORDS[:2])), engine("b", dying(("is ",))), engine("c", going_on)]
    door = await start(*engines, each={"b": {"weight": 0.01}, "c": {"weight": 0.0011}})
    assert await text_of(door) == "".join(WORDS)


async def test_an_answer_waits_for_the_only_engine_to_come_back(start: Two) -> None:
    only = engine("a", dying(WORDS[:2], Unreachable("died")))
    door = await start(only)
    asking = asyncio.create_task(text_of(door))
    await eventually(lambda: only.asked)
    only.answer = going_on
    assert await asyncio.wait_for(asking, 5) == "".join(WORDS)


async def test_an_engine_that_starts_anew_is_not_asked_until_it_is_ready(
    start: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tries are few: those that found it loading would be lost."""
    only = engine("a", dying(WORDS[:2]))
    door, readiness = await start(only), Readiness.WARMING

    async def tell() -> Readiness:
        return readiness

    async with door.post(ask(model="m", stream=True)) as response:
        only.answer = raising(Rejected(503))
        monkeypatch.setattr(only, "readiness", tell)
        fleet = door.app.door and door.app.door.fleet
        await eventually(lambda: fleet and fleet.healths()["a"].state(time.monotonic()) is State.WARMING)
        readiness, only.answer = Readiness.READY, going_on
        assert (await response.text()).endswith("[DONE]\n\n")
    assert len(only.asked) <= 3


async def test_an_answer_that_nobody_can_continue_ends_with_an_error_event(start: Two) -> None:
    sick, other = engine("a", dying(WORDS[:2])), engine("b", going_on)
    sick.continues = other.continues = False
    door = await start(sick, other, each={"b": {"weight": 0.001}})
    async with door.post(ask(model="m", stream=True)) as response:
        received = events(await response.text())
    assert received[-1]["error"]["code"] == "engine_error"
    assert other.asked == []


async def test_an_answer_that_another_refuses_to_continue_says_how_it_broke_off(start: Two) -> None:
    refusing = raising(Rejected(400, b'{"error":{"message":"continue_final_message is not known"}}'))
    sick, other = engine("a", dying(WORDS[:2])), engine("b", refusing)
    door = await start(sick, other, each={"b": {"weight": 0.001}})
    async with door.post(ask(model="m", stream=True)) as response:
        received = events(await response.text())
    assert (received[-1]["error"]["code"], len(other.asked)) == ("engine_error", 1)
    assert "continue" not in received[-1]["error"]["message"]


async def test_a_hung_engine_is_found_by_the_first_tokens_limit(start: Two) -> None:
    hung, well = engine("a", lambda body: Script((30.0,))), engine("b", going_on)
    door = await start(hung, well, each={"b": {"weight": 0.001}}, first_token_timeout=0.2)
    assert await text_of(door) == "".join(WORDS)
    assert hung.asked[0].aborted


async def test_tries_come_to_an_end(start: Two) -> None:
    engines = [engine(name, raising(Broken("cut"))) for name in "abcde"]
    door = await start(*engines, max_tries=3)
    async with door.post(ask(model="m")) as response:
        await error_of(response, 502, "engine_error")
    assert sum(len(one.asked) for one in engines) == 3
    await eventually(lambda: door.app.door is not None and door.app.door.lines.held == 0)


async def test_a_request_is_booked_once_whatever_its_engines_did(start: Two) -> None:
    sick, well = engine("a", dying(WORDS[:3])), engine("b", going_on)
    door = await start(sick, well, each={"b": {"weight": 0.001}})
    async with door.post(ask(model="m", stream=True, stream_options={"include_usage": True})) as response:
        told = events(await response.text())[-2]["usage"]
    booking = door.app.door and door.app.door.booking
    assert booking is not None
    await eventually(lambda: not booking.open and not booking.unbooked)
    async with door.client.get("/admin/v1/usage?by=model") as response:
        (row,) = (await response.json())["data"]
    assert (row["prompt_tokens"], row["completion_tokens"]) == (told["prompt_tokens"], told["completion_tokens"])
    assert row["requests"] == 1


@pytest.mark.parametrize("back", [False, True], ids=["elsewhere", "at the same engine"])
async def test_who_leaves_an_answer_that_was_gone_on_with_pays_for_all_of_it_once(start: Two, back: bool) -> None:
    """The engine that began it is gone with its accounts; the other has what was said till then in its prompt."""

    def answer(body: bytes) -> Script:
        rest = [event(chat_chunk({"content": word})) for word in WORDS[3:]]
        return Script([*rest, 30.0]) if b"continue_final_message" in body else dying(WORDS[:3])(body)

    engines = [engine(name, answer) for name in ("a" if back else "ab")]
    for one in engines:
        one.keeps_accounts = True
    door, well = await start(*engines, each={"b": {"weight": 0.001}}), engines[-1]
    async with door.post(ask(model="m", stream=True)) as response:
        await response.content.readuntil(WORDS[-1].encode())
        ids = [asked.headers["x-request-id"] for asked in well.asked]
        assert len(set(ids)) == len(ids)
        well.accounts[ids[-1]] = Account(7 + 3, 2, 0, ended=True)
        response.close()
    await eventually(lambda: well.asked[-1].aborted and door.app.door and not door.app.door.booking.unbooked)
    async with door.client.get("/admin/v1/usage?by=model") as response:
        (row,) = (await response.json())["data"]
    assert (row["prompt_tokens"], row["completion_tokens"], row["estimated"]) == (7, len(WORDS), 0)


async def test_people_ask_by_alias_and_are_told_the_model(start: Two) -> None:
    own = engine("a", lambda body: chat_script(("hi",)), models=("/srv/models/qwen.gguf",))
    each = {"a": {"models": {"qwen3-8b": "/srv/models/qwen.gguf"}}}
    door = await start(own, each=each, aliases={"company-chat": "qwen3-8b"})
    async with door.client.get("/v1/models") as response:
        assert {card["id"] for card in (await response.json())["data"]} == {"qwen3-8b", "company-chat"}
    async with door.post(ask(model="company-chat")) as response:
        assert response.status == 200
    assert json.loads(own.asked[0].body)["model"] == "/srv/models/qwen.gguf"
    async with door.post({"model": "company-chat", "input": "hi"}, path="/v1/responses") as response:
        assert (await response.json())["model"] == "qwen3-8b"


async def test_models_that_the_caller_could_not_use_are_not_listed(start: Two) -> None:
    each = {"b": OUTSIDE, "c": OUTSIDE | {"allow_groups": ["research"]}}
    door = await start(
        engine("a"),
        engine("b", models=("cloud",)),
        engine("c", models=("lab",)),
        engine("d", models=("gone",)),
        each=each,
    )
    policy = {"allowed_models": ["m", "cloud"]}
    assert (await door.client.put("/admin/v1/policies/some", json=policy)).status in (200, 201)

    async def listed(**headers: str) -> set[str]:
        async with door.client.get("/v1/models", headers=headers) as response:
            return {card["id"] for card in (await response.json())["data"]}

    assert await listed() == {"m"}
    assert await listed(**{"x-data-class": "public"}) == {"m", "cloud"}
    async with door.client.get("/v1/models/lab") as response:
        await error_of(response, 404, "model_not_found")


async def test_the_engines_own_name_of_a_model_is_not_told(start: Two) -> None:
    chunks = [event(chat_chunk(delta) | {"model": "/srv/m.gguf"}) for delta in ({"content": "hi"},)]
    end = event(chat_chunk({}, "stop") | {"model": "/srv/m.gguf"})
    own = engine("a", lambda body: Script([*chunks, end, DONE]), models=("/srv/m.gguf",))
    door = await start(own, each={"a": {"models": {"m": "/srv/m.gguf"}}})
    async with door.post(ask(model="m")) as response:
        answer = await response.text()
    assert "/srv" not in answer
    assert json.loads(answer)["model"] == "m"


async def test_what_one_engine_cannot_do_another_does_and_what_none_can_is_refused_by_name(start: Two) -> None:
    poor, able = engine("a", going_on), engine("b", going_on)
    poor.refuses = able.refuses = Refusal("It cannot do tools.", "tools")
    door = await start(poor, able, each={"b": {"weight": 0.001}})
    async with door.post(ask(model="m")) as response:
        assert (await error_of(response, 400, "unsupported_parameter"))["param"] == "tools"
    able.refuses = None
    await text_of(door)
    assert (len(poor.asked), len(able.asked)) == (0, 1)


# Outside the house ---------------------------------------------------------------------------------------------------

OUTSIDE = {"external": True, "tier": 1, "allow_groups": ["*"], "allow_data_classes": ["public"]}


async def test_a_request_leaves_the_house_only_where_its_policy_lets_it(start: Two) -> None:
    inside, outside = engine("a", raising(Unreachable("gone"))), engine("b", going_on)
    door = await start(inside, outside, each={"b": OUTSIDE})
    async with door.post(ask(model="m")) as response:
        await error_of(response, 503)
    assert outside.asked == []
    async with door.post(ask(model="m"), headers={"x-data-class": "public"}) as response:
        assert response.status == 200
    async with door.client.get("/admin/v1/audit?action=overflow") as response:
        (line,) = (await response.json())["data"]
    assert (line["target"], line["after"]["backend"], line["after"]["data_class"]) == ("m", "b", "public")


async def test_a_model_that_is_outside_alone_is_forbidden_to_who_may_not_go_there(start: Two) -> None:
    door = await start(engine("b", going_on), each={"b": OUTSIDE | {"allow_groups": ["research"]}})
    async with door.post(ask(model="m"), headers={"x-data-class": "public"}) as response:
        await error_of(response, 403, "external_not_allowed")


async def test_who_would_wait_long_inside_goes_out_where_that_is_allowed(start: Two) -> None:
    inside = engine("a", lambda body: chat_script(WORDS, gap=0.2))
    outside = engine("b", going_on)
    each = {"a": {"max_concurrency": 1}, "b": OUTSIDE}
    door = await start(inside, outside, each=each, data_class="public", max_queue=0)
    first = asyncio.create_task(text_of(door))
    await eventually(lambda: inside.asked)
    assert await text_of(door) == "".join(WORDS)
    await first
    assert (len(inside.asked), len(outside.asked)) == (1, 1)


async def test_how_long_is_too_long_to_wait_inside_is_a_setting(start: Two) -> None:
    inside, outside = engine("a", lambda body: chat_script(WORDS, gap=0.05)), engine("b", going_on)
    each = {"a": {"max_concurrency": 1}, "b": OUTSIDE}
    door = await start(inside, outside, each=each, data_class="public", overflow_after=0.01)
    for _ in range(4):  # until it is known how long a turn takes
        await text_of(door)
    running = asyncio.create_task(text_of(door))
    await eventually(lambda: len(inside.asked) == 5)
    await text_of(door)
    await running
    assert (len(inside.asked), len(outside.asked)) == (5, 1)
    async with door.client.get("/admin/v1/audit?action=overflow") as response:
        (line,) = (await response.json())["data"]
    assert line["after"]["reason"].startswith("a wait of ")


async def test_a_model_that_is_outside_alone_leaves_no_line_in_the_trail_for_each_request(start: Two) -> None:
    door = await start(engine("b", going_on), each={"b": OUTSIDE}, data_class="public")
    await text_of(door)
    async with door.client.get("/admin/v1/audit?action=overflow") as response:
        assert (await response.json())["data"] == []


async def test_prompts_that_begin_alike_go_to_one_engine_and_its_speed_is_learned(start: Two) -> None:
    engines = [engine(name, lambda body: chat_script(("hi",), prompt_tokens=900)) for name in "abc"]
    door = await start(*engines)
    for number in range(9):
        await text_of(door, content="the same instructions " * 200 + str(number))
    assert sorted(len(one.asked) for one in engines) == [0, 0, 9]
    async with door.client.get("/admin/v1/backends") as response:
        speeds = {one["name"]: one["prompt_tokens_per_second"] for one in (await response.json())["data"]}
    asked = next(one.name for one in engines if one.asked)
    assert speeds[asked] > max(speed for name, speed in speeds.items() if name != asked)


@pytest.mark.parametrize("name", ["Public", "a b", "", "x" * 40])
async def test_a_data_class_that_is_no_name_is_refused(start: Two, name: str) -> None:
    door = await start(engine("a", going_on))
    async with door.post(ask(model="m"), headers={"x-data-class": name}) as response:
        await error_of(response, 400)


# A settings file that changes ----------------------------------------------------------------------------------------


async def eventually_told(door: RunningDoor, line: str) -> None:
    async with asyncio.timeout(5):
        while True:
            async with door.client.get("/metrics") as response:
                if line in await response.text():
                    return
            await asyncio.sleep(0.05)


async def test_engines_come_and_go_with_the_settings_file_and_a_bad_one_changes_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "sekisho.yaml"
    given = {"redis_url": redis_url, "data_dir": str(tmp_path), "bootstrap_key": ADMIN_KEY}

    def write(*names: str, **more: Any) -> None:
        file.write_bytes(msgspec.json.encode(given | {"backends": named(*names)} | more))

    write("a")
    settings = load(file)
    async with running(App(settings, file=file, read=lambda: load(file)), None, settings) as door:
        fleet = door.app.door and door.app.door.fleet
        assert fleet is not None
        write("b", "c", aliases={"chat": "fake"})
        await eventually(lambda: set(fleet.members) == {"b", "c"}, seconds=5)
        async with door.post(ask(model="chat")) as response:
            assert response.status == 200
        file.write_text("backends: [{name: UPPER, kind: magic}]")
        await eventually_told(door, "sekisho_settings_refused 1.0")
        assert set(fleet.members) == {"b", "c"}
        write("c")
        await eventually(lambda: set(fleet.members) == {"c"}, seconds=5)


class Closing(FakeBackend):
    closed = False

    async def aclose(self) -> None:
        self.closed = True


async def test_an_engine_that_is_removed_finishes_what_it_has_begun(start: Two) -> None:
    leaving, staying = Closing(lambda body: chat_script(WORDS, gap=0.1), ("m",), "a"), engine("b", going_on)
    door = await start(leaving, staying, each={"b": {"weight": 0.001}})
    asking = asyncio.create_task(text_of(door))
    await eventually(lambda: leaving.asked)
    fleet = door.app.door and door.app.door.fleet
    assert fleet is not None
    await fleet.apply([one for one in door.settings.engines if one.name == "b"], {})
    assert await text_of(door) == "".join(WORDS)
    assert len(staying.asked) == 1
    assert not leaving.closed
    assert await asking == "".join(WORDS)
    await eventually(lambda: leaving.closed)


async def test_who_waits_for_an_engine_that_is_removed_goes_to_another(start: Two) -> None:
    leaving, staying = engine("a", lambda body: chat_script(WORDS, gap=0.3)), engine("b", going_on, models=("other",))
    door = await start(leaving, staying, each={"a": {"max_concurrency": 1}})
    running = asyncio.create_task(text_of(door))
    await eventually(lambda: leaving.asked)
    waiting = asyncio.create_task(text_of(door))
    await eventually(lambda: door.app.door is not None and door.app.door.lines.waiting == 1)
    fleet = door.app.door and door.app.door.fleet
    assert fleet is not None
    (kept,) = [one for one in door.settings.engines if one.name == "b"]
    await fleet.apply([kept.model_copy(update={"models": {"m": "other"}})], {})
    assert await asyncio.wait_for(waiting, 5) == "".join(WORDS)
    assert len(staying.asked) == 1
    assert await running == "".join(WORDS)


async def test_an_engine_that_has_come_back_is_given_a_growing_part_of_its_capacity(start: Two) -> None:
    well, sick = engine("a", going_on), engine("b", going_on)
    door = await start(well, sick, max_concurrency=50)
    assert door.app.door is not None
    rooms = door.app.door.lines.line("a")
    await eventually(lambda: {name: room.capacity for name, room in rooms.rooms.items()} == {"a": 50, "b": 50})
    sick.is_ready = False
    health, now = door.app.door.fleet.members["b"].health, time.monotonic()
    health.observe_failure(Unreachable("gone"), "1", now)
    door.app.door.fleet.heard("b")
    await eventually(lambda: rooms.rooms["b"].capacity == 0)
    sick.is_ready = True
    await eventually(lambda: 5 <= rooms.rooms["b"].capacity <= 15, seconds=5)
    assert rooms.rooms["a"].capacity == 50


# How they are --------------------------------------------------------------------------------------------------------


async def test_administrators_see_every_engine_and_why_it_is_as_it_is(start: Two) -> None:
    well, sick = engine("a", going_on), engine("b", raising(Rejected(401)))
    door = await start(well, sick, each={"a": {"weight": 0.001}})
    await text_of(door)
    async with door.client.get("/admin/v1/backends") as response:
        shown = {one["name"]: one for one in (await response.json())["data"]}
    assert (shown["a"]["state"], shown["a"]["models"], shown["a"]["line"]) == ("healthy", ["m"], "a")
    assert (shown["b"]["state"], shown["b"]["line"]) == ("misconfigured", "a")
    async with door.client.get("/metrics") as response:
        told = await response.text()
    assert 'sekisho_backend_up{backend="b"} 0.0' in told
    assert 'sekisho_attempts_total{backend="b",result="rejected"} 1.0' in told


async def test_an_engine_on_trial_has_passed_with_its_first_tokens(start: Two) -> None:
    slow = engine("a", lambda body: chat_script(WORDS, gap=5.0))
    slow.answer = lambda body: Script([event(chat_chunk({"content": "hi"})), 30.0, DONE])
    door = await start(slow)
    health = door.app.door and door.app.door.fleet.members["a"].health
    assert health is not None
    for number in range(3):
        health.observe_failure(Broken("cut"), str(number), time.monotonic() - 2)
    assert health.state(time.monotonic()).value == "failing"
    asking = [asyncio.create_task(text_of(door)) for _ in range(2)]
    await eventually(lambda: health.state(time.monotonic()).value == "healthy")
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_named_beginnings_keep_to_one_engine_and_their_hits_are_told(start: Two) -> None:
    def cached(body: bytes) -> Script:
        usage = usage_chunk(400, 1)
        usage["usage"] |= {"prompt_tokens_details": {"cached_tokens": 300}}  # type: ignore[operator]
        return Script([event(chat_chunk({"content": "hi"}, "stop")), event(usage), DONE])

    engines = [engine(name, cached) for name in "abcd"]
    door = await start(*engines)
    for number in range(24):
        fields = ask("instructions " * 200 + str(number), model="m")
        async with door.post(fields, headers={"x-prefix-id": f"rag-{number % 2}"}) as response:
            assert response.status == 200
    assert sorted(Counter(one.name for one in engines for _ in one.asked).values())[-2:] >= [10, 10]
    async with door.client.get("/v1/prefixes") as response:
        told = (await response.json())["data"]
    assert [(one["id"], one["requests"], one["hit_rate"]) for one in told] == [("rag-0", 12, 0.75), ("rag-1", 12, 0.75)]
