"""Commands that look at what is shipped."""

from __future__ import annotations

import shutil
import subprocess

from tests.external.packages import give_up


def run(command: str, *arguments: str, package: str) -> str:
    """What it says, after it has found nothing wrong. Without it the test is given up, for lack of `package`."""
    if (found := shutil.which(command)) is None:
        give_up(command, f"{package} is not installed")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
