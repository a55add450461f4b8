"""`sekisho doctor` as it is typed: with the settings of the gateway, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.cli.doctor import gpu
from gateway.cli.main import app
from tests.gateway_cli.doctor.test_gpu import FITS


@pytest.fixture(autouse=True)
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_described", lambda: FITS)
    monkeypatch.setattr(gpu, "_gpus", lambda: ([], ""))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def verdicts(result: Result) -> dict[str, Any]:
    return {finding["subject"]: finding["verdict"] for finding in json.loads(result.stdout)}


def test_it_says_of_each_thing_how_it_is(tmp_path: Path) -> None:
    result = run("--port", "0", "--data-dir", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    for subject in ("Python", "torch", "native kernel", "Redis", "port", "data folder", "disk", "memory", "GPU"):
        assert subject in result.output
    assert not (tmp_path / "new").exists(), "looking must not leave anything"


def test_it_looks_with_the_settings_of_the_gateway(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.touch(0o600)
    engine = "{name: gpu, kind: vllm, url: 'http://127.0.0.1:1'}"
    config.write_text(f"port: 0\ndata_dir: {tmp_path}\nredis_url: redis://127.0.0.1:1\nbackends: [{engine}]\n")
    result = run("--config", str(config), "--json")
    assert result.exit_code == 1
    found = verdicts(result)
    assert (found["Redis"], found["engine gpu"], found["port"]) == ("fail", "fail", "ok")


def test_with_settings_that_cannot_be_used_it_looks_at_what_needs_none(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("prot: 1\n")
    result = run("--config", str(config), "--json", "--data-dir", str(tmp_path))
    assert result.exit_code == 1
    found = verdicts(result)
    assert found["prot"] == "fail"
    assert "memory" in found
    assert "Redis" not in found
