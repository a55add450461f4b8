"""The totals that slots are cut from: the metrics' and the engines', as figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.activity.slots import Amounts, Figure
from gateway.telemetry.metrics import Metrics


def of_metrics(metrics: Metrics) -> Amounts:
    """Requests by model, failures by code, and how many times fell between which edges: batch work waits by design."""
    found: dict[Figure, int] = {}

    def add(figure: Figure, amount: float) -> None:
        found[figure] = found.get(figure, 0) + round(amount)

    for (_, model, status, _), amount in metrics.requests.values.items():
        if model:
            add(("model", model, "requests"), amount)
            add(("model", model, "failed"), amount if int(status) >= 400 else 0)
    for (code,), amount in metrics.failures.values.items():
        add(("code", code, "failures"), amount)
    for (model, klass, result), amount in metrics.served.values.items():
        if klass != "batch":
            add(("model", model, "judged"), amount)
            add(("model", model, "met"), amount if result == "met" else 0)
    for what, times in (("ttft", metrics.ttft), ("tpot", metrics.tpot)):
        for (model, klass), counts in times.counts.items():
            for place, count in enumerate(counts):
                if count and klass != "batch":
                    add(("model", model, f"{what}.{place}"), count)
    return found


def of_engines(preemptions: Mapping[str, float]) -> Amounts:
    return {("backend", name, "preemptions"): round(total) for name, total in preemptions.items()}
