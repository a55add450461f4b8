#!/usr/bin/env python3
"""Lays down what the pages use of others (gateway/web/static/vendor), as vendored.toml names it. Needs npm.

.venv/bin/python deploy/vendor.py           # after a version, an integrity or a list of files was changed there
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import TypedDict

from rich.console import Console

console = Console(highlight=False)
VENDOR = Path(__file__).resolve().parents[1] / "gateway" / "web" / "static" / "vendor"


class Entry(TypedDict):
    package: str
    version: str
    licence: str
    integrity: str  # as in an npm lock file: algorithm-base64
    files: list[str]  # patterns of paths in the package; in ours they lie without their folders


def main() -> int:
    entries: dict[str, Entry] = tomllib.loads((VENDOR / "vendored.toml").read_text(encoding="utf-8"))
    for name, entry in entries.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                lay_down(fetched(entry, Path(folder)), entry["files"], VENDOR / name)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                console.print(f"{name}: {error}", style="red", markup=False)
                return 1
        console.print(f"{name}: {entry['package']} {entry['version']}")
    (VENDOR / "SHA256SUMS").write_text(sums(VENDOR), encoding="utf-8")
    return 0


def fetched(entry: Entry, folder: Path) -> Path:
    """The package's tarball. Raises RuntimeError where it is not the one that is named."""
    spec = f"{entry['package']}@{entry['version']}"
    subprocess.run(["npm", "pack", "--silent", spec], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (tarball,) = folder.glob("*.tgz")
    algorithm, _, expected = entry["integrity"].partition("-")
    found = base64.b64encode(hashlib.new(algorithm, tarball.read_bytes()).digest()).decode()
    if found != expected:
        raise RuntimeError(f"{spec} has the integrity {algorithm}-{found}; vendored.toml says {entry['integrity']}")
    return tarball


def lay_down(tarball: Path, patterns: list[str], target: Path) -> None:
    """The files that match, anew. Raises RuntimeError where a pattern matches none."""
    shutil.rmtree(target, ignore_errors=True)
    unmatched = set(patterns)
    with tarfile.open(tarball) as archive:
        for member in archive.getmembers():
            path = member.name.removeprefix("package/")
            pattern = next((one for one in patterns if fnmatch(path, one)), None)
            content = archive.extractfile(member) if pattern else None
            if pattern and content:
                unmatched.discard(pattern)
                place = target / _place(path, pattern)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())
    if unmatched:
        raise RuntimeError(f"the package has no {', '.join(sorted(unmatched))}")


def _place(path: str, pattern: str) -> Path:
    """Single files lie at the top; a whole folder keeps its name, as the style sheet beside it expects."""
    whole = Path(path)
    return Path(whole.parent.name) / whole.name if "*" in pattern else Path(whole.name)


def sums(folder: Path) -> str:
    """As `sha256sum -c` reads them."""
    files = sorted(path for path in folder.glob("*/**/*") if path.is_file())
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files
    )


if __name__ == "__main__":
    sys.exit(main())
