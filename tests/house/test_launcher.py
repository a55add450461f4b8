"""The launcher: clean by shellcheck, and clear where the machine does not fit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT, name_of

SHELLCHECK = shutil.which("shellcheck")


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", [ROOT / "sekisho", ROOT / ".ci" / "run"], ids=name_of)
def test_shellcheck_finds_nothing(script: Path) -> None:
    result = subprocess.run([str(SHELLCHECK), str(script)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def _launch(path: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "sekisho"), "--help"],
        env={"PATH": path, "SEKISHO_VENV": str(tmp_path / "venv"), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _tools_without_python(folder: Path) -> str:
    """A PATH with what the launcher uses, and no Python."""
    folder.mkdir()
    for tool in ("dirname", "readlink", "uname", "cat", "sort", "find", "cksum", "sed", "grep"):
        if (found := shutil.which(tool)) is not None:
            (folder / tool).symlink_to(found)
    return str(folder)


def test_without_python_it_says_which_one_is_needed(tmp_path: Path) -> None:
    result = _launch(_tools_without_python(tmp_path / "bin"), tmp_path)
    assert result.returncode == 1
    assert "no Python from 3.11 to 3.14" in result.stderr


def test_too_old_a_python_is_refused_by_name(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = _launch(os.environ["PATH"], tmp_path, SEKISHO_PYTHON=str(old))
    assert result.returncode == 1
    assert str(old) in result.stderr
    assert not (tmp_path / "venv").exists()
