"""Kernels compiled for GPUs that are not there, on two processes; what they became is printed in a run that passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import kernels
from kernels.ahead_of_time import MODULES, TARGETS, Compiled, Variant, compile_all, find_faults, in_turn, table
from kernels.machine_code import CodeFacts, nvidia_loads

SM_80 = TARGETS[0]


@pytest.mark.slow
def test_every_kernel_compiles_for_every_gpu_and_uses_it_well(tell: Callable[[str], None]) -> None:
    rows = list(compile_all(whole=False))
    tell(table(rows))
    assert [(row.module, row.variant, row.target, row.faults) for row in rows if row.faults] == []


def test_every_module_with_kernels_is_compiled() -> None:
    root = Path(kernels.__path__[0])
    found = {
        "kernels." + ".".join(path.relative_to(root).with_suffix("").parts)
        for path in root.rglob("*.py")
        if "\ndef variants(" in path.read_text("utf-8")
    }
    assert set(MODULES) == found


def test_every_kernel_that_is_launched_has_a_variant() -> None:
    sources = "".join(path.read_text("utf-8") for path in Path(kernels.__path__[0]).rglob("*.py"))
    jitted = re.findall(r"^@triton\.jit.*\ndef (\w+)", sources, re.MULTILINE)
    launched = {name for name in jitted if re.search(rf"\b{name}\[", sources)}
    assert len(launched) > 10
    assert launched <= {variant.kernel.__name__ for name in MODULES for variant in import_module(name).variants()}


@pytest.fixture(scope="module")
def toys() -> dict[tuple[str, str], Compiled]:
    """By variant and target."""
    modules = ("tests.kernels.triton.toy_kernels", "kernels.no_such_op.triton_kernel")
    return {(row.variant, row.target): row for row in compile_all(modules)}


@pytest.mark.slow
def test_the_code_of_a_kernel_is_read_on_each_kind_of_gpu(toys: dict[tuple[str, str], Compiled]) -> None:
    rows = {target: row for (name, target), row in toys.items() if name == "good"}
    assert all(not row.faults for row in rows.values())
    facts = {target: row.facts for target, row in rows.items() if row.facts is not None}
    assert {target: list(each.matrix) for target, each in facts.items()} == {
        "sm_80": ["mma.sync"],
        "sm_90": ["wgmma.mma_async"],
        "sm_100": ["tcgen05.mma"],
        "gfx942": ["v_mfma"],
    }
    for each in facts.values():
        assert each.wide_loads == each.loads > 0
        assert 16 <= each.registers <= 255
        assert each.shared >= 2 * 64 * 64 * 2  # both operands of a product
        assert (each.spilled, each.dots) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("target", [each.name for each in TARGETS])
def test_a_kernel_that_would_run_badly_is_told(toys: dict[tuple[str, str], Compiled], target: str) -> None:
    def faults(name: str) -> tuple[str, ...]:
        return toys[name, target].faults

    assert faults("good") == faults("allowed to spill") == faults("narrow by nature") == ()
    assert [fault.split(" ", 1)[1] for fault in faults("spilling")] == ["bytes of registers spilled, 0 at most"]
    assert faults("narrow") == ("no load of 16 bytes",)
    assert "no_such_argument" in faults("not a kernel")[0]
    assert "ModuleNotFoundError" in faults("-")[0]


@pytest.mark.slow
def test_a_kernel_is_not_compiled_for_a_gpu_that_it_is_not_for(toys: dict[tuple[str, str], Compiled]) -> None:
    assert [target for name, target in toys if name == "for later GPUs"] == ["sm_90", "sm_100", "gfx942"]


@pytest.mark.parametrize(
    ("instruction", "counts"),
    [
        ("ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", (1, 1)),
        ("@%p1 ld.global.L1::evict_first.v2.b64 { %rd1, %rd2 }, [ %rd3 + 0 ];", (1, 1)),
        ("ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];", (1, 0)),
        ("@!%p1 ld.global.b16 { %rs1 }, [ %rd1 + 16 ];", (1, 0)),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;", (1, 1)),
        ("cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, %r2;", (1, 0)),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [ %r1 ], [ %rd1 ], [ %r2 ];",
            (1, 1),
        ),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [ %rd1, { %r1, %r2 } ], [ %r3 ];", (0, 0)),
        ("cp.async.commit_group;", (0, 0)),
        ("cp.async.bulk.commit_group;", (0, 0)),
        ("ld.shared.v4.b32 { %r1, %r2, %r3, %r4 }, [ %r5 ];", (0, 0)),
        ("st.global.v4.b32 [ %rd1 + 0 ], { %r1, %r2, %r3, %r4 };", (0, 0)),
    ],
)
def test_loads_are_told_from_other_instructions_and_wide_ones_from_narrow(
    instruction: str, counts: tuple[int, int]
) -> None:
    assert nvidia_loads(f"$L__BB0_1:\n\t{instruction}\n\tret;\n") == counts


def test_in_turn_a_kernel_is_compiled_for_every_gpu_and_each_of_its_variants_for_one_that_it_runs_on() -> None:
    variants = [Variant(f"one {number}", "one", {}, {}) for number in range(5)]
    variants += [
        Variant("two 0", "two", {}, {}),
        *(Variant(f"two {n}", "two", {}, {}, min_capability=90) for n in (1, 2)),
    ]
    chosen = {target.name: [each.name for each in in_turn(variants, target, TARGETS)] for target in TARGETS}
    assert all(names[0] == "one 0" and "two 0" in names for names in chosen.values())
    others = sorted(name for names in chosen.values() for name in names if not name.endswith("0"))
    assert others == ["one 1", "one 2", "one 3", "one 4", "two 1", "two 2"]
    assert not {"two 1", "two 2"} & set(chosen["sm_80"])
    assert all(len(names) > 2 for names in chosen.values())  # no target has all the others


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        (CodeFacts(32, 163 * 1024, 0, 4, 4, {"mma.sync": 1}, 1), None),
        (CodeFacts(32, 163 * 1024 + 1, 0, 4, 4, {}, 0), "166913 bytes of shared memory, 166912 at most"),
        (CodeFacts(32, 0, 0, 4, 4, {}, 1), "a product without matrix instructions"),
        (CodeFacts(32, 0, 8, 4, 4, {}, 0), "8 bytes of registers spilled, 4 at most"),
        (CodeFacts(32, 0, 0, 4, 0, {}, 0), "no load of 16 bytes"),
    ],
)
def test_limits_are_those_of_the_gpu_and_of_the_variant(facts: CodeFacts, fault: str | None) -> None:
    variant = Variant("any", None, {}, {}, spills=4)
    assert list(find_faults(variant, SM_80, facts)) == ([] if fault is None else [fault])


def test_the_table_has_a_line_for_each_and_what_is_wrong_below_it() -> None:
    facts = CodeFacts(96, 4096, 8, 12, 10, {"mma.sync": 64}, 1)
    rows = [
        Compiled("kernels.linear.triton_kernel", "decode", "sm_80", facts, ("8 bytes spilled",)),
        Compiled("kernels.linear.triton_kernel", "decode", "sm_90", None, ("CompilationError: no",)),
    ]
    head, first, fault, second, failure = table(rows).splitlines()
    assert head.split("  ")[0] == "kernel"
    assert first.split() == ["linear:", "decode", "sm_80", "96", "4096", "8", "10", "of", "12", "64", "mma.sync"]
    assert second.split() == ["linear:", "decode", "sm_90"]
    assert (fault.strip(), failure.strip()) == ("FAULT: 8 bytes spilled", "FAULT: CompilationError: no")
