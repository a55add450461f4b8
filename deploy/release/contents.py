"""What a wheel and an sdist have to hold, by what git tracks, and what is missing or too much. Builds nothing."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

PACKAGES = frozenset({"gateway", "backends", "native_engine", "kernels"})
NATIVE_LIBRARY = "kernels/native/_cpu*"
# Of the packages, what nobody needs who only runs them; static files of pages are all needed.
_SOURCES = frozenset({".h", ".cpp"})
_FOR_READERS = frozenset({".md", ".png"})
_STATIC = PurePosixPath("gateway/web/static")
_BESIDE = frozenset({"CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "sekisho", "setup.py"})


def wheel_faults(wheel: Path, tracked: Iterable[str], version: str) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        told = f"sekisho-{version}.dist-info/"
        metadata = archive.read(told + "METADATA").decode() if told + "METADATA" in names else ""
        commands = archive.read(told + "entry_points.txt").decode() if told + "entry_points.txt" in names else ""
    libraries = {name for name in names if PurePosixPath(name).match(NATIVE_LIBRARY)}
    shipped = {name for name in tracked if _is_shipped(PurePosixPath(name))}
    inside = {name for name in names if not name.startswith(told)} - libraries
    faults = [*_missing(shipped - inside), *(f"{name}: is no part of a release" for name in sorted(inside - shipped))]
    if len(libraries) != 1:
        faults.append(
            f"{NATIVE_LIBRARY}: expected one native library, found {len(libraries)}; is there a C++ compiler?"
        )
    if told + "licenses/LICENSE" not in names:
        faults.append("LICENSE: is missing")
    if f"\nVersion: {version}\n" not in metadata:
        faults.append(f"METADATA: expected version {version}")
    if "sekisho = gateway.cli.main:main" not in commands:
        faults.append("entry_points.txt: expected the command sekisho")
    return faults


def sdist_faults(sdist: Path, tracked: Iterable[str], version: str) -> list[str]:
    with tarfile.open(sdist) as archive:
        names = {member.name.removeprefix(f"sekisho-{version}/") for member in archive.getmembers() if member.isfile()}
    needed = {name for name in tracked if _is_source(PurePosixPath(name))}
    strange = sorted(name for name in names if name.startswith("tests/") or name.endswith((".so", ".pyc", ".key")))
    return [*_missing(needed - names), *(f"{name}: is no part of a release" for name in strange)]


def _is_shipped(path: PurePosixPath) -> bool:
    if path.is_relative_to(_STATIC):
        return True
    return path.parts[0] in PACKAGES and path.suffix not in _SOURCES | _FOR_READERS


def _is_source(path: PurePosixPath) -> bool:
    if path.parts[0] in PACKAGES:
        return _is_shipped(path) or path.suffix in _SOURCES
    return path.parts[0] == "deploy" or str(path) in _BESIDE


def _missing(names: Iterable[str]) -> Iterator[str]:
    return (f"{name}: is missing" for name in sorted(names))
