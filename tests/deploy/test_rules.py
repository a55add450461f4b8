"""Alerts: accepted by Prometheus, firing when they should and only then, each with a way out in the runbook."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import typer.main
import yaml

from gateway.cli.main import app
from tests.deploy.expressions import unknown
from tests.deploy.shipped import PROMETHEUS, alerts, braced, known, rules
from tests.external.packages import give_up

RUNBOOK = (PROMETHEUS / "README.md").read_text("utf-8")
CASES = yaml.safe_load((PROMETHEUS / "tests" / "alerts.yml").read_text("utf-8"))["tests"]


def promtool(*arguments: str) -> str:
    """What it says, after it has found nothing wrong."""
    command = shutil.which("promtool")
    if command is None:
        give_up("promtool", "Debian's package prometheus is not installed")
    done = subprocess.run(
        [command, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_prometheus_takes_the_configuration_and_all_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "config", "prometheus.yml")


def test_alerts_fire_when_they_should_and_are_quiet_otherwise() -> None:
    assert "SUCCESS" in promtool("test", "rules", "tests/alerts.yml")


@pytest.mark.parametrize("alert", sorted(alerts()))
@pytest.mark.parametrize("case", ["fire", "quiet"])
def test_there_is_a_case_in_which_an_alert(alert: str, case: str) -> None:
    names = [test["name"] for test in CASES if alert in test["name"] and case in test["name"]]
    assert names
    if case == "fire":
        told = [
            sample["labels"]
            for test in CASES
            for each in test["promql_expr_test"]
            for sample in each["exp_samples"]
            if "labels" in sample
        ]
        assert [labels for labels in told if f'alertname="{alert}", alertstate="firing"' in labels]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_is_exported(rule: dict[str, str]) -> None:
    assert unknown(rule["expr"], known()) == []


@pytest.mark.parametrize("alert", sorted(alerts()))
def test_an_alert_says_what_it_means_and_where_in_the_runbook_to_look(alert: str) -> None:
    rule = alerts()[alert]
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "runbook"}
    assert re.match(rf"deploy/prometheus/README\.md#{alert.lower()}: \w+", told["runbook"])
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.parametrize("alert", sorted(alerts()))
def test_labels_that_a_text_puts_in_are_those_of_the_alert(alert: str) -> None:
    rule = alerts()[alert]
    firing = re.compile(rf'ALERTS\{{alertname="{alert}", alertstate="firing"(.*)\}}')
    labels = next(found[1] for test in CASES if (found := firing.search(str(test))))
    assert braced(str(rule["annotations"])) <= set(re.findall(r"(\w+)=", labels))


def test_the_runbook_tells_of_every_alert_in_two_languages_and_of_no_other() -> None:
    sections = dict(re.findall(r"\n### (\w+)\n(.*?)(?=\n### |\Z)", RUNBOOK, re.DOTALL))
    assert set(sections) == set(alerts())
    words = ("**Means**", "**Look**", "**Do**", "**意味**", "**確認**", "**対処**")
    assert [(name, word) for name, text in sections.items() for word in words if f"\n- {word}" not in text] == []


def test_commands_that_the_runbook_names_exist() -> None:
    commands = typer.main.get_group(app).commands
    named = set(re.findall(r"`sekisho ([a-z-]+)(?: ([a-z-]+))?", RUNBOOK + str(alerts()))) - {("up", "")}
    assert ("queue", "list") in named
    for group, command in named:
        assert group in commands, group
        inner = getattr(commands[group], "commands", {})
        assert not inner or command in inner, (group, command)
