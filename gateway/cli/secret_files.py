"""Secrets out of files: SEKISHO_<NAME>_FILE names the file that holds what SEKISHO_<NAME> would say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gateway.cli.console import CliError

_VARIABLE = re.compile(r"(SEKISHO_[A-Z_]+)_FILE")
_LARGEST = 65_536


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What the files hold, by the variables that they stand for. Raises CliError."""
    named = {found[1]: Path(value) for name, value in environ.items() if value and (found := _VARIABLE.fullmatch(name))}
    for variable in named:
        if variable in environ:
            raise CliError(f"{variable} and {variable}_FILE are both set; expected one of them.", exit_code=2)
    return {variable: _content(variable, path) for variable, path in named.items()}


def _content(variable: str, path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            found = file.read(_LARGEST).strip()
    except (OSError, UnicodeDecodeError) as fault:
        why = getattr(fault, "strerror", None) or "it is not text"
        raise CliError(f"{variable}_FILE is {str(path)!r}, which cannot be read ({why}).", exit_code=2) from fault
    if not found:
        raise CliError(f"{variable}_FILE is {str(path)!r}, which is empty; expected the value itself.", exit_code=2)
    return found
