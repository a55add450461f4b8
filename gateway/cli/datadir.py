"""The data folder: where it is, who holds it, and where its sockets are. Knows nothing of what lies in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.console import CliError

# sockaddr_un holds 104 bytes on macOS and 108 on Linux, the closing zero included.
LONGEST_SOCKET_PATH = 103
Option = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="SEKISHO_DATA_DIR", help="Keys, models, logs. [default: ~/.local/share/sekisho]"),
]
_LOCK_FILE = "up.lock"
_LOCK_PATIENCE = 10.0


def chosen(given: Path | None, environ: Mapping[str, str]) -> Path:
    """The folder that was asked for, or the one of this user."""
    folder = given or Path(environ.get("XDG_DATA_HOME") or "~/.local/share") / "sekisho"
    return folder.expanduser().absolute()


def prepare(folder: Path) -> Path:
    """Make the folder for this user alone, and make sure that it can be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        raise CliError(
            f"--data-dir is {str(folder)!r}, which cannot be written ({fault.strerror}); "
            "expected a folder that you may write to. Choose another, or mend its owner and mode."
        ) from fault
    return folder


def socket_dir(data_dir: Path) -> Path:
    """Where the sockets of this data folder are: in it, or in a short place where its path is too long for a socket."""
    folder = data_dir / "run"
    if len(os.fsencode(folder / "valkey.sock")) > LONGEST_SOCKET_PATH:
        digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
        folder = Path("/tmp") / f"sekisho-{os.getuid()}-{digest}"
    return folder


def make_socket_dir(data_dir: Path) -> Path:
    folder = socket_dir(data_dir)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # /tmp is everyone's: a folder that someone else put there could hand our requests to them.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CliError(f"{folder} is not a folder of yours alone; remove it, or choose a shorter --data-dir.")
    return folder


def lock(data_dir: Path) -> int:
    """Take the data folder for this process and the children that inherit the descriptor. Held as long as one lives."""
    descriptor = os.open(data_dir / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_PATIENCE
    while not _try_lock(descriptor):
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.lseek(descriptor, 0, os.SEEK_SET)
        # A killed holder's Valkey takes a moment to write what it has and to end.
        if _is_alive(holder) or time.monotonic() > deadline:
            raise CliError(
                f"--data-dir is {str(data_dir)!r}, which another `sekisho up` (process {holder}) is using; "
                "stop that one, or give this one a --data-dir of its own."
            )
        time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
