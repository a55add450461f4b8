"""The listening socket, bound before anything slow happens, with faults that say what to do."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BACKLOG = 2048
# sun_path holds 108 bytes on Linux and 104 on macOS, the closing zero included.
_MAX_PATH_BYTES = 103


class CannotListen(Exception):
    """The address cannot be used; the text names it and says what to do."""


@contextmanager
def listening(*, uds: Path | None, host: str, port: int | None) -> Iterator[socket.socket]:
    bound = bind_unix(uds) if uds is not None else bind_tcp(host, port or 0)
    try:
        yield bound
    finally:
        bound.close()
        if uds is not None:
            uds.unlink(missing_ok=True)


def bind_tcp(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError as fault:
        bound.close()
        if fault.errno == errno.EADDRINUSE:
            raise CannotListen(f"port {port} on {host} is in use; choose another one, or stop what uses it.") from fault
        raise CannotListen(f"cannot listen on {host} port {port}: {fault.strerror}.") from fault
    return bound


def bind_unix(path: Path) -> socket.socket:
    """Only the owner may connect: the engine asks nobody for a key."""
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise CannotListen(f"socket path {path} is too long for the system; at most {_MAX_PATH_BYTES} bytes.")
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        bound.bind(str(path))
        bound.listen(_BACKLOG)
    except OSError as fault:
        bound.close()
        raise CannotListen(f"cannot listen on socket {path}: {fault.strerror}.") from fault
    finally:
        os.umask(mask)
    return bound


def _remove_stale(path: Path) -> None:
    """A crash leaves the socket file behind; one that answers belongs to a living engine."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise CannotListen(f"{path} exists and is not a socket; choose another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        if probe.connect_ex(str(path)) == 0:
            raise CannotListen(f"another engine is listening on socket {path}; stop it first.")
    path.unlink(missing_ok=True)
