"""The secret of this installation, in the data folder: API keys are hashed with it, refresh tokens sealed.

Every gateway and command line of one Redis must have the same one; Redis knows its fingerprint.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path

from gateway.store import keys
from gateway.store.redis import Store

_LENGTH = 32


class WrongServerKey(Exception):
    """What this Redis holds was made with another server.key."""


def load_server_key(data_dir: Path) -> bytes:
    """Made at first use, readable by this user alone."""
    path = data_dir / "server.key"
    data_dir.mkdir(parents=True, exist_ok=True)
    try:
        # O_EXCL: of two processes that start at once one writes, the other reads.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(_LENGTH))
    return _read(path)


def fingerprint_of(server_key: bytes) -> bytes:
    """What Redis knows of it."""
    return hmac.new(server_key, b"fingerprint", hashlib.sha256).hexdigest().encode()


async def check_server_key(store: Store, server_key: bytes, data_dir: Path) -> None:
    """Raises WrongServerKey before keys are made that open nothing, and StoreAway. The first to come decides."""
    mine = fingerprint_of(server_key)
    known = await store.command("SET", keys.SERVER_KEY, mine, "NX", "GET")
    if known is not None and not hmac.compare_digest(known, mine):
        raise WrongServerKey(
            f"data_dir: {data_dir / 'server.key'} is not the key that the API keys in this Redis were made with. "
            "Copy server.key from the gateway's data folder, or name that folder."
        )


def _read(path: Path) -> bytes:
    for _ in range(50):
        if len(key := path.read_bytes()) == _LENGTH:
            return key
        time.sleep(0.02)  # the other process is still writing
    raise RuntimeError(f"{path} should hold {_LENGTH} bytes; restore it, or remove it and make all API keys anew")
