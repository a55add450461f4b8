"""What becomes of ranks that refuse or die: one launcher, in a process of its own, as it takes signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # ranks are started five times

PROGRAM = """
from native_engine.loading.errors import ModelError
from native_engine.parallel import launch
from native_engine.parallel.job import Job, RanksLost
from tests.native_engine.parallel.bad_work import die, refuse

launch.MAX_RESTARTS = 1
for job in (Job(refuse, ("the file is damaged",), (ModelError,), 5), Job(die, (), (ModelError,), 5)):
    try:
        launch.launch(2, job)
    except (ModelError, RanksLost) as fault:
        print(type(fault).__name__, fault)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[Path]]:
    """What it said, and the folders that it left."""
    folder = tmp_path_factory.mktemp("launch")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "TMPDIR": str(folder)},
    )
    return run.stdout.splitlines(), list(folder.iterdir())


def test_what_a_rank_refuses_ends_all_and_is_raised_by_the_launcher(told: tuple[list[str], list[Path]]) -> None:
    assert told[0][0] == "ModelError rank 1 of 2: the file is damaged"


def test_ranks_that_die_again_are_given_up_with_a_word(told: tuple[list[str], list[Path]]) -> None:
    lines, left = told
    assert lines[1].startswith("RanksLost rank 1 of the engine ended (exit code 7), and so it did after 1 restarts")
    assert left == []
