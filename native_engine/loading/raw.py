"""A tensor as bytes in rows, whichever file it came from. Knows no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RawTensor:
    """`type` as GGUF spells it (F32, BF16, Q4_1 ...), `shape` (out, in), `data` (rows, bytes of a row).

    `order`: to which input column each column of `data` belongs, where they are not in the model's own order
    (those of a group of an act-order checkpoint are brought together).
    """

    type: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]
    order: npt.NDArray[np.int32] | None = None
