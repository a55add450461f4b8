"""Identity providers: reached, named as the settings say, publishing keys, and with a clock like ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from gateway.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    import httpx

    from gateway.identity.oidc.provider import Provider
    from gateway.settings import Settings

_REACH = "see its address, DNS, HTTPS_PROXY and NO_PROXY; SSL_CERT_FILE for an authority of your own"


def examine(settings: Settings) -> Iterator[Finding]:
    if settings.issuers:
        yield from asyncio.run(_examine(settings))


async def _examine(settings: Settings) -> list[Finding]:
    from gateway.identity.oidc.provider import Providers

    providers = Providers(settings.issuers)
    try:
        found = [await _one(provider, providers.http) for provider in providers]
        return [finding for findings in found for finding in findings]
    finally:
        await providers.aclose()


async def _one(provider: Provider, http: httpx.AsyncClient) -> list[Finding]:
    from gateway.identity.oidc import fetching

    subject = f"provider {provider.issuer}"
    try:
        metadata = await provider.describe()
    except fetching.FAILURES as error:
        return [fail(subject, str(error) or type(error).__name__, _REACH)]
    try:
        keys = _keys(await fetching.get(http, metadata.jwks_uri))
        date = await _date(http, metadata.jwks_uri)
    except fetching.FAILURES as error:
        return [fail(subject, f"its keys: {error or type(error).__name__}", _REACH)]
    found = [ok(subject, f"describes itself under this name, and publishes {keys} keys")]
    return found if date is None else [*found, _clock(subject, date, provider.settings.leeway_seconds)]


def _keys(body: bytes) -> int:
    """Raises ValueError."""
    import msgspec

    document: Any = msgspec.json.decode(body)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not keys:
        raise ValueError("it publishes none")
    return len(keys)


async def _date(http: httpx.AsyncClient, url: str) -> float | None:
    """What its clock says, to the second, Unix; None where it does not tell."""
    answer = await http.get(url)
    told = answer.headers.get("date")
    return parsedate_to_datetime(told).timestamp() if told else None


def _clock(subject: str, date: float, leeway: float) -> Finding:
    skew = date - time.time()
    found = f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) > max(1.0, leeway):
        remedy = f"synchronise this machine with NTP: beyond leeway_seconds ({leeway:.0f}) its tokens are refused"
        return fail(subject, found, remedy)
    if abs(skew) > max(5.0, leeway / 2):
        return warn(subject, found, "synchronise this machine with NTP")
    return ok(subject, found)
