"""A model's forward pass recorded once as a list of native operations and replayed with one call a step.

The idea is that of a CUDA graph: the model's Python runs once, over `Buffer`s instead of tensors, and every op appends
itself to the program; a step then costs one foreign call, whatever the number of layers. Unlike a graph it needs no
buckets: every op reads the number of rows from the step. Calls of Python may stand between the operations.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.memory import zeroed
from kernels.native.library import Op, Step, library

ROW_TILE = 8  # as ../linear/cpu.h
ARRAYS = ("token_ids", "positions", "slots", "query_starts", "sample_rows", "block_tables")  # of a step

Pointer = Any  # an address, an array (kept alive), a Buffer, or None


class Kind(IntEnum):
    """The operations, in the order of OpKind in ops.h."""

    EMBEDDING = 0
    RMS_NORM = 1
    LINEAR = 2
    ROTARY = 3
    ATTENTION = 4
    GATED = 5
    GATHER = 6
    ARGMAX = 7
    SOFT_CAP = 8
    ROUTE = 9
    EXPERTS = 10
    GATED_EXPERTS = 11
    SUM_EXPERTS = 12
    SURVEY = 13


class Buffer:
    """A float32 activation [max_rows, width] of a program; `sampled` ones hold only the rows to sample."""

    def __init__(self, program: Program, width: int, sampled: bool, memory: npt.NDArray[np.uint8]) -> None:
        self.program, self.width, self.sampled, self.memory = program, width, sampled, memory

    @property
    def address(self) -> int:
        return self.memory.ctypes.data

    @property
    def array(self) -> npt.NDArray[np.float32]:
        """The whole buffer as [max_rows, width]; rows past the step's are stale."""
        return self.memory.view(np.float32)[: len(self.memory) // 4 // self.width * self.width].reshape(-1, self.width)


def _zeros(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count, np.int32)


class StepArrays:
    """The arrays that a step is described by, int32, at addresses that never change: one behind the other in `memory`,
    the block tables last, so that what a step uses ends with those of its sequences."""

    def __init__(
        self,
        max_rows: int,
        max_sequences: int,
        max_blocks: int,
        max_sampled: int | None = None,
        zeros: Callable[[int], npt.NDArray[np.int32]] = _zeros,
    ) -> None:
        """`max_sampled`: rows that may need logits; as many as sequences where nothing is said. `zeros` gives the
        memory, as many numbers as it is told."""
        sizes = [*[max_rows] * 3, max_sequences + 1, max_sampled or max_sequences, max_sequences * max_blocks]
        self.memory = zeros(sum(sizes))
        parts = np.split(self.memory, np.cumsum(sizes[:-1]))
        self.token_ids, self.positions, self.slots, self.query_starts, self.sample_rows, tables = parts
        self.block_tables = tables.reshape(max_sequences, max_blocks)
        self.struct = Step(block_table_stride=max_blocks)
        for name in ARRAYS:
            setattr(self.struct, name, getattr(self, name).ctypes.data)


Call = Callable[[StepArrays], None]


class Program:
    """Records operations and runs them. Everything an op points to is kept alive in `owned`."""

    def __init__(self, max_rows: int, max_sampled: int, num_threads: int, isa: str = "") -> None:
        lib = library()
        if lib is None:
            raise RuntimeError("the native library is not built; install a C++ compiler and run: pip install -e .")
        self._lib, self._isa = lib, isa.encode()
        self.max_rows, self.max_sampled = max_rows, max_sampled
        self._ops: list[Op | Call] = []
        self._segments: list[Any] | None = None
        self._free: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self.owned: list[Any] = []
        self._pool = lib.sekisho_pool_create(num_threads)
        weakref.finalize(self, lib.sekisho_pool_destroy, self._pool)

    def buffer(self, width: int, sampled: bool = False, bytes_per_tile: int = 0, rows: int = 0) -> Buffer:
        """A new activation. When the recording model drops it, its memory serves a later op of the program.

        With `bytes_per_tile` it is scratch for whole tiles of rows, of which the last may be filled in part.
        With `rows` it has so many, whatever the program's.
        """
        rows = rows or (self.max_sampled if sampled else self.max_rows)
        size = -(-rows // ROW_TILE) * bytes_per_tile if bytes_per_tile else rows * width * 4
        spare = self._free.setdefault(size, [])
        memory = spare.pop() if spare else self._allocate(size)
        buffer = Buffer(self, width, sampled, memory)
        weakref.finalize(buffer, spare.append, memory).atexit = False
        return buffer

    def _allocate(self, size: int) -> npt.NDArray[np.uint8]:
        memory = zeroed(size)
        self.owned.append(memory)
        return memory

    def record(
        self,
        kind: Kind,
        pointers: Sequence[Pointer],
        integers: list[int],
        floats: tuple[float, ...] = (),
        sampled: bool = False,
    ) -> None:
        """Appends one operation; the op's cpu.h says what stands in which slot."""
        op = Op(kind=kind, sampled=sampled)
        for slot, pointer in enumerate(pointers):
            if isinstance(pointer, Buffer):
                op.p[slot] = pointer.address
            elif isinstance(pointer, np.ndarray):
                self.owned.append(pointer)
                op.p[slot] = pointer.ctypes.data
            else:
                op.p[slot] = pointer
        op.i[: len(integers)] = integers
        op.f[: len(floats)] = floats
        self._append(op)

    def call(self, function: Call) -> None:
        """Appends a call of Python: it gets the step, once the operations before it are done."""
        self._append(function)

    def _append(self, op: Op | Call) -> None:
        self._ops.append(op)
        self._segments = None

    def run(self, step: StepArrays) -> None:
        """Runs every operation on the rows that `step.struct` announces; releases the interpreter lock meanwhile."""
        if self._segments is None:
            self._segments = _segments(self._ops)
        for segment in self._segments:
            if callable(segment):
                segment(step)
            elif self._lib.sekisho_run(self._pool, self._isa, segment, len(segment), ctypes.byref(step.struct)):
                raise ValueError(f"isa {self._isa.decode()!r} is not known to the native library")


def _segments(ops: list[Op | Call]) -> list[Any]:
    """Operations that follow each other in one array, for one foreign call; the calls between them as they are."""
    segments: list[Any] = []
    for are_native, group in groupby(ops, key=lambda op: isinstance(op, Op)):
        found: list[Any] = list(group)
        segments += [(Op * len(found))(*found)] if are_native else found
    return segments
