"""Every setting of the door: type, default, help (door.py), and how they are read (reading.py)."""

from gateway.settings.checks import KEY_PATTERN, LOOPBACK_HOSTS
from gateway.settings.door import Settings
from gateway.settings.engines import BackendSettings
from gateway.settings.issuers import Issuer
from gateway.settings.reading import SettingsError, load
from gateway.settings.shares import Price, TokenWeights

__all__ = [
    "KEY_PATTERN",
    "LOOPBACK_HOSTS",
    "BackendSettings",
    "Issuer",
    "Price",
    "Settings",
    "SettingsError",
    "TokenWeights",
    "load",
]
