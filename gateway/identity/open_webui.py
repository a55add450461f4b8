"""The person whom an Open WebUI forwards: the JWT it signs with a secret that it shares with the door.

Its unsigned headers are worth nothing, and its roles are its own. Knows no key.
"""

from __future__ import annotations

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import OctKey

from gateway.errors import Unauthenticated
from gateway.identity.behalf import is_name, opaque
from gateway.scope import Principal, RequestScope

HEADER = b"x-openwebui-user-jwt"
_LONGEST = 8192
_LEEWAY_SECONDS = 60
_WHOLE = jwt.JWTClaimsRegistry(
    leeway=_LEEWAY_SECONDS,
    iss={"essential": True, "value": "open-webui"},
    sub={"essential": True},
    exp={"essential": True},
)


class OpenWebUI:
    def __init__(self, secret: str | None) -> None:
        self._key = OctKey.import_key(secret) if secret else None

    def forwarded(self, request: RequestScope, service: Principal) -> Principal:
        """The forwarded person, or the service itself where it forwards none. Raises Unauthenticated."""
        if (token := request.headers.get(HEADER)) is None:
            return service
        if self._key is None:
            raise _bad("this gateway has no setting open_webui_secret to check it with")
        if HEADER in request.repeated:
            raise _bad("it came more than once")
        claims = _claims(token, self._key)
        subject, name = claims["sub"], claims.get("name")
        if not is_name(subject):
            raise _bad("its sub is not a name")
        return opaque(service, subject, name if isinstance(name, str) and is_name(name) else subject)


def _claims(token: bytes, key: OctKey) -> jwt.Claims:
    if len(token) > _LONGEST:
        raise _bad("it is too long")
    try:
        claims = jwt.decode(token, key, algorithms=["HS256"]).claims
        _WHOLE.validate(claims)
    except ExpiredTokenError:
        raise _bad("it has expired") from None
    except (JoseError, ValueError, TypeError, RecursionError):
        raise _bad("it is not one of Open WebUI's, or its secret is another one than open_webui_secret here") from None
    return claims


def _bad(why: str) -> Unauthenticated:
    return Unauthenticated(f"X-OpenWebUI-User-Jwt cannot be believed: {why}.", code="invalid_forwarded_user")
