"""The pictures of the architecture show modules that are there, imports that are made and functions that are called."""

from __future__ import annotations

import re
from functools import cache

import grimp
import pytest

from tests.house.tree import PACKAGES, ROOT

TEXT = (ROOT / "deploy" / "guides" / "architecture.md").read_text("utf-8")
FLOWCHARTS = re.findall(r"```mermaid\nflowchart.*?```", TEXT, re.DOTALL)
SEQUENCES = re.findall(r"```mermaid\nsequenceDiagram.*?```", TEXT, re.DOTALL)
FOLDERS = FLOWCHARTS[1]


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def nodes(picture: str) -> dict[str, str]:
    """Modules by what the picture calls them."""
    named = re.findall(r'(\w+)\["([\w.]+)', picture) + re.findall(r"participant (\w+) as ([\w.]+)", picture)
    named += [(name, name) for name in re.findall(r"participant (\w+)$", picture, re.MULTILINE)]
    return {name: module for name, module in named if module.partition(".")[0] in PACKAGES}


def arrows() -> list[tuple[str, str]]:
    known = nodes(FOLDERS)
    found = re.findall(r"^ *(\w+)(?:\[.*?\])? --> (\w+)", FOLDERS, re.MULTILINE)
    return [(known[one], known[other]) for one, other in found]


def calls() -> list[tuple[str, str, str]]:
    """Who calls whom, by which function."""
    return [
        (nodes(picture)[caller], nodes(picture)[called], function)
        for picture in SEQUENCES
        for caller, called, function in re.findall(r"(\w+)->>(\w+): (\w+)\(\)", picture)
    ]


def test_pictures_are_read() -> None:
    assert (len(FLOWCHARTS), len(SEQUENCES)) == (2, 2)
    assert len(arrows()) > 25
    assert len(calls()) > 8


@pytest.mark.parametrize("module", sorted({name for one in (*FLOWCHARTS, *SEQUENCES) for name in nodes(one).values()}))
def test_a_part_of_a_picture_is_there(module: str) -> None:
    assert module in graph().modules


@pytest.mark.parametrize(("importer", "imported"), arrows())
def test_an_arrow_is_an_import(importer: str, imported: str) -> None:
    assert graph().direct_import_exists(importer=importer, imported=imported, as_packages=True)


@pytest.mark.parametrize(("caller", "called", "function"), calls())
def test_a_call_is_made_of_a_function_that_is_there(caller: str, called: str, function: str) -> None:
    assert re.search(rf"def {function}\(", source(called))
    assert re.search(rf"\.{function}\b", source(caller))


def test_rooms_of_the_gateway_are_all_in_the_picture() -> None:
    shown = set(nodes(FOLDERS).values())
    missing = graph().find_children("gateway") - shown
    told = {f"gateway.{name}" for name in re.findall(r"`gateway/(\w+)`", TEXT)}
    assert missing <= told


def source(module: str) -> str:
    path = ROOT.joinpath(*module.split("."))
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return "\n".join(file.read_text("utf-8") for file in files)
