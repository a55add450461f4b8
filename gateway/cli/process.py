"""Child processes that never outlive us: each leads a group of its own, and on Linux dies with its parent."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1


async def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    pass_fds: Sequence[int] = (),
    death_signal: signal.Signals = signal.SIGKILL,
) -> asyncio.subprocess.Process:
    """Start a child whose output goes to `log`. Ctrl-C in the terminal reaches only us: we stop children in order."""
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            preexec_fn=_die_with_parent(death_signal),
        )


async def stop(process: asyncio.subprocess.Process, patience: float) -> None:
    """Ask it to end; past `patience` seconds kill it. Whatever it left behind in its group is killed too."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), patience)
    kill_group(process.pid)
    await process.wait()


def kill_group(pid: int) -> None:
    # PermissionError: macOS says so of a group in which only a zombie is left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """ "killed by SIGKILL" or "exit code 1"."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where little is allowed after it
    parent = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # it died before it was watched
            os._exit(1)

    return before_exec
