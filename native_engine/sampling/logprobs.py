"""What the model itself said of tokens, before a request changed anything. Knows no request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from native_engine.request import Logprobs


def logprobs_of(logits: npt.NDArray[np.float32], token: int, count: int) -> Logprobs:
    """Of `token` and of the `count` likeliest ones, the best first. logits [vocabulary], all of them finite."""
    peak = logits.max()
    total = float(peak) + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
    best = _best(logits, min(count, len(logits)))
    return Logprobs(float(logits[token]) - total, tuple((int(each), float(logits[each]) - total) for each in best))


def _best(logits: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """The lower id first of equals, also where they meet the end."""
    if not count:
        return np.zeros(0, np.int64)
    least = np.partition(logits, -count)[-count]
    found = np.flatnonzero(logits >= least)
    return found[np.argsort(-logits[found], kind="stable")][:count]
