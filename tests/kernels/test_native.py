"""Every native op against its reference, on every instruction set this processor has, over awkward shapes."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch

from kernels.argmax import argmax
from kernels.embedding import RawTable, embedding, sampled_rows
from kernels.gated import GatedActivation, gated
from kernels.linear import linear
from kernels.linear.cpu import pack
from kernels.linear.formats import FORMATS
from kernels.native.library import NUM_OPS, available, library
from kernels.native.program import Kind, Program, StepArrays
from kernels.rms_norm import rms_norm
from kernels.soft_cap import soft_cap
from kernels.testing import assert_close
from tests.kernels.recording import FENCE, ISAS, MAX_ROWS, Fenced, described, filled, normal
from tests.kernels.weights import plain_weight, raw_weight

pytestmark = pytest.mark.skipif(not available(), reason="the native library was not built: no C++ compiler")


@pytest.mark.parametrize("isa", ISAS)
def test_the_norm_agrees_with_its_reference_and_adds_the_residual_after(isa: str) -> None:
    x, weight = normal(9, 80, seed=4) * 3, torch.from_numpy(normal(1, 80, seed=5)[0])
    residual = normal(9, 80, seed=6)
    program = Program(MAX_ROWS, MAX_ROWS, num_threads=2, isa=isa)
    source = filled(program, x)
    plain, added = rms_norm(source, weight, 1e-5), rms_norm(source, weight, 1e-5, filled(program, residual))
    program.run(described(9))
    assert_close(plain.array[:9], rms_norm(torch.from_numpy(x), weight, 1e-5).numpy(), 1e-6)
    expected = rms_norm(torch.from_numpy(x), weight, 1e-5, torch.from_numpy(residual))
    assert_close(added.array[:9], expected.numpy(), 1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", get_args(GatedActivation))
def test_gated_activations_agree_with_their_references(isa: str, activation: GatedActivation) -> None:
    x = normal(5, 96, seed=4) * 3
    program = Program(MAX_ROWS, MAX_ROWS, num_threads=2, isa=isa)
    y = gated(filled(program, x), activation)
    program.run(described(5))
    assert_close(y.array[:5], gated(torch.from_numpy(x), activation).numpy(), 1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", get_args(GatedActivation))
def test_gated_activations_survive_extreme_inputs(isa: str, activation: GatedActivation) -> None:
    gates = [-1e30, -200, -88, -1e-30, 0, 1e-30, 88, 200, np.nan, 3e38, -5.5, 5.5, -0.7, 0.7, 1, -1]
    x = np.array([[*gates, *[1.0] * 16]], np.float32)
    program = Program(MAX_ROWS, MAX_ROWS, num_threads=1, isa=isa)
    y = gated(filled(program, x), activation)
    program.run(described(1))
    expected = gated(torch.from_numpy(x), activation).numpy()
    np.testing.assert_allclose(y.array[:1], expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("rows", "width"), [(1, 7), (5, 100), (3, 16387)])
def test_a_soft_cap_agrees_with_its_reference_and_writes_nowhere_else(isa: str, rows: int, width: int) -> None:
    x = normal(rows, width, seed=8) * 40
    x[0, :6] = [0, -1e30, 1e30, 1e-6, np.nan, 1]
    program = Fenced(rows, isa)
    y = soft_cap(filled(program, x, sampled=True), 30.0)
    step = described(rows)
    step.struct.num_sampled = rows
    program.run(step)
    np.testing.assert_allclose(y.array, soft_cap(torch.from_numpy(x), 30.0).numpy(), atol=1e-5, rtol=0)
    assert all((fence == FENCE).all() for fence in program.fences)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", FORMATS)
def test_embedding_and_gather_pick_the_right_rows(isa: str, type_name: str) -> None:
    scale, width = 25.3, max(64, FORMATS[type_name].block)
    raw = raw_weight(type_name, 30, width).reshape(30, -1)
    program = Program(MAX_ROWS, MAX_ROWS, num_threads=1, isa=isa)
    step = described(3)
    step.token_ids[:3], step.sample_rows[:2], step.struct.num_sampled = [29, 0, 7], [2, 0], 2
    rows = embedding(RawTable(program, raw, type_name, width), step, scale)
    chosen = sampled_rows(rows, step)
    program.run(step)
    expected = plain_weight(raw, type_name, 30, width)[[29, 0, 7]].numpy() * np.float32(scale)
    assert np.array_equal(rows.array[:3], expected)
    assert np.array_equal(chosen.array[:2], expected[[2, 0]])


@pytest.mark.parametrize("isa", ISAS)
def test_argmax_takes_the_first_of_equals_and_marks_rows_that_are_not_numbers(isa: str) -> None:
    x = normal(6, 100)
    x[0, [17, 60]] = 9.0
    x[1, 99] = 9.0
    x[2, 3], x[3, 98], x[4, 0] = np.nan, np.inf, -np.inf
    program = Program(MAX_ROWS, MAX_ROWS, num_threads=2, isa=isa)
    best = argmax(filled(program, x, sampled=True))
    step = described(6)
    step.struct.num_sampled = 6
    program.run(step)
    assert best[:6].tolist() == argmax(torch.from_numpy(x)).tolist()
    assert best[:5].tolist() == [17, 99, -1, -1, -1]


def test_an_unknown_instruction_set_is_named() -> None:
    program = Program(1, 1, 1, isa="mmx")
    soft_cap(program.buffer(8), 1.0)
    with pytest.raises(ValueError, match="'mmx' is not known"):
        program.run(described(0))


@pytest.mark.parametrize("isa", ISAS)
def test_a_step_that_samples_nothing_computes_nothing_past_the_gather(isa: str) -> None:
    program = Program(MAX_ROWS, MAX_ROWS, num_threads=2, isa=isa)
    chosen = sampled_rows(filled(program, normal(4, 64)), described(4))
    argmax(linear(rms_norm(chosen, torch.ones(64), 1e-5), pack(raw_weight("Q4_1", 50, 64), "Q4_1", 50, 64)))
    program.run(described(4))


def test_the_library_has_as_many_operations_as_a_program_can_record() -> None:
    assert len(Kind) == NUM_OPS


@pytest.mark.parametrize("told", [{}, {"sekisho_num_ops": NUM_OPS - 1}])
def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, told: dict[str, int]) -> None:
    class Other:
        """All that ours has, but for what `told` says otherwise; without it an older one, which tells less."""

        def __getattr__(self, name: str) -> Any:
            if name == "sekisho_num_ops":
                if not told:
                    raise AttributeError(name)
                return lambda: told[name]
            return getattr(real, name)

    real = library()
    monkeypatch.setattr("kernels.native.library.ctypes.CDLL", lambda path: Other())
    with pytest.raises(ImportError, match="of another version"):
        library.__wrapped__()


def test_a_call_sees_what_was_computed_before_it_and_what_follows_sees_its_work() -> None:
    program, seen = Program(MAX_ROWS, MAX_ROWS, num_threads=1), []
    x = filled(program, np.full((2, 32), 3.0, np.float32))

    def double(step: StepArrays) -> None:
        seen.append((step.struct.num_rows, x.array[:2].copy()))
        x.array[:2] *= 2

    for cap in (2.0, 1.0):
        soft_cap(x, cap)
        program.call(double)
    step = described(2)
    program.run(step)
    first = 2 * np.tanh(1.5)
    assert [rows for rows, _ in seen] == [2, 2]
    assert_close(seen[0][1], np.full((2, 32), first, np.float32), 1e-5)
    assert_close(seen[1][1], np.full((2, 32), np.tanh(2 * first), np.float32), 1e-5)
    assert_close(x.array[:2], 2 * seen[1][1], 1e-6)
