"""What `sekisho up` tells once everything runs: the parts, the address, the key if it is new, and a line to paste."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from gateway.cli import probes
from gateway.cli.console import out, plain

_QUESTION = "Why is the sky blue? Answer in one sentence."


@dataclass(frozen=True)
class Facts:
    address: str
    model: str | None  # as the engine names it; None: another engine, which is not ours to ask
    key: str | None  # None: there are keys already
    bootstrapped: bool  # the environment sets the first key, so it is known to whoever set it
    data_dir: Path
    sign_in: str | None = None  # a link that signs the local admin in once; None: people come by a provider


def show(facts: Facts, rows: Sequence[tuple[str, int, Path]]) -> None:
    table = Table("part", "process", "log")
    for name, pid, log in rows:
        table.add_row(name, str(pid), str(log))
    out.print(table)
    plain(f"Sekisho listens on {facts.address}/v1 and keeps its data in {facts.data_dir}. Ctrl-C stops it.")
    plain("")
    for line in _key_lines(facts):
        plain(line)
    plain("")
    if facts.sign_in is not None:
        plain("Your browser signs in here, once, within ten minutes. For another link: ./sekisho sign-in")
        plain("")
        plain(f"  {facts.sign_in}")
        plain("")
    plain(curl_line(facts))


def curl_line(facts: Facts) -> str:
    question = {
        "model": facts.model or "MODEL",
        "messages": [{"role": "user", "content": _QUESTION}],
        "stream": True,
    }
    # Double quotes where the shell is to fill in the key, which this process does not know or must not show.
    variable = "SEKISHO_BOOTSTRAP_KEY" if facts.bootstrapped else "SEKISHO_KEY"
    key = facts.key or f"${variable}"
    return (
        f'curl -N {facts.address}/v1/chat/completions -H "Authorization: Bearer {key}" '
        f'-H "Content-Type: application/json" -d {shlex.quote(json.dumps(question))}'
    )


async def served_model(engine_socket: Path) -> str | None:
    answer: Any = (await probes.get("/v1/models", socket=engine_socket)).json()
    try:
        return str(answer["data"][0]["id"])
    except (TypeError, KeyError, IndexError):
        return None


def _key_lines(facts: Facts) -> list[str]:
    if facts.key is not None:
        return ["Your admin API key. It is shown this once and stored only as a hash:", "", f"  {facts.key}"]
    if facts.bootstrapped:
        return ["The admin API key is the one in SEKISHO_BOOTSTRAP_KEY."]
    return [
        "The first API key was shown when it was made. To make another: ./sekisho keys create NAME --admin",
        "The line below reads it from SEKISHO_KEY: export SEKISHO_KEY=sk-skh-...",
    ]
