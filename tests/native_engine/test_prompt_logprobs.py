"""What the model thought of a prompt is told whole, whatever chunks, cached blocks and other requests do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.block_manager import BlockManager
from native_engine.engine import Engine
from native_engine.request import SamplingParams, Sequence
from native_engine.scheduler import Scheduler
from tests.native_engine.noise_runner import NoiseRunner, noise

SIZE = 30


class CheckedRunner(NoiseRunner):
    """Its logits buffer has no more rows than it was built with."""

    def __init__(self, num_blocks: int, max_num_logits: int) -> None:
        super().__init__(num_blocks, SIZE)
        self.max_num_logits = max_num_logits

    def execute(self, batch):  # type: ignore[no-untyped-def]
        assert sum(item.num_logits for item in batch.items) <= self.max_num_logits
        return super().execute(batch)


def engine(num_blocks: int = 64, tokens: int = 64, rows: int = 24) -> Engine:
    scheduler = Scheduler(BlockManager(num_blocks), 8, tokens, 4096, max_num_logits=rows)
    return Engine(CheckedRunner(num_blocks, rows), scheduler)


def asking(name: str, prompt: list[int], count: int | None = 2, max_tokens: int = 4) -> Sequence:
    return Sequence(name, prompt, SamplingParams(max_tokens=max_tokens, seed=1, prompt_logprobs=count))


def run(engine: Engine, *sequences: Sequence) -> None:
    for sequence in sequences:
        engine.add(sequence)
    while engine.scheduler.has_work:
        engine.step()


def check(sequence: Sequence) -> None:
    """Against the rows of the model, one token after the other."""
    prompt = sequence.token_ids[: sequence.num_prompt_tokens]
    assert len(sequence.prompt_logprobs) == len(prompt) - 1
    for place, told in enumerate(sequence.prompt_logprobs, start=1):
        row = noise(prompt[:place], SIZE).double().log_softmax(-1).numpy()
        assert told.chosen == pytest.approx(row[prompt[place]], abs=1e-5)
        assert told.rank == (row > row[prompt[place]]).sum() + 1
        assert [token for token, _ in told.top] == np.argsort(-row)[:2].tolist()


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    tokens=st.sampled_from([8, 17, 64]),
    rows=st.sampled_from([9, 12, 40]),
    num_blocks=st.sampled_from([5, 8, 64]),
)
def test_every_token_of_every_prompt_is_told_once(lengths: list[int], tokens: int, rows: int, num_blocks: int) -> None:
    """Among requests that do not ask; scarce blocks preempt some half-way."""
    sequences = [asking(str(n), [(7 * n + t) % SIZE for t in range(length)]) for n, length in enumerate(lengths)]
    others = [asking(f"other {n}", [n] * 20, None, 30) for n in range(3)]
    made = engine(num_blocks, tokens, rows)
    run(made, *others, *sequences)
    for sequence in sequences:
        check(sequence)
    assert all(other.prompt_logprobs == [] for other in others)
    assert made.scheduler.blocks.num_used == 0


def test_a_cached_prefix_is_computed_again_and_gives_the_same_answer() -> None:
    made, prompt = engine(), list(range(30)) * 2
    run(made, before := asking("before", prompt, None))
    run(made, sequence := asking("asking", prompt))
    check(sequence)
    assert sequence.num_cached_tokens == 0
    assert sequence.output_token_ids == before.output_token_ids
    run(made, after := asking("after", prompt, None))
    assert after.num_cached_tokens == 48


@pytest.mark.parametrize("tokens", [1024, 512])
def test_eight_answers_to_a_thousand_tokens_share_all_but_the_last_block(tokens: int) -> None:
    """Also where the prompt takes more than one step: who joins finds what is there."""

    def most_used(tokens: int, *, sharing: bool) -> int:
        scheduler = Scheduler(BlockManager(600, 16, sharing), 8, tokens, 4096)
        made, used = Engine(NoiseRunner(600, SIZE), scheduler), 0
        for n in range(8):
            made.add(asking(str(n), [t % SIZE for t in range(1000)], None, 8))
        while scheduler.has_work:
            made.step()
            used = max(used, scheduler.blocks.num_used)
        return used

    assert most_used(8000, sharing=False) == 8 * 63
    assert most_used(tokens, sharing=True) == 62 + 8
