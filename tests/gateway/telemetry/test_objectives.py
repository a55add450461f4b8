"""What counts as good service, and what is not ours to answer for."""

from __future__ import annotations

import pytest

from gateway.telemetry.objectives import USUAL, Objectives, Result
from tests.gateway.telemetry.test_metrics import request

# The head came at 100; nineteen tokens after the first, a bit quicker than 20 a second.
ANSWER = {"first_token": 101.0, "upstream_ended": 101.9, "tokens": {"completion_tokens": 20}, "status": 200}


def result(seconds: float = 2.0, objectives: Objectives = USUAL, **fields: object) -> Result | None:
    return objectives.result(request(model="m", **fields), seconds)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "met"),
        ({"first_token": 102.0, "upstream_ended": 102.9}, "met"),
        ({"first_token": 102.1, "upstream_ended": 103.0}, "late"),
        ({"upstream_ended": 102.1}, "slow"),
        ({"first_token": 102.1, "upstream_ended": 104.0}, "late"),
        ({"upstream_ended": 102.1, "choices": 2, "tokens": {"completion_tokens": 40}}, "slow"),
        ({"tokens": {"completion_tokens": 1}}, "met"),
        ({"outcome": "engine_error"}, "failed"),
        ({"outcome": "client_gone", "status": 499}, "met"),
        ({"outcome": "client_gone", "status": 499, "upstream_ended": 103.0}, "slow"),
    ],
)
def test_an_answer_is_judged_by_its_first_token_then_by_the_pace_of_the_others(
    changed: dict[str, object], expected: Result
) -> None:
    assert result(**ANSWER | changed) == expected


@pytest.mark.parametrize(
    ("outcome", "status", "expected"),
    [
        ("queue_full", 429, "failed"),
        ("queue_timeout", 503, "failed"),
        ("engine_timeout", 504, "failed"),
        ("rate_limit_exceeded", 429, None),
        ("context_length_exceeded", 400, None),
        ("model_not_found", 404, None),
    ],
)
def test_without_an_answer_it_is_the_doors_fault_or_says_nothing(
    outcome: str, status: int, expected: Result | None
) -> None:
    assert result(outcome=outcome, status=status) == expected


def test_who_left_before_the_first_token_waited_too_long_or_did_not_wait() -> None:
    assert result(2.1, outcome="client_gone", status=499) == "late"
    assert result(1.9, outcome="client_gone", status=499) is None


def test_what_is_not_generated_token_by_token_has_no_such_objectives() -> None:
    assert result(form="embeddings", status=502, outcome="engine_error") is None


def test_objectives_are_those_of_the_settings() -> None:
    assert result(objectives=Objectives(0.5, 20), **ANSWER) == "late"
    assert result(objectives=Objectives(2, 30), **ANSWER) == "slow"
    assert result(objectives=Objectives(2, 0), **ANSWER | {"upstream_ended": 900.0}) == "met"
