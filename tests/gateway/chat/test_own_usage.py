"""One's own usage: what was used this month, and what each limit leaves."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.gateway.chat.conftest import answer, begin
from tests.gateway.chat.test_templates import person
from tests.gateway.conftest import RunningDoor, error_of


async def test_own_usage_counts_what_was_asked_in_the_chat_against_each_limit(door: RunningDoor) -> None:
    policies = {
        "daily": {"tokens_per_day": 1000},
        "money": {"cost_per_month": "12.5"},
        "shadowed": {"requests_per_minute": 1, "shadow": True},
        "others": {"applies_to": ["role:auditor"], "requests_per_day": 1},
    }
    for name, policy in policies.items():
        async with door.client.put(f"/admin/v1/policies/{name}", json=policy) as response:
            assert response.status == 200
    await answer(door, (await begin(door))["id"], content="Hi")
    async with door.client.get("/chat/v1/usage") as response:
        told = await response.json()
    today = datetime.now(UTC).date()
    assert [row["day"] for row in told["days"]] == [
        today.replace(day=1 + past).isoformat() for past in range(today.day)
    ]
    assert told["days"][-1] | {"day": ""} == {
        "day": "", "requests": 1, "prompt_tokens": 5, "cached_tokens": 0, "completion_tokens": 4
    }  # fmt: skip
    limits = {limit["policy"]: limit for limit in told["limits"]}
    assert set(limits) == {"daily", "money"}
    assert (limits["daily"]["limit"], limits["daily"]["used"], limits["daily"]["models"]) == (1000, 9, ["fake"])
    assert time.time() < limits["daily"]["resets_at"] <= time.time() + 86_401
    assert (limits["money"]["limit"], limits["money"]["used"]) == (12.5, 0)


async def test_what_a_quota_refuses_is_told_with_when_it_frees_and_shown_as_used(door: RunningDoor) -> None:
    headers = await person(door, "Aki")
    async with door.client.put("/admin/v1/policies/two", json={"requests_per_minute": 1}) as response:
        assert response.status == 200
    async with door.client.post("/chat/v1/conversations", json={}, headers=headers) as response:
        conversation = (await response.json())["id"]
    path = f"/chat/v1/conversations/{conversation}/answers"
    texts = []
    for _ in range(2):
        async with door.client.post(path, json={"model": "fake", "content": "x"}, headers=headers) as response:
            texts.append(await response.text())
    assert "event: done" in texts[0]
    assert '"code":"rate_limit_exceeded"' in texts[1]
    assert '"retry_after":' in texts[1]
    assert "two" in texts[1]
    async with door.client.get(f"/chat/v1/conversations/{conversation}", headers=headers) as response:
        kept = (await response.json())["messages"]
    assert [message["state"] for message in kept] == ["done", "done", "done", "failed"]
    assert kept[-1]["error"]["retry_after"] >= 1
    async with door.client.get("/chat/v1/usage", headers=headers) as response:
        (limit,) = (await response.json())["limits"]
        assert limit["used"] == limit["limit"] == 1
    async with door.client.get(f"/chat/v1/conversations/{conversation}") as response:  # an administrator
        await error_of(response, 404)
