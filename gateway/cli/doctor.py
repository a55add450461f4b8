"""`sekisho doctor`: looks at this machine and says, line by line, what is well, what is not and how to mend it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from gateway.cli import datadir, listening
from gateway.cli.console import CliError, out

_LEAST_DISK = 2 * 2**30
_LEAST_MEMORY = 2 * 2**30


@dataclass(frozen=True)
class Finding:
    subject: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


def doctor(
    port: Annotated[int, typer.Option(min=0, max=65535, envvar="SEKISHO_PORT")] = 8080,
    host: Annotated[str, typer.Option(envvar="SEKISHO_HOST")] = "127.0.0.1",
    data_dir: datadir.Option = None,
) -> None:
    """Check this machine: Python, torch, native kernel, Valkey, port, data folder, disk, memory, GPU."""
    findings = list(_examine(host, port, datadir.chosen(data_dir, os.environ)))
    table = Table("", "what")
    table.add_column("found", overflow="fold")
    table.add_column("how to mend it", overflow="fold")
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    for finding in findings:
        verdict = f"[{colours[finding.verdict]}]{finding.verdict}[/]"
        table.add_row(verdict, finding.subject, finding.found, finding.remedy)
    out.print(table)
    raise typer.Exit(int(any(finding.verdict == "fail" for finding in findings)))


def _examine(host: str, port: int, data_dir: Path) -> Iterator[Finding]:
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _torch,
        _native_kernel,
        _valkey,
        lambda: _port(host, port),
        lambda: _data_dir(data_dir),
        lambda: _sockets(data_dir),
        lambda: _disk(data_dir),
        _memory,
        _gpu,
    )
    for check in checks:
        yield check()


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def _torch() -> Finding:
    try:
        return Finding("torch", "ok", importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            "torch", "warn", "not installed: the gateway runs, the engine does not", "./sekisho up installs it"
        )


def _native_kernel() -> Finding:
    """Looks for the file instead of importing it: that would import torch."""
    spec = importlib.util.find_spec("kernels.native")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    built = [file for folder in folders for file in folder.glob("_cpu*.so")]
    if built:
        return Finding("native kernel", "ok", str(built[0]))
    remedy = "install a C++ compiler, remove .venv/sekisho.*.stamp, start again"
    return Finding("native kernel", "warn", "not built: the engine runs on plain torch, slower", remedy)


def _valkey() -> Finding:
    from gateway.cli.parts import valkey_binary

    try:
        answer = subprocess.run([valkey_binary(), "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (CliError, OSError, subprocess.SubprocessError) as fault:
        return Finding("Valkey", "fail", str(fault), "run a Redis or Valkey of your own and name it: SEKISHO_REDIS_URL")
    return Finding("Valkey", "ok", answer.stdout.strip())


def _port(host: str, port: int) -> Finding:
    try:
        listening.listen(host, port).close()
    except CliError as fault:
        return Finding("port", "warn", str(fault), "no fault if it is Sekisho that listens there")
    return Finding("port", "ok", f"{host} port {port} is free")


def _data_dir(folder: Path) -> Finding:
    existing = _nearest_existing(folder)
    if not os.access(existing, os.W_OK | os.X_OK):
        remedy = "mend its owner and mode, or choose another: SEKISHO_DATA_DIR or --data-dir"
        return Finding("data folder", "fail", f"{existing} cannot be written", remedy)
    if existing != folder:
        return Finding("data folder", "ok", f"{folder}, not made yet")
    if (mode := folder.stat().st_mode & 0o777) & 0o077:
        return Finding("data folder", "warn", f"{folder} can be read by others (mode {mode:o})", f"chmod 700 {folder}")
    return Finding("data folder", "ok", str(folder))


def _sockets(data_dir: Path) -> Finding:
    folder = datadir.socket_dir(data_dir)
    if not hasattr(socket, "AF_UNIX"):
        return Finding("Unix sockets", "fail", "this system has none", "use Linux or macOS")
    return Finding("Unix sockets", "ok", str(folder))


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(_nearest_existing(folder)).free
    verdict: Literal["ok", "warn"] = "ok" if free >= _LEAST_DISK else "warn"
    return Finding(
        "disk", verdict, f"{_gib(free)} free", "" if verdict == "ok" else "make room: models and logs need it"
    )


def _memory() -> Finding:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = _available_memory() or total
    found = f"{_gib(total)}, of which {_gib(free)} available"
    if free < _LEAST_MEMORY:
        return Finding("memory", "warn", found, "a smaller --kv-cache-memory, or fewer other programs")
    return Finding("memory", "ok", found)


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _gpu() -> Finding:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("GPU", "ok", "none from NVIDIA: the engine runs on the CPU")
    try:
        answer = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as fault:
        return Finding("GPU", "warn", f"nvidia-smi fails: {fault}", "mend the driver, or go on with the CPU")
    return Finding("GPU", "ok", answer.stdout.strip())


def _nearest_existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
