"""Documents that people follow: nothing in them is left unseen by a test, and what is only looked at says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.guides import Snippet, check, documents, snippets, translations
from tests.house.tree import ROOT, name_of

SNIPPETS = [snippet for document in documents() for snippet in snippets(document)]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.place)
def test_a_snippet_is_what_its_reader_takes(snippet: Snippet, tmp_path: Path) -> None:
    check(snippet, tmp_path)


@pytest.mark.parametrize("document", translations(), ids=name_of)
def test_a_translation_has_the_blocks_of_the_original(document: Path) -> None:
    original = document.with_name(document.name.replace(".ja.md", ".md"))
    assert spoken_to_machines(document) == spoken_to_machines(original)
    assert shown(document) <= shown(original)


def spoken_to_machines(document: Path) -> list[tuple[str, str, str]]:
    """Without comments and pictures, whose words are the translation's."""
    return [
        (one.language, one.mark, re.sub(r" *#.*", "", one.text))
        for one in snippets(document)
        if one.language not in ("mermaid", "text")
    ]


def shown(document: Path) -> set[str]:
    return {line for one in snippets(document) if one.language == "text" for line in one.text.splitlines()}


@pytest.mark.parametrize(
    ("language", "text", "mark"),
    [
        ("", "anything", ""),
        ("sh", "./sekisho quotas nothing", "runs long"),
        ("sh", "./sekisho plan --mode x", ""),
        ("sh", "A=1 ./sekisho keys list && ./sekisho nothing", ""),
        ("sh", "if true; then", ""),
        ("sh", "cp deploy/nothing.yaml .", "needs a cluster"),
        ("json", "{}", ""),
        ("json", "{", "an answer"),
        ("yaml", "prot: 1", ""),
        ("yaml", "policies: {everyone: {requests_per_year: 1}}", ""),
        ("python", "print(", ""),
    ],
)
def test_what_would_not_work_is_told(language: str, text: str, mark: str, tmp_path: Path) -> None:
    snippet = Snippet(ROOT / "README.md", 1, language, text, mark)
    with pytest.raises(Exception):  # noqa: B017, PT011  # each reader refuses in its own way
        check(snippet, tmp_path)
