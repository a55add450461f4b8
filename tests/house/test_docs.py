"""What people read is complete: settings say what they are, the README has every launcher variable and command."""

from __future__ import annotations

import re

import pytest
import typer.main

from gateway.cli.main import app
from gateway.settings import Settings
from tests.house.tree import ROOT

README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", Settings.model_fields)
def test_setting_is_described(name: str) -> None:
    description = Settings.model_fields[name].description
    assert description is not None
    assert len(description) > 10


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"SEKISHO_[A-Z_]+", (ROOT / "sekisho").read_text("utf-8")))))
def test_launcher_variable_is_documented(variable: str) -> None:
    assert variable in README


@pytest.mark.parametrize("command", sorted(typer.main.get_group(app).commands))
def test_command_is_documented(command: str) -> None:
    assert f"sekisho {command}" in README


def test_paths_that_the_readme_names_exist() -> None:
    linked = re.findall(r"\]\(((?!https?:|#)[^)#]+)", README)
    assert [path for path in linked if not (ROOT / path).exists()] == []
