"""`sekisho backends check`, as an operator reads it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from backends.check import CHECKS
from gateway.cli.console import CliError
from gateway.cli.main import app


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["backends", "check", "http://127.0.0.1:1", *arguments])


def test_every_check_is_a_line_and_a_failure_is_exit_code_1() -> None:
    result = check("--kind", "fake", "--json")
    outcomes = json.loads(result.stdout)
    assert [outcome["check"] for outcome in outcomes] == [one.name for one in CHECKS]
    assert {"ok", "failed"} <= {outcome["verdict"] for outcome in outcomes}
    assert result.exit_code == 1


def test_without_a_failure_it_exits_with_0_and_shows_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = [one for one in CHECKS if one.name in ("readiness", "models", "continuation")]
    monkeypatch.setattr("backends.check.CHECKS", passing)
    result = check("--kind", "fake")
    assert result.exit_code == 0
    for said in ("readiness", "ready", "1 listed", "not supported", "ms"):
        assert said in result.stdout
    assert "models: ok" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "cannot be examined"),
        (("--kind", "teapot"), "but native, openai"),
        (("--kind", "fake", "--model", "other"), "it serves no model other: fake"),
    ],
)
def test_what_cannot_be_examined_is_told_in_one_message(arguments: tuple[str, ...], said: str) -> None:
    result = check(*arguments)
    assert isinstance(result.exception, CliError)
    assert said in str(result.exception)
