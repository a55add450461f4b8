"""What may be drawn, how often, and from which stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.batch import ScheduledSequence
from native_engine.request import SamplingParams, Sequence
from native_engine.sampling.sampler import NOT_FINITE, Sampler, draw

VOCABULARY = 6000  # more than both heads that are tried before everything is sorted


def some_logits(spread: float = 3.0, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(VOCABULARY).astype(np.float32) * spread)


def sample(
    logits: torch.Tensor, greedy: list[int], sequences: list[Sequence], sampler: Sampler | None = None
) -> list[int]:
    """One token a sequence, whose newest token has the row of its place."""
    items = [ScheduledSequence(sequence, sequence.num_tokens, 1) for sequence in sequences]
    return [token for (token,) in (sampler or Sampler()).sample(logits, greedy, items)]


def allowed(logits: torch.Tensor, params: SamplingParams) -> set[int]:
    """By definition, with everything sorted: top_k, then top_p of what is left, and min_p."""
    probabilities = logits.double().softmax(-1)
    values, tokens = probabilities.sort(descending=True)
    if params.top_k:
        values, tokens = values[: params.top_k], tokens[: params.top_k]
    before = values.cumsum(-1) - values
    kept = (before < params.top_p * values.sum()) & (values >= params.min_p * values[0])
    kept[0] = True
    return set(tokens[kept].tolist())


@settings(max_examples=150, deadline=None)
@given(
    spread=st.sampled_from([0.1, 1.0, 4.0]),
    top_p=st.floats(0.01, 1.0),
    top_k=st.sampled_from([0, 1, 5, 300, 5000]),
    min_p=st.sampled_from([0.0, 0.01, 0.3]),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
)
def test_only_tokens_within_every_limit_are_drawn(
    spread: float, top_p: float, top_k: int, min_p: float, uniform: float
) -> None:
    params = SamplingParams(top_p=top_p, top_k=top_k, min_p=min_p)
    logits = some_logits(spread)
    # A token on the very edge may fall to either side by rounding.
    edge = allowed(logits, replace(params, top_p=min(1.0, top_p * 1.0001 + 1e-5), min_p=min_p * 0.9999))
    assert draw(logits, params, uniform) in edge


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(top_k=3), SamplingParams(top_p=0.7)])
def test_tokens_come_as_often_as_their_share(params: SamplingParams) -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -50.0])
    drawn = np.bincount([draw(logits, params, (i + 0.5) / 4000) for i in range(4000)], minlength=5) / 4000
    shares = logits.softmax(-1).numpy()
    shares[[token for token in range(5) if token not in allowed(logits, params)]] = 0
    assert np.abs(drawn - shares / shares.sum()).max() < 1e-3


def test_the_same_seed_draws_the_same_and_another_draws_otherwise() -> None:
    def twenty(seed: int) -> list[int]:
        sequence = Sequence("r", [1], SamplingParams(seed=seed))
        return [sample(some_logits(seed=n)[None], [0], [sequence])[0] for n in range(20)]

    assert twenty(7) == twenty(7)
    assert twenty(7) != twenty(8)
    assert len(twenty(-1)) == 20  # the official API allows negative seeds


def test_requests_without_a_seed_repeat_only_where_the_engine_has_one() -> None:
    def first(engine_seed: int | None) -> list[int]:
        sequences = [Sequence(str(n), [1], SamplingParams()) for n in range(8)]
        return sample(some_logits().expand(8, -1), [0] * 8, sequences, Sampler(engine_seed))

    assert first(3) == first(3)
    assert first(None) != first(None)
    assert len(set(first(3))) > 1


def test_a_row_that_is_not_finite_is_passed_on_and_spoils_no_other() -> None:
    sequences = [Sequence("a", [1], SamplingParams()), Sequence("b", [1], SamplingParams(temperature=0.0))]
    logits = torch.stack([torch.full((10,), float("nan")), torch.arange(10.0)])
    assert sample(logits, [NOT_FINITE, 9], sequences) == [NOT_FINITE, 9]


@pytest.mark.parametrize("count", [0, 2, 20])
@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.7])
def test_log_probabilities_are_the_models_own_whatever_limits_the_choice(count: int, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, top_k=1, min_tokens=1, max_tokens=2, seed=1, logprobs=count)
    logits = some_logits()
    best = int(logits.argmax())
    sequence = Sequence("r", [1], params, eos_token_ids=frozenset({best}))
    (token,) = sample(logits[None], [best], [sequence])
    truth = logits.double().log_softmax(-1)
    assert token != best
    (logprobs,) = sequence.logprobs
    assert logprobs.chosen == pytest.approx(float(truth[token]), abs=1e-5)
    assert [each for each, _ in logprobs.top] == truth.topk(count).indices.tolist()
    assert [value for _, value in logprobs.top] == pytest.approx(truth.topk(count).values.tolist(), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_end_cannot_be_chosen_before_min_tokens(temperature: float) -> None:
    params = SamplingParams(min_tokens=2, max_tokens=9, temperature=temperature)
    sequence = Sequence("r", [1], params, eos_token_ids=frozenset({4}))
    logits = torch.tensor([[0.0, 1.0, 0.0, 0.0, 30.0]])
    for _ in range(2):
        (token,) = sample(logits, [4], [sequence])
        assert token != 4
        sequence.token_ids.append(token)
    assert sample(logits, [4], [sequence]) == [4]
    assert logits[0, 4] == 30.0
