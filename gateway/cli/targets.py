"""The servers that `verify` is pointed at: one a --ours, with what was said of each. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from gateway.cli import datadir
from gateway.cli.console import CliError
from gateway.cli.parts import Place

Value = TypeVar("Value")


class Target(NamedTuple):
    """engine: where its metrics and process are looked at. limit: of requests at once in it."""

    url: str
    model: str | None
    api_key: str | None
    engine: str
    limit: int


def targets_of(
    urls: Sequence[str],
    *,
    models: Sequence[str],
    api_keys: Sequence[str],
    engines: Sequence[str],
    limits: Sequence[int],
    default_limit: int,
    data_dir: Path,
) -> list[Target]:
    """Each list holds nothing, one value for all, or one for each; keys are never sent to another than their own.
    Raises CliError."""
    number = len(urls)
    if len(api_keys) > number:
        raise CliError(f"--api-key is given {len(api_keys)} times: expected at most once for each --ours", 2)
    keys: list[str | None] = [*api_keys, *[None] * (number - len(api_keys))]
    behind: list[str] = _each("--engine", engines, number) or [_engine_behind(url, data_dir) for url in urls]
    named: list[str | None] = [*_each("--model", models, number)] or [None] * number
    limited = _each("--limit", limits, number) or [default_limit] * number
    return [Target(*one) for one in zip(urls, named, keys, behind, limited, strict=True)]


def _each(flag: str, values: Sequence[Value], number: int) -> list[Value]:
    if len(values) not in (0, 1, number):
        raise CliError(f"{flag} is given {len(values)} times: expected once for all, or once for each --ours", 2)
    return list(values) * number if len(values) == 1 else list(values)


def _engine_behind(url: str, data_dir: Path) -> str:
    """That of `sekisho up`, where `url` is its door; else what listens at `url` is the engine itself."""
    place = Place(data_dir, datadir.socket_dir(data_dir))
    try:
        is_door = place.address_file.read_text("utf-8").strip() == url.rstrip("/").removesuffix("/v1")
    except OSError:
        return url
    return f"unix:{place.engine_socket}" if is_door and place.engine_socket.exists() else url
