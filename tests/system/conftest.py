"""One running whole for the tests that only talk to it; a folder with the model for those that start their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native_engine.loading import store
from tests.house.tree import ROOT
from tests.system.driving import MODEL, Up

CACHE = ROOT / ".cache"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of models, with the default one in it."""
    store.pull(MODEL, CACHE)
    return CACHE / "models"


@pytest.fixture
def new_data_dir(tmp_path: Path, models: Path) -> Callable[[str], Path]:
    """Makes data folders that need not fetch the model again."""
    return lambda name: _data_dir(tmp_path / name, models)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Up]:
    up = Up(_data_dir(tmp_path_factory.mktemp("up") / "data", models))
    try:
        up.wait_until("curl ")
        yield up
    finally:
        up.stop()


def _data_dir(folder: Path, models: Path) -> Path:
    folder.mkdir(mode=0o700)
    (folder / "models").symlink_to(models)
    return folder
