from __future__ import annotations

from typing import Any

import pytest

from native_engine.request import SamplingParams, Sequence, Stages, stages_of


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("min_tokens", -1),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_k", -1),
        ("min_p", 1.5),
        ("typical_p", 0.0),
        ("typical_p", float("nan")),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -3.0),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", float("inf")),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {1: float("nan")}),
        ("bad_words", ("",)),
        ("min_p", float("nan")),
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
        ("stop", ("a", "")),
        ("stop_token_ids", frozenset({-1})),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be"):
        SamplingParams(**{field: value})


def test_min_tokens_beyond_max_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"min_tokens must be at most max_tokens \(3\), got 4"):
        SamplingParams(max_tokens=3, min_tokens=4)


def test_the_limits_themselves_are_accepted() -> None:
    SamplingParams(max_tokens=1, min_tokens=1, temperature=0.0, top_p=1.0, top_k=0, min_p=1.0, seed=2**64 - 1)
    SamplingParams(max_tokens=None, min_tokens=10_000, seed=-(2**63))


def test_a_sequence_counts_prompt_and_output_apart() -> None:
    sequence = Sequence("a", [1, 2, 3], SamplingParams())
    sequence.token_ids.append(4)
    assert (sequence.num_tokens, sequence.num_prompt_tokens, sequence.num_output_tokens) == (4, 3, 1)
    assert sequence.output_token_ids == [4]


def test_a_stage_that_has_not_begun_is_none_and_one_under_way_counts_on() -> None:
    sequence = Sequence("a", [1], SamplingParams(), queued_at=10.0)
    assert stages_of([sequence], 12.0) == Stages(2.0, None, None)
    sequence.scheduled_at = 13.0
    assert stages_of([sequence], 15.0) == Stages(3.0, 2.0, None)
    sequence.first_token_at = 16.0
    assert stages_of([sequence], 20.0) == Stages(3.0, 3.0, 4.0)


def test_what_comes_after_the_moment_asked_about_does_not_count() -> None:
    sequence = Sequence("a", [1], SamplingParams(), queued_at=10.0)
    sequence.scheduled_at, sequence.first_token_at, sequence.finished_at = 11.0, 12.0, 14.0
    assert stages_of([sequence], 13.0) == Stages(1.0, 1.0, 1.0)
    assert stages_of([sequence], 99.0) == Stages(1.0, 1.0, 2.0)


def test_the_prompt_is_copied() -> None:
    prompt = [1, 2, 3]
    sequence = Sequence("a", prompt, SamplingParams())
    sequence.token_ids.append(4)
    assert prompt == [1, 2, 3]


def test_ignoring_the_end_of_text_keeps_the_stop_tokens() -> None:
    eos = frozenset({2})
    stops = frozenset({7})
    assert Sequence("a", [1], SamplingParams(stop_token_ids=stops), eos_token_ids=eos).stop_ids == {2, 7}
    assert Sequence("a", [1], SamplingParams(stop_token_ids=stops, ignore_eos=True), eos_token_ids=eos).stop_ids == {7}
