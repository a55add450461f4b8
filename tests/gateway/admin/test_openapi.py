"""The document describes what is there: schemathesis tries the real door against it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from backends.fake import FakeBackend
from gateway.api.admin import DOCUMENT, OPERATIONS
from gateway.api.openapi import document
from gateway.app import App
from gateway.routes import ROUTES
from gateway.settings import load
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.admin.conftest import ISSUER, answer
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, running

HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}
SCHEMA = schemathesis.openapi.from_dict(document(OPERATIONS))
OPERATIONS_BY_NAME = {found.ok().definition.raw["operationId"]: found.ok() for found in SCHEMA.get_all_operations()}

# What the types allow and the door refuses all the same.
MAY_REFUSE = {
    "backends.add": "groups of an engine inside the house, a URL without a host that can be",
    "users.create": "an issuer that is not in the settings",
    "aliases.put": "the name of a model, a model that is an alias itself, a path that holds control characters",
    "groups.put": "a path that holds control characters",
    "keys.create": "an owner who does not exist, a network that is none, a time that has passed",
    "keys.change": "a network that is none, a time that has passed",
    "keys.rotate": "a whole number that is written as 60.0",
    "policies.put": "limits that contradict each other or limit nothing, a name or whom it applies to that cannot be",
    "policies.what_if": "a policy that policies.put refuses, days that are too many or in the wrong order",
    "policies.effective": "nobody who is asked about, or two",
    "usage.used": "days that are too many, or in the wrong order",
}


@pytest.fixture(scope="module")
def served(valkey: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a door in a loop of its own: schemathesis is synchronous."""
    redis.Redis.from_url(valkey).flushall()  # it is another door's until now, with another server.key
    folder: Path = tmp_path_factory.mktemp("door")
    url: Future[str] = Future()
    ended = threading.Event()

    async def serve() -> None:
        issuers = [{"issuer": ISSUER, "client_id": "gateway"}]
        values = load(
            redis_url=valkey,
            redis_timeout=REDIS_TIMEOUT,
            data_dir=folder,
            bootstrap_key=ADMIN_KEY,
            issuers=issuers,
            auth_failures_per_minute=10**6,
        )
        backend = FakeBackend()
        async with running(App(values, {"native": backend}), backend, values) as door:
            url.set_result(door.url)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield url.result(timeout=60)
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def known(served: str) -> dict[str, str]:
    """Something of each kind that there is: the id by the first part of the path."""

    def make(method: str, path: str, body: Any) -> Any:
        answered = requests.request(method, f"{served}/admin/v1{path}", json=body, headers=HEADERS, timeout=60)
        return answered.json()

    make("POST", "/service-accounts", {"name": "known"})
    make("PUT", "/groups/known", {})
    make("PUT", "/aliases/known", {"model": "fake"})
    make("PUT", "/policies/known", {"requests_per_minute": 60})
    make("POST", "/users", {"issuer": ISSUER, "subject": "known"})
    user = next(one for one in make("GET", "/users?search=known", None)["data"] if one["subject"] == "known")
    key = make("POST", "/keys", {"name": "known", "owner": "service_account:known"})
    return {
        "aliases": "known",
        "users": user["id"],
        "groups": "known",
        "policies": "known",
        "service-accounts": "known",
        "keys": key["id"],
        "sessions": "none",
        "queue": "none",
        "models": "fake",
        "backends": "native",
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", OPERATIONS_BY_NAME)
def test_the_door_does_as_the_document_says(
    served: str, known: dict[str, str], name: str, mode: GenerationMode
) -> None:
    operation = OPERATIONS_BY_NAME[name]
    excluded = [positive_data_acceptance] if name in MAY_REFUSE else []
    there = {"id": known[operation.path.split("/")[3]]} if "{id}" in operation.path else None

    @settings(max_examples=10, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(mode), on_what_is_there=...)
    def run(case: Case, on_what_is_there: bool) -> None:
        if on_what_is_there and there is not None:
            case.path_parameters = dict(there)
        case.call_and_validate(base_url=served, headers=HEADERS, excluded_checks=excluded, timeout=60)

    run()


async def test_the_document_is_served_and_lists_every_route_of_the_admin_api(office: RunningDoor) -> None:
    served = await answer(office, "GET", "/openapi.json")
    listed = {(method.upper(), path) for path, methods in served["paths"].items() for method in methods}
    there = {(route.method, route.path) for route in ROUTES if route.path.startswith("/admin/")}
    assert there == listed | {(DOCUMENT.method, DOCUMENT.path)}
    for methods in served["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert len(operation["responses"]) == 2
