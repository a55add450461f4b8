"""Recordings of real engines, as lists of exchanges. Knows no socket.

They lie in tests/data/recordings/<engine>-<version>/NN-<name>.json, one exchange or one scenario each. Every answer
among the `observations` of a scenario is an exchange, at a moment that a test has to name: loading, without a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parents[2] / "data" / "recordings"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. `pieces` are the transfer chunks as they came, or the whole body as the one piece."""

    name: str
    method: str
    path: str
    asked: Mapping[str, Any]  # the fields of the request's body; empty where it had none
    status_line: str
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[bytes, ...] = field(default=(), repr=False)
    chunked: bool = False
    of_scenario: bool = False

    @property
    def status(self) -> int:
        return int(self.status_line.split(" ")[1])

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


@cache
def exchanges(engine: str) -> tuple[Exchange, ...]:
    """All that is recorded of `engine` (llamacpp, ollama, sglang, vllm), in the order of their names."""
    files = sorted(FOLDER.glob(f"{engine}-*/*.json"))
    return tuple(exchange for file in files for exchange in _read(file.stem, msgspec.json.decode(file.read_bytes())))


def exchange(engine: str, name: str) -> Exchange:
    return next(one for one in exchanges(engine) if one.name == name)


def _read(name: str, recording: dict[str, Any]) -> list[Exchange]:
    request, response = recording["request"], recording["response"]
    if "status" in response:
        body = request.get("body")
        asked = body if isinstance(body, dict) else {}
        return [_exchange(name, request["method"], request["path"], asked, response)]
    seen = [one | {"status": one.get("result", one.get("status"))} for one in response.get("observations", ())]
    answered = [one for one in seen if isinstance(one["status"], int)]
    return [
        replace(_exchange(name, one.get("method", "GET"), one["path"], {}, one), of_scenario=True) for one in answered
    ]


def _exchange(name: str, method: str, path: str, asked: dict[str, Any], response: dict[str, Any]) -> Exchange:
    chunks = response.get("chunks")
    texts = [response.get("body", "")] if chunks is None else [text for _, text in chunks]
    return Exchange(
        name,
        method,
        path,
        asked,
        response.get("status_line", f"HTTP/1.1 {response['status']} X"),
        tuple((key, value) for key, value in response.get("headers", ())),
        tuple(text.encode() for text in texts),
        chunked=chunks is not None,
    )
