"""Snippets of the documents that people follow: found, and checked as far as a snippet can be without being run.

A fenced block of sh or python is run (tests/system/test_guides.py), one of yaml is loaded by what will read it. Where
that cannot be, the line before the block says so: `<!-- checked: why -->`. A yaml block whose first line is
`# name.yaml` is put there for the blocks after it; one of text is what the block before it shows, of which `...` leaves
something out.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer.main
import yaml

from gateway.cli.main import app
from gateway.quotas import changes
from gateway.settings import load
from tests.house.tree import ROOT

LANGUAGES = frozenset({"sh", "python", "yaml", "json", "text", "mermaid"})
# What the launcher does by itself.
_LAUNCHERS = ({"test"}, {"lint"})
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- checked: (.+) -->\n\Z")
_FILE = re.compile(r"# ([\w.-]+\.ya?ml)\n")
_ASSIGNMENT = re.compile(r"\w+=")


class Snippet(NamedTuple):
    document: Path
    line: int  # of its first line in the document
    language: str
    text: str
    mark: str  # why it is not run; "": it is

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """What a reader saves it as."""
        found = _FILE.match(self.text)
        return found[1] if found else None


def documents() -> list[Path]:
    """What is written first; a translation has the same blocks."""
    examples = sorted((ROOT / "deploy" / "examples").glob("*/README.md"))
    return [ROOT / "README.md", *(path for path in _guides() if not path.name.endswith(".ja.md")), *examples]


def translations() -> list[Path]:
    return [ROOT / "README.ja.md", *(path for path in _guides() if path.name.endswith(".ja.md"))]


def _guides() -> list[Path]:
    return sorted((ROOT / "deploy" / "guides").glob("*.md"))


def snippets(document: Path) -> list[Snippet]:
    text = document.read_text("utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        indent, language, body = fence.groups()
        inside = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        mark = _MARK.search(text[: fence.start()])
        line = text.count("\n", 0, fence.start()) + 2
        found.append(Snippet(document, line, language, inside, mark[1] if mark else ""))
    return found


def check(snippet: Snippet, folder: Path) -> None:
    """What can be known of it without running it. Raises where it is wrong."""
    assert snippet.language in LANGUAGES, f"{snippet.place}: a block of {snippet.language or 'no language'}"
    if snippet.language == "json":
        assert snippet.mark, f"{snippet.place}: is neither run nor marked"
        json.loads(snippet.text)
    elif snippet.language == "yaml":
        _check_yaml(snippet, folder)
    elif snippet.language == "python":
        compile(snippet.text, snippet.place, "exec")
    elif snippet.language == "sh":
        _check_shell(snippet)


def _check_yaml(snippet: Snippet, folder: Path) -> None:
    told = yaml.safe_load(snippet.text)
    if snippet.mark:
        return
    if "policies" in told:
        _, faults = changes.read(snippet.text)
        assert not faults, f"{snippet.place}: {faults}"
    else:
        file = folder / "settings.yaml"
        file.write_text(snippet.text, "utf-8")
        load(file)


def _check_shell(snippet: Snippet) -> None:
    subprocess.run(["bash", "-n"], input=snippet.text, text=True, check=True)
    for words in _commands(snippet.text):
        if words[0].endswith("sekisho"):
            _parse(words[1:])
        missing = [word for word in words if word.startswith("deploy/") and not any(ROOT.glob(word))]
        assert not missing, f"{snippet.place}: {missing}"


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of lists and pipelines, without assignments before them. Here-documents are left out."""
    text = re.sub(r"<<'?(\w+)'?.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";&|()"):
                if words:
                    yield words
                words = []
            elif words or not _ASSIGNMENT.match(word):
                words.append(word)


@cache
def _sekisho() -> Any:
    return typer.main.get_group(app)


def spoken(text: str) -> Iterator[list[str]]:
    """Arguments of our commands in the middle of a sentence: `sekisho keys revoke ID`."""
    for span in re.findall(
        r"`(?:\./)?sekisho ([a-z][^`]*)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    ):
        yield span.split()


def unknown(arguments: list[str]) -> str | None:
    """The first command or option in a sentence that is none, though its arguments may be left out there."""
    command, words = _sekisho(), list(arguments)
    if words[0] in ("test", "lint"):
        return None
    while hasattr(command, "commands") and words and re.fullmatch(r"[a-z-]+", words[0]):
        command = command.commands.get(word := words.pop(0))
        if command is None:
            return word
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return next((word for word in words if word.startswith("--") and word.partition("=")[0] not in options), None)


def _parse(arguments: list[str]) -> None:
    """As the command line would, up to where it would begin to do something."""
    if set(arguments) in _LAUNCHERS:
        return
    command, name = _sekisho(), "sekisho"
    while True:
        context = command.make_context(name, arguments)
        if not hasattr(command, "resolve_command"):
            return
        found, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        name = str(found)
