"""Small integers out of the words that checkpoints pack them in. Works on a file's bytes, which are little-endian."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def unpack(rows: Bytes, bits: int) -> Bytes:
    """The fields of 4 or 8 bits of each row of int32 words [rows, bytes], lowest first: [rows, bytes * 8 / bits]."""
    if bits == 8:
        return rows
    fields = np.empty((*rows.shape, 2), np.uint8)
    fields[..., 0], fields[..., 1] = rows & 15, rows >> 4
    return fields.reshape(len(rows), -1)


def unpack_down(rows: Bytes, bits: int) -> Bytes:
    """As `unpack`, of words packed down the columns: int32 [words, columns] to [words * 32 / bits, columns]."""
    words = rows.reshape(len(rows), -1, 4)
    if bits == 8:
        fields = words.swapaxes(1, 2)
    else:
        fields = np.empty((len(rows), 8, words.shape[1]), np.uint8)
        fields[:, 0::2], fields[:, 1::2] = (words & 15).swapaxes(1, 2), (words >> 4).swapaxes(1, 2)
    return fields.reshape(-1, words.shape[1])
