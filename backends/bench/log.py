"""A JSONL of requests, of anyone's: what is asked, how long the answer may be, and when it was asked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from backends.bench.config import BenchError


class Line(msgspec.Struct):
    """One request. Exactly one of `prompt`, `messages` and `input_tokens`: a log without texts has lengths."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    input_tokens: int | None = None
    max_tokens: int | None = None
    output_tokens: int | None = None  # the same, as vLLM's custom datasets name it
    timestamp: float | str | None = None  # seconds, or ISO 8601
    at: float | None = None  # seconds after the first of the log, made of it


def read_log(path: str) -> list[Line]:
    """The requests, in the order of their timestamps where all have one. BenchError names file and line."""
    try:
        rows = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise BenchError(f"dataset_path is {path!r}: {error.strerror}") from error
    lines = [_line(row, f"{path}, line {number}") for number, row in enumerate(rows, 1) if row.strip()]
    if not lines:
        raise BenchError(f"{path} holds no request")
    return _in_time(lines) if all(line.at is not None for line in lines) else lines


def _in_time(lines: list[Line]) -> list[Line]:
    first = min(line.at or 0.0 for line in lines)
    for line in lines:
        line.at = (line.at or 0.0) - first
    return sorted(lines, key=lambda line: line.at or 0.0)


def _line(row: bytes, place: str) -> Line:
    try:
        line = msgspec.json.decode(row, type=Line)
        line.at = _seconds(line.timestamp)
    except (msgspec.DecodeError, ValueError) as error:
        raise BenchError(f"{place}: {error}") from error
    if sum(asked is not None for asked in (line.prompt, line.messages, line.input_tokens)) != 1:
        raise BenchError(f"{place}: expected one of prompt, messages and input_tokens")
    lengths = (line.input_tokens, line.max_tokens, line.output_tokens)
    if any(length is not None and length < 1 for length in lengths) or line.messages == []:
        raise BenchError(f"{place}: expected lengths of at least 1 token, and messages that are not empty")
    return line


def _seconds(timestamp: float | str | None) -> float | None:
    return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else timestamp
