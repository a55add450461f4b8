"""The truth: a row of logits in numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK = 512  # tokens


class Survey(NamedTuple):
    """`peak`: the largest logit. `sums`: of exp((logit - peak) * scale) over each BLOCK of tokens, the last one perhaps
    shorter. `tokens`: those whose exponent is at least -depth, in their order."""

    peak: float
    sums: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.int64]


def survey(logits: npt.NDArray[np.float32], scale: float, depth: float) -> Survey:
    """logits [vocabulary], one of them finite and none NaN or +infinity; scale > 0; depth >= 0."""
    peak = float(logits.max())
    exponents = (logits - peak) * scale
    sums = np.add.reduceat(np.exp(exponents), np.arange(0, len(logits), BLOCK), dtype=np.float64)
    return Survey(peak, sums, np.flatnonzero(exponents >= -depth))
