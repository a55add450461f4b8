"""Reads Prometheus' text with its own parser."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.metrics import Metrics

Sample = tuple[str, frozenset[tuple[str, str]]]


class Family(NamedTuple):
    kind: str
    labels: frozenset[str]  # names, as far as there are samples; without `le`


def exported(text: bytes) -> dict[Sample, float]:
    """Every sample by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def declared(metrics: Metrics) -> dict[str, Family]:
    """The same with the labels of those too of which there are no samples yet."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: Family(
            family.type, frozenset(family._labelnames)
        )
        for family in metrics._registry.collect()
    }


def families(text: bytes) -> dict[str, Family]:
    """By the name that is exported: that of a counter ends in _total."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
        found[name] = Family(family.type, labels)
    return found
