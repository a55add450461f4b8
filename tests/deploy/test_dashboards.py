"""Dashboards: written from their tables, asking for what is exported, readable in two languages."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from deploy.grafana.write import files
from tests.deploy.expressions import left, unknown
from tests.deploy.shipped import braced, dashboards, known, panels

JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")


def title(panel: dict[str, Any]) -> str:
    return f"{panel['title']}-{panel['id']}"


def test_the_files_are_as_written() -> None:
    assert [path.name for path, text in files() if path.read_text("utf-8") != text] == []
    assert {path.stem for path, _ in files()} == set(dashboards())


@pytest.mark.parametrize("panel", panels(), ids=title)
def test_a_panel_asks_for_what_is_exported(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert unknown(target["expr"], known()) == []
        assert braced(target["legendFormat"], r"\{\{(\w+)\}\}") <= left(target["expr"])


@pytest.mark.parametrize("panel", panels(), ids=title)
def test_a_panel_says_what_it_shows_in_two_languages_and_in_which_unit(panel: dict[str, Any]) -> None:
    english, japanese = panel["description"].split("\n\n")
    assert JAPANESE.search(japanese)
    assert not JAPANESE.search(english)
    assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_choices_at_the_top_are_of_labels_that_exist_and_every_one_is_used(name: str) -> None:
    board = dashboards()[name]
    source, *choices = board["templating"]["list"]
    assert (source["type"], source["name"]) == ("datasource", "datasource")
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for choice in choices:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", choice["definition"]).groups()  # type: ignore[union-attr]
        assert label in known()[metric] | {"instance"}
        assert any(f'=~"${choice["name"]}"' in expression for expression in expressions)
    asked = set(re.findall(r"\$(\w+)", " ".join(expressions))) - {"__rate_interval"}
    assert asked == {choice["name"] for choice in choices}


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_panels_have_places_of_their_own(name: str) -> None:
    places = [panel["gridPos"] for panel in dashboards()[name]["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
