"""With this policy last week, who would have been refused: asked at the door, of what was really booked."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gateway.identity.records import ServiceAccount, User, user_id
from gateway.usage import ledger, report
from gateway.usage.ledger import Used, Whose
from tests.gateway.admin.conftest import ISSUER, KeyOf, answer
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import usage

ANN = User(id=user_id(ISSUER, "ann"), issuer=ISSUER, subject="ann", name="Ann", groups=("lab",))
BOB = User(id=user_id(ISSUER, "bob"), issuer=ISSUER, subject="bob", name="Bob", groups=("ops",))
RAG = ServiceAccount(id="rag", name="Search", groups=("lab",))
DAY = date(2026, 9, 21)
BOOKED = (
    (0, Whose(ANN.id, "large", "k1"), Used(1000, 200, 400)),
    (0, Whose(ANN.id, "large"), Used(1000, 200)),
    (1, Whose(ANN.id, "small"), Used(100, 10)),
    (0, Whose(BOB.id, "large"), Used(500, 100)),
    (0, Whose("rag", "small", "k2"), Used(300, 30)),
    (1, Whose("rag/guest", "small", "k2", "rag"), Used(400, 40)),
    (1, Whose(ANN.id, "small", "k2", "rag"), Used(50, 5)),
    (1, Whose("usr_gone", "small"), Used(5000, 5)),
    # As where a program has named too many people; its engine cannot count.
    (1, Whose("rag", "small", "k2", "rag"), Used(20, 2, 30)),
)


@pytest.fixture
async def used(start_door: StartDoor) -> RunningDoor:
    """A door with two booked days, two people, a program, and somebody who has been deleted."""
    prices = {"large": {"input": "100", "cached_input": "50", "output": "1000"}}
    found = await start_door(issuers=[{"issuer": ISSUER, "client_id": "gateway"}], prices=prices)
    assert found.app.door is not None
    for record in (ANN, BOB, RAG):
        await found.app.door.directory.create(None, record)
    noon = datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC)
    calls = [
        ledger.settle(f"r{number}", round((noon + timedelta(days=day)).timestamp() * 1000), amounts, whose)
        for number, (day, whose, amounts) in enumerate(BOOKED)
    ]
    await found.app.door.store.run_all(*calls)
    return found


async def told(used: RunningDoor, policy: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"policy": policy, "from": "2026-09-21", "to": "2026-09-22"} | more
    return dict(await answer(used, "POST", "/policies/what-if", body))


def refused(shown: dict[str, Any]) -> list[tuple[str, str, Any, int]]:
    return [(row["day"][8:], row["whom"], row["over"], row["refused"]) for row in shown["data"]]


async def test_what_was_asked_at_the_door_is_judged(start_door: StartDoor) -> None:
    door = await start_door()
    for _ in range(3):
        async with door.post(ask()) as response:
            await response.read()
    await eventually(lambda: usage(door).get("requests") == 3)
    shown = await answer(door, "POST", "/policies/what-if", {"name": "few", "policy": {"requests_per_day": 2}})
    (row,) = shown["data"]
    me = await answer(door, "GET", "/whoami")
    assert row == {
        "object": "what_if.row",
        "day": shown["to"],
        "whom": f"user:{me['subject']}",
        "name": me["name"],
        "limit": "requests_per_day",
        "value": 2,
        "why": "everyone",
        "used": 3,
        "over": 1,
        "requests": 3,
        "refused": 1,
    }
    assert (shown["policy"], shown["subjects"], shown["has_more"], shown["not_known"]) == ("few", 1, False, [])
    assert date.fromisoformat(shown["to"]) - date.fromisoformat(shown["from"]) == timedelta(days=6)
    # Nothing was made of it.
    assert (await answer(door, "GET", "/policies"))["data"] == []


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        ({"tokens_per_day": 1200}, [("21", "ann", 1200, 1), ("22", "usr_gone", 3805, 1)]),
        ({"tokens_per_day": 1200, "applies_to": ["group:lab"]}, [("21", "ann", 1200, 1)]),
        ({"tokens_per_day": 1200, "applies_to": ["group:lab"], "each": False}, [("21", "group:lab", 1530, 2)]),
        ({"input_tokens_per_day": 400, "models": ["sm*"]}, [("22", "usr_gone", 4600, 1)]),
        ({"requests_per_day": 1, "applies_to": ["key:k2"]}, [("22", "key:k2", 2, 2)]),
        ({"requests_per_day": 1, "applies_to": ["service_account:rag"]}, [("22", "service_account:rag", 2, 2)]),
        (
            {
                "input_tokens_per_day": 459,
                "weights": {"cached_input": 0.5},
                "applies_to": ["service_account:rag"],
                "each": False,
            },
            [("22", "service_account:rag", 1, 1)],
        ),
        ({"input_tokens_per_day": 1999, "weights": {"cached_input": 0.5}}, [("22", "usr_gone", 3001, 1)]),
        ({"cost_per_month": "0.5"}, [("21", "ann", "0.08", 1)]),
        ({"allowed_models": ["small"]}, [("21", "ann", 2, 2), ("21", "bob", 1, 1)]),
    ],
)
async def test_each_kind_of_limit_is_replayed_for_whom_it_means(
    used: RunningDoor, policy: dict[str, Any], rows: list[tuple[Any, ...]]
) -> None:
    users = {"ann": f"user:{ANN.id}", "bob": f"user:{BOB.id}", "usr_gone": "user:usr_gone"}
    expected = [(day, users.get(whom, whom), over, count) for day, whom, over, count in rows]
    assert sorted(refused(await told(used, policy))) == sorted(expected)


async def test_a_role_is_that_which_groups_give_now(used: RunningDoor) -> None:
    wanted = {"requests_per_day": 1, "each": False, "applies_to": ["role:auditor"]}
    await answer(used, "PUT", "/groups/lab", {"role": "auditor"})
    # Not what a program asks for her: with it she is a user.
    assert refused(await told(used, wanted)) == [("21", "role:auditor", 1, 1)]


async def test_a_month_counts_from_its_first_day_and_only_days_asked_for_are_told(used: RunningDoor) -> None:
    assert refused(await told(used, {"requests_per_month": 1}, **{"from": "2026-09-22"})) == [
        ("22", f"user:{ANN.id}", 2, 2),
        ("22", "service_account:rag", 1, 1),
    ]
    assert (await told(used, {"requests_per_month": 2}, to="2026-09-21"))["data"] == []


async def test_a_sheet_has_the_same_rows_and_nothing_in_it_calculates(used: RunningDoor) -> None:
    assert used.app.door is not None
    await used.app.door.directory.change(None, User, ANN.id, lambda ann: msgspec.structs.replace(ann, name="=1+1"))
    policy = {"applies_to": ["group:lab"], "requests_per_day": 1, "allowed_models": ["tiny", "small"]}
    body = {"policy": policy, "from": "2026-09-21", "to": "2026-09-22"}
    rows = (await answer(used, "POST", "/policies/what-if", body))["data"]
    headers = {"accept": "text/csv"}
    async with used.client.post("/admin/v1/policies/what-if", json=body, headers=headers) as response:
        assert response.content_type == "text/csv"
        sheet = list(csv.DictReader(io.StringIO((await response.read()).decode("utf-8-sig"))))
    assert [(row["day"], row["whom"], int(row["refused"])) for row in sheet] == [
        (row["day"], row["whom"], row["refused"]) for row in rows
    ]
    assert {(row["name"], row["value"]) for row in sheet if row["limit"] == "allowed_models"} == {
        ("'=1+1", "tiny, small")
    }


async def test_rows_past_the_limit_are_left_out_and_counted(used: RunningDoor) -> None:
    shown = await told(used, {"input_tokens_per_day": 10}, limit=1)
    whole = await told(used, {"input_tokens_per_day": 10})
    assert shown["data"] == whole["data"][:1]
    assert (shown["has_more"], whole["has_more"]) == (True, False)
    assert shown["subjects"] == whole["subjects"] == len({row["whom"] for row in whole["data"]}) == 5
    counts = [row["refused"] for row in whole["data"]]
    assert counts == sorted(counts, reverse=True)


async def test_what_the_ledger_does_not_tell_is_named_with_the_reason(used: RunningDoor) -> None:
    shown = await told(used, {"requests_per_minute": 1, "concurrent_requests": 1})
    assert [one["limit"] for one in shown["not_known"]] == ["requests_per_minute", "concurrent_requests"]
    assert all(one["reason"] for one in shown["not_known"])
    assert shown["data"] == []
    assert "estimate" in " ".join(shown["notes"])


async def test_days_of_another_zone_are_said_to_be_others(start_door: StartDoor) -> None:
    door = await start_door(quota_time_zone="Asia/Tokyo")
    shown = await answer(door, "POST", "/policies/what-if", {"policy": {"requests_per_day": 1}})
    assert "Asia/Tokyo" in shown["notes"][-1]


@pytest.mark.parametrize("role", ["user", "service", "auditor", "admin"])
async def test_an_auditor_may_ask_and_a_user_may_not(office: RunningDoor, key_of: KeyOf, role: Any) -> None:
    headers = await key_of(role)
    body = {"policy": {"requests_per_day": 1}}
    async with office.client.post("/admin/v1/policies/what-if", json=body, headers=headers) as response:
        if role in ("auditor", "admin"):
            assert response.status == 200
        else:
            await error_of(response, 403)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"policy": {}},
        {"policy": {"requests_per_day": 0}},
        {"policy": {"requests_per_day": 1, "id": "p"}},
        {"policy": {"requests_per_day": 1}, "name": "effective"},
        {"policy": {"requests_per_day": 1}, "from": "2026-02-02", "to": "2026-02-01"},
        {"policy": {"requests_per_day": 1}, "from": "2020-01-01", "to": "2026-02-01"},
        {"policy": {"requests_per_day": 1}, "from": "yesterday"},
        {"policy": {"requests_per_day": 1}, "limit": 10_001},
        b'{"policy": ' + b"[" * 100_000,
        b'{"policy": {"models": ' + b"[" * 500 + b"]" * 500 + b"}}",
    ],
)
async def test_what_cannot_be_asked_is_refused(office: RunningDoor, body: Any) -> None:
    assert (await answer(office, "POST", "/policies/what-if", body, status=400))["error"]["message"]


async def test_the_first_day_of_all_days_is_a_day(office: RunningDoor) -> None:
    body = {"policy": {"requests_per_day": 1}, "to": "0001-01-01"}
    assert (await answer(office, "POST", "/policies/what-if", body))["from"] == "0001-01-01"


async def test_more_than_can_be_read_is_refused(used: RunningDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_ACCOUNTS", 3)
    body = {"policy": {"requests_per_day": 1}, "from": "2026-09-21", "to": "2026-09-22"}
    refusal = await answer(used, "POST", "/policies/what-if", body, status=400)
    assert "fewer days" in refusal["error"]["message"]
