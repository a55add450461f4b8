"""The one public socket. It is opened before anything is started, so that a port in use stops `up` at once."""

from __future__ import annotations

import errno
import socket

from gateway.cli.console import CliError

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as fault:
        raise CliError(f"--host is {host!r}, which is no address of this machine ({fault.strerror}).") from fault
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as fault:
        listener.close()
        raise CliError(_reason(host, port, fault)) from fault
    return listener


def url(listener: socket.socket) -> str:
    """How a client on this machine reaches it."""
    host, port = address(listener)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def address(listener: socket.socket) -> tuple[str, int]:
    host, port = listener.getsockname()[:2]
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port


def _reason(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return f"--port is {port}, where another program listens already; stop that one or choose another port."
    if fault.errno == errno.EACCES:
        return f"--port is {port}, which this user may not open; expected 1024 or above."
    if fault.errno == errno.EADDRNOTAVAIL:
        return f"--host is {host!r}, which is no address of this machine."
    return f"cannot listen on {host} port {port}: {fault.strerror}"
