"""Questions about processes, for tests that start some."""

from __future__ import annotations

import os
import subprocess


def is_running(pid: int) -> bool:
    """A zombie that nobody has collected is not running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return not state.stdout.strip().startswith("Z") and bool(state.stdout.strip())
