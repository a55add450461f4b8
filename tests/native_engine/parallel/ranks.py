"""What each rank runs in the tests of tensor parallel: the same cases, one group after another."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

from kernels.device import DeviceTensor
from native_engine.config import EngineConfig
from native_engine.device_runner import DeviceRunner
from native_engine.engine import Engine
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner, Runner, TorchRunner
from native_engine.parallel.following import follow, send_stop
from native_engine.parallel.group import ALONE, Group, connect
from native_engine.parallel.weights import shard
from native_engine.request import SamplingParams
from tests.native_engine.driving import generate

CPU = torch.device("cpu")
PARAMS = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
PROMPTS = [list(range(1, 60)), [7], list(range(200, 120, -1))]
SHORT = [[7, 8, 9]]
RUNNERS = {"native": NativeRunner, "torch": TorchRunner, "gpu": DeviceRunner}


@dataclass(frozen=True)
class Case:
    """`short`: of few tokens, for Triton's interpreter."""

    model: str
    runner: str
    config: EngineConfig
    short: bool = False

    def load(self, folder: Path, group: Group = ALONE) -> Runner:
        weights = shard(open_weights(folder / self.model), group.rank, group.size)
        return RUNNERS[self.runner](self.config, weights, group)


def tokens(case: Case, runner: Runner) -> list[list[int]]:
    """Through chunks of prompts, decode, and blocks that go to the host tier and come back."""
    engine = Engine.create(runner, case.config)
    if case.short:
        return generate(engine, SHORT, replace(PARAMS, max_tokens=2))
    first = generate(engine, PROMPTS, PARAMS)
    again = generate(engine, PROMPTS, PARAMS)
    assert again == first
    return first


def run(cases: Mapping[int, list[Case]], folder: Path) -> dict[tuple[int, Case], list[list[int]]]:
    """What rank 0 of each size says in its cases."""
    torch.multiprocessing.spawn(_rank, (cases, folder), max(cases))
    found: dict[tuple[int, Case], list[list[int]]] = pickle.loads((folder / "said").read_bytes())
    return found


def _rank(rank: int, cases: Mapping[int, list[Case]], folder: Path) -> None:
    found = {}
    for size in cases:
        if rank < size:
            group = connect(folder / f"ranks-{size}", rank, size, CPU)
            found |= {(size, case): _take_part(case, folder, group) for case in cases[size]}
            _check_exchange(group)
            dist.destroy_process_group()
    if rank == 0:
        (folder / "said").write_bytes(pickle.dumps(found))


def _check_exchange(group: Group) -> None:
    """As of the ranks of a GPU, whose tensors are on the CPU here."""
    x = DeviceTensor(torch.full((3, 2), float(group.rank), dtype=torch.bfloat16))
    joined = group.join(x, 2 * group.size - 1)
    assert isinstance(joined, DeviceTensor)
    expected = [float(column // 2) for column in range(2 * group.size - 1)]
    assert joined.tensor.is_contiguous()
    assert joined.tensor.tolist() == [expected] * 3
    total = group.sum(x)
    assert isinstance(total, DeviceTensor)
    assert total.tensor.tolist() == [[float(sum(range(group.size)))] * 2] * 3
    assert group.smallest(10 - group.rank) == 11 - group.size


def _take_part(case: Case, folder: Path, group: Group) -> list[list[int]]:
    runner = case.load(folder, group)
    if group.rank:
        follow(group, runner)
        return []
    said = tokens(case, runner)
    send_stop(group)
    return said
