"""What is changed in an engine's events on their way, where anything is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

# An event as the client is to get it; None: not at all. Raises Broken where the event cannot be used.
Edit = Callable[[bytes], bytes | None]


def renamed(engine: str, public: str) -> Edit | None:
    """Has `model` say the name that users know it by; None where the engine calls it so too.

    A model's own text cannot be mistaken for the field: quotation marks inside a string are escaped.
    """
    if engine == public:
        return None
    theirs, ours = msgspec.json.encode(engine), msgspec.json.encode(public)
    close, spaced, wanted = b'"model":' + theirs, b'"model": ' + theirs, b'"model":' + ours

    def edit(event: bytes) -> bytes:
        return event.replace(close, wanted).replace(spaced, wanted)

    return edit
