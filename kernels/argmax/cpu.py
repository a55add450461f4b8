"""Records the search; see cpu.h for the slots."""

from __future__ import annotations

import numpy as np
import torch

from kernels.native.program import Buffer, Kind


def argmax(x: Buffer) -> torch.Tensor:
    out = np.zeros(x.program.max_sampled, np.int32)
    x.program.record(Kind.ARGMAX, [x, None, out], [x.width])
    return torch.from_numpy(out)
