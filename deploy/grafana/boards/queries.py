"""PromQL that panels have in common. `$__rate_interval` is Grafana's: four scrapes at least."""

from __future__ import annotations

from collections.abc import Iterable

from deploy.grafana.panels import Query

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def per_second(metric: str, matchers: str = "", by: str = "") -> str:
    """The rate of a counter, of all that scrape it together."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{matchers}}}[$__rate_interval]))"


def quantile(share: float, histogram: str, matchers: str = "", by: str = "") -> str:
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, {per_second(f'{histogram}_bucket', matchers, labels)})"


def quantiles(histogram: str, matchers: str = "", names: Iterable[str] = ("p50", "p95")) -> list[Query]:
    return [Query(quantile(_QUANTILES[name], histogram, matchers), name) for name in names]


def share(part: str, whole: str) -> str:
    """Nothing where there is nothing to share out."""
    return f"{part} / ({whole} > 0)"
