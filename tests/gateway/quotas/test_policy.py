"""Policies: what is wrong with one is told all at once, and what applies to whom is told with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.quotas.effective import effective, explain
from gateway.quotas.headers import duration
from gateway.quotas.policy import Policy
from gateway.quotas.validation import read, validate
from gateway.scope import Principal
from gateway.store.record import decode, encode
from tests.gateway.quotas.conftest import person, policy

FAULTS = [
    ({"requests_per_minute": 11, "requests_per_day": 10}, "requests_per_minute: 11 is more than requests_per_day, 10"),
    ({"tokens_per_minute": 11, "tokens_per_month": 10}, "tokens_per_minute: 11 is more than tokens_per_month, 10"),
    ({"output_tokens_per_day": 11, "tokens_per_day": 10}, "output_tokens_per_day: 11 is more than tokens_per_day, 10"),
    ({"input_tokens_per_day": 11, "tokens_per_day": 10}, "input_tokens_per_day: 11 is more than tokens_per_day, 10"),
    ({"max_output_tokens": 11, "max_context_tokens": 10}, "max_output_tokens: 11 is more than max_context_tokens"),
    ({"tokens_per_day": -1}, "tokens_per_day: -1 cannot be used: expected more than 0"),
    ({"tokens_per_day": 0}, "to block, allow no models"),
    ({"tokens_per_day": 10**13}, "is beyond reason"),
    ({"concurrent_requests": 10**9}, "is beyond reason"),
    ({"tokens_per_day": "many"}, "tokens_per_day: 'many' cannot be used: expected"),
    ({"tokens_per_day": True}, "tokens_per_day: True cannot be used: expected"),
    ({"tokens_per_day": 1.5}, "tokens_per_day: 1.5 cannot be used: expected"),
    ({"cost_per_month": "a lot"}, "cost_per_month: 'a lot' cannot be used: expected a decimal number"),
    ({"cost_per_month": "-1"}, "cost_per_month: -1 cannot be used"),
    ({"cost_per_month": "NaN"}, "cost_per_month: 'NaN' cannot be used"),
    ({"cost_per_month": "1.0000001"}, "at most six places"),
    ({"weights": {"output": -1}, "tokens_per_day": 1}, "weights.output: -1.0 cannot be used"),
    ({"weights": {"inptu": 1}, "tokens_per_day": 1}, "unknown field"),
    ({"applies_to": []}, "applies_to: is empty"),
    ({"applies_to": ["group:"]}, "applies_to: 'group:' cannot be used"),
    ({"applies_to": ["everybody"]}, "applies_to: 'everybody' cannot be used"),
    ({"applies_to": ["role:boss"]}, "names no role"),
    ({"applies_to": ["group:a", "group:a"]}, "names somebody twice"),
    ({"models": []}, "models: is empty"),
    ({"tokens_per_dya": 1}, "tokens_per_dya: is not a field of a policy; known are "),
    ({"id": "Students!"}, "id: 'Students!' cannot be used"),
    ({}, "limits nothing"),
]


@pytest.mark.parametrize(("fields", "fault"), FAULTS)
def test_a_fault_of_a_policy_is_told_in_a_sentence(fields: dict[str, Any], fault: str) -> None:
    found, faults = read({"id": "p"} | fields)
    assert found is None
    assert any(fault in told for told in faults), faults


def test_all_faults_are_told_at_once() -> None:
    _, faults = read({"applies_to": ["x"], "tokens_per_day": -1, "cost_per_month": "x", "nonsense": 1})
    assert len(faults) == 5


def test_a_good_policy_has_no_faults_and_survives_the_store() -> None:
    fields = {"id": "students", "applies_to": ["group:students"], "tokens_per_day": 10, "cost_per_month": "12.50"}
    found, faults = read(fields | {"weights": {"output": 4}, "requests_per_minute": 5})
    assert faults == []
    assert found is not None
    assert validate(decode(encode(found), Policy)) == []
    assert decode(encode(found), Policy) == found


def limits(who: Principal, *policies: Policy, model: str = "qwen3-8b") -> list[tuple[str, str, int, str]]:
    return [(limit.policy, limit.why, limit.value, limit.whom) for limit in effective(who, model, policies)]


def test_a_policy_applies_by_subject_group_key_role_and_model() -> None:
    ann = person("ann", groups=("lab",), key_id="k1")
    by = [
        policy("all", tokens_per_day=9),
        policy("me", tokens_per_day=8, applies_to=["user:usr_ann"]),
        policy("lab", tokens_per_day=7, applies_to=["group:lab"]),
        policy("key", tokens_per_day=6, applies_to=["key:k1"]),
        policy("role", tokens_per_day=5, applies_to=["role:user"]),
        policy("other", tokens_per_day=4, applies_to=["user:usr_bob", "group:other", "key:k2", "role:admin"]),
        policy("model", tokens_per_day=3, models=["qwen*"]),
        policy("no-model", tokens_per_day=2, models=["llama*"]),
    ]
    assert limits(ann, *by) == [
        ("model", "everyone", 3, "user:usr_ann"),
        ("role", "role:user", 5, "user:usr_ann"),
        ("key", "key:k1", 6, "key:k1"),
        ("lab", "group:lab", 7, "user:usr_ann"),
        ("me", "user:usr_ann", 8, "user:usr_ann"),
        ("all", "everyone", 9, "user:usr_ann"),
    ]


def test_a_bucket_of_ones_own_is_one_however_one_was_named_and_each_group_shares_its_own() -> None:
    ann = person("ann", groups=("a", "b"))
    fields = {"tokens_per_day": 1, "applies_to": ["group:a", "group:b"]}
    assert limits(ann, policy(**fields)) == [("p", "group:a", 1, "user:usr_ann")]
    assert limits(ann, policy(**fields, each=False)) == [("p", "group:a", 1, "group:a"), ("p", "group:b", 1, "group:b")]


def test_a_program_that_asks_for_somebody_is_limited_as_a_whole_too() -> None:
    asked_for = Principal("rag/ann", "ann", "user", "default", acting="svc_rag")
    found = limits(asked_for, policy(tokens_per_day=1, applies_to=["everyone", "service_account:svc_rag"]))
    assert [whom for *_, whom in found] == ["service_account:svc_rag", "user:rag/ann"]


def test_people_are_told_what_applies_to_them_and_why() -> None:
    ann = person("ann", groups=("lab",))
    shared = policy("lab", requests_per_minute=5, applies_to=["group:lab"], each=False)
    own = policy("all", cost_per_month="12.5", allowed_models=["qwen*"], shadow=True)
    assert explain(effective(ann, "qwen3", [shared, own])) == [
        "5 requests per minute, by policy 'lab' because of group:lab, shared by all of group:lab.",
        "a cost of 12.5 per month, by policy 'all' because of everyone, counted for user:usr_ann alone, "
        "in shadow: not enforced.",
        "the models qwen*, by policy 'all' because of everyone, counted for user:usr_ann alone, "
        "in shadow: not enforced.",
    ]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0ms"), (120, "120ms"), (1000, "1s"), (8640, "8.64s"), (360_000, "6m0s"), (3_723_000, "1h2m3s")],
)
def test_durations_are_written_as_the_official_service_does(ms: int, text: str) -> None:
    assert duration(ms) == text
