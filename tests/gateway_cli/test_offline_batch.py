"""`sekisho run-batch --model`: a file answered by a model of its own, without a gateway."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.batches.results import Results
from gateway.cli.console import CliError
from gateway.cli.main import app
from tests.native_engine.tiny_model import write_gguf

CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def line(custom_id: str, url: str = PLAIN, **fields: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"prompt": "hello world"} if url == PLAIN else {}
    body = {"model": "tiny", "max_tokens": 4, "temperature": 0} | asked | fields
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def run(folder: Path, model: Path | str, *lines: Any) -> Result:
    (folder / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    files = ("-i", str(folder / "in.jsonl"), "-o", str(folder / "out.jsonl"))
    more = ("--model", str(model), "--data-dir", str(folder / "data"))
    return CliRunner().invoke(app, ["run-batch", *files, *more])


def results(path: Path) -> dict[str, Any]:
    return {each["custom_id"]: each for each in map(json.loads, path.read_text().splitlines())}


def test_each_line_is_answered_as_the_engine_would_and_no_key_is_asked_for(tmp_path: Path, model: Path) -> None:
    result = run(tmp_path, model, line("a"), line("b", n=2), line("c", prompt="hello world", logprobs=1))
    assert result.exit_code == 0, result.output
    assert "3 of 3 completed" in result.stdout
    found = results(tmp_path / "out.jsonl")
    assert sorted(found) == ["a", "b", "c"]
    response = found["b"]["response"]
    assert (response["status_code"], found["b"]["error"]) == (200, None)
    assert len(response["body"]["choices"]) == 2
    assert found["a"]["response"]["body"]["usage"]["completion_tokens"] == 4
    assert found["a"]["response"]["request_id"] != response["request_id"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_line_that_cannot_be_answered_has_its_reason_beside_the_others(tmp_path: Path, model: Path) -> None:
    result = run(tmp_path, model, line("good"), line("bad", max_tokens=100_000))
    assert isinstance(result.exception, CliError)
    assert "1 of 2 lines failed" in str(result.exception)
    assert list(results(tmp_path / "out.jsonl")) == ["good"]
    failed = results(tmp_path / "out.errors.jsonl")["bad"]["response"]
    assert failed["status_code"] == 400
    assert failed["body"]["error"]["code"] == "context_length_exceeded"


def test_a_run_that_was_cut_off_asks_only_what_is_left(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(str(number), CHAT, messages=[{"role": "user", "content": "hello"}]) for number in range(6)]
    add, added = Results.add, 0

    async def cut_off(self: Results, *more: Any) -> None:
        nonlocal added
        added += 1
        if added == 4:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        await add(self, *more)

    with monkeypatch.context() as context:
        context.setattr(Results, "add", cut_off)
        assert run(tmp_path, model, *lines).exit_code == 130
    output = tmp_path / "out.jsonl"
    before = output.read_bytes()
    assert 3 <= len(before.splitlines()) < 6
    output.write_bytes(before + b'{"custom_id": "4", "resp')  # as a killed process leaves it
    result = run(tmp_path, model, *lines)
    assert result.exit_code == 0, result.output
    assert f"{len(before.splitlines())} of 6 have their results" in result.stderr
    assert output.read_bytes().startswith(before)
    assert sorted(results(output)) == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("a"), line("a")], "line 2: An earlier line has the same custom_id."),
        ([line("a", "/v1/rerank")], "it can be one of /v1/chat/completions"),
        ([], "the first line of the input is no request"),
    ],
)
def test_what_is_no_batch_is_told_by_line_and_nothing_is_begun(
    tmp_path: Path, model: Path, lines: list[Any], message: str
) -> None:
    result = run(tmp_path, model, *lines)
    assert isinstance(result.exception, CliError)
    assert message in str(result.exception)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.gguf").write_text("notes")
    result = run(tmp_path, tmp_path / "notes.gguf", line("a"))
    assert isinstance(result.exception, CliError)
    assert "not a GGUF file" in str(result.exception)
