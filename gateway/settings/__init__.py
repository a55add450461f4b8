"""Every setting of the door: type, default, help (door.py), how they are read (reading.py) and shown (shown.py)."""

from gateway.settings.checks import KEY_PATTERN, LOOPBACK_HOSTS
from gateway.settings.door import Settings, Source
from gateway.settings.engines import BackendSettings
from gateway.settings.faults import Fault, SettingsError
from gateway.settings.issuers import Issuer
from gateway.settings.reading import load
from gateway.settings.shares import Price, TokenWeights
from gateway.settings.shown import SettingShown, shown, without_credentials

__all__ = [
    "KEY_PATTERN",
    "LOOPBACK_HOSTS",
    "BackendSettings",
    "Fault",
    "Issuer",
    "Price",
    "SettingShown",
    "Settings",
    "SettingsError",
    "Source",
    "TokenWeights",
    "load",
    "shown",
    "without_credentials",
]
