"""`sekisho check --against`: what settings would change at a gateway that runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner, Result

from gateway.cli.main import app
from tests.gateway.conftest import ADMIN_KEY, RunningDoor


async def check(door: RunningDoor, file: Path, *more: str) -> Result:
    arguments = ["check", str(file), "--against", door.url, "--api-key", ADMIN_KEY, *more]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


async def test_what_would_change_is_told_with_when(door: RunningDoor, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    same = {"redis_url": door.settings.redis_url, "data_dir": str(tmp_path), "engine_kind": "fake"}
    file.write_text(json.dumps(same | {"bootstrap_key": ADMIN_KEY}))
    file.chmod(0o600)
    assert json.loads((await check(door, file, "--json")).stdout)["changes"] == []
    file.write_text(json.dumps(same | {"bootstrap_key": ADMIN_KEY, "max_queue": 7, "aliases": {"chat": "fake"}}))
    result = await check(door, file)
    assert result.exit_code == 0
    assert "change: aliases: {} > {'chat': 'fake'}\n" in result.stdout
    assert "change: max_queue: 512 > 7, after a restart\n" in result.stdout
    assert ADMIN_KEY not in result.output


async def test_a_key_that_may_not_see_settings_is_refused(door: RunningDoor, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("{}")
    result = await check(door, file, "--api-key", "sk-skh-x-0123456789abcdef")
    assert result.exit_code == 1
    assert "refuses" in str(result.exception)
