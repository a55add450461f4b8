"""How kernels are held to their references: a comparison that says where it fails."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def assert_close(
    actual: npt.NDArray[np.float32], expected: npt.NDArray[np.float32], tolerance: float, name: str = "output"
) -> None:
    """Largest difference relative to the largest expected magnitude, at most `tolerance`; names the worst place."""
    if actual.shape != expected.shape:
        raise AssertionError(f"{name}: shape {actual.shape}, expected {expected.shape}")
    if not actual.size:
        return
    error = np.abs(actual - expected)
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-30)
    worst = np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)
    if not error[worst] / scale <= tolerance:
        raise AssertionError(
            f"{name}: {actual[worst]!r} at {tuple(map(int, worst))}, expected {expected[worst]!r}: "
            f"{error[worst] / scale:.2e} of the largest value, allowed {tolerance:.0e}"
        )
