"""What requests change in their logits, against definitions over the whole vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.engine import Engine
from native_engine.request import SamplingParams, Sequence
from native_engine.sampling.adjustments import adjustments_of
from tests.native_engine.fake_runner import make_scheduler
from tests.native_engine.noise_runner import NoiseRunner

SIZE = 12
END = 3
tokens = st.integers(0, SIZE - 1)
texts = st.lists(tokens, max_size=40)
penalties = st.sampled_from([0.0, 0.5, -1.5, 2.0])


def by_definition(logits: npt.NDArray[np.float64], prompt: list[int], output: list[int], params: SamplingParams) -> Any:
    logits = logits.copy()
    for word in params.bad_words_ids:
        if output[len(output) - len(word) + 1 :] == list(word[:-1]) and len(output) >= len(word) - 1:
            logits[word[-1]] = -np.inf
    if len(output) < params.min_tokens:
        logits[END] = -np.inf
    for token, bias in (params.logit_bias or {}).items():
        logits[token] += bias
    for token in range(SIZE):
        if token in prompt or token in output:
            ratio = params.repetition_penalty
            logits[token] = logits[token] / ratio if logits[token] > 0 else logits[token] * ratio
        logits[token] -= params.frequency_penalty * output.count(token)
        logits[token] -= params.presence_penalty * (token in output)
    return logits


@settings(max_examples=60, deadline=None)
@given(
    prompt=st.lists(tokens, min_size=1, max_size=40),
    output=texts,
    params=st.builds(
        SamplingParams,
        max_tokens=st.just(99),
        min_tokens=st.sampled_from([0, 1, 20]),
        presence_penalty=penalties,
        frequency_penalty=penalties,
        repetition_penalty=st.sampled_from([1.0, 0.5, 1.7]),
        logit_bias=st.one_of(st.none(), st.dictionaries(tokens, st.sampled_from([-100.0, 0.25, 3.0]), max_size=4)),
        bad_words_ids=st.lists(st.lists(tokens, min_size=1, max_size=3).map(tuple), max_size=5).map(tuple),
    ),
    seed=st.integers(0, 9),
)
def test_every_step_changes_what_the_definitions_say(
    prompt: list[int], output: list[int], params: SamplingParams, seed: int
) -> None:
    """Step by step as an answer grows, in bites of one and of several tokens."""
    sequence = Sequence("r", prompt, params, eos_token_ids=frozenset({END}))
    found = adjustments_of(sequence)
    random = np.random.default_rng(seed)
    while True:
        logits = random.standard_normal(SIZE).astype(np.float32) * 3
        before = logits.copy()
        changed = logits if found is None else found.apply(logits)
        expected = by_definition(logits.astype(np.float64), prompt, sequence.output_token_ids, params)
        np.testing.assert_allclose(changed, expected, rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(logits, before)
        if not output:
            break
        bite = 1 + int(random.integers(3))
        sequence.token_ids += output[:bite]
        output = output[bite:]


def test_who_asks_for_nothing_costs_nothing() -> None:
    assert adjustments_of(Sequence("r", [1], SamplingParams(), eos_token_ids=frozenset({END}))) is None
    found = adjustments_of(Sequence("r", [1, 2], SamplingParams(min_tokens=1), eos_token_ids=frozenset({END})))
    assert found is not None


def test_nothing_is_copied_once_min_tokens_are_there() -> None:
    sequence = Sequence("r", [1], SamplingParams(min_tokens=1), eos_token_ids=frozenset({END}))
    found, logits = adjustments_of(sequence), np.zeros(SIZE, np.float32)
    assert found is not None
    assert found.apply(logits) is not logits
    sequence.token_ids.append(5)
    assert found.apply(logits) is logits


def test_a_preemption_changes_nothing() -> None:
    def answers(num_blocks: int) -> tuple[list[list[int]], int]:
        engine = Engine(NoiseRunner(num_blocks, SIZE), make_scheduler(num_blocks))
        params = SamplingParams(
            max_tokens=40, seed=5, presence_penalty=0.4, frequency_penalty=0.3, repetition_penalty=1.2, min_tokens=30
        )
        ends = frozenset({END})
        sequences = [Sequence(str(n), [n, 2, 3] * 8, params, eos_token_ids=ends) for n in range(3)]
        for sequence in sequences:
            engine.add(sequence)
        while engine.scheduler.has_work:
            engine.step()
        return [sequence.output_token_ids for sequence in sequences], engine.scheduler.num_preemptions

    (calm, none), (pressed, some) = answers(64), answers(6)
    assert none == 0 < some
    assert pressed == calm
