"""A model on a device: its weights, its KV cache and its recorded steps. Knows no sequence and chooses no token."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import torch

from kernels.attention.cache import BLOCK_SIZE, CACHE_TYPES, LayerCache, allocate_on
from kernels.device import DeviceOp, DeviceStep, DeviceTensor
from native_engine import models
from native_engine.config import EngineConfig
from native_engine.cuda_graphs import Compute, DecodeGraphs, Recorder, cuda_recorder, graph_sizes, pad
from native_engine.device_memory import num_device_blocks
from native_engine.device_profile import (
    fill_decodes,
    fill_prompts,
    graphs_take,
    largest_step,
    measured,
    room_for_weights,
)
from native_engine.loading.weights import Weights
from native_engine.model_runner import CACHE_TYPE_OF
from native_engine.parallel.group import Group
from native_engine.quantization.device import DeviceLoader, MakeLoader, computing_type
from native_engine.quantization.kv_scales import kv_scales
from native_engine.sizing import num_cache_blocks

logger = logging.getLogger(__name__)

_SMALLER = (481, 225, 97, 33)  # rows of a step of prompts


class DeviceModel:
    """Raises ConfigurationError where the device has no room for it as configured."""

    def __init__(
        self,
        config: EngineConfig,
        weights: Weights,
        step: DeviceStep,
        longest: int,
        group: Group,
        make_loader: MakeLoader = DeviceLoader,
    ) -> None:
        self._step, self._longest, self._device = step, longest, step.token_ids.device
        self._dtype, self._model_config = computing_type(config.dtype, weights), weights.config
        self._cache_type = cache_type(config.kv_cache_dtype, self._dtype)
        self._scales = kv_scales(weights, self._cache_type)
        self._graphs: DecodeGraphs | None = None
        self._shared: torch.Tensor | None = None  # logits of all recorded steps
        loader = make_loader(weights, config.quantization, self._dtype, self._device)
        with room_for_weights(), self._device:
            self._model = models.create(weights.config, loader, longest, group)
        self.weight_bytes = loader.nbytes
        self.caches = self.allocate(1)
        if self._device.type == "cuda":
            largest_step(self._profile, config.max_num_batched_tokens, config.max_num_seqs)
        record = recorder(config, self._device)
        sizes = graph_sizes(config.max_num_seqs) if record else []
        self.num_blocks = group.smallest(self._fitting_blocks(config, sizes, record))
        self.caches = self.allocate(self.num_blocks)
        if record:
            self._graphs = DecodeGraphs(sizes, partial(self._recorded, record()))
        logger.info(
            "%s: computed in %s, %.2f GiB of weights, %d tokens of KV cache in %s, %s",
            *(_name(self._device), self._dtype, self.weight_bytes / 2**30, self.num_blocks * BLOCK_SIZE),
            *(self._cache_type, f"graphs of {', '.join(map(str, sizes))} sequences" if record else "no graphs"),
        )

    def allocate(self, blocks: int) -> list[LayerCache]:
        """A cache for each layer."""
        model = self._model_config
        shape = blocks, model.num_kv_heads, model.head_dim, self._cache_type
        return [allocate_on(self._device, *shape, *scales) for scales in self._scales]

    def allocate_on_host(self, blocks: int) -> list[LayerCache]:
        """In the same layout, in memory that the device reads and writes by itself."""
        model = self._model_config
        shape = blocks, model.num_kv_heads, model.head_dim, self._cache_type
        return [pinned(allocate_on(torch.device("cpu"), *shape), self._device) for _ in self._scales]

    def pad(self) -> int | None:
        """Fills the host's step up to the next recorded size, and returns that; None where there is none for it."""
        size = self._graphs.size_for(self._step.host) if self._graphs else None
        if size is not None:
            pad(self._step.host, size)
        return size

    def forward(self, size: int | None) -> DeviceTensor:
        """Logits [rows to sample, vocabulary] of the uploaded step, which `pad` said is of this recorded size. They are
        there until the next step."""
        return self._graphs.replay(size) if self._graphs and size is not None else self._compute()

    @torch.inference_mode()
    def _compute(self) -> DeviceTensor:
        return cast(DeviceTensor, self._model.forward(self._step, self.caches))

    def _profile(self, rows: int) -> None:
        """The largest steps that may come, on a cache of one block; and smaller ones, for which other tiles are best,
        of odd sizes, since Triton builds a kernel once more for those that are no multiples of 16."""
        host, vocabulary = self._step.host, self._model_config.vocab_size
        counts = [rows, *(count for count in _SMALLER if count < rows)]
        prompts = [partial(fill_prompts, host, count, self._longest, vocabulary) for count in counts]
        for fill in (*prompts, partial(fill_decodes, host, vocabulary)):
            fill()
            self._step.upload()
            self._compute()
            torch.cuda.synchronize()

    def _fitting_blocks(self, config: EngineConfig, sizes: list[int], record: Callable[[], Recorder] | None) -> int:
        model, element = self._model_config, self._cache_type.itemsize
        if self._device.type != "cuda":
            return num_cache_blocks(config, model, self._longest, element, self.weight_bytes)
        seen = measured(self.weight_bytes)
        if record:
            seen = replace(seen, graphs=graphs_take(sizes, partial(self._recorded, record())))
        torch.cuda.empty_cache()
        return num_device_blocks(config, model, self._longest, element, seen)

    def _recorded(self, record: Recorder, size: int) -> Compute:
        self._step.wait()
        fill_decodes(self._step.host, self._model_config.vocab_size, size)
        self._step.upload()

        @torch.inference_mode()
        def compute() -> DeviceTensor:
            logits = self._compute().tensor
            if self._shared is None:  # the largest size is recorded first
                self._shared = torch.empty_like(logits)
            return DeviceTensor(self._shared[:size].copy_(logits))

        return record(compute)


def cache_type(name: str, computing: torch.dtype) -> torch.dtype:
    """Of keys and values; auto: as activations are, so that nothing is rounded twice."""
    return computing if name == "auto" else CACHE_TYPES[CACHE_TYPE_OF.get(name, name)]


def pinned(cache: LayerCache, device: torch.device) -> LayerCache:
    if device.type != "cuda" or not len(cache.keys):
        return cache
    return LayerCache(cache.keys.transpose(2, 3).pin_memory().transpose(2, 3), cache.values.pin_memory())


def recorder(config: EngineConfig, device: torch.device) -> Callable[[], Recorder] | None:
    """What makes a recorder of steps; None where they are launched one by one."""
    if config.enforce_eager or device.type != "cuda":
        return None
    if DeviceOp.fallen_back:
        names = ", ".join(sorted(DeviceOp.fallen_back))
        logger.warning("no CUDA graphs: %s run on plain torch, which asks the host about each step", names)
        return None
    return cuda_recorder


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the GPU's path on the CPU"
