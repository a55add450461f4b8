"""A decoder as a sentence encoder (Qwen3-Embedding): an input's vector is the last state of its last token.

Inputs go through the model's own steps, over blocks that belong to one batch only. Knows no text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from kernels.attention.cache import BLOCK_SIZE, CACHE_TYPES, LayerCache, allocate
from kernels.native.library import available
from kernels.native.program import Buffer, Program, StepArrays
from native_engine import models
from native_engine.batch import ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.loading.weights import Weights
from native_engine.model_runner import CACHE_TYPE_OF, fill_step
from native_engine.quantization.kv_scales import kv_scales
from native_engine.quantization.weights import NativeLoader, TorchLoader
from native_engine.request import SamplingParams, Sequence
from native_engine.sizing import max_model_len, num_cache_blocks, num_threads

Vector = npt.NDArray[np.float32]
# The states of the rows that the step asks for, [rows, hidden].
Forward = Callable[[], Vector]


class LastTokenEncoder:
    """Keeps nothing of an input. One thread at a time; `max_model_len` is checked by the caller, and that a batch is
    within the limits of the configuration (or a single input)."""

    def __init__(self, config: EngineConfig, weights: Weights, *, normalize: bool) -> None:
        model = weights.config
        self.normalizes, self.dimensions = normalize, model.hidden_size
        self.max_model_len = max_model_len(config, model)
        longest = -(-self.max_model_len // BLOCK_SIZE)
        dtype = CACHE_TYPES[CACHE_TYPE_OF.get(config.kv_cache_dtype, config.kv_cache_dtype)]
        num_cache_blocks(config, model, self.max_model_len, dtype.itemsize, 0)  # raises where the longest does not fit
        blocks = max(longest, -(-config.max_num_batched_tokens // BLOCK_SIZE) + config.max_num_seqs)
        caches = [
            allocate(blocks, model.num_kv_heads, model.head_dim, dtype, *scales) for scales in kv_scales(weights, dtype)
        ]
        self._max_rows = config.max_num_batched_tokens
        self._step = StepArrays(self._max_rows, config.max_num_seqs, longest)
        make = _native if available() else _torch
        self._forward = make(config, weights, self.max_model_len, self._step, caches)

    def encode(self, inputs: list[list[int]]) -> Vector:
        """[inputs, dimensions]. Each vector is what its input has alone."""
        open_ones, vectors = _sequences(inputs), []
        while open_ones:
            items = self._next_items(open_ones)
            fill_step(self._step, items)
            vectors.append(self._forward().copy())
            for item in items:
                item.sequence.num_computed_tokens += item.num_new_tokens
            open_ones = [each for each in open_ones if each.num_computed_tokens < each.num_tokens]
        found = np.concatenate(vectors)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12) if self.normalizes else found

    def _next_items(self, sequences: list[Sequence]) -> list[ScheduledSequence]:
        """As many tokens as a step holds, in the inputs' order, so that the vectors come in that order too."""
        items, room = [], self._max_rows
        for sequence in sequences:
            missing = sequence.num_tokens - sequence.num_computed_tokens
            count = min(missing, room)
            if count:
                items.append(ScheduledSequence(sequence, count, int(count == missing)))
            room -= count
        return items


def _sequences(inputs: list[list[int]]) -> list[Sequence]:
    """With blocks of their own, counted from the first."""
    sequences, used = [], 0
    for each in inputs:
        sequence = Sequence("", each, SamplingParams())
        blocks = -(-len(each) // BLOCK_SIZE)
        sequence.block_table = list(range(used, used + blocks))
        used += blocks
        sequences.append(sequence)
    return sequences


def _native(
    config: EngineConfig, weights: Weights, longest: int, step: StepArrays, caches: list[LayerCache]
) -> Forward:
    program = Program(config.max_num_batched_tokens, config.max_num_seqs, num_threads(config))
    loader = NativeLoader(weights, program, config.quantization, config.dtype)
    backbone = models.create_backbone(weights.config, loader, longest)
    states = cast(Buffer, backbone.forward(step, caches))
    program.owned.append(backbone)

    def forward() -> Vector:
        program.run(step)
        return states.array[: step.struct.num_sampled]

    return forward


def _torch(config: EngineConfig, weights: Weights, longest: int, step: StepArrays, caches: list[LayerCache]) -> Forward:
    torch.set_num_threads(num_threads(config))
    backbone = models.create_backbone(weights.config, TorchLoader(weights, config.quantization), longest)

    def forward() -> Vector:
        with torch.inference_mode():
            return np.asarray(cast(torch.Tensor, backbone.forward(step, caches)).numpy())

    return forward
