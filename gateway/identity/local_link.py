"""The one-time link by which the operator of this machine signs in where no provider vouches for anybody."""

from __future__ import annotations

import hashlib
import secrets

from gateway.store import keys
from gateway.store.redis import Store

SECONDS = 600
PATH = "/auth/local"


async def make(store: Store, user_id: str) -> str:
    """The path with its token, which opens once within ten minutes and is stored only as a hash."""
    token = secrets.token_urlsafe(32)
    await store.command("SET", keys.link(_digest(token)), user_id, "EX", SECONDS)
    return f"{PATH}?token={token}"


async def redeem(store: Store, token: str) -> str | None:
    """Whom it signs in; None the second time."""
    user_id = await store.command("GETDEL", keys.link(_digest(token)))
    return None if user_id is None else str(user_id, "ascii")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
