"""The token in `Authorization: Bearer …` (RFC 6750), as far as it can be one at all. Knows no kind of token."""

from __future__ import annotations

import re

from gateway.errors import Unauthenticated
from gateway.scope import RequestScope

# b64token of RFC 6750: nothing else is ever looked up, hashed or logged.
_TOKEN = re.compile(rb"[A-Za-z0-9\-._~+/]+=*")
_LONGEST = 16 * 1024


def token(request: RequestScope) -> str | None:
    """None without the header or with another scheme. Raises Unauthenticated where it cannot be a token."""
    value = request.headers.get(b"authorization")
    if value is None:
        return None
    if b"authorization" in request.repeated:
        raise Unauthenticated("There are several Authorization headers. Send one.", code="invalid_authorization")
    scheme, _, found = value.partition(b" ")
    found = found.strip()
    if scheme.lower() != b"bearer" or not found:
        return None
    if len(found) > _LONGEST:
        raise Unauthenticated(
            f"Your token has {len(found)} bytes; at most {_LONGEST} are taken. Ask an administrator to limit claims.",
            code="token_too_long",
        )
    if not _TOKEN.fullmatch(found):
        raise Unauthenticated(
            "The Authorization header holds no token. Send: Authorization: Bearer YOUR_KEY.",
            code="invalid_authorization",
        )
    return found.decode("ascii")
