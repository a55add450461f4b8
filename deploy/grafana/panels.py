"""A panel as Grafana's dashboards describe it (JSON model, `schemaVersion` 42). Knows no metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Json = dict[str, Any]

WIDTH = 24  # of a dashboard, in columns
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# What is drawn under one of these names has the same colour on every panel.
_COLOURS = {
    "met": "green",
    "late": "orange",
    "slow": "yellow",
    "failed": "red",
    "p50": "light-blue",
    "p95": "blue",
    "p99": "purple",
    "median": "light-blue",
    "slowest twentieth": "blue",
    "running": "green",
    "waiting": "orange",
    "preempted": "red",
    "places": "text",
    "interactive": "green",
    "api": "blue",
    "batch": "purple",
    "prompt": "blue",
    "cached": "light-blue",
    "output": "green",
}


class Query(NamedTuple):
    """`legend`: a name, or `{{label}}`."""

    expr: str
    legend: str


class Limit(NamedTuple):
    """From this value on it is bad; with `floor`, below it."""

    value: float
    floor: bool = False


@dataclass(frozen=True)
class Panel:
    """`about`: what the figure means, in English and Japanese. `quiet`: nothing to draw is usual, and reads as 0."""

    title: str
    about: tuple[str, str]
    unit: str  # as Grafana calls it
    queries: Sequence[Query]
    kind: Literal["timeseries", "stat", "bargauge", "state-timeline"] = "timeseries"
    limit: Limit | None = None
    stacked: bool = False
    quiet: bool = False
    most: float | None = None  # the end of the scale
    width: int = 12
    height: int = 8

    def to_json(self, number: int, x: int, y: int) -> Json:
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": "\n\n".join(self.about),
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [self._target(place, query) for place, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": _OPTIONS[self.kind],
        }

    def _target(self, place: int, query: Query) -> Json:
        return {
            "refId": chr(ord("A") + place),
            "expr": query.expr,
            "legendFormat": query.legend,
            "instant": self.kind in ("stat", "bargauge"),
            "range": self.kind not in ("stat", "bargauge"),
        }

    def _defaults(self) -> Json:
        mode = "palette-classic" if self.kind == "timeseries" else "thresholds"
        found: Json = {"unit": self.unit, "min": 0, "thresholds": self._thresholds(), "color": {"mode": mode}}
        if self.most is not None:
            found["max"] = self.most
        if self.quiet:
            found["noValue"] = "0"
        if self.kind == "state-timeline":
            found["mappings"] = [_STATES]
        if self.kind == "timeseries":
            found["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 60 if self.stacked else 10,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if self.limit else "off"},
            }
        return found

    def _thresholds(self) -> Json:
        """Below the first step, and from each on."""
        steps: list[Json] = [{"color": "green", "value": None}]
        if self.limit is not None:
            below, above = ("red", "green") if self.limit.floor else ("green", "red")
            steps = [{"color": below, "value": None}, {"color": above, "value": self.limit.value}]
        return {"mode": "absolute", "steps": steps}

    def _overrides(self) -> list[Json]:
        return [
            {
                "matcher": {"id": "byName", "options": name},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
            for name, colour in _COLOURS.items()
            if self.kind == "timeseries" and self._may_draw(name)
        ]

    def _may_draw(self, name: str) -> bool:
        labels = {"{{result}}": ("met", "late", "slow", "failed"), "{{class}}": ("interactive", "api", "batch")}
        return any(name in (query.legend, *labels.get(query.legend, ())) for query in self.queries)


_STATES = {
    "type": "value",
    "options": {"0": {"text": "away", "color": "red"}, "1": {"text": "takes requests", "color": "green"}},
}
_LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": list[str]()}
_OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": _LEGEND,
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "value",
    },
    "bargauge": {
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
        "orientation": "horizontal",
        "displayMode": "basic",
        "showUnfilled": True,
    },
    "state-timeline": {
        "showValue": "never",
        "mergeValues": True,
        "rowHeight": 0.9,
        "legend": _LEGEND,
        "tooltip": {"mode": "single", "sort": "none"},
    },
}


class Variable(NamedTuple):
    """A choice at the top: the values that a label has on a metric."""

    label: str
    metric: str

    def to_json(self) -> Json:
        query = f"label_values({self.metric}, {self.label})"
        return {
            "type": "query",
            "name": self.label,
            "label": self.label,
            "datasource": _DATASOURCE,
            "query": {"query": query, "refId": "Variable"},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


@dataclass(frozen=True)
class Board:
    name: str  # of its file
    title: str
    about: tuple[str, str]
    variables: Sequence[Variable]
    panels: Sequence[Panel]

    def to_json(self) -> Json:
        return {
            "uid": f"sekisho-{self.name}",
            "title": self.title,
            "description": "\n\n".join(self.about),
            "tags": ["sekisho"],
            "schemaVersion": 42,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "browser",
            "links": [_OTHER_BOARDS],
            "templating": {"list": [_CHOICE_OF_DATASOURCE, *(variable.to_json() for variable in self.variables)]},
            "annotations": {"list": []},
            "panels": self._placed(),
        }

    def _placed(self) -> list[Json]:
        """From left to right, a new row where one is full."""
        found: list[Json] = []
        x = y = tallest = 0
        for number, panel in enumerate(self.panels, 1):
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            found.append(panel.to_json(number, x, y))
            x, tallest = x + panel.width, max(tallest, panel.height)
        return found


_OTHER_BOARDS = {
    "type": "dashboards",
    "title": "Sekisho",
    "tags": ["sekisho"],
    "icon": "external link",
    "tooltip": "",
    "asDropdown": False,
    "keepTime": True,
    "includeVars": False,
    "targetBlank": False,
}
_CHOICE_OF_DATASOURCE = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}
