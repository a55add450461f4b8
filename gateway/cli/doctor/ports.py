"""Whether the gateway could listen where it is to, and who does so already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli import listening
from gateway.cli.console import CliError
from gateway.cli.findings import Finding, fail, ok

if TYPE_CHECKING:
    from gateway.settings import Settings

_LISTENS = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it


def examine(settings: Settings) -> Iterator[Finding]:
    yield _port("port", settings.host, settings.port)
    if settings.metrics_port is not None:
        yield _port("metrics_port", settings.metrics_host, settings.metrics_port)


def _port(name: str, host: str, port: int) -> Finding:
    try:
        listening.listen(host, port).close()
    except CliError as fault:
        holders = list(_holders(port))
        if any("sekisho" in command or "gateway.cli.main" in command for _, command in holders):
            return ok(name, f"Sekisho listens on {host} port {port} already ({_named(holders)})")
        remedy = f"stop it, or choose another {name}" if holders else "as root this command names who holds it"
        return fail(name, f"{fault} {_named(holders)}".strip(), remedy)
    return ok(name, f"{host} port {port} is free")


def _named(holders: list[tuple[int, str]]) -> str:
    return ", ".join(f"process {pid}: {command[:80]}" for pid, command in holders)


def _holders(port: int) -> Iterator[tuple[int, str]]:
    """Process and command line of whoever listens there, as far as this user may see."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        with suppress(OSError):
            if any(_target(link) in wanted for link in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                yield int(process.name), command


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _inodes(port: int) -> Iterator[str]:
    """https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html"""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
