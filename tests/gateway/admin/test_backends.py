"""What administrators do with engines: hold off, weigh, add, remove and try them, heeded by every gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner, Result

from backends.base import Backend
from backends.errors import Rejected
from backends.fake import FakeBackend, chat_script
from gateway.cli.console import CliError
from gateway.cli.main import app
from gateway.routing.placing import Placed
from gateway.store import keys
from gateway.store.record import decode
from tests.gateway.admin.conftest import answer
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, ask, error_of, eventually

Engines = Callable[..., Awaitable[RunningDoor]]


@pytest.fixture
def start(start_door: StartDoor) -> Engines:
    """A door before these engines."""

    async def begin(*engines: FakeBackend) -> RunningDoor:
        described = [{"name": one.name, "kind": "fake", "url": "http://nowhere"} for one in engines]
        return await start_door(engines={one.name: one for one in engines}, backends=described)

    return begin


def engine(name: str, gap: float = 0.0, model: str = "m") -> FakeBackend:
    return FakeBackend(lambda body: chat_script(("a", "b", "c", "d"), gap=gap), (model,), name)


async def backend(door: RunningDoor, name: str) -> dict[str, Any]:
    found = {one["name"]: one for one in (await answer(door, "GET", "/backends"))["data"]}
    return dict(found[name])


async def chat(door: RunningDoor, status: int = 200) -> None:
    async with door.post(ask(model="m")) as response:
        assert response.status == status, await response.text()


async def test_a_drained_engine_takes_nobody_new_and_finishes_what_it_runs(start: Engines) -> None:
    one, other = engine("a", gap=0.3), engine("b")
    door = await start(one, other)
    await answer(door, "PATCH", "/backends/b", {"use": "drained"})
    running = asyncio.create_task(chat(door))
    await eventually(lambda: one.asked)
    shown = await answer(door, "PATCH", "/backends/a", {"use": "drained"})
    assert (shown["state"], shown["order"]["use"]) == ("drained", "drained")
    await answer(door, "PATCH", "/backends/b", {"use": "enabled"})
    await asyncio.gather(*(chat(door) for _ in range(5)))
    await running
    assert (len(one.asked), len(other.asked)) == (1, 5)
    assert not one.asked[0].aborted
    assert (await backend(door, "b"))["state"] == "healthy"


async def test_where_all_are_drained_a_request_is_refused(start: Engines) -> None:
    only = engine("a")
    door = await start(only)
    await answer(door, "PATCH", "/backends/a", {"use": "drained"})
    async with door.post(ask(model="m")) as response:
        await error_of(response, 503, "engine_unavailable")
        assert response.headers["retry-after"]
    assert only.asked == []


async def test_a_disabled_engine_is_as_if_it_were_not_named(start: Engines) -> None:
    door = await start(engine("a"), engine("b", model="n"))
    await answer(door, "PATCH", "/backends/a", {"use": "disabled"})
    await chat(door, 404)
    shown = await backend(door, "a")
    assert (shown["state"], shown["order"]) == ("disabled", {"added": False, "use": "disabled", "weight": None})


async def test_an_engine_whose_key_is_gone_stays_disabled_until_it_is_back(
    start_door: StartDoor, tmp_path: Path
) -> None:
    key = tmp_path / "engine.key"
    key.write_text("secret-of-it")
    described = [{"name": "a", "kind": "openai", "url": "http://127.0.0.1:9", "api_key_file": str(key)}]
    door = await start_door(engines={}, backends=[*described, {"name": "b", "kind": "fake", "url": "http://nowhere"}])
    await answer(door, "PATCH", "/backends/a", {"use": "disabled"})
    key.unlink()
    for use in ("enabled", "drained"):
        async with door.client.patch("/admin/v1/backends/a", json={"use": use}) as response:
            error = await error_of(response, 409, "conflict")
        assert str(key) in error["message"]
        assert "Nothing was changed" in error["message"]
        assert (await backend(door, "a"))["order"]["use"] == "disabled"
    await answer(door, "PATCH", "/backends/a", {"weight": 2})
    key.write_text("secret-of-it")
    assert (await answer(door, "PATCH", "/backends/a", {"use": "enabled"}))["order"]["use"] == "enabled"


async def test_a_name_is_pointed_elsewhere_ended_and_left_to_the_settings_again(start_door: StartDoor) -> None:
    described = [{"name": name, "kind": "fake", "url": "http://nowhere"} for name in ("a", "b")]
    one, other_one = engine("a"), engine("b", model="n")
    engines: dict[str, Backend] = {"a": one, "b": other_one}
    doors = [await start_door(engines=engines, backends=described, aliases={"fast": "m"}) for _ in range(2)]
    door, other = doors

    async def becomes(aliases: dict[str, str]) -> None:
        assert (await answer(door, "GET", "/backends"))["aliases"] == aliases
        assert other.app.door is not None
        fleet = other.app.door.fleet
        await eventually(lambda: fleet.aliases == aliases)

    assert (await answer(door, "PUT", "/aliases/fast", {"model": "n"}))["model"] == "n"
    await answer(door, "PUT", "/aliases/our%20model", {"model": "m"})
    await becomes({"fast": "n", "our model": "m"})
    async with door.post(ask(model="fast")) as response:
        assert response.status == 200
    assert (len(one.asked), len(other_one.asked)) == (0, 1)
    for name in ("fast", "our%20model"):
        await answer(door, "DELETE", f"/aliases/{name}")
        await answer(door, "DELETE", f"/aliases/{name}", status=404)
    await becomes({})
    async with door.post(ask(model="fast")) as response:
        await error_of(response, 404, "model_not_found")
    await answer(door, "PUT", "/aliases/fast", {"model": "m"})
    await becomes({"fast": "m"})
    assert door.app.door is not None
    assert door.app.door.placing.renamed == {}, "what the settings say needs no order"
    actions = [line["action"] for line in (await answer(door, "GET", "/audit"))["data"]]
    assert actions[:3] == ["alias.delete", "alias.delete", "alias.change"]


@pytest.mark.parametrize(
    ("name", "model", "status"), [("fast", "fast", 400), ("slow", "fast", 400), ("m", "n", 409), ("%0a", "m", 400)]
)
async def test_what_cannot_be_an_alias_is_refused(start_door: StartDoor, name: str, model: str, status: int) -> None:
    door = await start_door(engine("a"), aliases={"fast": "m"})
    await answer(door, "PUT", f"/aliases/{name}", {"model": model}, status=status)
    assert (await answer(door, "GET", "/backends"))["aliases"] == {"fast": "m"}


async def test_an_order_counts_at_another_gateway_and_after_a_restart(start: Engines) -> None:
    one, other = await start(engine("a")), await start(engine("a"))
    await answer(one, "PATCH", "/backends/a", {"use": "drained", "weight": 3})
    placing, fleet = other.app.door.placing, other.app.door.fleet  # type: ignore[union-attr]
    await eventually(lambda: "a" in placing.orders)
    assert fleet.members["a"].settings.weight == 3
    third = await start(engine("a"))
    shown = await backend(third, "a")
    assert (shown["state"], shown["weight"]) == ("drained", 3)
    await answer(third, "PATCH", "/backends/a", {"use": "enabled", "weight": None})
    await eventually(lambda: fleet.members["a"].settings.weight == 1 and not fleet.members["a"].health.drained)


class Service:
    """An OpenAI-compatible engine on a real port; knows which keys it was shown."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.url = ""

    async def chat(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers["authorization"])
        body = b"".join(step for step in chat_script(("Hello",)).steps if isinstance(step, bytes))
        return web.Response(body=body, content_type="text/event-stream")

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "spare"}]})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made, app = Service(), web.Application()
    app.router.add_post("/v1/chat/completions", made.chat)
    app.router.add_get("/v1/models", made.models)
    async with TestServer(app) as server:
        made.url = str(server.make_url("")).rstrip("/")
        yield made


async def test_an_engine_is_added_used_tried_and_removed(start: Engines, service: Service) -> None:
    door = await start(engine("a"))
    new = {"name": "spare", "kind": "openai", "url": service.url, "api_key": "hush-hush", "models": {"n": "spare"}}
    shown = await answer(door, "POST", "/backends", new, status=201)
    assert shown["order"]["added"]
    async with door.post(ask(model="n")) as response:
        assert response.status == 200, await response.text()
    trial = await answer(door, "POST", "/backends/spare/test")
    assert (trial["ok"], trial["model"], trial["error"]) == (True, "n", "")
    assert 0 < trial["ttft_seconds"] <= trial["seconds"]
    assert service.keys == {"Bearer hush-hush"}
    await answer(door, "DELETE", "/backends/spare")
    async with door.post(ask(model="n")) as response:
        assert response.status == 404


async def test_the_key_of_an_added_engine_is_neither_shown_nor_readable_where_it_lies(
    start: Engines, service: Service
) -> None:
    door = await start(engine("a"))
    new = {"name": "spare", "kind": "openai", "url": service.url, "api_key": "hush-hush", "models": {"n": "spare"}}
    shown = await answer(door, "POST", "/backends", new, status=201)
    store = door.app.door.store  # type: ignore[union-attr]
    stored = await store.command("GET", keys.record("backend", "spare"))
    trail = await answer(door, "GET", "/audit")
    assert decode(stored, Placed).api_key
    assert "hush" not in f"{shown} {stored} {trail}"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"url": "unix:/run/valkey.sock"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "http://a..b/"}, "url"),
        ({"url": "http://127.0.0.1:99999"}, "url"),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, "api_key_env"),
        ({"api_key_file": "/etc/shadow"}, "api_key_file"),
        ({"allow_groups": ["staff"]}, None),
        ({"name": "a"}, "name"),
        ({"weight": 0}, "weight"),
    ],
)
async def test_what_cannot_be_added_is_refused_by_name(
    start: Engines, change: dict[str, Any], param: str | None
) -> None:
    door = await start(engine("a"))
    new = {"name": "new", "kind": "openai", "url": "http://127.0.0.1:9"} | change
    refused = await answer(door, "POST", "/backends", new, status=409 if param == "name" else 400)
    assert refused["error"]["param"] == param
    assert len((await answer(door, "GET", "/backends"))["data"]) == 1


async def test_an_engine_of_the_settings_is_not_removed(start: Engines) -> None:
    door = await start(engine("a"))
    refused = await answer(door, "DELETE", "/backends/a", status=409)
    assert "Disable it here" in refused["error"]["message"]
    await answer(door, "DELETE", "/backends/unknown", status=404)


async def test_a_trial_says_what_was_wrong(start: Engines) -> None:
    def refusing(body: bytes) -> Any:
        raise Rejected(401, b'{"error": "no"}')

    door = await start(FakeBackend(refusing, ("m",), "a"))
    trial = await answer(door, "POST", "/backends/a/test")
    assert not trial["ok"]
    assert "401" in trial["error"]
    newest = (await answer(door, "GET", "/audit"))["data"][0]
    assert (newest["action"], newest["target"]) == ("backend.test", "backend:a")


async def test_the_command_line_does_the_same(start: Engines) -> None:
    door = await start(engine("a"))

    async def run(*arguments: str) -> Result:
        where = ["--url", door.url, "--api-key", ADMIN_KEY]
        return await asyncio.to_thread(CliRunner().invoke, app, ["backends", *arguments, *where])

    result = await run("set", "a", "--use", "drained", "--weight", "2")
    assert (result.exit_code, result.stderr) == (0, "a is drained, weight 2\n")
    shown = await backend(door, "a")
    assert (shown["state"], shown["weight"]) == ("drained", 2)
    await run("set", "a", "--use", "enabled", "--weight", "0")
    assert (await backend(door, "a"))["order"] == {"added": False, "use": "enabled", "weight": None}
    assert "a answered as m in" in (await run("test", "a")).stderr
    refused = await run("set", "b", "--use", "drained")
    assert isinstance(refused.exception, CliError)
    assert "There is no backend 'b'" in str(refused.exception)
