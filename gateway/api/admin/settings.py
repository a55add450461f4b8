"""/admin/v1/settings: what this gateway runs with, and where each value comes from."""

from __future__ import annotations

import msgspec

from gateway.api.admin.operation import Asked, Operation
from gateway.settings import SettingShown, shown


class SettingsShown(msgspec.Struct, frozen=True):
    data: list[SettingShown]
    object: str = "list"


async def look(asked: Asked) -> SettingsShown:
    """Every setting of this gateway, its default and its source; secrets never"""
    return SettingsShown(shown(asked.door.settings))


OPERATIONS = (Operation("GET", "/admin/v1/settings", look),)
