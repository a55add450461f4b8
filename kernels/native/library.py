"""Loads the compiled library, if it is there, and mirrors its C structures."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

NUM_OPS = 14  # as in ops.h


class Op(ctypes.Structure):
    """One recorded operation; the same layout as Op in ops.h."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("sampled", ctypes.c_int32),
        ("p", ctypes.c_void_p * 8),
        ("i", ctypes.c_int64 * 8),
        ("f", ctypes.c_float * 4),
    ]


class Step(ctypes.Structure):
    """What changes from step to step; the same layout as Step in ops.h."""

    _fields_ = [
        ("num_rows", ctypes.c_int64),
        ("num_sequences", ctypes.c_int64),
        ("num_sampled", ctypes.c_int64),
        ("block_table_stride", ctypes.c_int64),
        ("token_ids", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("query_starts", ctypes.c_void_p),
        ("block_tables", ctypes.c_void_p),
        ("sample_rows", ctypes.c_void_p),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The native library, or None where it was not built (no compiler at install time)."""
    paths = sorted(Path(__file__).parent.glob("_cpu*.so"))
    if not paths or os.environ.get("SEKISHO_NATIVE_KERNELS") == "off":
        return None
    lib = ctypes.CDLL(str(paths[0]))
    int64, pointer = ctypes.c_int64, ctypes.c_void_p
    lib.sekisho_best_isa.restype = ctypes.c_char_p
    lib.sekisho_pool_create.restype = pointer
    lib.sekisho_pool_destroy.argtypes = [pointer]
    lib.sekisho_pack.argtypes = [int64, pointer, int64, int64, int64, pointer]
    lib.sekisho_run.argtypes = [pointer, ctypes.c_char_p, pointer, int64, pointer]
    if _described(lib) != (ctypes.sizeof(Op), ctypes.sizeof(Step), NUM_OPS):
        raise ImportError(f"{paths[0]} is of another version than its Python part; build it again: pip install -e .")
    return lib


def _described(lib: ctypes.CDLL) -> tuple[int, ...]:
    """Sizes of its structures and number of its operations; an old library does not tell them all."""
    names = ("sekisho_sizeof_op", "sekisho_sizeof_step", "sekisho_num_ops")
    return tuple(getattr(lib, name)() for name in names if hasattr(lib, name))


def available() -> bool:
    """Whether the native library was built and may be used (SEKISHO_NATIVE_KERNELS=off turns it off)."""
    return library() is not None


def best_isa() -> str:
    """The instruction set that the library picks on this processor: baseline, avx2 or avx512."""
    lib = library()
    return lib.sekisho_best_isa().decode() if lib else "none"
