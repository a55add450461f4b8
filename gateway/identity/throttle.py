"""Slows down whoever guesses credentials, address by address, in this worker's memory alone.

Different bad credentials count against their address, and one that is shown again and again only against itself: a
program with a stale key locks nobody out. Nor is anyone locked out whose credential was good there lately.
"""

from __future__ import annotations

import hashlib
import re
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
_API_KEY = re.compile(rb"bearer +sk-skh-", re.IGNORECASE)


class Minutes:
    """Counts what happens in the minute from its first time on. The oldest are forgotten when there are too many."""

    def __init__(self, limit: int, capacity: int) -> None:
        self._limit = limit
        self._capacity = capacity
        self._counts: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, name: bytes, now: float) -> int:
        started, count = self._counts.get(name, (now, 0))
        if started + _WINDOW_SECONDS <= now:
            started, count = now, 0
        self._counts[name] = (started, count + 1)
        self._counts.move_to_end(name)
        if len(self._counts) > self._capacity:
            self._counts.popitem(last=False)
        return count + 1

    def left(self, name: bytes, now: float) -> float:
        """Seconds until the limit is out of sight again; nothing if it was not reached."""
        started, count = self._counts.get(name, (now, 0))
        return max(0.0, started + _WINDOW_SECONDS - now) if count >= self._limit else 0.0


class Throttle:
    def __init__(self, failures_per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._places = Minutes(failures_per_minute, _ADDRESSES)
        self._bad = Minutes(failures_per_minute, _CREDENTIALS)
        self._good: OrderedDict[bytes, float] = OrderedDict()  # when last let in

    def check(self, request: RequestScope) -> None:
        """Raises TooManyFailures where the minute is used up and the credential was not good here lately."""
        if not self._bad:
            return
        place, credential, now = _place(request), _fingerprint(request), self._now()
        left = max(self._places.left(place, now), self._bad.left(credential, now))
        if not left or self._good.get(credential, -_REMEMBER_SECONDS) + _REMEMBER_SECONDS > now:
            return
        error = TooManyFailures("Too many bad credentials came from your address. Wait a moment, then send a good one.")
        error.retry_after = int(left) + 1
        raise error

    def note_good(self, request: RequestScope) -> None:
        credential = _fingerprint(request)
        self._good[credential] = self._now()
        self._good.move_to_end(credential)
        if len(self._good) > _CREDENTIALS:
            self._good.popitem(last=False)

    def note_bad(self, request: RequestScope) -> None:
        credential, now = _fingerprint(request), self._now()
        self._good.pop(credential, None)
        if self._bad.add(credential, now) == 1:
            self._places.add(_place(request), now)


def _place(request: RequestScope) -> bytes:
    """The address and the kind of credential: whoever guesses keys does not keep people from signing in."""
    authorization = request.headers.get(b"authorization", b"")
    kind = b"key" if _API_KEY.match(authorization) else b"token" if authorization else b"cookie"
    return kind + network_of(request.client).encode()


def network_of(address: str) -> str:
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
    return hashlib.sha256(network_of(request.client).encode() + b"\0" + credential).digest()
