"""The contract of every credential scheme. Knows no scheme."""

from __future__ import annotations

from typing import Protocol

from gateway.scope import Principal, RequestScope


class Identifier(Protocol):
    """None without a credential of this scheme, the Principal for a good one, Unauthenticated raised for a bad one."""

    async def identify(self, request: RequestScope) -> Principal | None: ...
