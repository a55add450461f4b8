"""A gateway is killed in the middle of a batch: another finishes it, and no line that has a result is asked again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.gateway.conftest import CHAT
from tests.system.counting_engine import MODEL
from tests.system.fleet import Fleet

pytestmark = [pytest.mark.slow, pytest.mark.system]
LINES = 120
TOKENS = 20


def line(number: int) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": f"hello {number} {TOKENS} 0.01"}]}
    return msgspec.json.encode({"custom_id": f"r{number}", "method": "POST", "url": CHAT, "body": body}) + b"\n"


async def begun(fleet: Fleet) -> dict[str, Any]:
    form = aiohttp.FormData({"purpose": "batch"})
    form.add_field("file", b"".join(map(line, range(LINES))), filename="in.jsonl")
    async with fleet.client.post(f"{fleet.url(0)}/v1/files", data=form) as response:
        file = await response.json()
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    async with fleet.client.post(f"{fleet.url(0)}/v1/batches", json=body) as response:
        assert response.status == 200, await response.text()
        return dict(await response.json())


async def until(fleet: Fleet, gateway: int, batch: dict[str, Any], least: int, status: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        async with fleet.client.get(f"{fleet.url(gateway)}/v1/batches/{batch['id']}") as response:
            found = dict(await response.json())
        if found["status"] == status and found["request_counts"]["completed"] >= least:
            return found
        assert time.monotonic() < deadline, (found, fleet.logs()[-5000:])
        await asyncio.sleep(0.05)


def recorded(folder: Path) -> list[str]:
    """Whole lines of results, of all files that hold any."""
    lines = [line for path in (folder / "files").iterdir() for line in path.read_bytes().split(b"\n")[:-1]]
    return [found["custom_id"] for line in lines if "response" in (found := msgspec.json.decode(line))]


async def test_a_killed_gateways_batch_is_finished_by_another_and_no_result_is_made_twice(tmp_path: Path) -> None:
    async with Fleet(tmp_path, 2, SEKISHO_LEASE_SECONDS="2") as fleet:
        batch = await begun(fleet)
        await until(fleet, 0, batch, 10, "in_progress")
        # Who runs it is a race: both are killed, one comes back.
        fleet.kill(0)
        fleet.kill(1)
        before = recorded(tmp_path)
        assert 10 <= len(before) < LINES
        totals = await fleet.counted()
        fleet.start(1)
        await fleet.ready(1)
        found = await until(fleet, 1, batch, LINES, "completed")
        assert found["request_counts"] == {"total": LINES, "completed": LINES, "failed": 0}
        async with fleet.client.get(f"{fleet.url(1)}/v1/files/{found['output_file_id']}/content") as response:
            results = [msgspec.json.decode(line) for line in (await response.read()).splitlines()]
        assert sorted(result["custom_id"] for result in results) == sorted(f"r{number}" for number in range(LINES))
        assert [result["custom_id"] for result in results[: len(before)]] == before
        asked_after = (await fleet.counted())["requests"] - totals["requests"]
        print(f"{len(before)} of {LINES} had a result at the kill; {asked_after} were asked after it")
        assert asked_after == LINES - len(before)
        assert all(result["response"]["body"]["usage"]["completion_tokens"] == TOKENS for result in results)
