"""Settings from the environment (SEKISHO_*) over a YAML file over defaults. All faults are told at once.

Pure: `load` sees only the environment and the file it is given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gateway.settings.door import Settings, Source
from gateway.settings.faults import Fault, SettingsError, fault_of
from gateway.settings.yaml_file import Loader, line_of

ENV_PREFIX = "SEKISHO_"


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
        held = given["file"].keys() - given["environment"].keys() - given["flag"].keys()
        raise SettingsError(_placed(fault_of(each), file, held) for each in error.errors()) from None
    settings._sources = {name: source for source, part in given.items() for name in part}
    return settings


def _placed(fault: Fault, file: Path | None, held: Set[str]) -> Fault:
    """With file and line, where it is the file's value that is meant."""
    path = [int(part) if part.isdecimal() else part for part in fault.setting.split(".")]
    if file is None or path[0] not in held:
        return fault
    line = line_of(file.read_text("utf-8"), path)
    return fault._replace(place=f"{file}:{line}" if line else str(file))


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = yaml.load(file.read_text("utf-8"), Loader=Loader)
    except OSError as error:
        raise SettingsError([Fault("", f"cannot be read ({error.strerror})", str(file))]) from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError([Fault("", f"is not YAML ({error.problem})", f"{file}{line}")]) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError([Fault("", f"is not YAML ({type(error).__name__})", str(file))]) from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SettingsError([Fault("", "expected lines of the form name: value", str(file))])
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
            expected = f"expected JSON, {_TABLES[name]} (a settings file is easier)"
            raise SettingsError([Fault(name, expected)]) from None
    return value
