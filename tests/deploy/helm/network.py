"""Who reaches whom, by the rules of Kubernetes' NetworkPolicy: as far as our policies use them, and no farther."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_network
from typing import Any

from tests.deploy.helm.charts import NAMESPACE, Object, containers, workloads


@dataclass(frozen=True)
class Pod:
    labels: dict[str, str]
    namespace: str = NAMESPACE
    ports: dict[str, int] = field(default_factory=dict)  # by their names


Place = Pod | IPv4Address


def pods(objects: list[Object]) -> dict[str, Pod]:
    """One of each component."""
    return {name: _pod(workload) for name, workload in workloads(objects).items()}


def reaches(policies: list[Object], source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
    """Both sides have to let it through; what no policy of a direction selects is open there."""
    ways: tuple[tuple[str, str, Place, Place], ...] = (
        ("Egress", "to", source, target),
        ("Ingress", "from", target, source),
    )
    return all(
        _lets_through(policies, direction, word, at, other, _Port(port, protocol, target))
        for direction, word, at, other in ways
    )


@dataclass(frozen=True)
class _Port:
    number: int
    protocol: str
    target: Place

    def within(self, given: list[dict[str, Any]] | None) -> bool:
        return not given or any(self._is(each) for each in given)

    def _is(self, given: dict[str, Any]) -> bool:
        number = given["port"]
        if isinstance(number, str):
            number = self.target.ports.get(number) if isinstance(self.target, Pod) else None
        return bool(number == self.number and given.get("protocol", "TCP") == self.protocol)


def _lets_through(policies: list[Object], direction: str, word: str, at: Place, other: Place, port: _Port) -> bool:
    if not isinstance(at, Pod):
        return True
    holding = [each["spec"] for each in policies if _selects(each, at) and direction in each["spec"]["policyTypes"]]
    rules = [rule for spec in holding for rule in spec.get(direction.lower()) or []]
    fitting = (rule for rule in rules if port.within(rule.get("ports")))
    return not holding or any(not rule.get(word) or _among(rule[word], other) for rule in fitting)


def _selects(policy: Object, pod: Pod) -> bool:
    return pod.namespace == policy["metadata"]["namespace"] and _matches(policy["spec"]["podSelector"], pod.labels)


def _among(peers: Iterable[dict[str, Any]], place: Place) -> bool:
    return any(_is_peer(peer, place) for peer in peers)


def _is_peer(peer: dict[str, Any], place: Place) -> bool:
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        if isinstance(place, Pod):
            return False  # networks of pods differ; ours lie in what `except` takes out
        left_out = (ip_network(network) for network in block.get("except", []))
        return place in ip_network(block["cidr"]) and not any(place in network for network in left_out)
    if not isinstance(place, Pod):
        return False
    if "namespaceSelector" in peer:
        inside = _matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": place.namespace})
    else:
        inside = place.namespace == NAMESPACE
    return inside and _matches(peer.get("podSelector", {}), place.labels)


def _matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def _pod(workload: Object) -> Pod:
    ports = [port for container in containers(workload) for port in container.get("ports", [])]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    return Pod(labels, ports={port["name"]: port["containerPort"] for port in ports})
