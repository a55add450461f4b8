"""Counts what kernels move and multiply while Triton's interpreter runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

SECTOR = 32  # bytes that a GPU moves at least


@dataclass
class Traffic:
    """In bytes, of whole sectors: `asked`, where each load or store of a program counts every sector once that its
    enabled lanes touch; `distinct`, where a sector counts once a launch for reading and once for writing, which is what
    comes from memory if the cache holds the rest. operations: two for each multiplication of a product."""

    asked: int = 0
    distinct: int = 0
    operations: int = 0
    launches: int = 0
    _seen: dict[str, list[np.ndarray]] = field(default_factory=lambda: {"read": [], "written": []})

    def touch(self, kind: str, pointers: Any, mask: Any, itemsize: int) -> None:
        # of several conditions the interpreter makes a mask of integers
        enabled = pointers.data[np.broadcast_to(mask.data.astype(bool), pointers.data.shape)]
        ends = np.concatenate([enabled, enabled + np.uint64(itemsize - 1)])
        sectors = np.unique(ends // np.uint64(SECTOR))
        self.asked += SECTOR * len(sectors)
        self._seen[kind].append(sectors)

    def multiply(self, a: Any, b: Any) -> None:
        self.operations += 2 * a.data.size * b.data.shape[-1]

    def launched(self) -> None:
        self.launches += 1
        for sectors in self._seen.values():
            if sectors:
                self.distinct += SECTOR * len(np.unique(np.concatenate(sectors)))
            sectors.clear()


@contextmanager
def counted() -> Iterator[Traffic]:
    """What the kernels launched within move and multiply."""
    traffic = Traffic()
    original = {
        name: getattr(InterpreterBuilder, name)
        for name in ("create_masked_load", "create_masked_store", "create_atomic_rmw", "create_dot")
    }
    run = GridExecutor.__call__

    def load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        traffic.touch("read", pointers, mask, _itemsize(pointers))
        return original["create_masked_load"](self, pointers, mask, *rest)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        traffic.touch("written", pointers, mask, _itemsize(pointers))
        return original["create_masked_store"](self, pointers, value, mask, *rest)

    def atomic(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        traffic.touch("read", pointers, mask, _itemsize(pointers))
        traffic.touch("written", pointers, mask, _itemsize(pointers))
        return original["create_atomic_rmw"](self, operation, pointers, value, mask, *rest)

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        traffic.multiply(a, b)
        return original["create_dot"](self, a, b, *rest)

    def launch(self: Any, *arguments: Any, **options: Any) -> None:
        run(self, *arguments, **options)
        traffic.launched()

    with pytest.MonkeyPatch.context() as patch:
        for name, wrapped in zip(original, (load, store, atomic, dot), strict=True):
            patch.setattr(InterpreterBuilder, name, wrapped)
        patch.setattr(GridExecutor, "__call__", launch)
        yield traffic


def _itemsize(pointers: Any) -> int:
    return max(1, int(pointers.get_element_ty().primitive_bitwidth) // 8)
