"""Engines and Valkey are reached by the gateway and by nobody else; the gateway by those who should."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from tests.deploy.helm.charts import EXAMPLES, example, kinds, render
from tests.deploy.helm.network import Place, Pod, pods, reaches

INGRESS = Pod({"app": "nginx"}, "ingress-nginx")
GATEWAYS = Pod({"app": "envoy"}, "gateways")
MONITORING = Pod({"app": "prometheus"}, "monitoring")
DNS = Pod({"k8s-app": "kube-dns"}, "kube-system")
STRANGERS: dict[str, Place] = {
    "beside": Pod({"app": "wiki"}),
    "elsewhere": Pod({"app": "wiki"}, "wiki"),
    "ingress": INGRESS,
    "gateways": GATEWAYS,
    "monitoring": MONITORING,
    "dns": DNS,
    "system": Pod({"app": "other"}, "kube-system"),
    "like ours, elsewhere": Pod(
        {"app.kubernetes.io/component": "gateway", "app.kubernetes.io/name": "sekisho"}, "wiki"
    ),
    "another release": Pod({"app.kubernetes.io/component": "gateway", "app.kubernetes.io/instance": "other"}),
    "internet": ip_address("203.0.113.9"),
    "node": ip_address("10.0.0.1"),
}  # type: ignore[dict-item]
METADATA = ip_address("169.254.169.254")
PUBLIC = ip_address("203.0.113.9")
PARTS = {"gateway": 8080, "engine": 8000, "valkey": 6379}


def policies(name: str) -> list[dict[str, object]]:
    return kinds(example(name), "NetworkPolicy")


@pytest.mark.parametrize("name", ["cpu", "gpu"])
@pytest.mark.parametrize("part", ["engine", "valkey"])
def test_only_the_gateway_reaches(name: str, part: str) -> None:
    ours = pods(example(name))
    others = STRANGERS | {other: pod for other, pod in ours.items() if other != "gateway"}
    reached_by = [
        who for who, at in others.items() for port in (22, PARTS[part]) if reaches(policies(name), at, ours[part], port)
    ]
    assert reached_by == []
    assert reaches(policies(name), ours["gateway"], ours[part], PARTS[part])
    assert not reaches(policies(name), ours["gateway"], ours[part], 22)


@pytest.mark.parametrize(("name", "door"), [("cpu", INGRESS), ("gpu", GATEWAYS), ("external", INGRESS)])
def test_people_come_in_through_the_ingress_alone_and_figures_go_to_monitoring_alone(name: str, door: Pod) -> None:
    gateway = pods(example(name))["gateway"]
    others = [at for at in STRANGERS.values() if at != door]
    assert [at for at in others if reaches(policies(name), at, gateway, gateway.ports["http"])] == []
    assert reaches(policies(name), door, gateway, gateway.ports["http"])
    others = [at for at in STRANGERS.values() if at != MONITORING]
    assert [at for at in others if reaches(policies(name), at, gateway, gateway.ports["metrics"])] == []
    assert reaches(policies(name), MONITORING, gateway, gateway.ports["metrics"])


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_gateway_reaches_names_and_providers_and_no_network_of_the_house(name: str) -> None:
    gateway = pods(example(name))["gateway"]
    assert reaches(policies(name), gateway, DNS, 53, "UDP")
    assert reaches(policies(name), gateway, PUBLIC, 443)
    for place, port in ((PUBLIC, 80), (ip_address("10.1.2.3"), 443), (METADATA, 443), (METADATA, 80)):
        assert not reaches(policies(name), gateway, place, port)


def test_what_is_elsewhere_is_reached_where_it_is_named() -> None:
    gateway = pods(example("external"))["gateway"]
    assert reaches(policies("external"), gateway, Pod({}, "inference"), 8000)
    assert reaches(policies("external"), gateway, Pod({}, "redis"), 26379)
    assert not reaches(policies("external"), gateway, Pod({}, "inference"), 22)
    assert not reaches(policies("cpu"), gateway, Pod({}, "inference"), 8000)


@pytest.mark.parametrize("pull", [True, False], ids=["pulling", "closed"])
def test_an_engine_reaches_the_world_only_to_fetch_its_model(pull: bool) -> None:
    objects = render("--set", f"existingSecret=s,engine.models.pull={str(pull).lower()},engine.models.claim=models")
    ours, rules = pods(objects), kinds(objects, "NetworkPolicy")
    assert reaches(rules, ours["engine"], PUBLIC, 443) == pull
    assert reaches(rules, ours["engine"], DNS, 53, "UDP") == pull
    inside: list[Place] = [ours["gateway"], ours["valkey"], Pod({"app": "wiki"}), ip_address("10.1.2.3"), METADATA]  # type: ignore[list-item]
    assert [at for at in inside for port in (80, 443, 6379, 8080) if reaches(rules, ours["engine"], at, port)] == []


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_pod_is_shut_both_ways_before_anything_is_opened(name: str) -> None:
    (deny,) = [each for each in kinds(example(name), "NetworkPolicy") if each["metadata"]["name"] == "sekisho-deny"]
    stranger = Pod({"app": "wiki"})
    for pod in pods(example(name)).values():
        assert not reaches([deny], stranger, pod, 8080)
        assert not reaches([deny], pod, PUBLIC, 443)


def test_where_nobody_is_named_nobody_comes_in() -> None:
    objects = render("--set", "existingSecret=s", "--set-json", "networkPolicy.ingressFrom=[]")
    gateway = pods(objects)["gateway"]
    assert [at for at in STRANGERS.values() if reaches(kinds(objects, "NetworkPolicy"), at, gateway, 8080)] == []


def test_the_reading_of_policies_knows_open_ones() -> None:
    rule = {"from": [{"podSelector": {"matchLabels": {"app": "wiki"}}}], "ports": [{"port": "http"}]}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]}
    policy = {"metadata": {"namespace": "ai"}, "spec": spec}
    wiki, other, target = Pod({"app": "wiki"}), Pod({"app": "blog"}), Pod({}, ports={"http": 8000})
    assert reaches([], other, target, 1)
    assert reaches([policy], wiki, target, 8000)
    assert not reaches([policy], wiki, target, 8001)
    assert not reaches([policy], other, target, 8000)
    assert not reaches([policy], Pod({"app": "wiki"}, "wiki"), target, 8000)
    rule["from"] = []
    assert reaches([policy], other, target, 8000)
