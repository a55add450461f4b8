"""The model on a GPU: a step is launched, its tokens are chosen there, and only they come back.

In Triton's interpreter (TRITON_INTERPRET=1) the same steps run on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as ListLike
from functools import partial
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import torch

from kernels.block_copy import copy_blocks
from kernels.device import DeviceStep, DeviceTensor
from kernels.native.program import StepArrays
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.device import torch_device
from native_engine.device_model import DeviceModel
from native_engine.host_tier import Copy
from native_engine.loading.weights import Weights
from native_engine.model_runner import Runner, fill_step, step_shape
from native_engine.parallel.following import send_copies, together
from native_engine.parallel.group import ALONE, Group
from native_engine.quantization.device import DeviceLoader, MakeLoader
from native_engine.sampling.device import RowArrays, is_plain
from native_engine.sampling.sampler import Sampler
from native_engine.sizing import max_model_len, num_host_blocks


class DeviceRunner(Runner):
    """Launches return while the device computes; what is launched and copied takes place there in that order."""

    def __init__(
        self, config: EngineConfig, weights: Weights, group: Group = ALONE, make_loader: MakeLoader = DeviceLoader
    ) -> None:
        device, longest = torch_device(group.rank), max_model_len(config, weights.config)
        host = StepArrays(*step_shape(config, longest), zeros=partial(_pinned_zeros, device))
        super().__init__(config, weights, group, host)
        self.runs_ahead = group.size == 1  # the other ranks are told tokens, not where they will be
        self._step = DeviceStep(host, device)
        self._rows = RowArrays(len(host.sample_rows), device)
        self._chosen = torch.zeros(1, dtype=torch.int32, device=device)  # by the step launched last
        self._model = DeviceModel(config, weights, self._step, longest, group, make_loader)
        self.weight_bytes, self.num_blocks = self._model.weight_bytes, self._model.num_blocks
        self.caches = self._model.caches
        self.num_host_blocks = num_host_blocks(config, weights.config, self.caches[0].keys.itemsize)
        self.host_caches = self._model.allocate_on_host(self.num_host_blocks)

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        return self.launch(batch).tokens()

    def launch(self, batch: ScheduledBatch) -> DeviceLaunch:
        """See native_engine.runner.AheadRunner."""
        self._step.wait()
        fill_step(self.step, batch.items)
        self._rows.fill(batch.items, self.sampler)
        with together(self.group, self.step):
            logits = self._logits()
        self._chosen = self._rows.choose(logits)
        return DeviceLaunch(batch.items, logits, self._chosen, self.sampler)

    def forward(self) -> tuple[torch.Tensor, list[int]]:
        self._rows.fill([], self.sampler)
        logits = self._logits()
        if self.group.rank > 0:  # where nobody asks for them
            self._step.wait()
            return logits.tensor, []
        return logits.tensor.float().cpu(), self._rows.choose(logits).tolist()

    def follow(self) -> None:
        self._rows.fill([], self.sampler)
        self._logits()
        self._step.wait()

    def copy(self, copies: list[Copy]) -> None:
        send_copies(self.group, copies)
        copy_blocks(copies, self.caches, self.host_caches)

    def _logits(self) -> DeviceTensor:
        """Of the step that the host's arrays describe."""
        count = self.step.struct.num_sampled
        size = self._model.pad()
        self._rows.upload()
        self._step.upload()
        self._rows.put_chosen(self._step.token_ids, self._chosen)
        return DeviceTensor(self._model.forward(size).tensor[:count])


class DeviceLaunch:
    """A step under way; see native_engine.runner.Launched. Rows that need more than a draw come to the host whole."""

    def __init__(
        self, items: list[ScheduledSequence], logits: DeviceTensor, chosen: torch.Tensor, sampler: Sampler
    ) -> None:
        self._items, self._sampler = items, sampler
        self._on_host = [not is_plain(item.sequence) for item in items]
        self.on_device = not any(self._on_host) and not any(item.drafts for item in items)
        self._rows = [
            row for on_host, rows in zip(self._on_host, _rows_of(items), strict=True) if on_host for row in rows
        ]
        picked = logits.tensor[: len(self._rows)]
        if 0 < len(self._rows) < len(logits.tensor):
            places = torch.tensor(self._rows, dtype=torch.int32, device=picked.device)
            picked = logits.tensor.index_select(0, places)
        self._logits = picked.to("cpu", non_blocking=True)
        self._chosen = chosen.to("cpu", non_blocking=True)
        self._done = torch.cuda.Event() if chosen.is_cuda else None  # type: ignore[no-untyped-call]
        if self._done is not None:
            self._done.record()

    def tokens(self) -> list[list[int]]:
        if self._done is not None:
            self._done.synchronize()
        chosen: list[int] = self._chosen.tolist()
        on_host = [item for item, on_host in zip(self._items, self._on_host, strict=True) if on_host]
        greedy, alone = [chosen[row] for row in self._rows], all(self._on_host)
        sampled = iter(self._sampler.sample(self._logits.float(), greedy, on_host, alone=alone))
        return [
            next(sampled) if on_host else _agreed(chosen[rows.start : rows.stop], item.drafts)
            for item, on_host, rows in zip(self._items, self._on_host, _rows_of(self._items), strict=True)
            if item.samples
        ]


def _rows_of(items: list[ScheduledSequence]) -> Iterator[range]:
    """Of each item, among those that have logits."""
    end = 0
    for item in items:
        end += item.num_logits
        yield range(end - item.num_logits, end)


def _agreed(tokens: list[int], drafts: ListLike[int]) -> list[int]:
    """As far as the drafts said the same, and the first that they did not say."""
    agreeing = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, drafts, strict=False)))
    return tokens[: agreeing + 1]


def _pinned_zeros(device: torch.device, count: int) -> npt.NDArray[np.int32]:
    """Host memory that `device` copies from while nobody waits."""
    return torch.zeros(count, dtype=torch.int32, pin_memory=device.type == "cuda").numpy()
