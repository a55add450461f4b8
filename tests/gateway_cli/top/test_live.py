"""`sekisho top` before a running gateway: on a terminal, with keys pressed; once; as JSON; and what it refuses."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pyte
import pytest
from typer.testing import CliRunner, Result

from gateway.cli.console import CliError
from gateway.cli.main import app
from gateway.identity.records import Key, ServiceAccount
from tests.gateway.admin.conftest import ACTOR
from tests.gateway.admin.test_queue import gated

# The gateway and its store, for every test here.
from tests.gateway.conftest import (
    ADMIN_KEY,
    RunningDoor,
    StartDoor,
    ask,
    error_of,
    eventually,
    redis_url,
    start_door,
    valkey,
)
from tests.system.driving import COMMAND, clean_environment

__all__ = ["redis_url", "start_door", "valkey"]

COLUMNS, ROWS = 80, 24
PATIENCE = 60.0
LONG = aiohttp.ClientTimeout(total=10 * PATIENCE)


class Terminal:
    """A `sekisho top` at work, and the screen that a person would see."""

    def __init__(self, process: asyncio.subprocess.Process, master: int, slave: int) -> None:
        self.process = process
        self.slave = slave
        self._master = master
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        asyncio.get_running_loop().add_reader(master, self._read)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def shows(self, *what: str) -> None:
        await self.until(lambda: all(one in self.text for one in what), f"{what}")

    async def until(self, holds: Callable[[], bool], what: str = "") -> None:
        try:
            await eventually(holds, PATIENCE)
        except AssertionError:
            raise AssertionError(f"{what} never came:\n{self.text}") from None

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        os.close(self.slave)

    def _read(self) -> None:
        with suppress(OSError):
            self._stream.feed(os.read(self._master, 65536))


@asynccontextmanager
async def watching(door: RunningDoor, key: str = ADMIN_KEY) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = clean_environment(SEKISHO_API_KEY=key, TERM="xterm-256color")
    del environment["COLUMNS"]
    command = (*COMMAND, "top", "--url", door.url, "--interval", "0.5")
    process = await asyncio.create_subprocess_exec(*command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    terminal = Terminal(process, master, slave)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        terminal.close()


async def of_program(door: RunningDoor, name: str) -> dict[str, str]:
    assert door.app.door is not None
    await door.app.door.directory.create(None, ServiceAccount(id=name, name="社内ポータル"))
    made = await door.app.door.key_ring.issue(ACTOR, Key(id="", digest="", owner=f"service_account:{name}", name=name))
    return {"authorization": f"Bearer {made.key}"}


async def test_somebody_who_looks_sees_who_runs_and_waits_and_ends_a_request(start_door: StartDoor) -> None:
    door = await start_door(gated(asyncio.Event()), max_concurrency=1, key_cache_seconds=0)
    async with door.post(ask(stream=True), timeout=LONG), watching(door) as terminal:
        waiting = asyncio.create_task(_refused(door, await of_program(door, "portal")))
        await terminal.shows("Running[", "1/1", "api 1+1", "q quit")
        assert not termios.tcgetattr(terminal.slave)[3] & termios.ECHO
        terminal.press("4")
        await terminal.shows("waiting", "running", "PLACE")
        terminal.press("k")
        await terminal.shows("choose one among the requests")
        terminal.press("\x1b[B")
        await terminal.until(lambda: "choose" not in terminal.text)
        terminal.press("k")
        await terminal.shows("waiting)? y/N")
        terminal.press("n")
        await terminal.shows("Nothing was ended.")
        assert not waiting.done()
        terminal.press("ky")
        assert (await waiting)["code"] == "cancelled_by_administrator"
        await terminal.shows("is ended.")
        await terminal.until(lambda: "waiting" not in terminal.text)
        terminal.press("?")
        await terminal.shows("Any key goes back.")
        terminal.press("qq")
        assert await asyncio.wait_for(terminal.process.wait(), PATIENCE) == 0
        assert termios.tcgetattr(terminal.slave)[3] & termios.ECHO  # as it was before


async def _refused(door: RunningDoor, headers: dict[str, str]) -> dict[str, Any]:
    async with door.post(ask(), headers=headers, timeout=LONG) as response:
        return await error_of(response, 403)


@pytest.mark.slow
async def test_being_told_to_end_leaves_the_terminal_as_it_was(start_door: StartDoor) -> None:
    door = await start_door()
    async with watching(door) as terminal:
        await terminal.shows("q quit")
        terminal.process.terminate()
        assert await asyncio.wait_for(terminal.process.wait(), PATIENCE) == 0
        assert termios.tcgetattr(terminal.slave)[3] & termios.ECHO


async def top(*arguments: str, key: str = ADMIN_KEY) -> Result:
    environment = {"SEKISHO_API_KEY": key, "COLUMNS": "100"}
    return await asyncio.to_thread(CliRunner().invoke, app, ["top", *arguments], env=environment)


async def test_where_there_is_no_terminal_one_picture_is_printed(start_door: StartDoor) -> None:
    door = await start_door()
    async with door.post(ask()) as response:
        assert response.status == 200
    assert door.app.door is not None
    await door.app.door.activity.tell()
    for arguments in (("--once",), ()):
        result = await top("--url", door.url, *arguments)
        assert result.exit_code == 0, result.output
        for told in ("sekisho top", "Running[", "MODEL", "fake", "BACKEND", "healthy", "WHO", "admin"):
            assert told in result.stdout
        assert "\x1b" not in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 100


async def test_as_json_it_is_what_the_admin_api_answers(start_door: StartDoor) -> None:
    door = await start_door()
    found = json.loads((await top("--url", door.url, "--json")).stdout)
    assert sorted(found) == ["activity", "alerts", "backends", "queue"]
    assert (found["activity"]["object"], found["queue"]["object"]) == ("activity", "queue")
    assert [one["name"] for one in found["backends"]] == ["fake"]


@pytest.mark.parametrize("key", ["", "sk-skh-none"])
async def test_without_a_key_that_opens_it_says_what_to_give(start_door: StartDoor, key: str) -> None:
    door = await start_door()
    result = await top("--url", door.url, key=key)
    assert isinstance(result.exception, CliError)
    assert "key" in str(result.exception)


async def test_a_gateway_that_is_not_there_is_told_in_a_sentence() -> None:
    result = await top("--url", "http://127.0.0.1:9")
    assert isinstance(result.exception, CliError)
    assert "does not answer" in str(result.exception)
