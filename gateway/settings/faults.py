"""What is wrong with a setting, in words: its name, its value unless that may be a secret, what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel

from gateway.settings.door import Settings
from gateway.settings.engines import BackendSettings
from gateway.settings.issuers import Issuer
from gateway.settings.shares import Price, TokenWeights

_BELOW: dict[str, type[BaseModel]] = {
    "backends": BackendSettings,
    "issuers": Issuer,
    "prices": Price,
    "token_weights": TokenWeights,
}


class Fault(NamedTuple):
    """place: file and line, where it is known."""

    setting: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, self.setting, self.text)))


class SettingsError(Exception):
    """All faults at once."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(map(str, self.faults)))


def fault_of(error: Any) -> Fault:
    """Of one of pydantic's `errors()`."""
    path, message = error["loc"], error["msg"].removeprefix("Value error, ")
    if not path:  # of settings that do not go together, which names them itself
        setting, _, text = message.partition(": ")
        return Fault(setting, text)
    name = ".".join(map(str, path))
    if error["type"] == "extra_forbidden":  # whose value may be a secret under a misspelt name
        return Fault(name, f"is not a setting; {_meant(path)}")
    if error["type"] == "missing":
        return Fault(name, "is missing")
    return Fault(name, f"{_value(name, error['input'])}cannot be used: {message}")


def near(name: str, known: Iterable[str]) -> str | None:
    """What somebody will have meant by `name`."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.7)), None)


def _meant(path: Sequence[str | int]) -> str:
    model = Settings if len(path) == 1 else _BELOW.get(str(path[0]), Settings)
    if (meant := near(str(path[-1]), model.model_fields)) is not None:
        return f"did you mean {meant}?"
    return f"known are {', '.join(sorted(model.model_fields))}"


def _value(name: str, given: Any) -> str:
    """Without what may be a secret: all of a table, and what stands before the host of an address."""
    if isinstance(given, dict | list | tuple):
        return ""
    last = name.rpartition(".")[2]
    if (
        last in ("bootstrap_key", "engine_api_key", "api_key", "client_secret", "open_webui_secret")
        or "password" in last
    ):
        return "(hidden) "
    if isinstance(given, str) and "@" in given:
        given = f"(hidden)@{given.rpartition('@')[2]}"
    return f"{given!r} "
