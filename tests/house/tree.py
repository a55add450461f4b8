"""The files of the project, as the house's tests see them: what git tracks or would."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gateway", "backends", "native_engine", "kernels")


@cache
def project_files() -> tuple[Path, ...]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = (ROOT / name.decode() for name in listing.stdout.split(b"\0") if name)
    return tuple(path for path in paths if path.is_file())


def package_modules() -> list[Path]:
    folders = [ROOT / package for package in PACKAGES]
    return [path for path in project_files() if path.suffix == ".py" and any(path.is_relative_to(f) for f in folders)]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))
