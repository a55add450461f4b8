"""Settings from the environment (SEKISHO_*) over a YAML file over defaults. All faults are told at once.

Pure: `load` sees only the environment and the file it is given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gateway.settings.door import Settings, Source

ENV_PREFIX = "SEKISHO_"


class SettingsError(Exception):
    """`faults` has one line for each bad setting: its name, the value, what was expected."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def load(file: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from overrides (the command line) over `environ` over `file` over defaults. Raises SettingsError."""
    given: dict[Source, dict[str, Any]] = {
        "file": _from_file(file) if file else {},
        "environment": _from_environ(environ or {}),
        "flag": {name: value for name, value in overrides.items() if value is not None},
    }
    values = {name: value for part in given.values() for name, value in part.items()}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError([_fault(item) for item in error.errors()]) from None
    settings._sources = {name: source for source, part in given.items() for name in part}
    return settings


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsError([f"{file}: cannot be read ({error.strerror})"]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError([f"{file}: is not YAML ({str(error).splitlines()[0]})"]) from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SettingsError([f"{file}: expected lines of the form name: value"])
    return values


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    # Names that are not the door's are other parts' (the launcher's, the CLI's): not ours to refuse.
    found = {
        name: environ[ENV_PREFIX + name.upper()]
        for name in Settings.model_fields
        if ENV_PREFIX + name.upper() in environ
    }
    return {name: _parsed(name, value) for name, value in found.items()}


_TABLES = {
    "issuers": "a list of objects",
    "prices": "an object of objects",
    "backends": "a list of objects",
    "aliases": "an object of names",
    "token_weights": "an object of numbers",
} | dict.fromkeys(
    ("class_weights", "class_max_queue", "class_queue_timeout", "starvation_seconds"), "an object of class and number"
)
_LISTS = frozenset({"allowed_fields", "trusted_proxies", "trace_context_from", "record_prompts_of"})


def _parsed(name: str, value: str) -> Any:
    """A variable holds one string: lists are separated by commas, tables are JSON."""
    if name in _LISTS:
        return [part.strip() for part in value.split(",") if part.strip()]
    if name in _TABLES:
        try:
            return json.loads(value)
        except ValueError:
            raise SettingsError([f"{name}: expected JSON, {_TABLES[name]} (a settings file is easier)"]) from None
    return value


def _fault(item: Any) -> str:
    name = ".".join(str(part) for part in item["loc"])
    if not name:  # of settings that do not go together, which names them itself
        return str(item["msg"].removeprefix("Value error, "))
    secret = (
        name.startswith(("bootstrap_key", "engine_api_key", "open_webui_secret"))
        or "secret" in name.replace("client_secret_file", "")
        or name.endswith("api_key")
    )
    value = "(hidden)" if secret else _shown(item["input"])
    if item["type"] == "extra_forbidden":
        return f"{name}: {value} is not a setting; known are {', '.join(sorted(Settings.model_fields))}"
    return f"{name}: {value} cannot be used: {item['msg'].removeprefix('Value error, ')}"


def _shown(value: Any) -> str:
    """Without what may be a secret: the parts of an engine or a provider, and what stands before the host of a URL."""
    if isinstance(value, dict):
        return "what is given"
    if isinstance(value, str) and "@" in value:
        return repr(f"(hidden)@{value.rpartition('@')[2]}")
    return repr(value)
