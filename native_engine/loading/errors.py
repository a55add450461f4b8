"""The one error of this package; its message always names the file or model and says what to do."""

from __future__ import annotations


class ModelError(Exception):
    """A model cannot be found, fetched, trusted or read."""
