"""The data folder: this user's alone, one `up` at a time, sockets that fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import datadir
from gateway.cli.console import CliError


def test_it_lies_where_the_system_says(tmp_path: Path) -> None:
    assert datadir.chosen(None, {"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "sekisho"
    assert datadir.chosen(None, {}) == Path.home() / ".local/share/sekisho"
    assert datadir.chosen(tmp_path / "own", {"XDG_DATA_HOME": "/elsewhere"}) == tmp_path / "own"


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    folder = datadir.prepare(tmp_path / "a" / "b")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_one_that_cannot_be_written_is_named_with_the_flag(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    with pytest.raises(CliError, match=r"--data-dir is .*file/data.*cannot be written.*expected a folder"):
        datadir.prepare(in_the_way / "data")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_one_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CliError, match="cannot be written"):
        datadir.prepare(tmp_path)


def test_a_socket_path_too_long_for_the_system_is_moved_to_a_short_one(tmp_path: Path) -> None:
    short, long = Path("/srv/data"), Path("/srv") / ("x" * 100)
    assert datadir.socket_dir(short) == short / "run"
    moved = datadir.socket_dir(long)
    assert len(str(moved / "valkey.sock")) < datadir.LONGEST_SOCKET_PATH
    assert moved == datadir.socket_dir(long)
    assert moved != datadir.socket_dir(Path("/srv") / ("y" * 100))


def test_a_socket_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    with pytest.raises(CliError, match="not a folder of yours alone"):
        datadir.make_socket_dir(tmp_path)


def test_a_second_holder_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    held = datadir.lock(tmp_path)
    try:
        with pytest.raises(CliError, match=f"process {os.getpid()}"):
            datadir.lock(tmp_path)
    finally:
        os.close(held)
    os.close(datadir.lock(tmp_path))


def test_the_lock_of_a_dead_holder_is_waited_for(tmp_path: Path) -> None:
    """As after kill -9: the holder is gone, and a child that inherited the lock ends a moment later."""
    held = datadir.lock(tmp_path)
    (tmp_path / "up.lock").write_text(str(_pid_of_nobody()))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.7)"], pass_fds=(held,))
    os.close(held)
    os.close(datadir.lock(tmp_path))
    assert child.wait(5) == 0


def _pid_of_nobody() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
