"""SHA-256 of files, and the checksum file beside a model in the form that `sha256sum -c` reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from native_engine.loading.errors import ModelError

_CHUNK = 4 * 1024 * 1024


def sha256_of(path: Path, on_progress: Callable[[int, int], None] | None = None) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, total)
    return digest.hexdigest()


def checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def write_checksum(path: Path, digest: str) -> None:
    checksum_path(path).write_text(f"{digest}  {path.name}\n", encoding="utf-8")


def recorded_checksum(path: Path) -> str | None:
    beside = checksum_path(path)
    if not beside.exists():
        return None
    words = beside.read_text(encoding="utf-8").split()
    if not words or len(words[0]) != 64:
        raise ModelError(f"{beside}: does not begin with a SHA-256. Remove it, or fetch the model again.")
    return words[0].lower()


def verify(path: Path, expected: str | None = None, *, thorough: bool = False) -> None:
    """Holds a file to its checksum; a file without one passes.

    Hashing tens of gigabytes at every start would cost minutes, so a file that has not changed since its checksum was
    last found right is believed, unless `thorough`.
    """
    recorded = recorded_checksum(path)
    wanted = expected or recorded
    if wanted is None or (recorded == wanted and not thorough and _unchanged(path)):
        return
    found = sha256_of(path)
    if found != wanted:
        raise ModelError(
            f"{path}: checksum mismatch: expected SHA-256 {wanted}, the file has {found}. Remove it and fetch it again."
        )
    _remember(path, found)


def _unchanged(path: Path) -> bool:
    return path.stat().st_mtime_ns <= checksum_path(path).stat().st_mtime_ns


def _remember(path: Path, digest: str) -> None:
    """A read-only folder only means that the next start hashes again."""
    if os.access(path.parent, os.W_OK):
        write_checksum(path, digest)
