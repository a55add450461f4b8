"""What each op moves and multiplies, counted in Triton's interpreter, beside the least on paper."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from backends.capacity import ModelShape
from kernels.device import DeviceOp, interpreting
from native_engine.kernel_cases import Case, Setting, attentions, choices, element_wise, experts, linears
from tests.kernels.triton.traffic import Traffic, counted

pytestmark = pytest.mark.skipif(not interpreting(), reason="counts in the interpreter, which does not run beside a GPU")

DENSE = ModelShape(4096, 256, 256, 1, 8, 2, 64)
MIXTURE = ModelShape(1, 256, 128, 1, 8, 2, 64, num_experts=8, experts_per_token=2)

# Times the least on paper, at most: sectors that all programs together ask for, sectors that are moved where the cache
# holds what several programs ask for, operations of products. Tiles of 16 rows make up those of few rows.
BOUNDS = {
    "rms_norm + residual": (1.3, 1.01, 0),
    "gated": (1.01, 1.01, 0),
    "soft_cap": (1.01, 1.01, 0),
    "rotary, bfloat16 cache": (1.35, 1.05, 0),
    "rotary, fp8 cache": (1.35, 1.06, 0),
    "attention, decode, bfloat16 cache": (1.02, 1.01, 4),
    "attention, decode, fp8 cache": (1.02, 1.01, 4),
    "attention, prefill": (1.35, 1.01, 1.5),
    "moe, bf16 weights": (1.2, 1.05, 16),
    "moe, fp8 weights": (1.2, 1.05, 16),
    "moe, int4 weights": (1.2, 1.07, 16),
    "linear, fp8 weights": (1.1, 1.01, 8),
    "linear, int8 weights": (1.1, 1.01, 8),
    "linear, int4 weights": (1.15, 1.01, 8),
    "argmax": (1.05, 1.02, 0),
    "sample": (13, 12, 0),  # some passes over logits that the cache holds, in the place of one sort
}


def _cases() -> list[Case]:
    torch.manual_seed(0)
    dense, mixture = (
        Setting(shape, torch.device("cpu"), torch.bfloat16, batch=2, context=512, prompt=128)
        for shape in (DENSE, MIXTURE)
    )
    cases = chain(element_wise(dense), attentions(dense), linears(dense), choices(dense), experts(mixture))
    return [case for case in cases if not case.name.startswith("linear, bf16")]  # that is the vendor's


def _ratios(case: Case, traffic: Traffic) -> tuple[float, float, float]:
    work = case.work
    return traffic.asked / work.bytes, traffic.distinct / work.bytes, traffic.operations / max(1, work.operations)


@pytest.mark.slow
def test_kernels_move_little_more_than_they_must(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceOp, "fallen_back", set())
    counts = {}
    for case in _cases():
        with counted() as traffic:
            case.run()
        counts[case.name] = (case, traffic)
    assert DeviceOp.fallen_back == set()
    lines = [_line(case, traffic) for case, traffic in counts.values()]
    with capsys.disabled():
        head = f"{'times the least on paper':<44}{'bytes':>12}{'asked':>10}{'moved':>10}{'products':>10}"
        print("\n".join(["", "", head, *lines]))
    assert {name for name, (case, traffic) in counts.items() if not _within(case, traffic)} == set()
    assert all(traffic.launches for _, traffic in counts.values())


def _line(case: Case, traffic: Traffic) -> str:
    return f"{case.name:<44}{case.work.bytes:>12}" + "".join(f"{ratio:>10.2f}" for ratio in _ratios(case, traffic))


def _within(case: Case, traffic: Traffic) -> bool:
    bounds = next(each for name, each in BOUNDS.items() if case.name.startswith(name))
    return all(ratio <= bound for ratio, bound in zip(_ratios(case, traffic), bounds, strict=True))
