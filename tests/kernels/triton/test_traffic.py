"""What each op moves and multiplies, counted in Triton's interpreter, beside the least on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from backends.capacity import ModelShape
from kernels.device import DeviceOp, interpreting
from native_engine.kernel_cases import Case, Setting, all_cases
from tests.kernels.triton.traffic import Traffic, counted

pytestmark = pytest.mark.skipif(not interpreting(), reason="counts in the interpreter, which does not run beside a GPU")

SHAPE = ModelShape(4096, 512, 512, 2, 8, 2, 64, num_experts=8, experts_per_token=2)

# Times the least on paper, at most: sectors asked for by all programs together, sectors moved where the cache holds
# what several programs ask for, operations of products.
BOUNDS = {
    "rms_norm + residual": (1.3, 1.01, 0),
    "gated": (1.01, 1.01, 0),
    "soft_cap": (1.01, 1.01, 0),
    "argmax": (1.05, 1.02, 0),
}


def _ratios(case: Case, traffic: Traffic) -> tuple[float, float, float]:
    work = case.work
    return traffic.asked / work.bytes, traffic.distinct / work.bytes, traffic.operations / max(1, work.operations)


@pytest.mark.slow
def test_kernels_move_little_more_than_they_must(tell: Callable[[str], None]) -> None:
    torch.manual_seed(0)
    lines, broken = [], []
    for case in all_cases(Setting(SHAPE, torch.device("cpu"), torch.bfloat16, batch=2, context=512, prompt=128)):
        if case.name not in BOUNDS:
            continue
        with counted() as traffic:
            case.run()
        ratios = _ratios(case, traffic)
        lines.append(f"{case.name:<40}{case.work.bytes:>12}" + "".join(f"{ratio:>10.2f}" for ratio in ratios))
        if any(ratio > bound for ratio, bound in zip(ratios, BOUNDS[case.name], strict=True)) or not traffic.launches:
            broken.append(lines[-1])
    head = f"{'of the least on paper':<40}{'bytes':>12}{'asked':>10}{'moved':>10}{'products':>10}"
    tell("\n".join([head, *lines]))
    assert broken == []
    assert len(lines) == len(BOUNDS)
    assert not DeviceOp.fallen_back & {"rms_norm", "gated", "soft_cap", "argmax"}
