"""How deeply a JSON body is nested, told from its bytes before any decoder recurses into it."""

from __future__ import annotations

from itertools import accumulate

MAX_DEPTH = 64

_UP, _DOWN = 1, 255  # as signed bytes: +1 and -1
_STEPS = bytes.maketrans(b"[{]}", bytes((_UP, _UP, _DOWN, _DOWN)))
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))


def is_deeper_than(body: bytes, limit: int = MAX_DEPTH) -> bool:
    """Brackets inside strings do not count. Linear, with no work per character: bodies have megabytes of text."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    structure = unescaped.translate(_STEPS, _NO_STRUCTURE).replace(b'""', b"")
    outside_strings = b"".join(structure.split(b'"')[::2])
    depths = accumulate(memoryview(outside_strings).cast("b"))
    return next(filter(limit.__lt__, depths), None) is not None
