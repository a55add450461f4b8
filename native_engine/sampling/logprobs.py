"""What the model itself said of tokens, before a request changed anything. Knows no request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from native_engine.request import Logprobs
from native_engine.sampling.likeliest import likeliest


def logprobs_of(logits: npt.NDArray[np.float32], token: int, count: int) -> Logprobs:
    """Of `token` and of the `count` likeliest ones, the best first. logits [vocabulary], all of them finite."""
    peak = logits.max()
    total = float(peak) + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
    best = likeliest(logits, count)
    return Logprobs(
        float(logits[token]) - total,
        tuple((int(each), float(logits[each]) - total) for each in best),
        int((logits > logits[token]).sum()) + 1,
    )
