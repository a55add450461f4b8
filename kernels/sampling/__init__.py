"""What drawing one token needs to know of a whole row of logits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernels.native.library import available
from kernels.sampling import cpu, reference
from kernels.sampling.reference import BLOCK, Survey

__all__ = ["BLOCK", "Survey", "survey"]


def survey(logits: npt.NDArray[np.float32], scale: float, depth: float) -> Survey:
    """logits [vocabulary], contiguous, one of them finite and none NaN or +infinity; scale > 0; depth >= 0."""
    return cpu.survey(logits, scale, depth) if available() else reference.survey(logits, scale, depth)
