"""The API reference is what the code says, and has every route."""

from __future__ import annotations

import re

import pytest

from deploy.guides import api, described
from gateway.api.admin.operation import Operation
from gateway.routes import PUBLIC_PATHS, ROUTES

WRITTEN = api.FILE.read_text("utf-8")


def test_the_reference_is_as_the_code_says() -> None:
    assert api.text() == WRITTEN, "write it anew: python -m deploy.guides.api --write"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_is_told_with_who_may(route: object) -> None:
    method, path, role = (getattr(route, name) for name in ("method", "path", "role"))
    section = WRITTEN.split(f"\n### {method} {path}\n")[1].partition("\n### ")[0]
    who = re.search(r"\*\*Who\*\*: (.*)", section)
    assert who is not None
    assert who[1].startswith("none: " if path in PUBLIC_PATHS else "any" if role == "user" else f"role {role}")
    assert "**Answers**: " in section


def test_what_is_described_by_hand_is_a_route_that_does_not_describe_itself() -> None:
    assert {(one.method, one.path) for one in ROUTES if not isinstance(one.handler, Operation)} == set(described.ROUTES)


def test_links_to_types_have_somewhere_to_go() -> None:
    headings = [heading.lower().replace(".", "") for heading in re.findall(r"^### (\S+)$", WRITTEN, re.MULTILINE)]
    assert len(headings) == len(set(headings))
    assert set(re.findall(r"\]\(#([^)]+)\)", WRITTEN)) <= set(headings)
