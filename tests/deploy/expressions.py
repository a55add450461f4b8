"""What a PromQL expression asks for, by a parser of the language: metrics, and labels that must be on each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser as promql

# What Grafana puts in before Prometheus sees it.
_GRAFANA = {"$__rate_interval": "1m"}
_OF_SCRAPES = frozenset({"instance", "job"})
_OF_BUCKETS = frozenset({"le"})


class Asked(NamedTuple):
    metric: str
    labels: frozenset[str]


def parsed(expression: str) -> Any:
    """Raises ValueError where it is not PromQL."""
    for name, value in _GRAFANA.items():
        expression = expression.replace(name, value)
    return promql.parse(expression)


def asked(expression: str) -> list[Asked]:
    """Every metric, with the labels that it is chosen by or added up by."""
    return list(_asked(parsed(expression), frozenset()))


def left(expression: str) -> frozenset[str]:
    """Labels that results are told apart by, as far as the expression says."""
    return _left(parsed(expression))


def unknown(expression: str, known: dict[str, frozenset[str]]) -> list[str]:
    """What the expression asks for that nobody exports. `known`: labels by metric, as families are called."""
    found = []
    for metric, labels in asked(expression):
        family = metric if metric in known else _family(metric)
        extra = _OF_SCRAPES | (_OF_BUCKETS if metric.endswith("_bucket") else frozenset())
        if family not in known:
            found.append(metric)
        elif missing := labels - known[family] - extra:
            found.append(f"{metric}: {', '.join(sorted(missing))}")
    return found


def _family(metric: str) -> str:
    """Of a histogram's samples."""
    for ending in ("_bucket", "_sum", "_count"):
        if metric.endswith(ending):
            return metric.removesuffix(ending)
    return metric


def _asked(node: Any, added_up_by: frozenset[str]) -> Iterator[Asked]:
    if isinstance(node, promql.MatrixSelector):
        node = node.vector_selector
    if isinstance(node, promql.VectorSelector):
        yield Asked(node.name, added_up_by | {matcher.name for matcher in node.matchers.matchers})
    if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
        added_up_by = added_up_by | frozenset(node.modifier.labels)
    for part in _parts(node):
        yield from _asked(part, added_up_by)


def _left(node: Any) -> frozenset[str]:
    if isinstance(node, promql.AggregateExpr):
        return frozenset(node.modifier.labels) if node.modifier is not None else frozenset()
    if isinstance(node, promql.VectorSelector):
        return _OF_SCRAPES
    return frozenset().union(*map(_left, _parts(node)))


def _parts(node: Any) -> list[Any]:
    names = ("expr", "lhs", "rhs")
    return [*(part for name in names if (part := getattr(node, name, None)) is not None), *getattr(node, "args", ())]
