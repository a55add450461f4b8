"""A provider as it describes itself (OpenID Connect Discovery), and its keys. Nothing here needs it to be up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

import httpx
import msgspec
from joserfc.jwk import Key

from gateway.identity.oidc import fetching
from gateway.identity.oidc.key_set import KeySet, away
from gateway.settings import LOOPBACK_HOSTS, Issuer

log = logging.getLogger("sekisho.identity")

_WELL_KNOWN = "/.well-known/openid-configuration"
# How often keys are fetched anew: a key that the provider has withdrawn is believed no longer than this.
_REFRESH_SECONDS = 300.0
_RETRY_SECONDS = 5.0
_METADATA_SECONDS = 3600.0


class Metadata(msgspec.Struct, frozen=True):
    """What a provider says of itself, as far as the door uses it."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str = ""
    userinfo_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Provider:
    """One issuer of the settings. `clock`: monotonic seconds."""

    def __init__(self, settings: Issuer, http: httpx.AsyncClient, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.algorithms = frozenset(settings.algorithms) | ({"Ed25519"} if "EdDSA" in settings.algorithms else set())
        self._http = http
        self._clock = clock
        self._metadata: Metadata | None = None
        self._described = 0.0  # when it last described itself
        self._refresh_seconds = min(_REFRESH_SECONDS, max(2 * _RETRY_SECONDS, settings.stale_keys_seconds / 2))
        # Never less than it takes to notice that the provider is away.
        believed = max(settings.stale_keys_seconds, 2 * self._refresh_seconds)
        self._keys = KeySet(settings.issuer, self._fetch_keys, self.algorithms, believed, clock)
        self._keeping: asyncio.Task[None] | None = None

    @property
    def issuer(self) -> str:
        return self.settings.issuer

    @property
    def is_away(self) -> bool:
        return self._keys.is_away

    async def metadata(self) -> Metadata:
        """Raises ProviderAway until it has been reached once."""
        if self._metadata is None:
            await self._keys.reach()
        if self._metadata is None:
            raise away()
        return self._metadata

    async def key(self, kid: str | None, algorithm: str) -> Key:
        """Raises UnknownKey and ProviderAway."""
        return await self._keys.find(kid, algorithm)

    async def refresh(self) -> bool:
        """Whether it answered."""
        return await self._keys.refresh()

    def start(self) -> None:
        """Keep its keys fresh, so that requests seldom wait for it."""
        self._keeping = asyncio.create_task(self._keep_fresh())

    async def aclose(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        await self._keys.aclose()

    async def _keep_fresh(self) -> None:
        while True:
            try:
                answered = await self.refresh()
            except Exception:
                log.exception("keys of %s could not be kept fresh", self.issuer)
                answered = False
            await asyncio.sleep(self._refresh_seconds if answered else _RETRY_SECONDS)

    async def _fetch_keys(self) -> bytes:
        metadata = self._metadata
        if metadata is None:
            metadata = await self.describe()
        elif self._clock() - self._described > _METADATA_SECONDS:
            with contextlib.suppress(*fetching.FAILURES):  # what it said before may still hold: its keys will tell
                metadata = await self.describe()
        return await fetching.get(self._http, metadata.jwks_uri)

    async def describe(self) -> Metadata:
        """As it says now. Raises one of fetching.FAILURES, with words."""
        body = await fetching.get(self._http, self.issuer.rstrip("/") + _WELL_KNOWN)
        try:
            found = msgspec.json.decode(body, type=Metadata)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"{self.issuer} describes itself in a way that cannot be read: {error}") from None
        if found.issuer != self.issuer:
            raise ValueError(
                f"{self.issuer} says that its name is {found.issuer[:200]!r}; the settings must say the same"
            )
        for url in (
            *(found.authorization_endpoint, found.token_endpoint, found.jwks_uri),
            *(found.end_session_endpoint, found.userinfo_endpoint),
        ):
            if url and not self._is_safe(url):
                raise ValueError(f"{self.issuer} names the address {url[:200]!r}; expected https://")
        self._metadata, self._described = found, self._clock()
        return found

    def _is_safe(self, url: str) -> bool:
        """Plain HTTP only on this machine, and only of a provider that is itself spoken to in that way."""
        parts = urlsplit(url)
        plain = parts.scheme == "http" and self.issuer.startswith("http:") and parts.hostname in LOOPBACK_HOSTS
        return bool(parts.hostname) and (parts.scheme == "https" or plain)


class Providers:
    """Those of the settings, by issuer. `http` is for speaking to them."""

    def __init__(self, issuers: Iterable[Issuer], clock: Callable[[], float] = time.monotonic) -> None:
        self.http = fetching.client()
        self._by_issuer = {settings.issuer: Provider(settings, self.http, clock) for settings in issuers}

    def __iter__(self) -> Iterator[Provider]:
        return iter(self._by_issuer.values())

    def __len__(self) -> int:
        return len(self._by_issuer)

    def get(self, issuer: str) -> Provider | None:
        return self._by_issuer.get(issuer)

    def away(self) -> dict[str, float]:
        """By issuer, whether it did not answer when it was last asked."""
        return {provider.issuer: float(provider.is_away) for provider in self}

    def start(self) -> None:
        for provider in self:
            provider.start()

    async def aclose(self) -> None:
        await asyncio.gather(*(provider.aclose() for provider in self))
        await self.http.aclose()
