"""Writes the dashboards that Grafana reads: python -m deploy.grafana.write, after a change of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.grafana.boards import BOARDS

_WIDTH = 120  # what fits a line stands on one
FOLDER = Path(__file__).resolve().parent / "dashboards"


def files() -> Iterator[tuple[Path, str]]:
    """Every dashboard's file and what is to stand in it."""
    for board in BOARDS:
        yield FOLDER / f"{board.name}.json", f"{_text(board.to_json())}\n"


def _text(value: Any, depth: int = 0) -> str:
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + depth <= _WIDTH or not isinstance(value, dict | list):
        return short
    brackets, inside = "[]", [_text(item, depth + 1) for item in value]
    if isinstance(value, dict):
        brackets, inside = "{}", [f"{json.dumps(name)}: {_text(item, depth + 1)}" for name, item in value.items()]
    indent = "\n" + " " * depth
    return f"{brackets[0]}{indent} {f',{indent} '.join(inside)}{indent}{brackets[1]}"


if __name__ == "__main__":
    for path, text in files():
        path.write_text(text, "utf-8")
