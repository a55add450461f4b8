"""The measurement of kernels, with a stand-in clock and, where there is no GPU, Triton's interpreter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from backends.capacity import ModelShape
from kernels.device import DeviceOp, DeviceTensor, interpreting
from kernels.floors import Work
from native_engine.gpu_timing import Ceilings, measure_ceilings
from native_engine.kernel_bench import HEAD, line, lines, measure
from native_engine.kernel_cases import Case, Setting, all_cases, described

TINY = ModelShape(300, 128, 128, 2, 4, 2, 32, num_experts=4, experts_per_token=2)
CEILINGS = Ceilings(bytes_per_s=1e12, operations_per_s=1e14)


def _takes(seconds: float) -> Callable[[Callable[[], object]], float]:
    def clock(call: Callable[[], object]) -> float:
        call()
        return seconds

    return clock


def _double(x: torch.Tensor | DeviceTensor) -> torch.Tensor | DeviceTensor:
    return DeviceTensor(x.tensor * 2) if isinstance(x, DeviceTensor) else x * 2


def _case(op: Callable[..., object] = _double, work: Work = Work(10**9)) -> Case:  # noqa: B008
    return Case("double", op, (DeviceTensor(torch.ones(2, 4)),), work, 1e-5)


def test_the_share_is_of_whatever_limits() -> None:
    assert measure(_case(work=Work(10**9, 10**9)), CEILINGS, _takes(2e-3)).share == pytest.approx(0.5)
    assert measure(_case(work=Work(10**3, 10**11)), CEILINGS, _takes(2e-3)).share == pytest.approx(0.5)


def test_a_line_tells_time_rates_share_and_check() -> None:
    cells = line(measure(_case(work=Work(10**9, 10**9)), CEILINGS, _takes(2e-3))).split()
    assert cells == ["double", "2000.0", "500", "0.5", "50.0%", "ok"]


def test_lines_stand_below_the_title_of_their_group() -> None:
    one, double, two = lines([("one", [_case()]), ("two", [])], CEILINGS, _takes(1.0))
    assert one.splitlines()[1:] == ["one", HEAD]
    assert double.startswith("double")
    assert two.splitlines()[1:] == ["two", HEAD]


def test_a_kernel_that_differs_from_its_reference_is_told() -> None:
    def wrong(x: torch.Tensor | DeviceTensor) -> torch.Tensor | DeviceTensor:
        return DeviceTensor(x.tensor * 2.001) if isinstance(x, DeviceTensor) else x * 2

    assert "2.001" in measure(_case(wrong), CEILINGS, _takes(1.0)).fault


def test_plain_torch_in_the_place_of_a_kernel_is_no_time_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceOp, "fallen_back", {"_double"})
    row = measure(_case(), CEILINGS, _takes(1.0))
    assert "cannot be built" in row.fault
    assert row.bytes_per_s == 0


def test_a_kernel_that_fails_keeps_no_other_from_being_measured() -> None:
    def broken(x: torch.Tensor | DeviceTensor) -> torch.Tensor:
        raise RuntimeError("illegal memory access")

    row = measure(_case(broken), CEILINGS, _takes(1.0))
    assert (row.fault, row.bytes_per_s) == ("RuntimeError: illegal memory access", 0)


def test_columns_that_are_not_defined_are_not_compared() -> None:
    def half(x: torch.Tensor | DeviceTensor) -> torch.Tensor | DeviceTensor:
        if not isinstance(x, DeviceTensor):
            return x
        return DeviceTensor(torch.cat([x.tensor[:, :2], torch.full((2, 2), torch.nan)], dim=1))

    dataclasses.replace(_case(half), columns=2).check()
    with pytest.raises(AssertionError):
        _case(half).check()


def test_ceilings_are_bytes_both_ways_and_two_operations_for_each_multiplication() -> None:
    ceilings = measure_ceilings(torch.device("cpu"), _takes(0.5), scale=128)
    assert ceilings == Ceilings(2 * 2 * 2**23, 2 * 2 * 64**3)


def test_a_step_describes_each_sequence_by_its_own_blocks() -> None:
    step = described([40, 17], [1, 3], torch.device("cpu")).host
    assert step.positions[:4].tolist() == [39, 14, 15, 16]
    assert step.query_starts[:3].tolist() == [0, 1, 4]
    blocks = [step.block_tables[0, :3].tolist(), step.block_tables[1, :2].tolist()]
    assert sorted(blocks[0] + blocks[1]) == [0, 1, 2, 3, 4]
    assert step.slots[:4].tolist() == [
        blocks[0][2] * 16 + 7,
        blocks[1][0] * 16 + 14,
        blocks[1][0] * 16 + 15,
        blocks[1][1] * 16,
    ]


@pytest.mark.slow
@pytest.mark.skipif(not interpreting(), reason="in the interpreter; on a GPU `sekisho bench kernels` does it")
def test_every_case_agrees_with_its_reference_in_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceOp, "fallen_back", set())
    torch.manual_seed(0)
    setting = Setting(TINY, torch.device("cpu"), torch.float32, batch=2, context=40, prompt=24)
    rows = [measure(case, CEILINGS, _takes(1.0)) for case in all_cases(setting)]
    assert {row.name: row.fault for row in rows if row.fault} == {}
    assert len(rows) == len({row.name for row in rows})
