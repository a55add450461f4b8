"""`sekisho run-batch` at a real door: results beside the input, and an interrupted run that goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backends.fake import chat_script
from gateway.cli import batch_client, run_batch
from gateway.cli.console import CliError
from gateway.cli.main import app
from tests.gateway.batches.conftest import jsonl, request
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, redis_url, start_door

__all__ = ["redis_url", "start_door"]


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_batch, "_LOOK_SECONDS", 0.05)


async def run(door: RunningDoor, folder: Path, *more: str) -> Result:
    files = ("-i", str(folder / "in.jsonl"), "-o", str(folder / "out.jsonl"))
    arguments = ["run-batch", *files, "--url", door.url, "--api-key", ADMIN_KEY, *more]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def put(folder: Path, *lines: Any) -> None:
    (folder / "in.jsonl").write_bytes(jsonl(*lines))


def names(path: Path) -> list[str]:
    return sorted(json.loads(line)["custom_id"] for line in path.read_text().splitlines())


async def test_results_lie_where_they_were_wanted_and_nothing_else_does(start_door: StartDoor, tmp_path: Path) -> None:
    door = await start_door(data_dir=tmp_path / "data")
    put(tmp_path, request("a"), request("b"))
    result = await run(door, tmp_path)
    assert result.exit_code == 0, result.output
    assert "completed, 2 of 2 completed" in result.stdout
    assert names(tmp_path / "out.jsonl") == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "in.jsonl", "out.jsonl"]


async def test_lines_that_failed_are_counted_and_lie_in_a_file_of_their_own(
    start_door: StartDoor, tmp_path: Path
) -> None:
    door = await start_door(data_dir=tmp_path / "data")
    put(tmp_path, request("a"), request("b", temperature=9), request("c", temperature=9))
    result = await run(door, tmp_path)
    assert isinstance(result.exception, CliError)
    assert result.exception.exit_code == 1
    assert "2 of 3 lines failed" in str(result.exception)
    assert names(tmp_path / "out.jsonl") == ["a"]
    assert names(tmp_path / "out.errors.jsonl") == ["b", "c"]


async def test_what_is_wrong_with_the_input_is_told_by_line(start_door: StartDoor, tmp_path: Path) -> None:
    door = await start_door(data_dir=tmp_path / "data")
    put(tmp_path, request("a"), request("a"))
    result = await run(door, tmp_path)
    assert "line 2: An earlier line has the same custom_id." in str(result.exception)
    assert not (tmp_path / "out.jsonl.batch").exists()


async def test_an_interrupted_run_goes_on_watching_the_same_batch(
    start_door: StartDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await start_door(data_dir=tmp_path / "data")
    door.backend.answer = lambda body: chat_script(("word",), delay=0.3)
    put(tmp_path, request("a"))

    async def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(run_batch, "_watched", interrupted)
        result = await run(door, tmp_path)
    assert result.exit_code == 130
    assert "goes on at the gateway" in result.stderr
    put(tmp_path, request("a"), request("b"))
    assert "another input" in str((await run(door, tmp_path)).exception)
    put(tmp_path, request("a"))
    result = await run(door, tmp_path)
    assert result.exit_code == 0, result.output
    assert "Going on with batch_" in result.stderr
    assert names(tmp_path / "out.jsonl") == ["a"]
    assert len(door.backend.asked) == 1


async def test_a_gateway_that_is_away_for_a_while_is_waited_for(
    start_door: StartDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await start_door(data_dir=tmp_path / "data")
    monkeypatch.setattr(batch_client, "_RETRY_SECONDS", 0.01)
    put(tmp_path, request("a"))
    call, calls = batch_client.BatchClient._call, []

    async def sometimes(self: Any, method: Any, path: str, **body: Any) -> Any:
        calls.append(path)
        if len(calls) in (3, 4):
            raise batch_client.Away(door.url, 503)
        return await call(self, method, path, **body)

    door.backend.answer = lambda body: chat_script(("word",), delay=0.3)
    monkeypatch.setattr(batch_client.BatchClient, "_call", sometimes)
    result = await run(door, tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("does not answer") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), (b"", "no request"), (b"[]\n", "no request"), (b"\xff", "no request")],
)
async def test_what_cannot_be_a_batch_is_refused_before_anything_is_sent(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "in.jsonl").write_bytes(content)
    arguments = ["run-batch", "-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out"), "--api-key", "x"]
    result = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--url", "http://127.0.0.1:9"])
    assert message in str(result.exception)


def test_without_a_key_it_says_how_to_give_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run-batch", "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out")])
    assert "SEKISHO_API_KEY" in str(result.exception)
