"""What must come back but may not be read where it lies, such as refresh tokens. Knows nothing of what it seals."""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES = 12


class Sealer:
    """AES-256-GCM under a key that is derived from the server's and serves one `purpose` alone."""

    def __init__(self, server_key: bytes, purpose: str) -> None:
        derived = HKDF(SHA256(), 32, salt=None, info=f"sekisho: {purpose}".encode()).derive(server_key)
        self._cipher = AESGCM(derived)

    def seal(self, plain: bytes, place: str) -> str:
        """Opens again only for the same `place`: what is moved to another record is worth nothing there."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, plain, place.encode())).decode()

    def open(self, sealed: str, place: str) -> bytes | None:
        """None where it was sealed elsewhere, under another key, or changed since."""
        try:
            data = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            return None
