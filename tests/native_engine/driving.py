"""Drives an engine by hand in tests: prompts in, tokens out, with others coming and going."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from native_engine.engine import Engine
from native_engine.request import SamplingParams, Sequence

if TYPE_CHECKING:
    from transformers import PreTrainedModel  # seconds of import, which not all who drive an engine need

GREEDY = SamplingParams(max_tokens=64, temperature=0.0, ignore_eos=True)


def generate(engine: Engine, prompts: Iterable[list[int]], params: SamplingParams = GREEDY) -> list[list[int]]:
    """All at once; the tokens of each."""
    sequences = [Sequence(str(index), prompt, params) for index, prompt in enumerate(prompts)]
    for sequence in sequences:
        engine.add(sequence)
    run(engine, sequences)
    return [sequence.output_token_ids for sequence in sequences]


def generate_in_traffic(
    engine: Engine, prompts: list[list[int]], vocabulary: int, params: SamplingParams = GREEDY
) -> list[list[int]]:
    """The same prompts, while strangers of random lengths join at random steps, finish, and are aborted."""
    rng = np.random.default_rng(5)
    sequences = [Sequence(str(index), prompt, params) for index, prompt in enumerate(prompts)]
    waiting, step = list(sequences), 0
    while waiting or any(sequence.finish_reason is None for sequence in sequences):
        if waiting and step % 3 == 0:
            engine.add(waiting.pop(0))
        if step % 4 == 0:
            prompt = rng.integers(0, vocabulary, int(rng.integers(1, 90))).tolist()
            engine.add(Sequence(f"stranger-{step}", prompt, replace(params, max_tokens=int(rng.integers(1, 40)))))
        if step % 10 == 9:
            engine.abort(f"stranger-{step - 5}")
        engine.step()
        step += 1
    engine.abort_all()
    return [sequence.output_token_ids for sequence in sequences]


def run(engine: Engine, sequences: list[Sequence]) -> None:
    while any(sequence.finish_reason is None for sequence in sequences):
        engine.step()


@torch.inference_mode()
def reference_logits(model: PreTrainedModel, prompt: list[int], output: list[int]) -> torch.Tensor:
    """What `model` would say at each place of `output`, given all before it: [len(output), vocabulary]."""
    ids = torch.tensor([prompt + output])
    logits = model(ids, logits_to_keep=len(output) + 1).logits[0, :-1]
    assert isinstance(logits, torch.Tensor)
    return logits
