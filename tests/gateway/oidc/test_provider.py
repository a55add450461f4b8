"""Discovery and keys against a certified provider: rotation, outages, floods, nonsense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import ProviderAway
from gateway.identity.oidc.key_set import KeySet, UnknownKey
from gateway.identity.oidc.provider import Provider
from tests.external.provider import MakeProvider, RealProvider
from tests.gateway.conftest import eventually
from tests.gateway.oidc.conftest import Clock

WELL_KNOWN = "/.well-known/openid-configuration"

Known = Callable[..., Provider]


async def _signing_kid(provider: RealProvider) -> str:
    return next(key["kid"] for key in await provider.keys() if key["alg"] == "RS256")


async def test_it_is_discovered_at_the_first_question(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    assert (await ours.metadata()).token_endpoint == f"{provider.issuer}/token"
    assert await ours.key(await _signing_kid(provider), "RS256")
    assert await provider.hits(WELL_KNOWN) == 1
    assert await provider.hits("/jwks") == 1


async def test_two_hundred_first_requests_with_an_unknown_key_cause_one_fetch(
    provider: RealProvider, known: Known
) -> None:
    ours = known(provider)
    await ours.refresh()
    await provider.rotate()
    kid = await _signing_kid(provider)
    found = await asyncio.gather(*(ours.key(kid, "RS256") for _ in range(200)))
    assert {key.kid for key in found} == {kid}
    assert await provider.hits("/jwks") == 2


async def test_made_up_key_ids_make_it_ask_once_in_ten_seconds_and_evict_nothing(
    provider: RealProvider, known: Known, clock: Clock
) -> None:
    ours = known(provider)
    kid = await _signing_kid(provider)
    await ours.refresh()
    for number in range(100):
        with pytest.raises(UnknownKey):
            await ours.key(f"made-up-{number}", "RS256")
    assert await provider.hits("/jwks") == 2
    assert await ours.key(kid, "RS256")
    clock.move(10)
    with pytest.raises(UnknownKey):
        await ours.key("made-up", "RS256")
    assert await provider.hits("/jwks") == 3


async def test_withdrawn_key_goes_with_the_next_fetch_and_a_kept_one_stays(
    provider: RealProvider, known: Known
) -> None:
    ours = known(provider)
    first = await _signing_kid(provider)
    await provider.rotate(keep=True)
    await ours.refresh()
    assert await ours.key(first, "RS256")
    await provider.rotate()
    await ours.refresh()
    with pytest.raises(UnknownKey):
        await ours.key(first, "RS256")


async def test_down_at_start_it_is_away_until_it_is_up(provider: RealProvider, known: Known, clock: Clock) -> None:
    ours = known(provider)
    kid = await _signing_kid(provider)
    await provider.stop()
    with pytest.raises(ProviderAway):
        await ours.key(kid, "RS256")
    with pytest.raises(ProviderAway):
        await ours.metadata()
    await provider.start()
    clock.move(2)
    assert await ours.key(kid, "RS256")


async def test_started_while_it_is_down_it_comes_by_itself(
    provider: RealProvider, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.oidc.provider._RETRY_SECONDS", 0.02)
    ours = known(provider)
    await provider.stop()
    ours.start()
    await asyncio.sleep(0.1)
    await provider.start()
    await eventually(lambda: ours._metadata is not None)


async def test_known_keys_outlive_an_outage_for_the_stated_time_and_then_it_is_503(
    provider: RealProvider, known: Known, clock: Clock
) -> None:
    ours = known(provider, stale_keys_seconds=900)
    kid = await _signing_kid(provider)
    await ours.refresh()
    await provider.stop()
    assert not await ours.refresh()
    clock.move(900)
    assert await ours.key(kid, "RS256")
    with pytest.raises(ProviderAway):
        await ours.key("unknown", "RS256")
    clock.move(1)
    with pytest.raises(ProviderAway):
        await ours.key(kid, "RS256")
    await provider.start()
    clock.move(2)
    assert await ours.key(kid, "RS256")


async def test_an_outage_is_told_once_and_so_is_its_end(
    provider: RealProvider, known: Known, caplog: pytest.LogCaptureFixture
) -> None:
    ours = known(provider)
    await provider.stop()
    for _ in range(3):
        await ours.refresh()
    assert ours.is_away
    await provider.start()
    await ours.refresh()
    assert not ours.is_away
    said = [record.getMessage() for record in caplog.records if record.name == "sekisho.identity"]
    assert len(said) == 2
    assert "is away" in said[0]
    assert said[1] == f"identity provider {provider.issuer} is back"


async def test_who_gives_up_does_not_end_the_fetch_of_others(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    kid = await _signing_kid(provider)
    await provider.faults(jwks={"delay": 0.2, "times": 1})
    impatient = asyncio.create_task(ours.key(kid, "RS256"))
    patient = asyncio.create_task(ours.key(kid, "RS256"))
    await asyncio.sleep(0.05)
    impatient.cancel()
    assert (await patient).kid == kid
    assert await provider.hits("/jwks") == 1


async def test_provider_that_hangs_is_waited_for_no_longer_than_a_request_can_wait(
    provider: RealProvider, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.oidc.key_set._PATIENCE", 0.05)
    await provider.faults(jwks={"delay": 5})
    with pytest.raises(ProviderAway):
        await known(provider).key("any", "RS256")


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500, "body": "{}"},
        {"status": 200, "body": "<html>please sign in</html>"},
        {"status": 200, "body": "[" * 100_000},
        {"status": 200, "body": '{"issuer": 7}'},
        {"status": 200, "size": 1024 * 1024 + 1},
        {"status": 302, "headers": {"location": "/elsewhere"}},
        {"status": 200, "headers": {"content-encoding": "gzip"}, "body": "not gzip"},
    ],
    ids=["error", "page", "nesting", "types", "size", "redirect", "encoding"],
)
async def test_nonsense_instead_of_a_description_is_as_good_as_none(
    provider: RealProvider, known: Known, fault: dict[str, Any]
) -> None:
    ours = known(provider)
    await provider.faults(well_known=fault)
    with pytest.raises(ProviderAway):
        await ours.metadata()
    assert await provider.hits("/elsewhere") == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("issuer", "https://login.example.com"),
        ("issuer", "{issuer}/"),
        ("jwks_uri", "http://169.254.169.254/keys"),
        ("jwks_uri", "file:///etc/passwd"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("token_endpoint", "https:///token"),
        ("end_session_endpoint", "ftp://127.0.0.1/end"),
    ],
)
async def test_description_of_somebody_else_or_with_an_unsafe_address_is_refused(
    provider: RealProvider, known: Known, name: str, value: str
) -> None:
    description = {
        "issuer": provider.issuer,
        "authorization_endpoint": f"{provider.issuer}/auth",
        "token_endpoint": f"{provider.issuer}/token",
        "jwks_uri": f"{provider.issuer}/jwks",
    }
    await provider.faults(well_known={"status": 200, "body": json.dumps(description)})
    assert (await known(provider).metadata()).issuer == provider.issuer
    description[name] = value.format(issuer=provider.issuer)
    await provider.faults(well_known={"status": 200, "body": json.dumps(description)})
    with pytest.raises(ProviderAway):
        await known(provider).metadata()


async def test_key_set_without_a_usable_key_leaves_the_known_ones(provider: RealProvider, known: Known) -> None:
    ours = known(provider)
    kid = await _signing_kid(provider)
    await ours.refresh()
    for body in ('{"keys": []}', '{"keys": 7}', '{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "x"}]}', "{"):
        await provider.faults(jwks={"status": 200, "body": body})
        assert not await ours.refresh()
    assert await ours.key(kid, "RS256")


async def test_description_that_fails_later_does_not_take_the_keys_with_it(
    provider: RealProvider, known: Known, clock: Clock
) -> None:
    ours = known(provider)
    await ours.refresh()
    await provider.faults(well_known={"status": 500})
    clock.move(4000)
    assert await ours.key(await _signing_kid(provider), "RS256")


async def test_only_keys_that_verify_signatures_of_allowed_algorithms_are_kept(
    provider: RealProvider, known: Known
) -> None:
    ours = known(provider, algorithms=["ES256"])
    rsa, elliptic = await provider.keys()
    assert await ours.key(elliptic["kid"], "ES256")
    with pytest.raises(UnknownKey):
        await ours.key(rsa["kid"], "RS256")


def _key_set(clock: Clock, *keys: dict[str, Any]) -> KeySet:
    async def fetch() -> bytes:
        return json.dumps({"keys": keys}).encode()

    return KeySet("https://login.example.com", fetch, {"RS256", "ES256"}, 600, clock)


async def test_key_of_the_same_id_for_encryption_or_another_algorithm_is_not_taken(
    provider: RealProvider, clock: Clock
) -> None:
    rsa, elliptic = await provider.keys()
    keys = _key_set(clock, rsa | {"use": "enc", "kid": "one"}, elliptic | {"kid": "one"}, {"kty": "AKP", "kid": "one"})
    assert (await keys.find("one", "ES256")).key_type == "EC"
    with pytest.raises(UnknownKey):
        await keys.find("one", "RS256")


async def test_without_a_key_id_only_the_one_key_of_its_kind_is_taken(provider: RealProvider, clock: Clock) -> None:
    rsa, elliptic = await provider.keys()
    assert await _key_set(clock, rsa, elliptic).find(None, "RS256")
    with pytest.raises(UnknownKey):
        await _key_set(clock, rsa, rsa | {"kid": "two"}).find(None, "RS256")


async def test_short_and_broken_keys_are_left_out(provider: RealProvider, clock: Clock) -> None:
    rsa, _ = await provider.keys()
    short = {"kty": "RSA", "kid": "short", "e": "AQAB", "n": "w" * 171}
    broken = [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "off the curve"}, {"kty": 7}, {"kid": "x"}]
    keys = _key_set(clock, short, *broken, rsa)
    assert await keys.find(rsa["kid"], "RS256")
    for kid in ("short", "off the curve"):
        with pytest.raises(UnknownKey):
            await keys.find(kid, "RS256" if kid == "short" else "ES256")


async def test_issuers_are_apart(make_provider: MakeProvider, known: Known) -> None:
    one, other = await make_provider(), await make_provider()
    with pytest.raises(UnknownKey):
        # Both providers' first key ids could be alike; what counts is whose key set is asked.
        await known(one).key(await _signing_kid(other), "RS256")
