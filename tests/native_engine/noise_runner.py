"""A model that wants anything at all: its logits are noise, made of the tokens so far."""

from __future__ import annotations

import numpy as np
import torch

from kernels.argmax import argmax
from native_engine.batch import ScheduledBatch
from native_engine.sampling.sampler import Sampler
from tests.native_engine.fake_runner import FakeRunner


def noise(tokens: list[int], size: int) -> torch.Tensor:
    random = np.random.default_rng(tokens)
    return torch.from_numpy(random.standard_normal(size).astype(np.float32) * 3)


class NoiseRunner(FakeRunner):
    """Each row of an item is that of the tokens up to it. Of requests whose id is in `spoiled` it is not a number."""

    def __init__(self, num_blocks: int, vocab_size: int) -> None:
        super().__init__(num_blocks)
        self.vocab_size = vocab_size
        self.sampler = Sampler(seed=0)
        self.spoiled: set[str] = set()

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        self.store(batch)
        rows = [torch.zeros(0, self.vocab_size)]
        for item in batch.items:
            end = item.sequence.num_computed_tokens + item.num_new_tokens
            for place in range(end - item.num_logits + 1, end + 1):
                row = noise(item.sequence.token_ids[:place], self.vocab_size)[None]
                rows.append(row * (float("nan") if item.sequence.request_id in self.spoiled else 1.0))
        logits = torch.cat(rows)
        return self.sampler.sample(logits, argmax(logits).tolist(), batch.items)
