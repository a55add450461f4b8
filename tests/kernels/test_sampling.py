"""The survey of a row, native against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.sampling import BLOCK, cpu, reference
from tests.kernels.recording import ISAS


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("width", [1, 15, 16, 511, 512, 513, 1000, 5003])
@pytest.mark.parametrize("masked", [0.0, 0.5, 0.999])
def test_a_survey_agrees_with_the_reference(isa: str, width: int, masked: float) -> None:
    random = np.random.default_rng(width)
    logits = random.standard_normal(width).astype(np.float32) * 4
    logits[random.random(width) < masked] = -np.inf
    logits[random.integers(width)] = 3.0
    for scale, depth in ((1.0, 8.0), (0.25, 1.0), (300.0, 16.0), (1.0, 0.0), (1.0, np.inf)):
        actual, expected = cpu.survey(logits, scale, depth, isa), reference.survey(logits, scale, depth)
        assert actual.peak == expected.peak
        np.testing.assert_allclose(actual.sums, expected.sums, rtol=2e-6, atol=1e-30)
        np.testing.assert_array_equal(actual.tokens, expected.tokens)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("width", [1, 15, 300, 513])
def test_a_survey_without_bounds_writes_no_further_than_the_row(isa: str, width: int) -> None:
    surveyor, fenced = cpu._Surveyor(width, isa), np.full(width + 64, -7, np.int32)
    surveyor._tokens, surveyor._op.p[2] = fenced[:width], fenced.ctypes.data
    seen = surveyor.run(np.random.default_rng(0).standard_normal(width).astype(np.float32), 1.0, np.inf)
    assert seen.tokens.tolist() == list(range(width))
    assert (fenced[width:] == -7).all()


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_masked_weighs_nothing(isa: str) -> None:
    logits = np.full(3 * BLOCK, -np.inf, np.float32)
    logits[BLOCK] = 5.0
    assert cpu.survey(logits, 1.0, 8.0, isa).sums.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("isa", ISAS)
def test_a_survey_keeps_nothing_of_the_one_before(isa: str) -> None:
    rows = np.random.default_rng(0).standard_normal((2, 700)).astype(np.float32)
    first = cpu.survey(rows[0], 1.0, 8.0, isa)
    copies = first.sums.copy(), first.tokens.copy()
    cpu.survey(rows[1], 1.0, 1.0, isa)
    assert np.array_equal(first.sums, copies[0])
    assert np.array_equal(first.tokens, copies[1])
