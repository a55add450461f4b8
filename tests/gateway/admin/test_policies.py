"""Quota policies by REST: replaced whole, refused with every fault at once, and seen in effect for somebody."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.identity.records import User, user_id
from tests.gateway.admin.conftest import ACTOR, ISSUER, answer, person
from tests.gateway.conftest import RunningDoor, ask, error_of


async def faults(office: RunningDoor, name: str, body: Any) -> str:
    data = body if isinstance(body, bytes) else None
    async with office.client.put(f"/admin/v1/policies/{name}", json=None if data else body, data=data) as response:
        return str((await error_of(response, 400))["message"])


async def effective(office: RunningDoor, **who: str) -> dict[str, Any]:
    async with office.client.get("/admin/v1/policies/effective", params=who) as response:
        assert response.status == 200, await response.text()
        return dict(await response.json())


async def test_a_policy_is_made_replaced_listed_and_deleted(office: RunningDoor) -> None:
    made = await answer(
        office, "PUT", "/policies/staff", {"applies_to": ["group:staff"], "requests_per_minute": 60, "shadow": True}
    )
    assert (made["id"], made["requests_per_minute"], made["tokens_per_day"]) == ("staff", 60, None)
    replaced = await answer(office, "PUT", "/policies/staff", {"cost_per_month": "12.50"})
    assert replaced["applies_to"] == ["everyone"]
    assert replaced["requests_per_minute"] is None
    assert replaced["cost_per_month"] == "12.50"
    assert replaced["shadow"] is False
    assert replaced["created"] == made["created"] > 0
    assert await answer(office, "GET", "/policies/staff") == replaced
    await answer(office, "PUT", "/policies/all", {"concurrent_requests": 4})
    listed = await answer(office, "GET", "/policies?limit=1")
    assert ([one["id"] for one in listed["data"]], listed["next"]) == (["all"], "all")
    assert (await answer(office, "GET", "/policies?after=all"))["data"] == [replaced]
    assert (await answer(office, "DELETE", "/policies/staff"))["deleted"] is True
    await answer(office, "GET", "/policies/staff", status=404)
    await answer(office, "DELETE", "/policies/staff", status=404)


async def test_each_change_is_in_the_trail_and_no_change_is_not(office: RunningDoor) -> None:
    await answer(office, "PUT", "/policies/p", {"requests_per_minute": 60})
    await answer(office, "PUT", "/policies/p", {"requests_per_minute": 60})
    await answer(office, "PUT", "/policies/p", {"requests_per_minute": 30})
    await answer(office, "DELETE", "/policies/p")
    lines = (await answer(office, "GET", "/audit?target=policy:p"))["data"]
    assert [line["action"] for line in lines] == ["policy.delete", "policy.change", "policy.create"]
    assert [line["before"] and line["before"]["requests_per_minute"] for line in lines] == [30, 60, None]
    assert lines[1]["after"]["requests_per_minute"] == 30


async def test_all_faults_are_told_at_once(office: RunningDoor) -> None:
    body = {
        "applies_to": ["nobody", "role:king"],
        "requests_per_minute": 100,
        "requests_per_day": 10,
        "tokens_per_minute": -1,
        "input_tokens_per_day": "many",
        "cost_per_month": "a lot",
        "time_zone": "Mars",
        "max_context_tokens": 10,
        "max_output_tokens": 20,
        "weights": {"output": 1e9},
        "created": 5,
    }
    message = await faults(office, "UPPER", body)
    told = ("id: 'UPPER'", "nobody", "king", "requests_per_minute: 100", "tokens_per_minute: -1", "many", "a lot")
    for part in (*told, "time_zone", "max_output_tokens: 20", "weights.output", "created"):
        assert part in message
    assert (await answer(office, "GET", "/policies"))["data"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"requests_per_minute": 0},
        {"requests_per_minute": True},
        {"requests_per_minute": 1.5},
        {"requests_per_minute": 10**30},
        {"requests_per_minute": 1, "id": "p"},
        {"requests_per_minute": 1, "description": "x" * 1001},
        {"requests_per_minute": 1, "description": "\u202e"},
        {"requests_per_minute": 1, "applies_to": ["group:\u0000"]},
        {"requests_per_minute": 1, "applies_to": [f"user:{number}" for number in range(1001)]},
        {"requests_per_minute": 1, "models": ["m" * 301]},
        {"requests_per_minute": 1, "applies_to": [[]]},
        {f"field{number}": "x" * 1000 for number in range(500)},
        b"{",
        b"[]",
        b"null",
        b'{"models": ' + b"[" * 100_000,
        b'{"models": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"requests_per_minute": 1, "description": "\\ud800"}',
    ],
)
async def test_what_cannot_be_a_policy_is_refused_in_few_words(office: RunningDoor, body: Any) -> None:
    assert 0 < len(await faults(office, "p", body)) < 8000
    assert (await answer(office, "GET", "/policies"))["data"] == []


@pytest.mark.parametrize("name", ["effective", "what-if"])
async def test_a_policys_name_is_no_path_of_the_api(office: RunningDoor, name: str) -> None:
    async with office.client.put(f"/admin/v1/policies/{name}", json={"requests_per_minute": 1}) as response:
        await error_of(response, 405)


async def test_what_holds_for_somebody_is_told_with_reasons(office: RunningDoor) -> None:
    ann = (await person(office, "ann", name="Ann", set_groups=["research"]))["id"]
    await answer(office, "PUT", "/policies/all", {"requests_per_minute": 60, "tokens_per_day": 10_000})
    research = {"applies_to": ["group:research"], "each": False, "cost_per_month": "7.25", "models": ["large*"]}
    await answer(office, "PUT", "/policies/research", research | {"shadow": True})
    await answer(office, "PUT", "/policies/models", {"allowed_models": ["small", "large*"]})
    told = await effective(office, user=ann, model="large-1")
    assert (told["subject"], told["role"], told["groups"]) == (ann, "user", ["research"])
    limits = {limit["limit"]: limit for limit in told["limits"]}
    assert set(limits) == {"requests_per_minute", "tokens_per_day", "cost_per_month", "allowed_models"}
    minute, money = limits["requests_per_minute"], limits["cost_per_month"]
    assert (minute["policy"], minute["why"], minute["whom"], minute["left"]) == ("all", "everyone", f"user:{ann}", 60)
    assert (money["value"], money["left"], money["why"]) == ("7.25", "7.25", "group:research")
    assert money["shadow"] is True
    assert "in shadow" in money["sentence"]
    assert (limits["allowed_models"]["value"], limits["allowed_models"]["left"]) == (["small", "large*"], None)
    small = await effective(office, user=ann, model="small")
    assert {limit["policy"] for limit in small["limits"]} == {"all", "models"}


async def test_what_was_used_is_no_longer_left(office: RunningDoor) -> None:
    await answer(office, "PUT", "/policies/all", {"requests_per_day": 10})
    me = (await answer(office, "GET", "/whoami"))["subject"]
    async with office.post(ask()) as response:
        assert response.status == 200
        await response.read()
    (limit,) = (await effective(office, user=me, model="fake"))["limits"]
    assert limit["left"] == 9
    assert 0 < limit["reset_seconds"] <= 86_400


async def test_keys_programs_and_those_they_ask_for_are_told_apart(office: RunningDoor) -> None:
    ann = (await person(office, "ann", name="Ann", set_role="admin"))["id"]
    await answer(office, "POST", "/service-accounts", {"name": "rag"}, status=201)
    key = (await answer(office, "POST", "/keys", {"owner": "service_account:rag", "name": "k"}, status=201))["id"]
    hers = (await answer(office, "POST", "/keys", {"owner": f"user:{ann}", "name": "h"}, status=201))["id"]
    for name, whom in (("p", "service_account:rag"), ("k", f"key:{key}"), ("u", "role:user"), ("a", "role:admin")):
        await answer(office, "PUT", f"/policies/{name}", {"applies_to": [whom], "requests_per_minute": 5})

    async def by(**who: str) -> tuple[str, str]:
        told = await effective(office, model="m", **who)
        return told["subject"], "".join(sorted(limit["policy"] for limit in told["limits"]))

    assert await by(service_account="rag") == ("rag", "p")
    assert await by(key=key) == ("rag", "kp")
    assert await by(user=ann) == (ann, "a")
    assert await by(key=hers) == await by(key=hers, user=ann) == (ann, "a")
    assert await by(user=ann, service_account="rag") == (ann, "pu")
    assert await by(user=ann, key=key) == (ann, "kpu")
    assert await by(user="rag/guest") == await by(user="rag/guest", service_account="rag") == ("rag/guest", "pu")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"user": "usr_nobody", "model": "m"}, 404),
        ({"user": "nobody/guest", "model": "m"}, 404),
        ({"service_account": "nobody", "model": "m"}, 404),
        ({"key": "nobody", "model": "m"}, 404),
        ({"model": "m"}, 400),
        ({"user": "usr_x"}, 400),
        ({"user": "usr_x", "model": ""}, 400),
        ({"key": "k", "service_account": "s", "model": "m"}, 400),
    ],
)
async def test_nobody_has_no_limits(office: RunningDoor, query: dict[str, str], status: int) -> None:
    async with office.client.get("/admin/v1/policies/effective", params=query) as response:
        await error_of(response, status)


async def test_another_programs_person_is_refused(office: RunningDoor) -> None:
    assert office.app.door is not None
    for name in ("rag", "bot"):
        await answer(office, "POST", "/service-accounts", {"name": name}, status=201)
    someone = User(id=user_id(ISSUER, "s"), issuer=ISSUER, subject="s")
    await office.app.door.directory.create(ACTOR, someone)
    key = (await answer(office, "POST", "/keys", {"owner": f"user:{someone.id}", "name": "h"}, status=201))["id"]
    for query in ({"service_account": "bot", "user": "rag/x"}, {"key": key, "user": "rag/x"}):
        async with office.client.get("/admin/v1/policies/effective", params={"model": "m"} | query) as response:
            await error_of(response, 400)
