"""One backend as the operator named it and as it is now. Knows no request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from backends import registry
from backends.base import Backend, Load, ModelCard
from gateway.routing.health import Health
from gateway.routing.prefill import PrefillSpeed
from gateway.routing.watch import Watch
from gateway.settings.engines import BackendSettings


class NoKey(ValueError):
    """The backend's key is not where the settings say."""


class Member:
    """`settings` may be replaced by others that reach the same engine in the same way."""

    def __init__(self, settings: BackendSettings, backend: Backend) -> None:
        self.settings = settings
        self.backend = backend
        self.names: dict[str, str] = {}  # what people call a model: what the engine calls it
        self.cards: dict[str, ModelCard] = {}  # by what people call it
        self.health = Health()
        self.speed = PrefillSpeed()
        self.load = Load()
        self.stale = ""  # why its load figures cannot be believed
        self.in_flight = 0  # requests of this gateway
        self.idle = asyncio.Event()  # there are none
        self.idle.set()
        self.watch: Watch | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def capacity(self) -> int:
        """Requests in it at once, all gateways together."""
        return self.settings.max_concurrency or 1

    def serves(self, listed: Sequence[ModelCard]) -> None:
        """Take in what the engine lists."""
        found = {card.id: card for card in listed}
        if self.backend.kind == "ollama":  # which knows both names of a latest model, and lists the longer one
            found |= {name.removesuffix(":latest"): card for name, card in found.items()}
        wanted = self.settings.models
        if wanted is None:
            wanted = {card.id: card.id for card in listed}
        elif self.backend.kind != "openai":  # a managed service does not list all that it has
            wanted = {public: own for public, own in wanted.items() if own in found}
        self.names = wanted
        known = {public: found.get(own, ModelCard(public)) for public, own in wanted.items()}
        self.cards = {public: replace(card, id=public) for public, card in known.items()}

    def reaches_as(self, other: BackendSettings) -> bool:
        """Whether these settings mean the same engine, spoken to in the same way."""
        ours = self.settings
        same = ("kind", "url", "api_key", "api_key_file", "api_key_env")
        return ours.options == other.options and all(getattr(ours, name) == getattr(other, name) for name in same)

    @contextmanager
    def used(self) -> Iterator[None]:
        self.in_flight += 1
        self.idle.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self.idle.set()


def make_member(settings: BackendSettings) -> Member:
    """Raises NoKey."""
    key = key_of(settings)
    backend = registry.create(settings.kind, settings.url, key, name=settings.name, options=settings.options)
    return Member(settings, backend)


def key_of(settings: BackendSettings) -> str | None:
    """Raises NoKey."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.api_key_env is not None:
        found = os.environ.get(settings.api_key_env, "")
        where = f"api_key_env: the variable {settings.api_key_env!r} is not set"
    elif settings.api_key_file is not None:
        try:
            found = settings.api_key_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NoKey(f"backends.{settings.name}.api_key_file: {settings.api_key_file} cannot be read") from error
        where = f"api_key_file: {settings.api_key_file} is empty"
    else:
        return None
    if not found:
        raise NoKey(f"backends.{settings.name}.{where}")
    return found
