"""A ScheduledBatch to tokens. Owns the weights and the KV cache; keeps nothing of a sequence between two steps."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import cast

import numpy as np
import torch

from kernels.argmax import argmax
from kernels.attention.cache import BLOCK_SIZE, CACHE_TYPES, LayerCache, allocate
from kernels.block_copy.reference import copy_blocks
from kernels.native.library import available, best_isa
from kernels.native.program import Buffer, Program, StepArrays
from native_engine import models
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.device import settled
from native_engine.host_tier import Copy
from native_engine.loading.weights import Weights
from native_engine.parallel.following import send_copies, together
from native_engine.parallel.group import ALONE, Group
from native_engine.parallel.weights import shard
from native_engine.quantization.kv_scales import kv_scales
from native_engine.quantization.weights import NativeLoader, TorchLoader
from native_engine.sampling.sampler import Sampler
from native_engine.sizing import max_model_len, num_cache_blocks, num_host_blocks, num_threads

logger = logging.getLogger(__name__)

CACHE_TYPE_OF = {"auto": "float16", "fp8_e4m3": "fp8"}


class Runner(ABC):
    """What all ways of computing share: a step's arrays in, tokens out. Each makes `caches` and `host_caches`."""

    weight_bytes: int
    num_blocks: int
    caches: list[LayerCache]
    num_host_blocks: int
    host_caches: list[LayerCache]

    def __init__(self, config: EngineConfig, weights: Weights, group: Group, step: StepArrays | None = None) -> None:
        model = weights.config
        self.group = group
        self.max_model_len = max_model_len(config, model)
        widths = [width for width in model.windows if width is not None]
        self.window = max(widths) if len(widths) == model.num_layers else None
        self.sampler = Sampler(config.seed)
        self.step = StepArrays(*step_shape(config, self.max_model_len)) if step is None else step

    @abstractmethod
    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        """The new tokens of each item that samples, in order; [-1] where the logits were not finite."""

    @abstractmethod
    def copy(self, copies: list[Copy]) -> None:
        """Moves blocks between cache and host tier, one after another."""

    def follow(self) -> None:
        """Computes the step described, at a rank that chooses no tokens."""
        self.forward()

    @abstractmethod
    def forward(self) -> tuple[torch.Tensor, list[int]]:
        """Logits [rows that need them, vocabulary] of the step described, float32 on the host, and their argmax."""


class CpuRunner(Runner):
    """Keys and values in host memory."""

    def __init__(self, config: EngineConfig, weights: Weights, weight_bytes: int, group: Group) -> None:
        super().__init__(config, weights, group)
        model, dtype = weights.config, CACHE_TYPES[CACHE_TYPE_OF.get(config.kv_cache_dtype, config.kv_cache_dtype)]
        self.weight_bytes = weight_bytes
        blocks = num_cache_blocks(config, model, self.max_model_len, dtype.itemsize, weight_bytes)
        self.num_blocks = group.smallest(blocks)
        self.caches = [
            allocate(self.num_blocks, model.num_kv_heads, model.head_dim, dtype, *scales)
            for scales in kv_scales(weights, dtype)
        ]
        self.num_host_blocks = num_host_blocks(config, model, dtype.itemsize)
        self.host_caches = [
            allocate(self.num_host_blocks, model.num_kv_heads, model.head_dim, dtype) for _ in range(model.num_layers)
        ]

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        fill_step(self.step, batch.items)
        with together(self.group, self.step):
            logits, greedy = self.forward()
        return self.sampler.sample(logits, greedy, batch.items)

    def copy(self, copies: list[Copy]) -> None:
        send_copies(self.group, copies)
        copy_blocks(copies, self.caches, self.host_caches)


class NativeRunner(CpuRunner):
    """The model recorded once as a native program: a step is one foreign call."""

    def __init__(self, config: EngineConfig, weights: Weights, group: Group = ALONE) -> None:
        torch.set_num_threads(1)  # only sampling is left to torch; a second pool of threads would fight ours
        self.program = Program(config.max_num_batched_tokens, config.max_num_logits, num_threads(config))
        loader = NativeLoader(weights, self.program, config.quantization, config.dtype)
        model = models.create(weights.config, loader, max_model_len(config, weights.config), group)
        super().__init__(config, weights, loader.nbytes, group)
        self.logits = cast(Buffer, model.forward(self.step, self.caches))
        self._greedy = argmax(self.logits)
        self.program.owned.append(model)

    def forward(self) -> tuple[torch.Tensor, list[int]]:
        self.program.run(self.step)
        count = self.step.struct.num_sampled
        return torch.from_numpy(self.logits.array[:count]), self._greedy[:count].tolist()


class TorchRunner(CpuRunner):
    """Plain torch on float32 weights: the truth in tests, and the fallback where no compiler was at hand."""

    def __init__(self, config: EngineConfig, weights: Weights, group: Group = ALONE) -> None:
        torch.set_num_threads(num_threads(config))
        loader = TorchLoader(weights, config.quantization)
        self.model = models.create(weights.config, loader, max_model_len(config, weights.config), group)
        num_weights = sum(int(np.prod(weights.get(name).shape)) for name in weights.names())
        super().__init__(config, weights, 4 * num_weights, group)

    def forward(self) -> tuple[torch.Tensor, list[int]]:
        with torch.inference_mode():
            logits = cast(torch.Tensor, self.model.forward(self.step, self.caches))
            return logits, argmax(logits).tolist()


def load_runner(config: EngineConfig, weights: Weights, group: Group = ALONE) -> Runner:
    """The fastest runner that this machine can have, on the device that the settings ask for; of a group, this rank's,
    with its part of `weights`. Raises ConfigurationError where that device is not there, and where the settings do not
    fit it."""
    config, weights = settled(config), shard(weights, group.rank, group.size)
    if config.device == "gpu":
        from native_engine.device_runner import DeviceRunner  # which is a Runner: it cannot be imported above

        return DeviceRunner(config, weights, group)
    if available():
        logger.info("native kernels: %s, %d threads", best_isa(), num_threads(config))
        return NativeRunner(config, weights, group)
    logger.warning(
        "the native kernels are not built: the engine runs on plain torch, with float32 weights and slowly; "
        "install a C++ compiler and run pip install again"
    )
    return TorchRunner(config, weights, group)


def step_shape(config: EngineConfig, longest: int) -> tuple[int, int, int, int]:
    """Of StepArrays: most rows, sequences, blocks a sequence and rows to sample."""
    return config.max_num_batched_tokens, config.max_num_seqs, -(-longest // BLOCK_SIZE), config.max_num_logits


def fill_step(step: StepArrays, items: list[ScheduledSequence]) -> None:
    """Writes the batch into the step's arrays: one row for each token to compute."""
    row = sampled = 0
    for index, item in enumerate(items):
        sequence, count = item.sequence, item.num_new_tokens + len(item.drafts)
        first = sequence.num_computed_tokens
        table = sequence.block_table
        step.block_tables[index, : len(table)] = table
        if count == 1:
            step.token_ids[row] = sequence.token_ids[first]
            step.positions[row] = first
            step.slots[row] = table[first // BLOCK_SIZE] * BLOCK_SIZE + first % BLOCK_SIZE
        else:
            positions = np.arange(first, first + count, dtype=np.int32)
            rows = slice(row, row + count)
            step.token_ids[rows] = [*sequence.token_ids[first : first + item.num_new_tokens], *item.drafts]
            step.positions[rows] = positions
            step.slots[rows] = step.block_tables[index, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
        row += count
        step.query_starts[index + 1] = row
        if item.num_logits == 1:
            step.sample_rows[sampled] = row - 1
        else:
            step.sample_rows[sampled : sampled + item.num_logits] = range(row - item.num_logits, row)
        sampled += item.num_logits
    step.struct.num_rows, step.struct.num_sequences, step.struct.num_sampled = row, len(items), sampled
