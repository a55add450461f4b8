"""What pip sees: the base stays free of torch, versions are pinned, the version number is a safe one."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.house.tree import ROOT

HEAVY = {"torch", "triton", "transformers", "numpy", "gguf", "tokenizers", "safetensors", "huggingface-hub"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    metadata: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return metadata


def _pins() -> dict[str, str]:
    lines = (ROOT / "deploy" / "constraints" / "pins.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {_normal(name): version for name, version in pairs}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_gateway_alone_needs_no_torch(project: dict[str, Any]) -> None:
    names = {_normal(Requirement(line).name) for line in project["dependencies"]}
    assert names & HEAVY == set()


def test_every_dependency_has_a_pin_within_its_range(project: dict[str, Any]) -> None:
    pins = _pins()
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *extras["engine"], *extras["test"], *extras["tracing"]]:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pins[_normal(requirement.name)]), line


def test_version_is_never_one_that_transformers_takes_for_its_own_kernels(project: dict[str, Any]) -> None:
    version = Version(project["version"])
    assert (version.major, version.minor) != (0, 17)


def test_changelog_has_this_version(project: dict[str, Any]) -> None:
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
