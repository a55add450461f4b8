"""The keys a provider signs with: fetched once for however many ask, believed for a while when it is away.

Made-up key ids can neither make it ask often nor push a good key out.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from gateway.errors import ProviderAway
from gateway.identity.oidc import fetching

log = logging.getLogger("sekisho.identity")

_COOL_DOWN = 10.0  # seconds between two fetches because of ids that nobody knows
_RETRY = 2.0  # seconds between two attempts while the provider is away
_PATIENCE = 3.0  # seconds that a request waits for it
_MOST_KEYS = 100
_SMALLEST_RSA = 2048

Fetch = Callable[[], Awaitable[bytes]]


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class UnknownKey(Exception):
    """The provider publishes no key of this id that fits the algorithm."""


class KeySet:
    """Raises ProviderAway where nobody can say now. `clock`: monotonic seconds."""

    def __init__(
        self,
        issuer: str,
        fetch: Fetch,
        algorithms: Collection[str],
        believed_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._algorithms = [JWSRegistry.algorithms[name] for name in algorithms]
        self._believed_seconds = believed_seconds
        self._clock = clock
        self._keys: list[Key] = []
        self._fetched = 0.0  # when the keys were
        self._away = False
        self._next_attempt = 0.0  # while away
        self._next_for_unknown = 0.0
        self._fetching: asyncio.Task[None] | None = None

    @property
    def is_away(self) -> bool:
        """Whether its last answer did not come, or could not be used."""
        return self._away

    async def find(self, kid: str | None, algorithm: str) -> Key:
        """Raises UnknownKey and ProviderAway."""
        if not self._are_believed():
            await self.reach()
            if not self._are_believed():
                raise away()
        if (key := self._known(kid, algorithm)) is not None:
            return key
        return await self._looked_up(kid, algorithm)

    async def refresh(self) -> bool:
        """Whether the provider answered soon. What it publishes no more is forgotten."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._replace())
        # Whoever goes away, or loses patience, does not end the fetch that others wait for.
        done, _ = await asyncio.wait({self._fetching}, timeout=_PATIENCE)
        return bool(done) and not self._away

    async def reach(self) -> bool:
        """As refresh, but not where it was tried in vain just now."""
        return (self._fetching is not None or self._clock() >= self._next_attempt) and await self.refresh()

    async def aclose(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})

    def _are_believed(self) -> bool:
        return bool(self._keys) and self._clock() - self._fetched <= self._believed_seconds

    async def _looked_up(self, kid: str | None, algorithm: str) -> Key:
        """For a key id that nobody knows: perhaps the provider changed its keys."""
        answered = not self._away
        if self._fetching is not None or self._clock() >= self._next_for_unknown:
            self._next_for_unknown = self._clock() + _COOL_DOWN
            answered = await self.refresh()
        if (key := self._known(kid, algorithm)) is not None:
            return key
        if not answered:
            raise away()
        raise UnknownKey

    def _known(self, kid: str | None, algorithm: str) -> Key | None:
        """Without an id only a key that is the one of its kind."""
        fitting = [key for key in self._keys if (kid is None or key.kid == kid) and _fits(key, algorithm)]
        return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None

    async def _replace(self) -> None:
        try:
            keys = self._usable(await self._fetch())
        except fetching.FAILURES as error:
            self._note_away(error)
        else:
            self._note_back()
            self._keys = keys
            self._fetched = self._clock()
        finally:
            self._fetching = None

    def _usable(self, document: bytes) -> list[Key]:
        """Raises ValueError where there is none: a provider that publishes no key has lost its way, not its keys."""
        try:
            found = msgspec.json.decode(document, type=_Document).keys
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"the key set cannot be read: {error}") from None
        keys = [key for data in found[:_MOST_KEYS] if (key := _imported(data)) is not None]
        usable = [key for key in keys if any(_suits(key, model) for model in self._algorithms)]
        if not usable:
            raise ValueError(f"the key set has no key for {', '.join(model.name for model in self._algorithms)}")
        return usable

    def _note_away(self, error: BaseException) -> None:
        if not self._away:
            log.warning("identity provider %s is away: %s: %s", self._issuer, type(error).__name__, error)
        self._away = True
        self._next_attempt = self._clock() + _RETRY

    def _note_back(self) -> None:
        if self._away:
            log.warning("identity provider %s is back", self._issuer)
        self._away = False


def away() -> ProviderAway:
    return ProviderAway("The identity provider cannot be asked at the moment. Try again shortly.")


def _imported(data: dict[str, Any]) -> Key | None:
    """None for what verifies no signature: encryption keys, shared secrets, curves and types of tomorrow."""
    if data.get("use", "sig") != "sig" or data.get("kty") == "oct":
        return None
    if data.get("kty") == "OKP":
        data.pop("alg", None)  # EdDSA to some, Ed25519 to others (RFC 9864)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of short RSA keys, which are refused just below
            key = JWKRegistry.import_key(data)
            if isinstance(key, RSAKey) and key.public_key.key_size < _SMALLEST_RSA:
                return None
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


def _fits(key: Key, algorithm: str) -> bool:
    return _suits(key, JWSRegistry.algorithms[algorithm])


def _suits(key: Key, model: Any) -> bool:
    try:
        model.check_key(key)
    except JoseError:
        return False
    return True
