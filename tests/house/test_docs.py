"""What people read is complete: settings say what they are, the README has every launcher variable and command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from gateway.cli.main import app
from gateway.settings import Settings
from tests.guides import documents, spoken, translations, unknown
from tests.house.tree import ROOT, name_of, project_files

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


@pytest.mark.parametrize("document", [*documents(), *translations()], ids=name_of)
def test_what_a_document_links_to_is_there(document: Path) -> None:
    linked = re.findall(r"\]\(((?!https?:)[^)]+)\)", document.read_text("utf-8"))
    assert [link for link in linked if not _is_there(document, link)] == []


# The changelog tells of commands that are gone.
READ = [path for path in project_files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("document", READ, ids=name_of)
def test_commands_in_sentences_are_commands(document: Path) -> None:
    wrong = {" ".join(words): found for words in spoken(document.read_text("utf-8")) if (found := unknown(words))}
    assert wrong == {}


@pytest.mark.parametrize("words", ["nothing", "keys nothing", "up --prot 1", "bench serve --rounds-x"])
def test_what_is_no_command_is_told(words: str) -> None:
    assert unknown(words.split())


def _is_there(document: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = document.parent / path if path else document
    return target.exists() and (not anchor or anchor in _anchors(target.read_text("utf-8")))


def _anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-") for heading in headings}
