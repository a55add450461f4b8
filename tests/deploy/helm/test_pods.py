"""Pods: shut in as Kubernetes' "restricted" asks, ending slowly enough, and calling commands that exist."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from gateway import routes
from gateway.cli.main import app
from gateway.cli.parts import valkey_binary
from native_engine.server.serve import CLOSE_SECONDS, serve_engine
from tests.deploy.helm.charts import EXAMPLES, containers, example, kinds, one, render, workloads

PODS = [(name, part) for name in ("cpu", "gpu") for part in ("gateway", "engine", "valkey")] + [("external", "gateway")]


@pytest.mark.parametrize(("name", "part"), PODS)
def test_a_pod_is_shut_in(name: str, part: str) -> None:
    workload = workloads(example(name))[part]
    pod = workload["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"} & set(pod) == set()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    volumes = {kind for volume in pod["volumes"] for kind in volume if kind != "name"} if "volumes" in pod else set()
    assert volumes <= {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}
    for container in containers(workload):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is context["privileged"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"]["cpu"]
        assert not [port for port in container.get("ports", []) if "hostPort" in port]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_no_account_of_the_cluster_is_handed_to_anybody(name: str) -> None:
    objects = example(name)
    (account,) = kinds(objects, "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert not kinds(objects, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    used = {each["spec"]["template"]["spec"]["serviceAccountName"] for each in workloads(objects).values()}
    assert used == {account["metadata"]["name"]}


def test_a_rollout_of_gateways_takes_nobody_away_before_another_is_there() -> None:
    objects = example("cpu")
    gateway = workloads(objects)["gateway"]["spec"]
    assert gateway["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert gateway["replicas"] >= 2
    pod = gateway["template"]["spec"]
    (container,) = pod["containers"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert waits > 0
    assert waits + drain_seconds(objects) < pod["terminationGracePeriodSeconds"]
    spread = {each["topologyKey"] for each in pod["topologySpreadConstraints"]}
    assert spread == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    budget = one(objects, "PodDisruptionBudget", "sekisho-gateway")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == gateway["selector"]
    assert budget["selector"]["matchLabels"].items() <= gateway["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("longer", ["preStopSeconds", "drainSeconds"])
def test_a_longer_end_of_a_gateway_is_waited_for(longer: str) -> None:
    objects = render("--set", f"existingSecret=s,gateway.{longer}=300")
    pod = workloads(objects)["gateway"]["spec"]["template"]["spec"]
    waits = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 300 < waits + drain_seconds(objects) < pod["terminationGracePeriodSeconds"]


def drain_seconds(objects: list[dict[str, Any]]) -> int:
    return int(yaml.safe_load(one(objects, "ConfigMap", "sekisho-gateway")["data"]["sekisho.yaml"])["drain_seconds"])


def test_an_engine_has_the_time_that_it_takes_to_drain() -> None:
    pod = workloads(example("cpu"))["engine"]["spec"]["template"]["spec"]
    drain = signature(serve_engine).parameters["drain_seconds"].default
    assert pod["terminationGracePeriodSeconds"] > drain + CLOSE_SECONDS


def test_probes_of_gateways_ask_paths_that_need_no_key() -> None:
    (container,) = containers(workloads(example("cpu"))["gateway"])
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in asked.values()} == {"http"}
    assert {probe["path"] for probe in asked.values()} == routes.PROBES
    assert asked["liveness"]["path"] == asked["startup"]["path"] == "/healthz"  # no restart because Redis is away


@pytest.mark.parametrize(("name", "part"), [pair for pair in PODS if pair[1] != "valkey"])
def test_a_container_calls_a_command_that_exists(name: str, part: str) -> None:
    for container in containers(workloads(example(name))[part]):
        assert container["command"] == ["sekisho"]
        parsed(container["args"])


def parsed(arguments: list[str]) -> dict[str, Any]:
    """By the command line itself, which raises where it knows a word not."""
    command: Any = typer.main.get_group(app)
    while hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    found: dict[str, Any] = command.make_context(command.name, list(arguments)).params
    return found


def test_gpus_are_asked_for_and_shared_by_one_model() -> None:
    (container,) = containers(workloads(example("gpu"))["engine"])[1:]
    options = parsed(container["args"])
    assert (options["device"], options["tensor_parallel_size"], options["max_num_seqs"]) == ("gpu", 2, 256)
    assert (
        container["resources"]["limits"]["nvidia.com/gpu"]
        == container["resources"]["requests"]["nvidia.com/gpu"]
        == "2"
    )
    (plain,) = containers(workloads(example("cpu"))["engine"])[1:]
    assert parsed(plain["args"])["device"] == "cpu"
    assert "nvidia.com/gpu" not in plain["resources"]["limits"]


def test_a_model_that_lies_in_a_claim_is_read_and_not_written() -> None:
    objects = render("--set", "existingSecret=s,engine.models.pull=false,engine.models.claim=models")
    engine = workloads(objects)["engine"]
    (container,) = containers(engine)
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "models"]
    assert mount["readOnly"] is True
    assert "volumeClaimTemplates" not in engine["spec"]


def test_both_gateways_mount_the_same_files() -> None:
    pod = workloads(example("gpu"))["gateway"]["spec"]["template"]["spec"]
    assert {"name": "files", "persistentVolumeClaim": {"claimName": "sekisho-files"}} in pod["volumes"]
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted["files"] in one(example("gpu"), "ConfigMap", "sekisho-gateway")["data"]["sekisho.yaml"]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[int]:
    """The port of a real Valkey with the container's arguments."""
    (container,) = containers(workloads(example("cpu"))["valkey"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    moved = {"6379": str(port), "/data": str(tmp_path), "$(REDIS_PASSWORD)": "letters123"}
    arguments = [moved.get(word, word) for word in container["args"]]
    process = subprocess.Popen([valkey_binary(), *arguments], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_valkey_takes_its_arguments_keeps_what_it_has_and_asks_for_the_password(valkey: int, tmp_path: Path) -> None:
    assert b"NOAUTH" in said(valkey, b"PING\r\n")
    told = said(valkey, b"AUTH letters123\r\nCONFIG GET appendonly maxmemory maxmemory-policy save\r\n").split(b"\r\n")
    pairs = dict(zip(told[3::4], told[5::4], strict=False))
    assert (pairs[b"appendonly"], pairs[b"maxmemory-policy"], pairs[b"save"]) == (b"yes", b"noeviction", b"")
    assert pairs[b"maxmemory"] == str(2**30).encode()
    assert (tmp_path / "appendonlydir").exists()


def said(port: int, words: bytes) -> bytes:
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
                line.sendall(words + b"QUIT\r\n")
                return b"".join(iter(lambda: line.recv(4096), b""))
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
