"""The data folder, its sockets and the room on its disk."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.cli import datadir
from gateway.cli.checking import nearest_existing
from gateway.cli.doctor.machine import gib
from gateway.cli.findings import Finding, fail, ok, warn

_LEAST_DISK = 2 * 2**30


def examine(folder: Path) -> Iterator[Finding]:
    yield _data_dir(folder)
    yield _sockets(datadir.socket_dir(folder))
    yield _disk(folder)


def _data_dir(folder: Path) -> Finding:
    existing = nearest_existing(folder)
    if not os.access(existing, os.W_OK | os.X_OK):
        remedy = "mend its owner and mode, or choose another: SEKISHO_DATA_DIR or --data-dir"
        return fail("data folder", f"{existing} cannot be written", remedy)
    if existing != folder:
        return ok("data folder", f"{folder}, not made yet")
    if (mode := folder.stat().st_mode & 0o777) & 0o077:
        return warn("data folder", f"{folder} can be read by others (mode {mode:o})", f"chmod 700 {folder}")
    return ok("data folder", str(folder))


def _sockets(folder: Path) -> Finding:
    try:
        found = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ok("sockets", f"{folder}, not made yet")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        remedy = f"remove {folder}, or choose a shorter --data-dir"
        return fail("sockets", f"{folder} is not a folder of this user alone", remedy)
    return ok("sockets", str(folder))


def _disk(folder: Path) -> Finding:
    place = nearest_existing(folder)
    free = shutil.disk_usage(place).free
    if free < _LEAST_DISK:
        return warn("disk", f"{gib(free)} free at {place}", "make room: models, files and logs need it")
    return ok("disk", f"{gib(free)} free at {place}")
