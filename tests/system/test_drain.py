"""A gateway that is told to stop lets answers under way end, for as long as `drain_seconds` says."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from tests.system.fleet import Fleet

pytestmark = [pytest.mark.slow, pytest.mark.system]
ENOUGH, TOO_LITTLE = "300", "1"


@pytest.mark.parametrize("seconds", [ENOUGH, TOO_LITTLE])
async def test_an_answer_ends_if_it_may_take_so_long(seconds: str, tmp_path: Path) -> None:
    async with Fleet(tmp_path, 1, SEKISHO_DRAIN_SECONDS=seconds) as fleet:
        gateway = fleet._processes[0]
        async with fleet.ask(0, tokens=9, gap=2.0) as response:  # ten seconds or so: longer than unless set
            said = await response.content.readuntil(b"\n\n")
            gateway.send_signal(signal.SIGTERM)
            with suppress(aiohttp.ClientPayloadError):  # cut
                async for part in response.content.iter_any():
                    said += part
        assert said.startswith(b"data:")
        assert (b"[DONE]" in said) == (seconds == ENOUGH)
        # Uvicorn sends itself the signal again when all is done.
        assert await asyncio.to_thread(gateway.wait, 60) == -signal.SIGTERM
