"""A model that wants anything at all: its logits are noise, made of the tokens so far."""

from __future__ import annotations

import numpy as np
import torch

from native_engine.batch import ScheduledBatch
from native_engine.sampling.sampler import Sampler
from tests.native_engine.fake_runner import FakeRunner


def noise(tokens: list[int], size: int) -> torch.Tensor:
    random = np.random.default_rng(tokens)
    return torch.from_numpy(random.standard_normal(size).astype(np.float32) * 3)


class NoiseRunner(FakeRunner):
    """Each row of an item is that of the tokens up to it."""

    def __init__(self, num_blocks: int, vocab_size: int) -> None:
        super().__init__(num_blocks)
        self.vocab_size = vocab_size
        self.sampler = Sampler(seed=0)

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        self.store(batch)
        rows = [torch.zeros(0, self.vocab_size)]
        for item in batch.items:
            end = item.sequence.num_computed_tokens + item.num_new_tokens
            tokens = item.sequence.token_ids
            rows += [
                noise(tokens[:place], self.vocab_size)[None] for place in range(end - item.num_logits + 1, end + 1)
            ]
        logits = torch.cat(rows)
        return self.sampler.sample(logits, logits.argmax(-1).tolist(), batch.items)
