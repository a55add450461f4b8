"""Slows down whoever guesses credentials, address by address, in this worker's memory alone. Knows no scheme.

Who was let in from an address lately goes on being let in: an office behind one address is not locked out by one of its
machines.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from gateway.errors import TooManyFailures
from gateway.scope import RequestScope

_WINDOW_SECONDS = 60.0
_REMEMBER_SECONDS = 3600.0
_ADDRESSES = 10_000
_CREDENTIALS = 20_000


class Throttle:
    def __init__(self, failures_per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = failures_per_minute
        self._now = now
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()  # address > start of its minute, how many
        self._good: OrderedDict[bytes, float] = OrderedDict()  # address and credential, hashed > when last let in

    def check(self, request: RequestScope) -> None:
        """Raises TooManyFailures where the address has used up its minute and the credential is a new one."""
        if not self._failures:
            return
        started, failures = self._failures.get(_place(request.client), (0.0, 0))
        left = started + _WINDOW_SECONDS - self._now()
        if failures < self._limit or left <= 0:
            return
        if self._good.get(_fingerprint(request), -_REMEMBER_SECONDS) + _REMEMBER_SECONDS > self._now():
            return
        error = TooManyFailures("Too many bad credentials came from your address. Wait a moment, then send a good one.")
        error.retry_after = int(left) + 1
        raise error

    def note_good(self, request: RequestScope) -> None:
        fingerprint = _fingerprint(request)
        self._good[fingerprint] = self._now()
        self._good.move_to_end(fingerprint)
        if len(self._good) > _CREDENTIALS:
            self._good.popitem(last=False)

    def note_bad(self, request: RequestScope) -> None:
        self._good.pop(_fingerprint(request), None)
        place, now = _place(request.client), self._now()
        started, failures = self._failures.get(place, (now, 0))
        if started + _WINDOW_SECONDS <= now:
            started, failures = now, 0
        self._failures[place] = (started, failures + 1)
        self._failures.move_to_end(place)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)


def _place(address: str) -> str:
    """An IPv6 network of /64 counts as one address: it is what one customer gets."""
    if ":" not in address:
        return address
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return str(int(found) >> 64) if isinstance(found, IPv6Address) and not found.ipv4_mapped else address


def _fingerprint(request: RequestScope) -> bytes:
    """Only a hash is kept: a memory of credentials would be worth stealing."""
    headers = request.headers
    credential = headers.get(b"authorization") or headers.get(b"cookie", b"")
    return hashlib.sha256(_place(request.client).encode() + b"\0" + credential).digest()
