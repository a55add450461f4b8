"""The choice of a kernel's tile for a shape: each is timed once on a GPU, and the quickest is remembered there.

Where nothing can be timed (no GPU, or a CUDA graph is being captured) it is the first, which is a good guess.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import re
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from kernels.device import build_failures, interpreting

logger = logging.getLogger(__name__)

Tile = TypeVar("Tile", bound=Hashable)
Run = Callable[[Tile], torch.Tensor]

_TOLERANCE = 0.02  # of the largest number: sums in another order, rounded to bfloat16


def choose(op: str, key: tuple[Hashable, ...], tiles: Sequence[Tile], run: Run[Tile]) -> Tile:
    """The tile of `tiles` with which `run(tile)` is quickest; it returns what it wrote, and may be called many times.

    key: all that the times depend on, but for the GPU and the sources in the folder of `run`'s module. A tile that
    cannot be built is passed over; where none can, what the last one raised is raised. So is one that writes something
    else than the first: compilers have faults, and a kernel that does nothing is quick.
    """
    if len(tiles) == 1 or interpreting() or not torch.cuda.is_available():
        return tiles[0]
    return _tuner().choose(op, key, tiles, run, may_time=not torch.cuda.is_current_stream_capturing())


class Tuner:
    """Remembers choices in the process, and in a file where there is one; a file that cannot be read or written is
    done without. clock: seconds of one call of what it is given.
    """

    def __init__(self, file: Path | None, clock: Callable[[Callable[[], object]], float]) -> None:
        self._file, self._clock = file, clock
        self._chosen: dict[tuple[str, Hashable], Any] = {}
        self._kept = _read(file)

    def choose(self, op: str, key: Hashable, tiles: Sequence[Tile], run: Run[Tile], may_time: bool = True) -> Tile:
        """As kernels.tuning.choose; without `may_time` what is not remembered is the first."""
        if (op, key) in self._chosen:
            return self._chosen[op, key]  # type: ignore[no-any-return]
        name = f"{op} {key} {_source_hash(run)}"
        chosen = {str(tile): tile for tile in tiles}.get(self._kept.get(name, ""))
        if chosen is None:
            if not may_time:
                return tiles[0]
            try:
                chosen = self._quickest(op, tiles, run)
                self._keep(name, str(chosen))
            except torch.OutOfMemoryError:  # a shape that first comes when the KV cache has taken what was left
                chosen = tiles[0]
        self._chosen[op, key] = chosen
        return chosen

    def _quickest(self, op: str, tiles: Sequence[Tile], run: Run[Tile]) -> Tile:
        seconds: dict[Tile, float] = {}
        failure: Exception | None = None
        expected: torch.Tensor | None = None
        for tile in tiles:
            try:
                answer = _answer(run, tile)
                expected = answer if expected is None else expected
                if not _agree(answer, expected):
                    logger.warning("%s computes something else with %s: passed over", op, tile)
                    continue
                seconds[tile] = self._clock(partial(run, tile))
            except build_failures() as fault:
                logger.debug("%s cannot be built with %s: %s", op, tile, fault)
                failure = fault
        if failure is not None and not seconds:
            raise failure
        return min(seconds, key=seconds.__getitem__)

    def _keep(self, name: str, tile: str) -> None:
        if self._file is None:
            return
        self._kept = _read(self._file) | {name: tile}  # another process may have written meanwhile
        unfinished = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(self._kept, indent=1), "utf-8")
            unfinished.replace(self._file)
        except OSError as fault:
            logger.debug("tiles are not kept in %s: %s", self._file, fault)


def _answer(run: Run[Tile], tile: Tile) -> torch.Tensor:
    """What the tile's kernel writes, and NaN where it writes nothing."""
    run(tile).fill_(torch.nan)
    return run(tile).clone()


def _agree(answer: torch.Tensor, expected: torch.Tensor) -> bool:
    most = expected.nan_to_num(0.0).abs().max().item()
    return torch.allclose(answer, expected, rtol=0, atol=_TOLERANCE * most, equal_nan=True)


def _read(file: Path | None) -> dict[str, str]:
    try:
        kept = json.loads(file.read_text("utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return {name: tile for name, tile in kept.items() if isinstance(tile, str)} if isinstance(kept, dict) else {}


def _source_hash(run: Callable[..., object]) -> str:
    return _folder_hash(Path(inspect.getfile(inspect.unwrap(run))).parent)


@cache
def _folder_hash(folder: Path) -> str:
    sources = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()[:16]


@cache
def _tuner() -> Tuner:
    import triton

    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    gpu = re.sub(r"[^A-Za-z0-9]+", "-", torch.cuda.get_device_name())
    return Tuner(caches / "sekisho" / "tiles" / f"{gpu}-triton-{triton.__version__}.json", _seconds_on_gpu)


def _seconds_on_gpu(call: Callable[[], object]) -> float:
    """The median of a few calls, each with the second-level cache emptied before it, as it is between two layers."""
    from triton.testing import do_bench

    return float(do_bench(call, warmup=5, rep=20, return_mode="median")) / 1000
