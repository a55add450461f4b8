"""The speed that decoding cannot exceed, as `sekisho plan` computes it, and the bandwidth of this machine by a copy."""

from __future__ import annotations

import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor

from backends.capacity import ModelShape, kv_bytes_per_token, step_seconds, step_weight_bytes, total_tok_s

_BYTES = 256 << 20  # in all, which no cache holds
_ROUNDS = 5
_KV_ELEMENT_BYTES = 2.0


def computed_tok_s(batch: int, shape: ModelShape, layers: str, context: float, bandwidth: float) -> float:
    """Output tokens a second of the whole server. layers: a format of WEIGHT_BITS; context: tokens that a request holds
    in the middle of its answer; bandwidth: bytes/s."""
    per_token = kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, _KV_ELEMENT_BYTES)
    step = step_seconds(
        batch,
        active_weight_bytes=step_weight_bytes(shape, batch, layers),
        kv_bytes_per_request=per_token * context,
        bandwidth_bytes_per_s=bandwidth,
    )
    return total_tok_s(batch, step)


def copy_bandwidth(total_bytes: int = _BYTES, rounds: int = _ROUNDS) -> float:
    """Bytes/s read and written, the best of `rounds`, by a thread for each core, as STREAM's copy counts them."""
    threads = len(os.sched_getaffinity(0))
    share = total_bytes // threads
    pairs = [(ctypes.create_string_buffer(share), ctypes.create_string_buffer(share)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def seconds() -> float:
            start = time.perf_counter()
            list(pool.map(lambda pair: ctypes.memmove(pair[0], pair[1], share), pairs))  # lets go of the GIL
            return time.perf_counter() - start

        return 2 * share * threads / min(seconds() for _ in range(rounds))
