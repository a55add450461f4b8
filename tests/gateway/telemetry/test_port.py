"""The metrics' own port: there if it was asked for, without a key, and with nothing else on it."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from gateway.app import App
from gateway.settings import SettingsError, load
from tests.gateway.conftest import ADMIN_KEY, StartDoor


async def test_metrics_are_on_their_own_port_without_a_key_and_nothing_else_is(start_door: StartDoor) -> None:
    door = await start_door(metrics_port=0)
    assert door.app.metrics_port is not None
    async with aiohttp.ClientSession(f"http://127.0.0.1:{door.app.metrics_port.port}") as nobody:
        async with nobody.get("/metrics") as response:
            assert (response.status, response.content_type) == (200, "text/plain")
            assert "sekisho_requests_total" in await response.text()
        for path in ("/", "/v1/models", "/admin/v1/users", "/healthz"):
            async with nobody.get(path) as response:
                assert response.status == 404


async def test_the_main_port_asks_for_an_auditors_key_all_the_same(start_door: StartDoor) -> None:
    door = await start_door(metrics_port=0)
    async with aiohttp.ClientSession(door.url) as nobody, nobody.get("/metrics") as response:
        assert response.status == 401


async def test_without_the_setting_there_is_no_such_port(start_door: StartDoor) -> None:
    assert (await start_door()).app.metrics_port is None


async def test_the_port_is_free_again_once_the_gateway_has_ended(redis_url: str, tmp_path: object) -> None:
    app = App(load(redis_url=redis_url, data_dir=tmp_path, engine_kind="fake", metrics_port=0))
    await app.open()
    assert app.metrics_port is not None
    port = app.metrics_port.port
    await app.aclose()
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


async def test_a_port_that_is_taken_is_said_by_the_name_of_its_setting(redis_url: str, tmp_path: object) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        app = App(load(redis_url=redis_url, data_dir=tmp_path, engine_kind="fake", metrics_port=port))
        with pytest.raises(OSError, match=f"metrics_port: {port} cannot be listened on"):
            await app.open()


def test_one_port_cannot_be_both() -> None:
    with pytest.raises(SettingsError, match="metrics_port"):
        load(port=8080, metrics_port=8080, bootstrap_key=ADMIN_KEY)
