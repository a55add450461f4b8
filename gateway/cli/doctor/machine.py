"""The machine itself: Python, memory, processors and how many files may be open, container limits included."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from gateway.settings import Settings

_LEAST_MEMORY = 2 * 2**30
_OLDEST, _NEWEST = (3, 11), (3, 14)
_OWN_FILES = 256  # logs, libraries, Redis, providers
CGROUP = Path("/sys/fs/cgroup")


def python() -> Iterator[Finding]:
    found = f"{platform.python_version()} at {sys.executable}"
    if _OLDEST <= sys.version_info[:2] <= _NEWEST:
        yield ok("Python", found)
    else:
        yield fail("Python", found, "one from 3.11 to 3.14: SEKISHO_PYTHON=/path/to/python ./sekisho ...")


def memory(cgroup: Path = CGROUP, meminfo: Path = Path("/proc/meminfo")) -> Iterator[Finding]:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = _available(meminfo) or total
    found = f"{gib(total)}, of which {gib(available)} available"
    if (limit := _number(cgroup / "memory.max")) is not None:
        available = min(available, limit - (_number(cgroup / "memory.current") or 0))
        found += f"; this container may use {gib(limit)}, of which {gib(max(0, available))} is left"
    if available < _LEAST_MEMORY:
        remedy = "a smaller --kv-cache-memory, fewer other programs, or a higher limit of the container"
        yield warn("memory", found, remedy)
    else:
        yield ok("memory", found)
    yield _processors(cgroup)


def open_files(settings: Settings) -> Iterator[Finding]:
    """Whoever waits or is answered has a connection; so has each request in an engine."""
    running = sum(engine.max_concurrency or 1 for engine in settings.engines)
    needed = settings.max_queue + 2 * running + _OWN_FILES
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = f"{allowed} may be open at once; a full queue and full engines need {needed}"
    if resource.RLIM_INFINITY != allowed < needed:
        remedy = f"ulimit -n {needed}, LimitNOFILE={needed} in a systemd unit, or a smaller max_queue"
        yield fail("open files", found, remedy)
    else:
        yield ok("open files", found)


def gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _processors(cgroup: Path) -> Finding:
    found = f"{os.cpu_count()}"
    quota, _, period = _text(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        found += f", of which this container may use {int(quota) / int(period):.1f}"
    return ok("processors", found)


def _available(meminfo: Path) -> int | None:
    lines = _text(meminfo).splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _number(file: Path) -> int | None:
    """None where there is no limit."""
    return int(text) if (text := _text(file)).isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""
