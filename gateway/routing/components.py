"""Which backends share one line: those that serve a model in common, directly or by way of others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def lines_of(models: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """{backend: its line} of one tier, from {backend: models}. A line is called by the first of its backends."""
    first: dict[str, str] = {}
    parent = {name: name for name in models}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    order = {name: index for index, name in enumerate(models)}
    for name, served in models.items():
        for model in served:
            one, other = root(first.setdefault(model, name)), root(name)
            later, earlier = sorted((one, other), key=lambda it: -order[it])
            parent[later] = earlier
    return {name: root(name) for name in models}
