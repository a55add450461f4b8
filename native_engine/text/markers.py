"""Texts that mark parts of an answer, as they come in pieces. Knows no style."""

from __future__ import annotations


def held_from(text: str, marker: str) -> int:
    """Where a tail of `text` begins that may yet become `marker`; the length of `text` where there is none."""
    longest = min(len(marker) - 1, len(text))
    return next((len(text) - size for size in range(longest, 0, -1) if text.endswith(marker[:size])), len(text))
