"""The chart: taken by Helm, by Kubernetes' own schemas and by our own programs, and refusing what it does not know."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gateway.settings import Settings, load
from gateway.settings.shown import LIVE
from tests.deploy.expressions import unknown
from tests.deploy.helm.charts import (
    CHART,
    EXAMPLES,
    HERE,
    NAMESPACE,
    containers,
    environment,
    example,
    helm,
    kinds,
    one,
    render,
    run,
    workloads,
)
from tests.deploy.shipped import PROMETHEUS, known
from tests.house.tree import ROOT

README = (ROOT / "deploy" / "helm" / "README.md").read_text("utf-8")
CUSTOM = ("HTTPRoute", "PrometheusRule", "ScaledObject", "ServiceMonitor")
SECRET = {"redis-password": "p@ss/w0rd"}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_helm_finds_nothing_to_say_of(name: str) -> None:
    done = run("lint", str(CHART), "--strict", "--values", str(EXAMPLES[name]))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.30", "1.37"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_kubernetes_knows_every_field_of(name: str, version: str) -> None:
    objects = [each for each in example(name) if each["kind"] not in CUSTOM]
    assert len(objects) > 5
    for each in objects:
        assert kubernetes_validate.validate(each, version, strict=True) == version


def test_custom_resources_are_as_their_definitions_say() -> None:
    helm()  # brings the schemas too
    objects = kinds(example("gpu"), *CUSTOM)
    assert {each["kind"] for each in objects} == set(CUSTOM)
    spoilt = [{**each, "spec": dict.fromkeys(each["spec"], 1)} for each in objects]
    assert _faults(objects) == []
    assert len(_faults(spoilt)) == len(objects)


def _faults(objects: list[dict[str, Any]]) -> list[str]:
    done = subprocess.run(
        ["node", "validate.mjs"],
        cwd=HERE,
        input=json.dumps(objects),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ("", "existingSecret: expected the name of a Secret"),
        ("existingSecret=s,replicas=3", "additional properties 'replicas' not allowed"),
        ("existingSecret=s,engine.gpu=1", "additional properties 'gpu' not allowed"),
        ("existingSecret=s,gateway.image.digest=latest", "does not match pattern"),
        ("existingSecret=s,gateway.replicas=0", "minimum"),
        ("existingSecret=s,exposure.kind=loadbalancer", "value must be one of"),
        ("existingSecret=s,valkey.enabled=false", "externalRedis.url: expected"),
        ("existingSecret=s,exposure.kind=ingress", "exposure.ingress.tlsSecret: expected"),
        ("existingSecret=s,settings.bootstrap_key=sk", "invalid propertyName"),
        ("existingSecret=s,valkey.maxmemory=much", "does not match pattern"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(values: str, named: str) -> None:
    done = run("template", "sekisho", str(CHART), "--set", values)
    assert done.returncode != 0
    assert named in done.stderr


def settings_of(name: str, tmp_path: Path, secret: dict[str, str] = SECRET) -> Settings:
    """As the gateway's own loader reads them in its container."""
    objects = example(name)
    for key in ("client-secret", "vllm-key"):
        (tmp_path / key).write_text("letters")
    text = one(objects, "ConfigMap", "sekisho-gateway")["data"]["sekisho.yaml"]
    file = tmp_path / "sekisho.yaml"
    file.write_text(text.replace("/run/secrets/sekisho", str(tmp_path)))
    return load(file, environment(containers(workloads(objects)["gateway"])[0], secret))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_gateway_takes_its_settings_and_finds_redis_and_engines(name: str, tmp_path: Path) -> None:
    settings = settings_of(name, tmp_path)
    objects = example(name)
    parts = workloads(objects)
    ports = {port["name"]: port["containerPort"] for port in containers(parts["gateway"])[0]["ports"]}
    assert (settings.port, settings.metrics_port) == (ports["http"], ports["metrics"])
    there = "redis+sentinel://sentinel-0.redis:26379,sentinel-1.redis:26379/sekisho"
    assert settings.redis_url == ("redis://sekisho-valkey:6379/0" if "valkey" in parts else there)
    assert settings.redis.login.password == SECRET["redis-password"]
    if "engine" in parts:
        scaled = kinds(objects, "ScaledObject")
        most = scaled[0]["spec"]["maxReplicaCount"] if scaled else parts["engine"]["spec"]["replicas"]
        service = parts["engine"]["spec"]["serviceName"]
        there = [f"http://sekisho-engine-{number}.{service}.{NAMESPACE}.svc:8000" for number in range(most)]
        assert [engine.url for engine in settings.engines] == there
        assert one(objects, "Service", service)["spec"]["publishNotReadyAddresses"]
    else:
        assert [engine.name for engine in settings.engines] == ["vllm"]


def test_no_secret_is_in_an_object_and_every_key_that_is_asked_for_is_described() -> None:
    asked = set()
    for name in EXAMPLES:
        objects = example(name)
        assert not kinds(objects, "Secret")
        for workload in workloads(objects).values():
            references = re.findall(r"'secretKeyRef': \{[^}]*'key': '([\w-]+)'", str(workload))
            asked |= {*references, *re.findall(r"'subPath': '([\w.-]+)'", str(workload))}
    assert asked == {"server.key", "redis-password", "redis-sentinel-password", "bootstrap-key", "open-webui-secret"}
    assert [key for key in asked if f"| `{key}` |" not in README] == []


def test_engines_and_aliases_change_without_new_pods_and_all_else_with_them() -> None:
    def mark(values: str) -> str:
        gateway = workloads(render("--set", f"existingSecret=s{values}"))["gateway"]
        return str(gateway["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])

    assert {"backends", "aliases"} == LIVE
    assert mark("") == mark(",settings.aliases.best=qwen") == mark(",engine.replicas=2")
    assert mark("") != mark(",settings.max_queue=3")


def test_rules_are_those_of_prometheus_and_under_its_names() -> None:
    source = sorted((PROMETHEUS / "rules").glob("*.yml"))
    assert [path.name for path in source] == sorted(path.name for path in (CHART / "rules").iterdir())
    assert [path.name for path in source if path.read_bytes() != (CHART / "rules" / path.name).read_bytes()] == []
    groups = [group for path in source for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    assert one(example("gpu"), "PrometheusRule", "sekisho")["spec"]["groups"] == groups
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    (monitor,) = kinds(example("gpu"), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["relabelings"][0]["replacement"] in {job["job_name"] for job in jobs}
    service = one(example("gpu"), "Service", "sekisho-gateway")
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_engines_grow_on_a_figure_that_gateways_export() -> None:
    (scaled,) = kinds(example("gpu"), "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    assert f'namespace="{NAMESPACE}"' in query
    assert unknown(query.replace(f', namespace="{NAMESPACE}"', ""), known()) == []
    assert "replicas" not in workloads(example("gpu"))["engine"]["spec"]
    assert "replicas" not in workloads(example("gpu"))["gateway"]["spec"]


def test_versions_are_those_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version, version)
    images = {containers(each)[0]["image"] for each in workloads(example("cpu")).values()}
    compose = yaml.safe_load((ROOT / "deploy" / "compose" / "compose.yaml").read_text("utf-8"))["services"]
    valkey = compose["valkey"]["image"].split("@")[1]
    assert images == {
        f"sekisho-gateway:{version}",
        f"sekisho-engine-cpu:{version}",
        f"docker.io/valkey/valkey@{valkey}",
    }


def test_the_readme_describes_every_value_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \| (.+) \|$", README, re.MULTILINE)
    told = {name: yaml.safe_load(default) for name, default, _ in rows}
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert told == dict(_leaves(values, told))
    assert all(len(words) > 10 for _, _, words in rows)


def _leaves(values: dict[str, Any], whole: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """A value that the table describes as a whole is not taken apart."""
    found = []
    for name, value in values.items():
        path = f"{before}{name}"
        deeper = isinstance(value, dict) and value and path not in whole
        found += _leaves(value, whole, f"{path}.") if deeper else [(path, value)]
    return found
