"""What settings would change at a gateway that runs, as it tells of its own. Secrets are not told, so not compared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from gateway.settings import Settings, SettingShown


class Change(msgspec.Struct, frozen=True):
    """live: taken over when the file changes; the others after a restart."""

    setting: str
    before: Any
    after: Any
    live: bool

    def __str__(self) -> str:
        return f"{self.setting}: {self.before!r} > {self.after!r}{'' if self.live else ', after a restart'}"


def changes(settings: Settings, url: str, api_key: str) -> list[Change]:
    """Raises CliError where the gateway does not answer, or not to this key."""
    return list(_compared(asyncio.run(_asked(url, api_key)), settings))


async def _asked(url: str, api_key: str) -> list[SettingShown]:
    from gateway.cli.top.client import TopClient

    async with TopClient(url, api_key) as client:
        return await client.settings()


def _compared(running: list[SettingShown], settings: Settings) -> Iterator[Change]:
    from gateway.settings import shown

    before = {each.name: each.value for each in running}
    for each in shown(settings):
        if before.get(each.name, each.default) != each.value:
            yield Change(each.name, before.get(each.name), each.value, each.live)
