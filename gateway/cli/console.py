"""Where the CLI speaks: results to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class CliError(Exception):
    """A fault that the person at the terminal can mend. Told as one message, never as a traceback."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def plain(text: str) -> None:
    """A line to be copied: never wrapped, coloured or read as markup."""
    out.print(text, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """A line about what goes on."""
    err.print(text, markup=False, soft_wrap=True)
