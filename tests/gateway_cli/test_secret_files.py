"""Settings that come as files: read for every command, told plainly where that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.console import CliError
from gateway.cli.secret_files import variables
from tests.system.driving import sekisho


def test_a_variable_that_names_a_file_says_what_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "redis_url"
    file.write_text("redis://:hush@valkey:6379\n")
    environ = {"SEKISHO_REDIS_URL_FILE": str(file), "SEKISHO_PORT": "1", "OTHER_FILE": "/nowhere", "SEKISHO_X_FILE": ""}
    assert variables(environ) == {"SEKISHO_REDIS_URL": "redis://:hush@valkey:6379"}


@pytest.mark.parametrize(
    ("content", "more", "told"),
    [
        (b"", {}, "is empty"),
        (b"\xff\xfe", {}, "it is not text"),
        (None, {}, "cannot be read"),
        (b"hush", {"SEKISHO_REDIS_URL": "hunter2"}, "both set"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    tmp_path: Path, content: bytes | None, more: dict[str, str], told: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CliError) as caught:
        variables({"SEKISHO_REDIS_URL_FILE": str(file), **more})
    assert "SEKISHO_REDIS_URL_FILE" in str(caught.value)
    assert told in str(caught.value)
    assert caught.value.exit_code == 2
    assert "hunter2" not in str(caught.value)


def test_a_command_takes_what_the_file_holds_and_does_not_show_the_password(tmp_path: Path) -> None:
    file = tmp_path / "redis_url"
    file.write_text("redis://:hush@127.0.0.1:1/0")
    told = sekisho("keys", "list", "--data-dir", str(tmp_path), SEKISHO_REDIS_URL_FILE=str(file))
    assert told.returncode == 1
    assert "127.0.0.1:1/0" in told.stderr
    assert "hush" not in told.stderr
