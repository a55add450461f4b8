"""Rules and dashboards as they are shipped, and what may stand in them: metrics by the tables of the documentation."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import yaml

from tests.deploy.expressions import left
from tests.gateway.telemetry.table import documented
from tests.house.tree import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"

_PROMETHEUS_OWN = {"up": frozenset[str]()}


def rules() -> list[dict[str, Any]]:
    files = [yaml.safe_load(file.read_text("utf-8")) for file in sorted((PROMETHEUS / "rules").glob("*.yml"))]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def dashboards() -> dict[str, dict[str, Any]]:
    """By the name of its file."""
    return {file.stem: json.loads(file.read_text("utf-8")) for file in sorted((GRAFANA / "dashboards").glob("*.json"))}


def panels() -> list[dict[str, Any]]:
    return [panel for board in dashboards().values() for panel in board["panels"]]


@cache
def known() -> dict[str, frozenset[str]]:
    """Labels by metric: what gateway and engine export, and what the rules record."""
    ours = documented("The gateway") | documented("The native engine")
    recorded = {rule["record"]: left(rule["expr"]) for rule in rules() if "record" in rule}
    return {name: family.labels for name, family in ours.items()} | recorded | _PROMETHEUS_OWN


def braced(text: str, pattern: str = r"\{\{ ?\$labels\.(\w+)") -> set[str]:
    """Labels that a text puts in."""
    return set(re.findall(pattern, text))
