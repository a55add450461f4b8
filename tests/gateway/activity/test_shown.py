"""What several gateways told, added up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.activity.shown import quantile, shown
from gateway.activity.slots import Told


def told(*rows: tuple[str, str, str, int, int], seconds: float = 10.0, history: tuple[int, ...] = ()) -> Told:
    return Told(seconds, list(rows), [(10 * tokens, tokens) for tokens in history])


def test_speeds_are_of_the_seconds_that_each_gateway_speaks_of() -> None:
    one = told(("model", "large", "completion_tokens", 100, 400))
    new = told(("model", "large", "completion_tokens", 100, 100), seconds=4.0)
    (model,) = shown([one, new], 10, 0).models
    assert (model.completion_tokens, model.completion_tokens_per_second) == (500, 35.0)
    assert shown([one, new], 10, 0).gateways == 2


def test_the_total_has_all_models_and_their_times_together() -> None:
    found = shown(
        [told(("model", "a", "ttft.7", 1, 1), ("model", "b", "ttft.9", 1, 1), ("model", "b", "requests", 1, 2))], 10, 0
    )
    assert [model.id for model in found.models] == ["a", "b"]
    assert (found.total.requests, found.models[0].requests) == (2, 0)
    assert found.models[0].ttft_p50 == pytest.approx(0.09)
    assert found.total.ttft_p50 == pytest.approx(0.1)
    assert found.total.tpot_p95 is None


def test_every_gateway_sees_the_same_preemptions() -> None:
    rows = [told(("backend", "one", "preemptions", 2, n), ("backend", "one", "prompt_tokens", 1, n)) for n in (3, 5, 4)]
    (backend,) = shown(rows, 10, 0).backends
    assert (backend.preemptions, backend.prompt_tokens) == (5, 12)


def test_an_engine_that_says_nothing_of_preemptions_has_none_to_show() -> None:
    (backend,) = shown([told(("backend", "one", "prompt_tokens", 1, 1))], 10, 0).backends
    assert backend.preemptions is None


def test_subjects_come_in_order_of_tokens_and_no_more_than_were_asked_for() -> None:
    rows = [
        ("subject", name, "completion_tokens", 0, tokens) for name, tokens in (("b", 5), ("a", 5), ("c", 9), ("d", 0))
    ]
    found = shown([told(*rows)], 3, 0)
    assert [one.id for one in found.subjects] == ["c", "a", "b"]
    assert found.has_more
    assert not shown([told(*rows)], 4, 0).has_more


def test_failures_are_told_by_code() -> None:
    found = shown([told(("code", "queue_full", "failures", 0, 2), ("code", "old", "failures", 0, 0))], 10, 0)
    assert found.failures == {"queue_full": 2}


def test_histories_of_different_lengths_end_at_the_same_moment() -> None:
    history = shown([told(history=(1, 2, 3)), told(history=(10,))], 10, 0).history
    assert history.completion_tokens_per_second == [1, 2, 13]
    assert history.prompt_tokens_per_second == [10, 20, 130]


def test_of_no_gateway_there_is_nothing_to_show() -> None:
    found = shown([], 10, 0)
    assert (found.gateways, found.models, found.history.completion_tokens_per_second) == (0, [], [])


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ((0, 4, 0), 0.5, 1.5),
        ((4, 0, 0), 0.25, 0.25),
        ((0, 0, 4), 0.5, 2.0),
        ((1, 1, 2), 0.5, 2.0),
        ((0, 0, 0), 0.5, None),
    ],
)
def test_a_quantile_is_read_as_prometheus_reads_it(counts: tuple[int, ...], share: float, value: float | None) -> None:
    assert quantile((1.0, 2.0), counts, share) == value


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.floats(0.01, 1.0))
def test_a_quantile_lies_within_the_edges(counts: list[int], share: float) -> None:
    found = quantile((1.0, 2.0, 5.0), counts, share)
    assert found is None if not any(counts) else found is not None and 0.0 <= found <= 5.0
