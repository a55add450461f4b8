"""/admin/v1/usage: what the pipeline has booked, as JSON and as a sheet."""

from __future__ import annotations

import asyncio
import csv
from typing import Any

import pytest

from tests.gateway.admin.conftest import answer
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import usage


@pytest.fixture
async def used(start_door: StartDoor) -> RunningDoor:
    """A door at which the admin has asked three times."""
    prices = {"fake": {"input": "1", "output": "2.5"}}
    door = await start_door(prices=prices, issuers=[{"issuer": "http://127.0.0.1:9/realm", "client_id": "gateway"}])
    for _ in range(3):
        async with door.post(ask()) as response:
            await response.read()
    await eventually(lambda: usage(door).get("requests") == 3)
    return door


async def test_use_is_told_with_names_and_cost(used: RunningDoor) -> None:
    me = await answer(used, "GET", "/whoami")
    told = await answer(used, "GET", "/usage")
    (row,) = told["data"]
    assert (row["id"], row["name"], row["requests"]) == (me["subject"], me["name"], 3)
    assert (row["prompt_tokens"], row["completion_tokens"], row["cost"]) == (15, 12, "0.000045")
    assert told["total"] == {name: row[name] for name in told["total"]}
    labels = {}
    for by in ("service_account", "group", "model", "key"):
        whole = await answer(used, "GET", f"/usage?by={by}")
        assert whole["total"] == told["total"]
        labels[by] = [(row["id"], row["name"]) for row in whole["data"]]
    assert labels == {
        "service_account": [("", None)],
        "group": [("", None)],
        "model": [("fake", None)],
        "key": [("admin", "bootstrap")],
    }


async def test_groups_are_those_of_now(used: RunningDoor) -> None:
    await answer(used, "POST", "/service-accounts", {"name": "rag", "groups": ["old"]}, status=201)
    made = await answer(used, "POST", "/keys", {"owner": "service_account:rag", "name": "k"}, status=201)
    async with used.post(ask(), headers={"authorization": f"Bearer {made['key']}"}) as response:
        await response.read()
    await answer(used, "PATCH", "/service-accounts/rag", {"groups": ["a", "b"]})

    async def rows(by: str) -> dict[str, int]:
        return {row["id"]: row["requests"] for row in (await answer(used, "GET", f"/usage?by={by}"))["data"]}

    for _ in range(1000):  # an answer does not wait for its booking
        if len(await rows("user")) == 2:
            break
        await asyncio.sleep(0.01)
    assert await rows("group") == {"": 3, "a": 1, "b": 1}


@pytest.mark.parametrize(
    ("query", "accept", "is_csv"),
    [
        ("format=csv", "application/json", True),
        ("", "text/csv", True),
        ("", "text/csv;q=0.9, */*", True),
        ("format=json", "text/csv", False),
        ("", "application/json, text/csv", False),
        ("", "*/*", False),
    ],
)
async def test_a_sheet_comes_where_it_is_asked_for(used: RunningDoor, query: str, accept: str, is_csv: bool) -> None:
    async with used.client.get(f"/admin/v1/usage?{query}", headers={"accept": accept}) as response:
        assert response.status == 200
        assert response.content_type == ("text/csv" if is_csv else "application/json")
        text = (await response.read()).decode("utf-8-sig")
    if is_csv:
        head, row = csv.reader(text.splitlines())
        assert dict(zip(head, row, strict=True))["completion_tokens"] == "12"


@pytest.mark.parametrize(
    "query",
    [
        {"by": "mood"},
        {"from": "yesterday"},
        {"from": "2026-02-30"},
        {"from": "2026-02-02", "to": "2026-02-01"},
        {"from": "2020-01-01", "to": "2026-02-01"},
        {"limit": 0},
        {"limit": 10_001},
        {"format": "xlsx"},
        {"first": "2026-01-01"},
    ],
)
async def test_what_cannot_be_asked_is_refused(used: RunningDoor, query: dict[str, Any]) -> None:
    async with used.client.get("/admin/v1/usage", params=query) as response:
        await error_of(response, 400)
