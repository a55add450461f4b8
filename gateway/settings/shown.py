"""Every setting as people may see it: its value and where that comes from, and no secret. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gateway.settings.door import Settings, Source

# What may stand before the host of a URL: a name and a password.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")
# Taken over while the gateway runs, where the file changes.
LIVE = frozenset({"backends", "aliases"})


class SettingShown(msgspec.Struct, frozen=True):
    """A secret is shown as `**********` where it is set. live: a change of the settings file needs no restart."""

    name: str
    value: Any
    default: Any
    source: Source
    description: str
    live: bool


def shown(settings: Settings) -> list[SettingShown]:
    """In the order in which they are described."""
    values = settings.model_dump(mode="json")
    defaults = Settings.model_construct().model_dump(mode="json")
    return [
        SettingShown(
            name,
            without_credentials(values[name]),
            without_credentials(defaults[name]),
            settings.source(name),
            field.description or "",
            name in LIVE,
        )
        for name, field in Settings.model_fields.items()
    ]


def without_credentials(value: Any) -> Any:
    """Addresses without the name and password that may stand in them."""
    if isinstance(value, dict):
        return {name: without_credentials(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_credentials(part) for part in value]
    return _CREDENTIALS.sub("**********@", value) if isinstance(value, str) else value
