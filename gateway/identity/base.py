"""The contract of every credential scheme. Knows no scheme."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.scope import Principal


class Identifier(Protocol):
    """None without a credential of this scheme, the Principal for a good one, Unauthenticated raised for a bad one."""

    async def identify(self, headers: Mapping[bytes, bytes]) -> Principal | None: ...
