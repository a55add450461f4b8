"""`sekisho quotas` and `sekisho usage` at the terminal: files, differences, effect, and sums."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.identity.records import User, user_id
from gateway.usage import ledger
from gateway.usage.ledger import Used, Whose
from tests.gateway_cli.conftest import Terminal

ANN = User(id=user_id("https://id.example", "a"), issuer="https://id.example", subject="a", name="Ann")
DAY_MS = 1_790_000_000_000  # 2026-09-21

POLICIES = """
policies:
  staff:
    description: 全員
    requests_per_minute: 60
    cost_per_month: 12.50
  research:
    applies_to: [group:research, "user:usr_x"]
    models: ["large*"]
    tokens_per_day: 100000
    weights: {output: 4}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICIES, "utf-8")
    return path


def stored(terminal: Terminal) -> dict[str, Any]:
    return {one["id"]: one for one in terminal.json("quotas", "list")["data"]}


def test_a_file_is_applied_after_its_difference_is_shown(terminal: Terminal, file: Path) -> None:
    shown = terminal.tells("quotas", "apply", str(file), "--yes")
    assert "+ staff\n    description: 全員\n" in shown
    assert "    applies_to: group:research, user:usr_x\n" in shown
    assert "    cost_per_month: 12.5\n" in shown
    assert set(stored(terminal)) == {"staff", "research"}
    assert terminal.tells("quotas", "apply", str(file), "--yes") == "Nothing to change.\n"
    actions = [line["action"] for line in terminal.json("audit", "list")["data"]]
    assert actions == ["policy.create", "policy.create"]


def test_changes_are_shown_field_by_field_and_nothing_else_changes(terminal: Terminal, file: Path) -> None:
    terminal.tells("quotas", "apply", str(file), "--yes")
    before = stored(terminal)
    file.write_text(
        POLICIES.replace("60", "30").replace("description: 全員", "shadow: true").replace("  research:", "  labs:")
    )
    difference = terminal.tells("quotas", "apply", str(file), "--dry-run", "--prune").splitlines()
    assert "~ staff" in difference
    changed = difference[difference.index("~ staff") + 1 :]
    assert "    requests_per_minute: 60 -> 30" in changed
    assert "    description: 全員 -> (none)" in changed
    assert "    shadow: (none) -> True" in changed
    assert not any("cost_per_month" in line for line in changed)
    assert "+ labs" in difference
    assert "- research" in difference
    assert stored(terminal) == before
    result = terminal.run("quotas", "apply", str(file), "--yes")
    assert "left as they are (--prune removes them): research." in result.stderr
    assert set(stored(terminal)) == {"staff", "research", "labs"}
    terminal.tells("quotas", "apply", str(file), "--yes", "--prune")
    assert set(stored(terminal)) == {"staff", "labs"}
    (line,) = terminal.json("audit", "list")["data"][:1]
    assert (line["action"], line["actor"]["via"], line["after"]) == ("policy.delete", "cli", None)


def test_nothing_is_applied_where_nobody_agrees(terminal: Terminal, file: Path) -> None:
    assert "--yes" in terminal.refuses("quotas", "apply", str(file))
    assert "--yes" in terminal.refuses("quotas", "apply", "-", stdin=POLICIES)
    assert stored(terminal) == {}
    terminal.tells("quotas", "apply", "-", "--yes", stdin=POLICIES)
    assert len(stored(terminal)) == 2


def test_an_empty_file_removes_all_only_with_prune(terminal: Terminal, file: Path) -> None:
    terminal.tells("quotas", "apply", str(file), "--yes")
    terminal.tells("quotas", "apply", "-", "--yes", stdin="policies:\n")
    assert len(stored(terminal)) == 2
    terminal.tells("quotas", "apply", "-", "--yes", "--prune", stdin="policies: {}\n")
    assert stored(terminal) == {}


def test_all_faults_of_a_file_are_told_at_once(terminal: Terminal) -> None:
    text = """
other: 1
policies:
  Bad Name: {requests_per_minute: 1}
  7: {requests_per_minute: 1}
  none: {}
  list: [1]
  a: {requests_per_minute: -1, tokens_per_month: 5, tokens_per_day: 6, colour: red}
  b: {applies_to: [group], cost_per_month: .inf, created: 1, id: c}
"""
    told = terminal.refuses("quotas", "apply", "-", "--yes", stdin=text)
    for part in ("other: ", "policies.Bad Name: id", "policies.7: ", "policies.none: ", "policies.list: "):
        assert f"\n  {part}" in told
    for part in ("a: requests_per_minute: -1", "a: tokens_per_day: 6", "a: colour", "b: applies_to", "b: created"):
        assert f"policies.{part}" in told
    assert "b: cost_per_month" in told
    assert stored(terminal) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "policies:"),
        ("[1]", "policies:"),
        ("policies: [1]", "policies:"),
        ("policies: {a: {requests_per_minute: 1}, a: {requests_per_minute: 2}}", "'a' stands twice"),
        ("policies: {a: {tokens_per_day: 1, tokens_per_day: 2}}", "'tokens_per_day' stands twice"),
        ("policies: {a: &x [*x]}", "policies.a"),
        ("policies: {a: {models: &x [*x]}}", "models"),
        ("policies: !!python/object/apply:os.system [ls]", "not YAML"),
        ("policies: {? [a] : {}}", "cannot be used"),
        ("[" * 5000, "cannot be used"),
        ("\x00", "not YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(terminal: Terminal, text: str, told: str) -> None:
    assert told in terminal.refuses("quotas", "apply", "-", "--yes", stdin=text)


def test_a_file_that_is_not_there_is_named(terminal: Terminal, tmp_path: Path) -> None:
    assert "nowhere.yaml cannot be read" in terminal.refuses("quotas", "apply", str(tmp_path / "nowhere.yaml"))
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    assert "UTF-8" in terminal.refuses("quotas", "apply", str(tmp_path / "latin"))


def test_what_is_shown_can_be_set(terminal: Terminal, file: Path) -> None:
    terminal.tells("quotas", "apply", str(file), "--yes")
    text = terminal.tells("quotas", "show", "research")
    assert yaml.safe_load(text)["weights"] == {"output": 4.0}
    assert terminal.tells("quotas", "set", "copy", "-", stdin=text) == text
    as_stored = stored(terminal)
    assert as_stored["copy"] | {"id": "research", "created": 0} == as_stored["research"] | {"created": 0}
    assert "requests_per_minute: 0" in terminal.refuses("quotas", "set", "x", "-", stdin="requests_per_minute: 0")
    assert "effective" in terminal.refuses("quotas", "set", "effective", "-", stdin="requests_per_minute: 1")
    assert "tokens_per_day: 100000" in terminal.tells("quotas", "list")
    terminal.tells("quotas", "delete", "copy")
    assert "no policy" in terminal.refuses("quotas", "delete", "copy")
    assert "no policy" in terminal.refuses("quotas", "show", "copy")


def test_what_holds_for_somebody_is_told(terminal: Terminal, file: Path) -> None:
    terminal.does(lambda office: office.directory.create(None, ANN))
    terminal.tells("quotas", "apply", str(file), "--yes")
    told = terminal.json("quotas", "effective", "--user", ANN.id, "--model", "large-1")
    assert [(one["limit"], one["left"]) for one in told["limits"]] == [
        ("requests_per_minute", 60),
        ("cost_per_month", "12.5"),
    ]
    table = terminal.tells("quotas", "effective", "--user", ANN.id, "--model", "large-1")
    assert f"user:{ANN.id}" in table
    assert "everyone" in table
    assert "no user" in terminal.refuses("quotas", "effective", "--user", "usr_nobody", "--model", "m")
    assert "user, service_account or key" in terminal.refuses("quotas", "effective", "--model", "m")


@pytest.fixture
def used(terminal: Terminal) -> None:
    terminal.does(lambda office: office.directory.create(None, ANN))
    calls = [
        ledger.settle("1", DAY_MS, Used(100, 10), Whose(ANN.id, "small")),
        ledger.settle("2", DAY_MS, Used(5, 1), Whose("rag/=1+1", "small", acting="rag")),
    ]
    terminal.does_on_store(lambda store: store.run_all(*calls))


@pytest.mark.usefixtures("used")
def test_use_is_shown_as_table_json_and_sheet(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEKISHO_PRICES", json.dumps({"small": {"input": 1, "output": 1000}}))
    days = ("--from", "2026-09-21", "--to", "2026-09-21")
    told = terminal.json("usage", *days)
    assert [(row["name"], row["prompt_tokens"], row["cost"]) for row in told["data"]] == [
        ("Ann", 100, "0.0101"),
        (None, 5, "0.001005"),
    ]
    table = terminal.tells("usage", *days, "--by", "service_account")
    assert "rag" in table
    assert "(none)" in table
    assert "total" in table
    sheet = terminal.tells("usage", *days, "--csv")
    assert [line[0] for line in csv.reader(sheet.splitlines())] == ["user", ANN.id, "rag/=1+1"]
    assert terminal.json("usage", "--from", "2026-09-22", "--to", "2026-09-22")["data"] == []


@pytest.mark.usefixtures("used")
def test_who_would_have_been_refused_is_told_by_file_and_by_name(terminal: Terminal, tmp_path: Path) -> None:
    days = ("--from", "2026-09-21", "--to", "2026-09-21")
    file = tmp_path / "strict.yaml"
    file.write_text("tokens_per_day: 60\nrequests_per_minute: 5\n")
    told = terminal.json("quotas", "what-if", str(file), *days)
    assert [(row["name"], row["used"], row["over"], row["refused"]) for row in told["data"]] == [("Ann", 110, 50, 1)]
    result = terminal.run("quotas", "what-if", str(file), *days)
    assert "1 of 1" in result.stdout
    assert "requests_per_minute: not known" in result.stderr
    assert "estimate" in result.stderr
    assert stored(terminal) == {}
    terminal.tells("quotas", "set", "loose", "-", stdin="cost_per_month: 5")
    assert "refused nobody" in terminal.run("quotas", "what-if", "loose", *days).stderr
    assert (
        json.loads(terminal.tells("quotas", "what-if", "-", "--json", *days, stdin="allowed_models: []"))["subjects"]
        == 2
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (("nowhere",), None, "neither a file nor the name of a policy"),
        (("-",), "requests_per_day: 0", "requests_per_day: 0"),
        (("-", "--from", "soon"), "requests_per_day: 1", "from"),
        (("-", "--from", "2026-09-22", "--to", "2026-09-21"), "requests_per_day: 1", "after"),
    ],
)
def test_a_what_if_that_cannot_be_asked_is_refused(
    terminal: Terminal, arguments: tuple[str, ...], stdin: str | None, told: str
) -> None:
    assert told in terminal.refuses("quotas", "what-if", *arguments, stdin=stdin)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--from", "soon"), "from"),
        (("--from", "2026-09-22", "--to", "2026-09-21"), "after"),
        (("--from", "2020-01-01", "--to", "2026-09-21"), "400 days"),
        (("--csv", "--json"), "contradict"),
    ],
)
def test_use_that_cannot_be_asked_for_is_refused(terminal: Terminal, arguments: tuple[str, ...], told: str) -> None:
    assert told in terminal.refuses("usage", *arguments)
