"""What a real Prometheus makes of gateway and engine: every rule is evaluated, every panel's query is answered."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.bench.servers import free_port
from deploy.grafana.boards import BOARDS
from tests.deploy.shipped import PROMETHEUS, alerts
from tests.external.packages import give_up
from tests.native_engine.tiny_model import write_gguf
from tests.system.driving import COMMAND, Up, clean_environment, eventually, question, request

LOADING_SECONDS = 120
MODEL = "tiny"


def _started(log: Path, *command: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(command, env=clean_environment(), stdout=output, stderr=output)


class Prometheus:
    """Scrapes these targets every second, with the rules that are shipped."""

    def __init__(self, folder: Path, **targets: str) -> None:
        command = shutil.which("prometheus")
        if command is None:
            give_up("prometheus", "Debian's package prometheus is not installed")
        jobs = [
            {"job_name": f"sekisho-{job}", "static_configs": [{"targets": [target]}]} for job, target in targets.items()
        ]
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(PROMETHEUS / "rules" / "*.yml")],
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        address = f"127.0.0.1:{free_port()}"
        self._api = f"http://{address}/api/v1"
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        self.process = _started(folder / "prometheus.log", command, *options, f"--web.listen-address={address}")

    def get(self, path: str, **parameters: str) -> Any:
        """Raises HTTPError for a query that is none, URLError until it listens."""
        url = f"{self._api}/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def listens(self) -> bool:
        try:
            return len(self.get("targets")["activeTargets"]) == 2
        except OSError:
            return False

    def values(self, expression: str) -> list[Any]:
        """Of a panel, with everything chosen at its top."""
        for name in ("model_name", "model", "backend", "instance"):
            expression = expression.replace(f"${name}", ".*")
        return list(self.get("query", query=expression.replace("$__rate_interval", "1m"))["result"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """With figures of a gateway and an engine that have answered and refused."""
    folder = tmp_path_factory.mktemp("watched")
    engine_port, metrics_port = free_port(), free_port()
    watching = Prometheus(folder, gateway=f"127.0.0.1:{metrics_port}", engine=f"127.0.0.1:{engine_port}")
    tiny = ("--model", str(write_gguf(folder / "tiny.gguf")), "--served-model-name", MODEL, "--max-num-seqs", "4")
    address = ("--port", str(engine_port), "--data-dir", str(folder / "engine"))
    engine = _started(folder / "engine.log", *COMMAND, "engine", *tiny, *address)
    where = {"SEKISHO_ENGINE_URL": f"http://127.0.0.1:{engine_port}", "SEKISHO_METRICS_PORT": str(metrics_port)}
    up = Up(folder / "data", "--no-engine", **where)
    try:
        up.wait_until("curl ", LOADING_SECONDS)
        eventually(lambda: _serves(up), LOADING_SECONDS, lambda: (folder / "engine.log").read_text(), engine)
        eventually(watching.listens, 60, lambda: (folder / "prometheus.log").read_text(), watching.process)
        _be_used(up, watching)
        yield watching
    finally:
        up.stop()
        for process in (engine, watching.process):
            process.terminate()
            process.wait(30)


def _serves(up: Up) -> bool:
    return [model["id"] for model in request(f"{up.url}/v1/models", up.key).json()["data"]] == [MODEL]


def _be_used(up: Up, watching: Prometheus) -> None:
    """Until what happened is seen: a figure is a rate once it was scraped before and after."""

    def ask() -> None:
        for stream in (True, False):
            body = question(model=MODEL, stream=stream, max_tokens=8)
            assert request(f"{up.url}/v1/chat/completions", up.key, body).status == 200
        assert request(f"{up.url}/v1/chat/completions", "sk-skh-nobody-0123456789abcdef", question()).status == 401

    def is_seen() -> bool:
        ask()
        time.sleep(0.5)
        return bool(watching.values("sekisho:goodput:ratio_5m") and watching.values("sekisho:ttft_seconds:p95_5m"))

    eventually(is_seen, 90, lambda: str(watching.get("targets")))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_panel_draws_what_was_really_exported(prometheus: Prometheus, board: Any) -> None:
    empty = [
        f"{panel.title}: {query.expr}"
        for panel in board.panels
        for query in panel.queries
        if not prometheus.values(query.expr) and not panel.quiet
    ]
    assert empty == []


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_choice_at_the_top_of_a_dashboard_has_values(prometheus: Prometheus, board: Any) -> None:
    for variable in board.variables:
        values = prometheus.get(f"label/{variable.label}/values", **{"match[]": variable.metric})
        assert set(values) - {""}


def test_every_rule_is_evaluated_and_no_alert_of_what_is_well_fires(prometheus: Prometheus) -> None:
    def rules() -> list[Any]:
        return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

    eventually(lambda: all(rule["health"] != "unknown" for rule in rules()), 60, lambda: str(rules()))
    assert [rule for rule in rules() if rule["health"] != "ok"] == []
    assert {rule["name"] for rule in rules() if rule["type"] == "alerting"} == set(alerts())
    away = ("SekishoNoEngine", "SekishoRedisAway", "SekishoSettingsRefused", "SekishoErrors")
    assert [rule["name"] for rule in rules() if rule["name"] in away and rule["state"] != "inactive"] == []
