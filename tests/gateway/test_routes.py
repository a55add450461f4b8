"""Only what is listed exists, and all of it needs a key but the public paths."""

from __future__ import annotations

import re

import pytest
from yarl import URL

from gateway.routes import PUBLIC_PATHS, ROUTES, Route
from tests.gateway.conftest import RunningDoor, error_of

NO_KEY = {"authorization": ""}


def filled(route: Route) -> str:
    return re.sub(r"{\w+}", "x", route.path)


PROTECTED = [route for route in ROUTES if route.path not in PUBLIC_PATHS]


@pytest.mark.parametrize("route", PROTECTED, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_but_the_public_ones_needs_a_key(door: RunningDoor, route: Route) -> None:
    for headers in (NO_KEY, {"authorization": "Bearer sk-skh-nobody-0123456789abcdef"}):
        async with door.client.request(route.method, filled(route), headers=headers) as response:
            await error_of(response, 401)


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/auth/sign-in", "/web/style.css"])
async def test_public_paths_need_none(door: RunningDoor, path: str) -> None:
    async with door.client.get(path, headers=NO_KEY) as response:
        assert response.status == 200
        assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/models/",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v1/images/generations",
        "/v1/chat",
        "/invocations",
        "/tokenize",
        "/internal/requests/req_1",
        "/api/tags",
        "/docs",
        "/openapi.json",
        "/health",
        "/V1/models",
        "/v1/chat%2Fcompletions/x",
    ],
)
async def test_an_unlisted_path_is_a_404_and_never_reaches_the_engine(door: RunningDoor, path: str) -> None:
    for method in ("GET", "POST"):
        async with door.client.request(method, path) as response:
            if method == "GET" or response.status != 405:
                await error_of(response, 404)
    assert door.backend.asked == []


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("POST", "/v1/models/fake", "GET"),
        ("DELETE", "/v1/completions", "POST"),
        ("OPTIONS", "/v1/completions", "POST"),
    ],
)
async def test_a_wrong_method_is_a_405_that_names_the_right_one(
    door: RunningDoor, method: str, path: str, allowed: str
) -> None:
    async with door.client.request(method, path) as response:
        await error_of(response, 405, "method_not_allowed")
        assert response.headers["allow"] == allowed


async def test_models_are_listed_and_one_can_be_asked_for(door: RunningDoor) -> None:
    async with door.client.get("/v1/models") as response:
        listed = await response.json()
    assert [model["id"] for model in listed["data"]] == ["fake"]
    async with door.client.get("/v1/models/fake") as response:
        assert await response.json() == listed["data"][0]
    async with door.client.get("/v1/models/org/other") as response:
        await error_of(response, 404, "model_not_found")


async def test_head_is_answered_where_get_is(door: RunningDoor) -> None:
    async with door.client.head("/healthz") as response:
        assert response.status == 200


async def test_a_path_is_taken_as_it_is_written(door: RunningDoor) -> None:
    for path in ("/v1/chat/../chat/completions", "/v1/x/%2e%2e/models", "//v1/models"):
        async with door.client.get(URL(door.url + path, encoded=True)) as response:
            await error_of(response, 404)
