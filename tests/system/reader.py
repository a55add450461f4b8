"""A reader who does what a document says, from its beginning to its end: one shell, one Python, one folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.guides import Snippet
from tests.house.tree import ROOT
from tests.system.driving import COMMAND, eventually

_SECONDS = 300


class Reader:
    """`folder` becomes what a clone looks like; what is written there is not written into ours.

    `stands_for` is what a document says for what only the reader knows, and what it is here.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], stands_for: Mapping[str, str]) -> None:
        self._folder, self._stands_for = folder, stands_for
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._shown: str | None = None  # by the block before; None: that was not run
        for entry in ROOT.iterdir():
            if entry.name not in ("sekisho", ".git"):
                (folder / entry.name).symlink_to(entry)
        launcher = folder / "sekisho"
        launcher.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n', "utf-8")
        launcher.chmod(0o755)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            cwd=folder,
            env={**environment, "PATH": path},
            start_new_session=True,
        )

    def follow(self, snippet: Snippet) -> None:
        text = snippet.text
        for said, here in self._stands_for.items():
            text = text.replace(said, here)
        if snippet.file:
            (self._folder / snippet.file).write_text(text, "utf-8")
        elif snippet.mark:
            self._shown = None
        elif snippet.language == "sh":
            self._in_shell(snippet.place, text)
        elif snippet.language == "python":
            self._in_python(snippet, text)
        elif snippet.language == "text" and self._shown is not None:
            _compare(snippet, self._shown)

    def close(self) -> None:
        """What it left running in the background ends with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGTERM)
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()

    def _in_shell(self, place: str, text: str) -> None:
        script, shown, done = (self._folder / name for name in ("block.sh", "shown", "done"))
        script.write_text(text, "utf-8")
        done.unlink(missing_ok=True)
        told = (
            f"set -euo pipefail; source {script} >{shown} 2>&1 </dev/null; set +eu\n"
            f"env -0 >{done}.new; mv {done}.new {done}\n"
        )
        assert self._shell.stdin is not None
        self._shell.stdin.write(told.encode())
        self._shell.stdin.flush()
        eventually(
            done.exists, _SECONDS, lambda: f"{place} went wrong:\n{shown.read_text('utf-8', 'replace')}", self._shell
        )
        self._shown = shown.read_text("utf-8", "replace")

    def _in_python(self, snippet: Snippet, text: str) -> None:
        """Line numbers of what goes wrong are the document's."""
        shown, before = io.StringIO(), dict(os.environ)
        code = compile("\n" * (snippet.line - 1) + text, str(snippet.document), "exec")
        os.environ.update(self._exported())
        try:
            with contextlib.redirect_stdout(shown), contextlib.chdir(self._folder):
                exec(code, self._names)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self._shown = shown.getvalue()

    def _exported(self) -> dict[str, str]:
        done = self._folder / "done"
        entries = done.read_text("utf-8").split("\0") if done.exists() else []
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _compare(snippet: Snippet, came: str) -> None:
    """Each line that the document shows came, in that order. Numbers may be others, but none where there is one, and a
    table may be wider."""
    text, at = _plain(came), 0
    for line in filter(None, map(_plain, snippet.text.splitlines())):
        pattern = ".*".join(map(re.escape, line.split("...")))
        found = re.compile(pattern).search(text, at)
        assert found, f"{snippet.place} shows {line!r}, which did not come:\n{came}"
        at = found.end()


def _plain(text: str) -> str:
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    text = re.sub(r"\d+(\.\d+)?", lambda number: "0" if number[0] == "0" else "#", re.sub(r"[─━┄╌]+", "─", text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines())
