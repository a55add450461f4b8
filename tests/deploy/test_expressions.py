"""The checks of names can fail."""

from __future__ import annotations

import pytest

from tests.deploy.expressions import left, parsed, unknown

KNOWN = {"a_total": frozenset({"model"}), "h_seconds": frozenset({"model", "class"})}


@pytest.mark.parametrize(
    ("expression", "missing"),
    [
        ("sum by (model) (rate(a_total[5m]))", []),
        ('histogram_quantile(0.9, sum by (le, class) (rate(h_seconds_bucket{model=~"m"}[$__rate_interval])))', []),
        ("rate(h_seconds_sum[5m]) / (rate(h_seconds_count[5m]) > 0)", []),
        ("rate(b_total[5m])", ["b_total"]),
        ("max by (instance) (a)", ["a"]),
        ('a_total{route="x"} > 1', ["a_total: route"]),
        ("sum by (class) (a_total)", ["a_total: class"]),
        ("sum by (le) (h_seconds_sum)", ["h_seconds_sum: le"]),
        ("max(c) or vector(0)", ["c"]),
    ],
)
def test_what_nobody_exports_is_named(expression: str, missing: list[str]) -> None:
    assert unknown(expression, KNOWN) == missing


def test_results_are_told_apart_by_what_was_added_up_by() -> None:
    assert left("sum by (model, le) (rate(h_seconds_bucket[5m])) > 2") == {"model", "le"}
    assert left("sum(a_total)") == frozenset()


def test_what_is_no_promql_is_refused() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        parsed("sum(rate(a_total[5m])")
