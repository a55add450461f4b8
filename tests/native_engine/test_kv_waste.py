"""How much of the KV cache that is lent out holds nothing, over lengths as in chats, and how hard it thrashes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from native_engine.request import Sequence
from tests.native_engine.fake_runner import make_scheduler, make_sequence

NUM_REQUESTS = 400


def chat_lengths(choose: random.Random) -> tuple[int, int]:
    """Prompt and output tokens spread as in ShareGPT: lognormal, means about 220 and 200, tails into the thousands."""
    prompt = int(choose.lognormvariate(math.log(120), 1.1))
    output = int(choose.lognormvariate(math.log(150), 0.8))
    return max(4, min(prompt, 2000)), max(4, min(output, 2000))


def requests() -> list[Sequence]:
    choose = random.Random(20)
    lengths = [chat_lengths(choose) for _ in range(NUM_REQUESTS)]
    return [
        make_sequence(str(index), [choose.randrange(256) for _ in range(prompt)], output)
        for index, (prompt, output) in enumerate(lengths)
    ]


def play(sequences: list[Sequence], num_blocks: int) -> tuple[float, int]:
    """The share of lent slots that hold no token, over all steps, and the number of preemptions."""
    scheduler = make_scheduler(num_blocks, max_num_seqs=32, max_num_batched_tokens=512, caching=False)
    for sequence in sequences:
        scheduler.add(sequence)
    lent = held = 0
    while scheduler.has_work:
        batch = scheduler.schedule()
        scheduler.postprocess(batch, [[1] for item in batch.items if item.samples])
        lent += scheduler.blocks.num_used * 16
        held += sum(sequence.num_computed_tokens for sequence in scheduler.running)
    return 1 - held / lent, scheduler.num_preemptions


@pytest.mark.parametrize(("cache", "num_blocks"), [("ample", 4096), ("scarce", 512)])
def test_under_four_percent_of_lent_slots_are_waste(cache: str, num_blocks: int, tell: Callable[[str], None]) -> None:
    sequences = requests()
    waste, preemptions = play(sequences, num_blocks)
    worst = max(sequence.num_preemptions for sequence in sequences)
    tell(f"{cache} cache: {waste:.2%} of lent KV slots held nothing, {preemptions} preemptions, {worst} at worst")
    assert waste < 0.04
    assert worst <= 4
