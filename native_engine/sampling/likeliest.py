"""The largest of many numbers, without sorting the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def likeliest(logits: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """The places of the `count` largest, the best first and the lower place first of equals, also at the end."""
    if not count:
        return np.zeros(0, np.int64)
    if count >= len(logits):
        return np.argsort(-logits, kind="stable")
    found = np.flatnonzero(logits >= np.partition(logits, -count)[-count])
    return found[np.argsort(-logits[found], kind="stable")][:count]
