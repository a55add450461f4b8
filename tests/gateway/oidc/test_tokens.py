"""Which tokens are good: those of a certified provider, and everything that somebody could try instead."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc.jwk import RSAKey

from gateway.errors import Unauthenticated
from gateway.identity.oidc import tokens
from gateway.identity.oidc.provider import Provider
from tests.external.provider import CLIENT_ID, MakeProvider, RealProvider

EVENTS = {"http://schemas.openid.net/event/backchannel-logout": {}}

Known = Callable[..., Provider]


def _claims(provider: RealProvider, **changes: Any) -> dict[str, Any]:
    """A good token's; None leaves a claim out."""
    now = int(time.time())
    claims = {"iss": provider.issuer, "sub": "hanako", "aud": CLIENT_ID, "iat": now, "exp": now + 60} | changes
    return {name: value for name, value in claims.items() if value is not None}


def _part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def _refusal(ours: Provider, token: str, check: Any = tokens.verify_access, *arguments: Any) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        await check(ours, token, *arguments)
    return caught.value


async def test_access_token_of_the_provider_is_good(provider: RealProvider, known: Known) -> None:
    await provider.people(hanako={"groups": ["sales"]})
    claims: Any = await tokens.verify_access(known(provider), await provider.access_token("hanako"))
    assert (claims["sub"], claims["groups"], claims["aud"]) == ("hanako", ["sales"], CLIENT_ID)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_token_without_a_type_is_good_in_each_algorithm(
    provider: RealProvider, known: Known, algorithm: str
) -> None:
    token = await provider.mint(_claims(provider), alg=algorithm)
    assert (await tokens.verify_access(known(provider), token))["sub"] == "hanako"


async def test_its_keys_change_in_mid_run(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    await provider.people(hanako={})
    before = await provider.access_token("hanako")
    await tokens.verify_access(ours, before)
    await provider.rotate()
    await tokens.verify_access(ours, await provider.access_token("hanako"))
    # What the provider has withdrawn is good for nothing any more, once its keys were read anew.
    assert "does not publish" in (await _refusal(ours, before)).message


@pytest.mark.parametrize(("skew", "is_good"), [(50, True), (-3640, True), (70, False), (-3670, False)])
async def test_a_minute_of_skew_is_forgiven_both_ways(
    provider: RealProvider, known: Known, skew: int, is_good: bool
) -> None:
    """Behind by an hour and a bit, the provider gives out tokens that seem to have just expired."""
    await provider.people(hanako={})
    await provider.skew(skew)
    token = await provider.access_token("hanako")
    if is_good:
        assert await tokens.verify_access(known(provider), token)
    else:
        assert (await _refusal(known(provider), token)).code in ("token_expired", "token_not_yet_valid")


NOW = int(time.time())


def _shown(value: Any) -> str:
    """The same in every process: times are told from now."""
    return re.sub(r"\b\d{10}\b", lambda seconds: f"now{int(seconds[0]) - NOW:+d}", json.dumps(value))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"exp": NOW - 3600}, "token_expired"),
        ({"exp": None}, "invalid_token"),
        ({"exp": "tomorrow"}, "invalid_token"),
        ({"exp": True}, "invalid_token"),
        ({"exp": 1e300}, "invalid_token"),
        ({"nbf": NOW + 3600}, "token_not_yet_valid"),
        ({"nbf": [NOW]}, "invalid_token"),
        ({"iat": NOW + 3600}, "token_not_yet_valid"),
        ({"iat": {}}, "invalid_token"),
        ({"iss": "https://login.example.com"}, "token_wrong_issuer"),
        ({"iss": None}, "token_wrong_issuer"),
        ({"iss": ["x"]}, "token_wrong_issuer"),
        ({"aud": "another"}, "token_wrong_audience"),
        ({"aud": None}, "token_wrong_audience"),
        ({"aud": []}, "token_wrong_audience"),
        ({"aud": {"sekisho": 1}}, "token_wrong_audience"),
        ({"aud": [CLIENT_ID, 7]}, "token_wrong_audience"),
        ({"aud": CLIENT_ID.upper()}, "token_wrong_audience"),
        ({"sub": None}, "invalid_token"),
        ({"sub": ""}, "invalid_token"),
        ({"sub": ["hanako"]}, "invalid_token"),
        ({"sub": "x" * 256}, "invalid_token"),
        ({"sub": "hana\nko"}, "invalid_token"),
        ({"events": EVENTS}, "invalid_token"),
        ({"cnf": {"jkt": "x"}}, "invalid_token"),
    ],
    ids=lambda value: _shown(value)[:60],
)
async def test_claims_that_let_nobody_in(
    provider: RealProvider, known: Known, changes: dict[str, Any], code: str
) -> None:
    assert (await _refusal(known(provider), await provider.mint(_claims(provider, **changes)))).code == code


@pytest.mark.parametrize(
    ("audience", "party", "settings_", "is_good"),
    [
        ("another", None, {"audiences": ["another"]}, True),
        (CLIENT_ID, "a-frontend", {}, True),
        ([CLIENT_ID, "account"], "a-frontend", {}, False),
        ([CLIENT_ID, "account"], None, {}, False),
        ([CLIENT_ID, "account"], CLIENT_ID, {}, True),
        ([CLIENT_ID, "account"], "a-frontend", {"authorized_parties": ["a-frontend"]}, True),
        (CLIENT_ID, "a-frontend", {"authorized_parties": ["another"]}, False),
        (CLIENT_ID, None, {"authorized_parties": ["another"]}, False),
        (CLIENT_ID, ["a-frontend"], {"authorized_parties": ["a-frontend"]}, False),
    ],
)
@pytest.mark.parametrize("claim", ["azp", "client_id", "appid"])
async def test_who_asked_for_the_token_counts(
    provider: RealProvider,
    known: Known,
    audience: Any,
    party: Any,
    settings_: dict[str, Any],
    is_good: bool,
    claim: str,
) -> None:
    token = await provider.mint(_claims(provider, aud=audience, **{claim: party}))
    ours = known(provider, **settings_)
    if is_good:
        assert await tokens.verify_access(ours, token)
    else:
        assert (await _refusal(ours, token)).code == "token_wrong_audience"


async def test_another_issuer_s_signature_is_no_signature(make_provider: MakeProvider, known: Known) -> None:
    provider, other = await make_provider(), await make_provider()
    token = await other.mint(_claims(provider))
    assert (await _refusal(known(provider), token)).code == "invalid_token"


async def test_forged_signature_under_a_known_key_id(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    forged = await provider.mint(_claims(provider), foreign=True)
    assert "signature" in (await _refusal(ours, forged)).message
    good = await provider.mint(_claims(provider))
    header, payload, signature = good.split(".")
    other = await provider.mint(_claims(provider, sub="taro"))
    for tampered in (
        f"{header}.{other.split('.')[1]}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{signature[:-8]}",
        f"{header}.{payload}.{'A' * len(signature)}",
        f"{header}.{payload}.{'A' * 4000}",
        f"{header}..{signature}",
    ):
        await _refusal(ours, tampered)
    assert await tokens.verify_access(ours, good)


async def test_no_algorithm_and_shared_secrets_are_refused(provider: RealProvider, known: Known) -> None:
    """With the public key as the secret of an HMAC, whoever can read the key set could sign."""
    ours = known(provider)
    jwk = next(key for key in await provider.keys() if key["alg"] == "RS256")
    public = RSAKey.import_key(jwk).public_key
    payload = _part(_claims(provider))
    for spelling in ("none", "None", "NONE", "nOnE", ""):
        for signature in ("", _part(b"x")):
            await _refusal(ours, f"{_part({'alg': spelling, 'kid': jwk['kid']})}.{payload}.{signature}")
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(jwk).encode(),
        jwk["n"].encode(),
        b"",
    ]
    signed = f"{_part({'alg': 'HS256', 'kid': jwk['kid']})}.{payload}"
    for secret in secrets:
        signature = _part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())
        assert "'HS256' are not taken" in (await _refusal(ours, f"{signed}.{signature}")).message


async def test_algorithm_has_to_fit_the_key_and_the_settings(provider: RealProvider, known: Known) -> None:
    kids = {key["alg"]: key["kid"] for key in await provider.keys()}
    crossed = await provider.mint(_claims(provider), alg="ES256", header={"kid": kids["RS256"]})
    assert (await _refusal(known(provider), crossed)).code == "invalid_token"
    _, payload, signature = (await provider.mint(_claims(provider))).split(".")
    for algorithm in ("PS256", "RS512", "ES256", "EdDSA", "Ed25519", "ES256K", "A256KW", "RS256\0"):
        await _refusal(known(provider), f"{_part({'alg': algorithm, 'kid': kids['RS256']})}.{payload}.{signature}")
    elliptic = await provider.mint(_claims(provider), alg="ES256")
    assert await tokens.verify_access(known(provider), elliptic)
    assert "not taken" in (await _refusal(known(provider, algorithms=["RS256"]), elliptic)).message


@pytest.mark.parametrize(
    "kid", ["../../../dev/null", "' OR 1=1 --", "", "x" * 4000, "https://evil.example.com/key", "鍵"]
)
async def test_key_id_is_compared_and_nothing_else(provider: RealProvider, known: Known, kid: str) -> None:
    token = await provider.mint(_claims(provider), header={"kid": kid})
    assert (await _refusal(known(provider), token)).code == "invalid_token"


async def test_key_that_comes_with_the_token_is_never_used(provider: RealProvider, known: Known) -> None:
    await provider.command("client", client_id="evil")
    mine = RSAKey.generate_key(2048)
    for brought in (
        {"jwk": mine.as_dict(private=False)},
        {"jku": f"{provider.issuer}/evil"},
        {"x5u": f"{provider.issuer}/evil"},
        {"x5c": ["MIIB"]},
    ):
        token = await provider.mint(_claims(provider), header=brought, foreign=True)
        assert (await _refusal(known(provider), token)).code == "invalid_token"
    assert await provider.hits("/evil") == 0


async def test_critical_extension_and_types_of_other_tokens_are_refused(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    _, payload, signature = (await provider.mint(_claims(provider))).split(".")
    for header in (
        {"crit": ["b64"], "b64": False},
        {"crit": 7},
        {"crit": []},
        {"typ": 7},
        {"alg": ["RS256"]},
        {"kid": 7},
    ):
        await _refusal(ours, f"{_part({'alg': 'RS256'} | header)}.{payload}.{signature}")
    for type_ in ("logout+jwt", "dpop+jwt", "secevent+jwt", "token-introspection+jwt", "JOSE"):
        token = await provider.mint(_claims(provider), header={"typ": type_})
        assert "does not belong here" in (await _refusal(ours, token)).message
    for type_ in ("JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"):
        assert await tokens.verify_access(ours, await provider.mint(_claims(provider), header={"typ": type_}))


async def test_id_token_belongs_to_its_sign_in(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    await provider.people(hanako={"name": "花子"})
    token = await provider.id_token("hanako", nonce="one")
    claims = await tokens.verify_id(ours, token, "one")
    assert (claims["sub"], claims["name"]) == ("hanako", "花子")
    for nonce in ("two", "", "oné"):
        assert (await _refusal(ours, token, tokens.verify_id, nonce)).code == "token_wrong_nonce"
    bare = await provider.id_token("hanako")
    assert (await _refusal(ours, bare, tokens.verify_id, "one")).code == "token_wrong_nonce"
    assert await tokens.verify_id(ours, bare, None)
    odd = await provider.mint(_claims(provider, nonce=["one"]))
    assert (await _refusal(ours, odd, tokens.verify_id, "one")).code == "token_wrong_nonce"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another"},
        {"aud": [CLIENT_ID, "another"]},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"azp": "another"},
        {"iat": None},
        {"events": EVENTS},
        {"exp": NOW - 3600},
    ],
    ids=_shown,
)
async def test_id_token_of_another_client_or_without_its_claims_is_refused(
    provider: RealProvider, known: Known, changes: dict[str, Any]
) -> None:
    """`audiences` of the settings are for bearer tokens alone."""
    token = await provider.mint(_claims(provider, nonce="one", **changes))
    await _refusal(known(provider, audiences=["another"]), token, tokens.verify_id, "one")


async def test_access_token_is_no_id_token(provider: RealProvider, known: Known) -> None:
    await provider.people(hanako={})
    await _refusal(known(provider), await provider.access_token("hanako"), tokens.verify_id, None)


@pytest.mark.parametrize("header", [{"typ": "logout+jwt"}, {"typ": "JWT"}, {}])
async def test_logout_token_is_good_with_and_without_its_type(
    provider: RealProvider, known: Known, header: dict[str, str]
) -> None:
    token = await provider.mint(_claims(provider, sid="s", jti="j", events=EVENTS), header=header)
    claims = await tokens.verify_logout(known(provider), token)
    assert (claims["sub"], claims["sid"], claims["jti"]) == ("hanako", "s", "j")


@pytest.mark.parametrize(
    "changes",
    [
        {"events": None},
        {"events": {}},
        {"events": ["http://schemas.openid.net/event/backchannel-logout"]},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": True}},
        {"nonce": "one"},
        {"jti": None},
        {"jti": 7},
        {"iat": None},
        {"sub": None, "sid": None},
        {"sub": None, "sid": ["s"]},
        {"aud": "another"},
        {"iss": "https://login.example.com"},
        {"exp": NOW - 3600},
        {"exp": None, "iat": NOW - 3600},
    ],
    ids=_shown,
)
async def test_logout_token_that_ends_no_session(provider: RealProvider, known: Known, changes: dict[str, Any]) -> None:
    claims = _claims(provider, **{"sid": "s", "jti": "j", "events": EVENTS} | changes)
    await _refusal(known(provider), await provider.mint(claims), tokens.verify_logout)


@pytest.mark.parametrize(
    "token",
    ["opaque", "a.b", "a.b.c", "..", "....", "e30.e30.", "bm90.bm90.bm90", f"{_part([1])}.{_part([2])}.x", "é.é.é"],
)
async def test_what_is_no_jwt_is_nobody_s(provider: RealProvider, known: Known, token: str) -> None:
    assert tokens.unverified_issuer(token) is None
    assert (await _refusal(known(provider), token)).code == "invalid_token"


async def test_deep_and_large_tokens_end_in_a_refusal(provider: RealProvider, known: Known) -> None:
    ours, deep = known(provider), b'{"a":' * 5000
    header = {"alg": "RS256", "kid": (await provider.keys())[0]["kid"]}
    for token in (
        f"{_part(deep)}.{_part(deep)}.{_part(b'x')}",
        f"{_part(header)}.{_part(deep)}.{_part(b'x')}",
        f"{_part(header | {'x': 'y' * 20_000})}.{_part(b'{}')}.{_part(b'x')}",
        f"{_part(header)}.{_part(b' ' * 300_000)}.{_part(b'x')}",
    ):
        await _refusal(ours, token)
        assert not tokens.unverified_issuer(token)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=40) | st.sampled_from([b'{"alg":"RS256"}', b"{}", b"null"]), max_size=5))
def test_random_tokens_never_name_an_issuer_by_accident(parts: list[bytes]) -> None:
    assert tokens.unverified_issuer(".".join(map(_part, parts))) in (None, "")
