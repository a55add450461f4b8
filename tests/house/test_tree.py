"""What must not be in the tree: other people's machines, registries, the hazards of our package names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT, name_of, project_files

TOP_LEVEL = {"gateway", "backends", "native_engine", "kernels", "tests", "deploy", ".ci"}
# Written in two halves, so that this file does not name them either.
FORBIDDEN = {
    "a registry's host": "|".join(
        re.escape(host + end)
        for host, end in [("pypi", ".org"), ("pythonhosted", ".org"), ("npmjs", ".org"), ("debian", ".org")]
    ),
    "a machine's path": r"(?<![\w.])/(?:work|root|home/\w+)" + "/",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_tree_names_no(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [name_of(path) for path in project_files() if pattern.search(path.read_text("utf-8", "replace"))]
    assert found == []


def test_top_level_folders_are_those_of_the_design() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in project_files() if path.parent != ROOT}
    assert folders <= TOP_LEVEL


def test_no_file_can_be_taken_for_triton() -> None:
    assert [name_of(path) for path in project_files() if path.name == "triton.py"] == []


def test_kernels_package_cannot_be_taken_for_hugging_faces() -> None:
    transformers_utils = pytest.importorskip("transformers.utils")
    assert not transformers_utils.is_kernels_available()
    assert (ROOT / "kernels" / "__init__.py").read_text("utf-8") == ""


@pytest.mark.parametrize("script", [ROOT / "sekisho", ROOT / ".ci" / "run"], ids=name_of)
def test_script_can_be_executed(script: Path) -> None:
    assert script.stat().st_mode & 0o111
