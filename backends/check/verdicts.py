"""How a check ends where it does not end well. Knows no check."""

from __future__ import annotations


class Failed(Exception):
    """The engine did otherwise than its adapter promises; the message says what was seen."""


class Unsupported(Exception):
    """It cannot do this and says so, or does not tell what would have to be known."""
