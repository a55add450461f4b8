"""What a policy would have refused: held to a replay unit by unit, and to what the scripts really refuse."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import QuotaExceeded
from gateway.quotas.buckets import FREE, Usage, Weights
from gateway.quotas.policy import LIMITS, Policy
from gateway.quotas.what_if import Past, Replay, not_known
from gateway.scope import Principal
from tests.gateway.quotas.conftest import Clock, Start, person, policy

FIRST = date(2026, 9, 28)  # three days later another month begins
PEOPLE = [person("ann", groups=("lab",), key_id="k1"), person("bob", groups=("lab",)), person("cid")]
ALONE = {one.subject: f"user:{one.subject}" for one in PEOPLE}
LAB = dict.fromkeys(("usr_ann", "usr_bob"), "group:lab")
PRICE = Weights(fresh=3_000_000, cached=1_000_000, output=5_000_000)

# A policy, whose bucket each person has by it, and what a use counts for.
CASES: dict[str, tuple[dict[str, Any], dict[str, str], Any]] = {
    "requests": ({"requests_per_day": 4}, ALONE, lambda used: used.requests),
    "input": ({"input_tokens_per_month": 60}, ALONE, lambda used: used.input),
    "output": ({"output_tokens_per_day": 15, "weights": {"output": 9}}, ALONE, lambda used: used.output),
    "weighted": (
        {"tokens_per_day": 40, "weights": {"cached_input": 0, "output": 2}},
        ALONE,
        lambda used: used.input - used.cached + 2 * used.output,
    ),
    "cost": ({"cost_per_month": "0.0001"}, ALONE, lambda used: 3 * used.input - 2 * used.cached + 5 * used.output),
    "shared": ({"tokens_per_month": 90, "each": False}, LAB, lambda used: used.input + used.output),
    "key": ({"requests_per_month": 5}, {"usr_ann": "key:k1"}, lambda used: used.requests),
}
APPLIES_TO = {"shared": ["group:lab"], "key": ["key:k1", "role:admin"]}


@st.composite
def uses(draw: st.DrawFn) -> list[tuple[int, int, str, Usage]]:
    """Day, person, model and what was used, in the days' order."""
    some = st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(["m-1", "m-2", "other"]))
    found = []
    for day, who, model in draw(st.lists(some, max_size=12)):
        prompt = draw(st.integers(0, 20))
        used = Usage(draw(st.integers(1, 4)), prompt, draw(st.integers(0, prompt)), draw(st.integers(0, 9)))
        found.append((day, who, model, used))
    return sorted(found, key=lambda use: use[0])


def replayed(wanted: Policy, spent: list[tuple[int, int, str, Usage]], price: Weights = FREE) -> list[Past]:
    replay = Replay(wanted, lambda model: price)
    past = []
    for day, some in groupby(spent, key=lambda use: use[0]):
        for _, who, model, used in some:
            replay.add(PEOPLE[who], model, used)
        past += replay.end(FIRST + timedelta(days=day))
    return past


def day_of(offset: int) -> date:
    return FIRST + timedelta(days=offset)


@pytest.mark.parametrize("case", CASES)
@settings(deadline=None, max_examples=40)
@given(spent=uses())
def test_it_refuses_what_one_who_counts_every_unit_refuses(case: str, spent: list[tuple[int, int, str, Usage]]) -> None:
    fields, buckets, amount = CASES[case]
    wanted = policy(applies_to=APPLIES_TO.get(case, ["everyone"]), models=["m-*"], **fields)
    (limit,) = (value for name in LIMITS if (value := wanted.amount(name)) is not None)
    by_month = any(name.endswith("month") for name in fields)
    let_in: Counter[tuple[str, int]] = Counter()
    over: Counter[tuple[date, str]] = Counter()
    asked: Counter[tuple[date, str]] = Counter()
    for offset, who, model, used in spent:
        day, whom = day_of(offset), buckets.get(PEOPLE[who].subject)
        if whom is None or not model.startswith("m-"):
            continue
        asked[day, whom] += used.requests
        period = (whom, day.month if by_month else day.toordinal())
        for _ in range(amount(used)):
            if let_in[period] < limit:
                let_in[period] += 1
            else:
                over[day, whom] += 1

    past = replayed(wanted, spent, PRICE)

    assert {(one.day, one.limit.whom): one.over for one in past} == over
    for one in past:
        assert one.requests == asked[one.day, one.limit.whom]
        assert 1 <= one.refused <= one.requests
        assert one.used > limit
        if limit and case in ("requests", "key"):
            assert one.refused == one.over


async def test_it_refuses_as_many_requests_as_the_scripts_do(quotas: Start, clock: Clock) -> None:
    fields = {"applies_to": ["group:lab"], "each": False, "requests_per_day": 3}
    gateway = await quotas(policy(**fields))
    clock.move(-(clock.ms / 1000 % 86_400) + 3600)  # one o'clock: all of a day's requests are on that day
    spent, refused = [], Counter[int]()
    for day, sizes in enumerate(((2, 3), (1, 1), (4, 0))):
        for who, count in enumerate(sizes):
            spent.append((day, who, "m", Usage(count)))
            for _ in range(count):
                try:
                    name, _ = await gateway.ask(PEOPLE[who])
                    await gateway.settle(name, Usage(1))
                except QuotaExceeded:
                    refused[day] += 1
        clock.move(86_400)
    assert {one.day: one.refused for one in replayed(policy(**fields), spent)} == {
        day_of(day): count for day, count in refused.items()
    }
    assert refused == {0: 2, 2: 1}


def test_a_month_goes_on_over_its_days_and_ends_with_it() -> None:
    spent = [(day, 0, "m", Usage(2, 10, 0, 0)) for day in range(6)]
    past = replayed(policy(input_tokens_per_month=15), spent)
    assert [(one.day.isoformat(), one.used, one.over, one.refused) for one in past] == [
        ("2026-09-29", 20, 5, 1),
        ("2026-09-30", 30, 10, 2),
        ("2026-10-02", 20, 5, 1),
        ("2026-10-03", 30, 10, 2),
    ]


def test_refused_requests_are_in_proportion_to_what_is_over() -> None:
    (past,) = replayed(policy(tokens_per_day=700), [(0, 0, "m", Usage(10, 800, 0, 200))])
    assert (past.over, past.requests, past.refused) == (300, 10, 3)
    (past,) = replayed(policy(tokens_per_day=999), [(0, 0, "m", Usage(10, 800, 0, 200))])
    assert (past.over, past.refused) == (1, 1)


def test_parts_of_a_token_are_summed_before_they_are_rounded() -> None:
    spent = [(0, 0, "m", Usage(1, 3, 3, 0))] * 3
    (past,) = replayed(policy(tokens_per_day=4, weights={"cached_input": 0.5}), spent)
    assert (past.used, past.over) == (5, 1)


def test_a_model_that_is_not_allowed_is_refused_whole_and_takes_nothing_of_other_limits() -> None:
    wanted = policy(allowed_models=["small*"], requests_per_day=3)
    spent = [(0, 0, "large", Usage(5)), (0, 0, "small-1", Usage(3)), (0, 2, "small-2", Usage(4))]
    past = {(one.limit.name, one.limit.whom): one for one in replayed(wanted, spent)}
    assert set(past) == {("allowed_models", "user:usr_ann"), ("requests_per_day", "user:usr_cid")}
    assert past["allowed_models", "user:usr_ann"].refused == 5
    assert past["requests_per_day", "user:usr_cid"].refused == 1


def test_a_policy_in_shadow_is_judged_as_if_it_were_enforced() -> None:
    assert replayed(policy(requests_per_day=1, shadow=True), [(0, 0, "m", Usage(3))])[0].refused == 2


def test_what_days_do_not_tell_is_named_and_not_replayed() -> None:
    untold = {
        "requests_per_minute": 1,
        "input_tokens_per_minute": 1,
        "output_tokens_per_minute": 1,
        "tokens_per_minute": 1,
        "concurrent_requests": 1,
        "max_context_tokens": 1,
        "max_output_tokens": 1,
    }
    wanted = policy(requests_per_day=10**6, cost_per_month="9", allowed_models=["m"], **untold)
    reasons = not_known(wanted)
    assert set(reasons) == set(untold)
    assert "minute" in reasons["tokens_per_minute"]
    assert "same time" in reasons["concurrent_requests"]
    assert replayed(wanted, [(0, 0, "m", Usage(50, 5000, 0, 5000))]) == []


def test_whoever_the_policy_does_not_mean_is_not_in_it() -> None:
    replay = Replay(policy(applies_to=["service_account:rag"], requests_per_day=1), lambda model: FREE)
    replay.add(Principal("rag", "", "service", ""), "m", Usage(2))
    replay.add(Principal("rag/x", "", "user", "", acting="rag"), "m", Usage(3))
    replay.add(person("ann"), "m", Usage(9))
    (past,) = replay.end(FIRST)
    # As `effective` has it: a program is limited as a whole, whomever it asks for.
    assert (past.limit.whom, past.requests, past.refused) == ("service_account:rag", 5, 4)
