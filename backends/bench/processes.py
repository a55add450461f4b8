"""Which process of this machine listens at an address, and the memory it holds. Knows nothing of what it serves."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import psutil


class NotSeen(Exception):
    """The message says why the memory is not known."""


def is_here(url: str) -> bool:
    """Whether what listens at `url` (http, https or unix:) is on this machine, as far as the address tells."""
    if url.startswith("unix:"):
        return True
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def listener(url: str) -> psutil.Process:
    """Raises NotSeen."""
    try:
        import psutil
    except ImportError as error:  # it comes with the engine
        raise NotSeen("psutil is not installed here") from error
    if not is_here(url):
        raise NotSeen("the engine is on another machine")
    try:
        return psutil.Process(_pid_at_socket(url.removeprefix("unix:")) if url.startswith("unix:") else _pid_at(url))
    except (psutil.Error, OSError, AttributeError) as error:
        raise NotSeen(f"no process can be found at {url} ({type(error).__name__})") from error


def resident_bytes(process: psutil.Process) -> int:
    """Of the process and all below it; what they share is counted for each. Raises NotSeen."""
    import psutil

    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error as error:
        raise NotSeen("its process has ended") from error
    held = 0
    for one in family:
        with suppress(psutil.Error):  # a child that has just ended
            held += one.memory_info().rss
    return held


def _pid_at_socket(path: str) -> int:
    """Whoever listens there, as the kernel tells those who connect (unix(7), SO_PEERCRED; Linux alone)."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        connection.connect(path)
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[0])


def _pid_at(url: str) -> int:
    import psutil

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    for end in psutil.net_connections("tcp"):
        if end.status == psutil.CONN_LISTEN and end.laddr and end.laddr.port == port and end.pid:
            return int(end.pid)
    raise NotSeen(f"nobody of this user listens at port {port}")
