"""The gateway's side of a real provider, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway.identity.oidc import fetching
from gateway.identity.oidc.provider import Provider
from gateway.settings import Issuer
from tests.external.provider import RealProvider


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def move(self, seconds: float) -> None:
        self.seconds += seconds


Known = Callable[..., Awaitable[Provider]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def known(clock: Clock) -> AsyncIterator[Callable[..., Provider]]:
    """Makes the gateway's side of a provider; further arguments are settings of the issuer."""
    made: list[Provider] = []
    http = fetching.client()

    def make(provider: RealProvider, **changes: Any) -> Provider:
        made.append(Provider(Issuer(**provider.settings(**changes)), http, clock))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()
    await http.aclose()
