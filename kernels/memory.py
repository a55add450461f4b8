"""Memory that costs nothing until it is used."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt


def zeroed(nbytes: int) -> npt.NDArray[np.uint8]:
    """`nbytes` zeroes at a page's start, each page provided by the system when it is first touched.

    np.zeros promises no such thing: in a thread, after large blocks have been freed, the C library takes blocks of up
    to 32 MiB from a heap of its own and writes the zeroes. A cache of many layers was resident from the start that way.
    """
    return np.frombuffer(mmap.mmap(-1, max(nbytes, 1)), np.uint8, nbytes)
