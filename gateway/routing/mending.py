"""What another try can mend, and how long an engine wants to be left alone. Knows no backend and no user."""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from backends.errors import BackendError, Rejected

# What an engine refuses for a reason of its own or of ours; anything else below 500 is wrong with the request.
_OURS = frozenset({401, 403, 404, 408, 429})
_BUSY = frozenset({429, 503})
_LONGEST_SECONDS = 3600.0


def mendable(error: BackendError, earlier: Sequence[BackendError] = ()) -> bool:
    """Whether another backend may well answer where this one failed, before anything was sent to the client.

    `earlier`: how the same request failed before. A 500 may be the engine's fault or the request's: if two engines say
    so it is the request's.
    """
    if not isinstance(error, Rejected):
        return True
    if error.status < 500 or error.status in _BUSY:
        return error.status in _OURS or error.status in _BUSY
    return not any(_is_fault(before) for before in earlier)


def _is_fault(error: BackendError) -> bool:
    return isinstance(error, Rejected) and error.status >= 500 and error.status not in _BUSY


def is_busy(error: Rejected) -> bool:
    """It has no room now: not a failure."""
    return error.status in _BUSY


def wanted_pause(retry_after: str | None) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date; at most an hour. None: there is none to be read."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except ValueError:
            return None
    return min(seconds, _LONGEST_SECONDS) if seconds > 0 else None
