"""The live screen: asks the gateway now and then, hears the keyboard, draws. What keys do is for state.py to say."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from typing import Literal, NamedTuple

from rich.console import Group
from rich.live import Live

from gateway.cli.console import CliError, out
from gateway.cli.top.client import TopClient
from gateway.cli.top.keyboard import Keyboard
from gateway.cli.top.rows import Picture, picture
from gateway.cli.top.screen import lines
from gateway.cli.top.state import State, held, press


class _Event(NamedTuple):
    what: Literal["key", "picture", "fault", "told", "drawn", "quit"]
    text: str = ""
    picture: Picture | None = None


async def watch(url: str, api_key: str, interval: float) -> None:
    """Until q. Raises CliError where the first look fails; later ones are told and tried again."""
    async with TopClient(url, api_key) as client:
        await _Watch(client, url, interval, picture(await client.look())).run()


class _Watch:
    def __init__(self, client: TopClient, url: str, interval: float, first: Picture) -> None:
        self._client = client
        self._url = url
        self._interval = interval
        self._picture = first
        self._state = State()
        self._fault = ""
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """A request that is being ended is waited for."""
        self._on_signals()
        with Keyboard(sys.stdin.fileno(), lambda key: self._events.put_nowait(_Event("key", key))):
            async with self._tasks:
                looking = self._tasks.create_task(self._keep_looking())
                await self._draw_all()
                looking.cancel()

    async def _draw_all(self) -> None:
        with Live(console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(self._screen(), refresh=True)
                event = await self._events.get()
                if not self._heed(event):
                    return

    def _screen(self) -> Group:
        width, height = out.size
        return Group(
            *lines(self._picture, self._state, width, height, self._url, self._interval, self._fault), fit=False
        )

    def _heed(self, event: _Event) -> bool:
        """Whether to go on."""
        if event.what == "key":
            return self._press(event.text)
        if event.what == "picture" and event.picture is not None and not self._state.paused:
            self._picture, self._fault = event.picture, ""
            self._state = held(self._state, self._picture)
        elif event.what == "fault":
            self._fault = event.text
        elif event.what == "told":
            self._state = replace(self._state, told=event.text)
        return event.what != "quit"

    def _press(self, key: str) -> bool:
        self._state, do = press(self._state, key, self._picture)
        if do is not None and do.what == "cancel":
            self._tasks.create_task(self._cancel(do.id))
        return do is None or do.what != "quit"

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self._look()

    async def _look(self) -> None:
        try:
            self._events.put_nowait(_Event("picture", picture=picture(await self._client.look())))
        except CliError as fault:
            self._events.put_nowait(_Event("fault", str(fault)))

    async def _cancel(self, request_id: str) -> None:
        try:
            await self._client.cancel(request_id)
        except CliError as fault:
            self._events.put_nowait(_Event("told", str(fault)))
            return
        self._events.put_nowait(_Event("told", f"Request {request_id} is ended."))
        await self._look()

    def _on_signals(self) -> None:
        """Whatever ends the process leaves the terminal as it was."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, self._events.put_nowait, _Event("quit"))
        loop.add_signal_handler(signal.SIGWINCH, self._events.put_nowait, _Event("drawn"))
