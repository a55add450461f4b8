"""Runs the survey at once, outside any model's program; see cpu.h for the slots."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.native.library import Op, Step, library
from kernels.native.program import Kind
from kernels.sampling.reference import BLOCK, Survey


def survey(logits: npt.NDArray[np.float32], scale: float, depth: float, isa: str = "") -> Survey:
    surveyor = _surveyors.of.get((len(logits), isa))
    if surveyor is None:
        surveyor = _surveyors.of[len(logits), isa] = _Surveyor(len(logits), isa)
    return surveyor.run(np.ascontiguousarray(logits, np.float32), scale, depth)


class _Surveyor:
    """An operation with room for its answer, used again: memory that is new each time costs more than the arithmetic.

    One thread at a time may use it.
    """

    def __init__(self, width: int, isa: str) -> None:
        lib = library()
        if lib is None:
            raise RuntimeError("the native library is not built; install a C++ compiler and run: pip install -e .")
        self._lib, self._isa = lib, isa.encode()
        self._sums, self._tokens = np.zeros(-(-width // BLOCK)), np.zeros(width, np.int32)
        self._peak, self._count = np.zeros(1, np.float32), np.zeros(1, np.int64)
        self._op, self._step = Op(kind=Kind.SURVEY), Step()
        answers: tuple[npt.NDArray[Any], ...] = (self._sums, self._tokens, self._peak, self._count)
        for slot, array in enumerate(answers, start=1):
            self._op.p[slot] = array.ctypes.data
        self._op.i[0] = width
        self._pool = lib.sekisho_pool_create(1)
        weakref.finalize(self, lib.sekisho_pool_destroy, self._pool)

    def run(self, logits: npt.NDArray[np.float32], scale: float, depth: float) -> Survey:
        op = self._op
        op.p[0], op.f[0], op.f[1] = logits.ctypes.data, scale, depth
        if self._lib.sekisho_run(self._pool, self._isa, ctypes.byref(op), 1, ctypes.byref(self._step)):
            raise ValueError(f"isa {self._isa.decode()!r} is not known to the native library")
        return Survey(float(self._peak[0]), self._sums.copy(), self._tokens[: self._count[0]].astype(np.int64))


class _Kept(threading.local):
    """Each thread's own, by width and instruction set."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, str], _Surveyor] = {}


_surveyors = _Kept()
