"""Is this token good? Signature and claims of access, ID and logout tokens. Knows neither people nor HTTP.

Every check that fails is Unauthenticated; ProviderAway where nobody can say now.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Collection
from typing import Any, TypedDict, cast

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from gateway.errors import Unauthenticated
from gateway.identity.oidc.key_set import UnknownKey
from gateway.identity.oidc.provider import Provider

Clock = Callable[[], float]

_ACCESS_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_ID_TYPES = frozenset({"jwt"})
_LOGOUT_TYPES = frozenset({"jwt", "logout+jwt", "application/logout+jwt"})
_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_LONGEST_SUBJECT = 255
_LATEST = 1e12  # no number that arithmetic chokes on is a time
_LOGOUT_SECONDS = 600  # how old a logout token without an expiry may be


class Claims(TypedDict, total=False):
    """What every verified token says; whatever else it says is there too."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    iat: float
    azp: str
    sid: str
    nonce: str
    name: str
    email: str


class LogoutClaims(TypedDict, total=False):
    """At least one of sub and sid is there."""

    iss: str
    sub: str
    sid: str
    jti: str
    iat: float
    exp: float


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    typ: str | None = None
    crit: Any = None


class _Registry(JWSRegistry):
    """Takes what the issuer's settings take and nothing else; extra headers are ignored, as RFC 7515 has it."""

    max_header_length = 8192  # some send the certificate's chain along
    max_payload_length = 1024 * 1024  # who has too many groups should hear just that

    def __init__(self, allowed: Collection[str]) -> None:
        super().__init__(algorithms=allowed, strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        if not self.allowed or name not in self.allowed:
            raise JoseError("algorithm is not allowed")
        return self.algorithms[name]


def unverified_issuer(token: str) -> str | None:
    """Whom the token names as its issuer. None: it is no JWT, so no provider's that could be checked here."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        msgspec.json.decode(_decoded(parts[0]), type=_Header)
        claims = msgspec.json.decode(_decoded(parts[1]))
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else ""


async def verify_access(provider: Provider, token: str, now: Clock = time.time) -> Claims:
    """A bearer token for this gateway. An ID token for it passes too: some providers' access tokens are opaque."""
    claims = await _signed(provider, token, _ACCESS_TYPES)
    _check_person(provider, claims, now())
    _check_audience(provider, claims)
    _check_party(provider, claims)
    if "cnf" in claims:
        raise _refused("This token is bound to a key of its holder. Send one that is not (no DPoP, no mutual TLS).")
    return cast(Claims, claims)


async def verify_id(provider: Provider, token: str, nonce: str | None, now: Clock = time.time) -> Claims:
    """The ID token of a sign-in with this nonce; None for one that came with a refreshed token."""
    claims = await _signed(provider, token, _ID_TYPES)
    _check_person(provider, claims, now())
    client_id = provider.settings.client_id
    if client_id not in _audience(claims):
        raise _refused("This ID token is for another client.", code="token_wrong_audience")
    if (len(_audience(claims)) > 1 or "azp" in claims) and claims.get("azp") != client_id:
        raise _refused("This ID token was issued to another client.", code="token_wrong_audience")
    if "iat" not in claims:
        raise _refused("This ID token does not say when it was issued.")
    said = claims.get("nonce")
    if nonce is not None and not (isinstance(said, str) and hmac.compare_digest(said.encode(), nonce.encode())):
        raise _refused("This ID token belongs to another sign-in. Sign in again.", code="token_wrong_nonce")
    return cast(Claims, claims)


async def verify_logout(provider: Provider, token: str, now: Clock = time.time) -> LogoutClaims:
    """OpenID Back-Channel Logout 1.0, 2.6. That a jti comes only once is the caller's to see to."""
    claims = await _signed(provider, token, _LOGOUT_TYPES)
    _check_issuer_and_times(provider, claims, now())
    if provider.settings.client_id not in _audience(claims):
        raise _refused("This logout token is for another client.", code="token_wrong_audience")
    if not _is_logout(claims) or "nonce" in claims:
        raise _refused("This is no logout token.")
    if "iat" not in claims or not _is_text(claims.get("jti")):
        raise _refused("A logout token needs iat and jti.")
    if "exp" not in claims and claims["iat"] < now() - _LOGOUT_SECONDS - provider.settings.leeway_seconds:
        raise _refused("This logout token has expired.", code="token_expired")
    named = [name for name in ("sub", "sid") if name in claims]
    if not named or not all(_is_text(claims[name]) for name in named):
        raise _refused("A logout token needs sub or sid.")
    return cast(LogoutClaims, claims)


async def _signed(provider: Provider, token: str, types: Collection[str]) -> dict[str, Any]:
    """The claims, once the signature is known to be good. Keys that a header brings along are never looked at."""
    header = _header(token)
    if header.alg not in provider.algorithms:
        raise _refused(f"Tokens signed with {header.alg[:20]!r} are not taken.")
    if header.crit is not None:
        raise _refused("This token has critical extensions, of which none is known here.")
    if header.typ is not None and header.typ.lower() not in types:
        raise _refused(f"A token of the type {header.typ[:40]!r} does not belong here.")
    try:
        key = await provider.key(header.kid, header.alg)
        payload = jws.deserialize_compact(token, key, registry=_Registry(provider.algorithms)).payload or b""
        claims = msgspec.json.decode(payload)
    except UnknownKey:
        raise _refused("This token is signed with a key that its provider does not publish.") from None
    except (JoseError, ValueError, TypeError, msgspec.MsgspecError, RecursionError):
        raise _refused("The signature of this token is not its provider's.") from None
    if not isinstance(claims, dict):
        raise _refused("This token holds no claims.")
    return claims


def _header(token: str) -> _Header:
    try:
        return msgspec.json.decode(_decoded(token.partition(".")[0]), type=_Header)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise _refused("This is not a JSON Web Token.") from None


def _check_person(provider: Provider, claims: dict[str, Any], now: float) -> None:
    """What access and ID tokens have in common."""
    _check_issuer_and_times(provider, claims, now)
    if "exp" not in claims:
        raise _refused("This token never expires; it needs an exp.")
    if not _is_text(claims.get("sub")):
        raise _refused(f"The subject of a token is 1 to {_LONGEST_SUBJECT} printable characters.")
    if _is_logout(claims):
        raise _refused("A logout token lets nobody in.")


def _check_issuer_and_times(provider: Provider, claims: dict[str, Any], now: float) -> None:
    if claims.get("iss") != provider.issuer:
        raise _refused("This token comes from another issuer.", code="token_wrong_issuer")
    for name in ("exp", "nbf", "iat"):
        if name in claims and not _is_time(claims[name]):
            raise _refused(f"The claim {name} of this token is not a time.")
    leeway = provider.settings.leeway_seconds
    if "exp" in claims and claims["exp"] <= now - leeway:
        raise _refused("This token has expired. Get a new one from your identity provider.", code="token_expired")
    if claims.get("nbf", 0) > now + leeway:
        raise _refused("This token is not valid yet. Are the clocks right?", code="token_not_yet_valid")
    if claims.get("iat", 0) > now + leeway:
        raise _refused("This token was issued in the future. Are the clocks right?", code="token_not_yet_valid")


def _check_audience(provider: Provider, claims: dict[str, Any]) -> None:
    wanted = {provider.settings.client_id, *provider.settings.audiences}
    if not wanted & _audience(claims):
        raise _refused(
            "This token is meant for another service: its `aud` is none that this gateway takes.",
            code="token_wrong_audience",
        )


def _check_party(provider: Provider, claims: dict[str, Any]) -> None:
    """Who asked for the token (`azp`; `client_id` in RFC 9068, `appid` at Entra)."""
    said = next((claims[name] for name in ("azp", "client_id", "appid") if name in claims), None)
    taken = provider.settings.authorized_parties
    ours_alone = _audience(claims) <= {provider.settings.client_id, *provider.settings.audiences}
    is_good = said in taken if taken else said == provider.settings.client_id or ours_alone
    if not is_good:
        raise _refused(
            "This token was issued to an application that may not call this gateway.", code="token_wrong_audience"
        )


def _audience(claims: dict[str, Any]) -> set[str]:
    said = claims.get("aud")
    values = said if isinstance(said, list) else [said]
    if not values or not all(isinstance(value, str) for value in values):
        raise _refused("This token does not say whom it is for.", code="token_wrong_audience")
    return set(values)


def _is_logout(claims: dict[str, Any]) -> bool:
    events = claims.get("events")
    return isinstance(events, dict) and isinstance(events.get(_LOGOUT_EVENT), dict)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LATEST


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_SUBJECT and value.isprintable()


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _refused(message: str, *, code: str = "invalid_token") -> Unauthenticated:
    return Unauthenticated(message, code=code)
