"""What may be drawn, how often, and from which stream."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.batch import ScheduledSequence
from native_engine.request import SamplingParams, Sequence
from native_engine.sampling.draw import draw
from native_engine.sampling.sampler import NOT_FINITE, Sampler

VOCABULARY = 6000  # so that what lies deep below the best is looked at only where it counts

Floats = npt.NDArray[np.floating[Any]]


def some_logits(spread: float = 3.0, seed: int = 0, size: int = VOCABULARY) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32) * np.float32(spread)


def sample(
    logits: npt.NDArray[np.float32], greedy: list[int], sequences: list[Sequence], sampler: Sampler | None = None
) -> list[int]:
    """One token a sequence, whose newest token has the row of its place."""
    items = [ScheduledSequence(sequence, sequence.num_tokens, 1) for sequence in sequences]
    return [token for (token,) in (sampler or Sampler()).sample(torch.from_numpy(logits), greedy, items)]


def grow(logits: npt.NDArray[np.float32], sequence: Sequence, sampler: Sampler | None = None) -> int:
    """One token more of the sequence."""
    (token,) = sample(logits[None], [0], [sequence], sampler)
    sequence.token_ids.append(token)
    return token


def shares(logits: Floats, params: SamplingParams) -> Floats:
    """By definition, one limit after the other: the probability of each token."""
    shares = np.exp((logits - logits.max()) / params.temperature, dtype=np.float64)
    shares[shares < params.min_p] = 0
    order = np.argsort(-shares, kind="stable")
    if params.top_k:
        shares[order[params.top_k :]] = 0
    shares /= shares.sum()
    shares[order[shares[order].cumsum() - shares[order] >= params.top_p]] = 0
    shares /= shares.sum()
    if params.typical_p < 1:
        surprise = -np.log(np.where(shares > 0, shares, 1))
        distance = np.where(shares > 0, np.abs(surprise - (shares * surprise).sum()), np.inf)
        order = np.argsort(distance, kind="stable")
        shares[order[shares[order].cumsum() - shares[order] >= params.typical_p]] = 0
    return shares / shares.sum()


@settings(max_examples=80, deadline=None)
@given(
    spread=st.sampled_from([0.0, 0.01, 1.0, 3.0, 12.0]),
    temperature=st.sampled_from([0.2, 1.0, 3.0]),
    top_p=st.floats(0.01, 1.0),
    top_k=st.sampled_from([0, 1, 2, 50, 300, 6000, 9999]),
    min_p=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
)
def test_only_tokens_within_every_limit_are_drawn(
    spread: float, temperature: float, top_p: float, top_k: int, min_p: float, uniform: float
) -> None:
    params = SamplingParams(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p)
    logits = some_logits(spread)
    # A token on the very edge may fall to either side by rounding.
    edge = replace(params, top_p=min(1.0, top_p * 1.0001 + 1e-5), min_p=min_p * 0.9999)
    assert shares(logits, edge)[draw(logits, params, uniform)] > 0


LIMITS = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"top_k": 3},
    {"top_p": 0.7},
    {"min_p": 0.1},
    {"typical_p": 0.6},
    {"typical_p": 0.2},
    {"min_p": 0.05, "top_p": 0.8},
    {"top_k": 5, "top_p": 0.9, "temperature": 1.5},
    {"min_p": 0.02, "top_k": 6, "top_p": 0.95, "typical_p": 0.8, "temperature": 1.2},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_tokens_come_as_often_as_their_share(limits: dict[str, Any]) -> None:
    """Evenly spaced uniforms reach every token just as often as its probability says."""
    params = SamplingParams(**limits)
    logits = np.array([2.0, 1.0, 0.0, -1.0, -50.0, 1.5, 0.2, -0.7], np.float32)
    drawn = np.bincount([draw(logits, params, (i + 0.5) / 2000) for i in range(2000)], minlength=8) / 2000
    assert np.abs(drawn - shares(logits, params)).max() < 1e-3


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_what_a_seed_draws_is_distributed_as_asked(limits: dict[str, Any]) -> None:
    """Pearson's chi-square over 1,500 draws of one request; a good sampler would fail one seed in 10,000."""
    params = SamplingParams(**limits, seed=11, max_tokens=4000)
    size = 40
    logits = some_logits(1.5, size=size)
    expected = shares(logits, params) * 1500
    sampler, sequence = Sampler(), Sequence("r", [1], params)
    drawn = np.bincount([grow(logits, sequence, sampler) for _ in range(1500)], minlength=size)
    assert drawn[expected == 0].sum() == 0
    rare = expected < 5  # too few each for the approximation: counted together
    observed = np.append(drawn[~rare], drawn[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    freedom = max(len(wanted) - 1, 1)
    # Wilson and Hilferty's approximation of the quantile 0.9999.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.719 * math.sqrt(2 / (9 * freedom))) ** 3
    assert ((observed - wanted) ** 2 / wanted).sum() < limit


def test_a_token_that_is_masked_is_never_drawn_not_even_at_the_very_end() -> None:
    logits = np.full(2000, -np.inf, np.float32)
    logits[[3, 700]] = 0.0
    for params in (SamplingParams(), SamplingParams(top_p=0.999999), SamplingParams(typical_p=0.9)):
        assert {draw(logits, params, uniform) for uniform in (0.0, 0.3, 0.7, 1 - 2**-53)} == {3, 700}


def test_the_same_seed_draws_the_same_and_another_draws_otherwise() -> None:
    def twenty(seed: int) -> list[int]:
        sequence = Sequence("r", [1], SamplingParams(seed=seed))
        return [grow(some_logits(seed=n), sequence) for n in range(20)]

    assert twenty(7) == twenty(7)
    assert twenty(7) != twenty(8)
    assert len(twenty(-1)) == 20  # the official API allows negative seeds


def test_a_token_that_is_chosen_once_more_is_chosen_alike() -> None:
    sampler, sequence, logits = Sampler(), Sequence("r", [1], SamplingParams(seed=3)), some_logits()
    for _ in range(5):
        again = sample(logits[None], [0], [sequence], sampler)
        assert [grow(logits, sequence, sampler)] == again
    assert len(set(sequence.output_token_ids)) > 1


def test_requests_without_a_seed_repeat_only_where_the_engine_has_one() -> None:
    def first(engine_seed: int | None) -> list[int]:
        sequences = [Sequence(str(n), [1], SamplingParams()) for n in range(8)]
        return sample(np.tile(some_logits(), (8, 1)), [0] * 8, sequences, Sampler(engine_seed))

    assert first(3) == first(3)
    assert first(None) != first(None)
    assert len(set(first(3))) > 1


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_row_gives_the_same_alone_and_among_others(limits: dict[str, Any]) -> None:
    def make() -> list[Sequence]:
        return [Sequence(str(n), [1], SamplingParams(seed=n, frequency_penalty=0.5, **limits)) for n in range(6)]

    rows = np.stack([some_logits(seed=n) for n in range(6)])
    together = sample(rows, [0] * 6, make())
    assert together == [sample(rows[n : n + 1], [0], [sequence])[0] for n, sequence in enumerate(make())]


def test_a_row_that_is_not_finite_is_passed_on_and_spoils_no_other() -> None:
    sequences = [Sequence("a", [1], SamplingParams()), Sequence("b", [1], SamplingParams(temperature=0.0))]
    logits = np.stack([np.full(10, np.nan, np.float32), np.arange(10, dtype=np.float32)])
    assert sample(logits, [NOT_FINITE, 9], sequences) == [NOT_FINITE, 9]


@pytest.mark.parametrize(
    "params",
    [SamplingParams(logit_bias={10**9: 1.0}), SamplingParams(bad_words_ids=tuple((token,) for token in range(10)))],
)
def test_a_request_that_cannot_be_served_fails_alone(params: SamplingParams) -> None:
    """Its token is none of the vocabulary's; it forbids everything."""
    sequences = [Sequence("a", [1], params), Sequence("b", [1], SamplingParams(temperature=0.0))]
    assert sample(np.zeros((2, 10), np.float32), [0, 0], sequences) == [NOT_FINITE, 0]


@pytest.mark.parametrize("count", [0, 2, 20])
@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.7])
def test_log_probabilities_are_the_models_own_whatever_limits_the_choice(count: int, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, top_k=1, min_tokens=1, max_tokens=2, seed=1, logprobs=count)
    logits = some_logits()
    best = int(logits.argmax())
    sequence = Sequence("r", [1], params, eos_token_ids=frozenset({best}))
    (token,) = sample(logits[None], [best], [sequence])
    truth = torch.from_numpy(logits).double().log_softmax(-1)
    assert token != best
    (logprobs,) = sequence.logprobs
    assert logprobs.chosen == pytest.approx(float(truth[token]), abs=1e-5)
    assert [each for each, _ in logprobs.top] == truth.topk(count).indices.tolist()
    assert [value for _, value in logprobs.top] == pytest.approx(truth.topk(count).values.tolist(), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_end_cannot_be_chosen_before_min_tokens(temperature: float) -> None:
    params = SamplingParams(min_tokens=2, max_tokens=9, temperature=temperature)
    sequence = Sequence("r", [1], params, eos_token_ids=frozenset({4}))
    logits = np.array([[0.0, 1.0, 0.0, 0.0, 30.0]], np.float32)
    for _ in range(2):
        (token,) = sample(logits, [4], [sequence])
        assert token != 4
        sequence.token_ids.append(token)
    assert sample(logits, [4], [sequence]) == [4]
    assert logits[0, 4] == 30.0


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SamplingParams(temperature=1.0, top_p=0.9, seed=7)])
def test_drafts_are_kept_as_far_as_the_model_says_the_same(params: SamplingParams) -> None:
    rows = torch.from_numpy(np.random.default_rng(3).standard_normal((4, 50)).astype(np.float32) * 4)
    greedy = rows.argmax(-1).tolist()

    def sample(first: int, end: int, sequence: Sequence, drafts: list[int]) -> list[int]:
        item = ScheduledSequence(sequence, sequence.num_tokens, end - first)
        item.drafts = drafts
        return sampler.sample(rows[first:end], greedy[first:end], [item])[0]

    sampler, alone = Sampler(seed=0), Sequence("a", [1], params)
    said = []
    for row in range(4):
        said += sample(row, row + 1, alone, [])
        alone.token_ids.append(said[-1])
    for wrong in range(4):
        drafts = [*said[:wrong], (said[wrong] + 1) % 50, *said[wrong + 1 :]][:3]
        assert sample(0, 4, Sequence("b", [1], params), drafts) == said[: wrong + 1]
