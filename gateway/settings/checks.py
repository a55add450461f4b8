"""Whether single values will do: each check gives the value back, or says in a ValueError what was expected."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import SecretStr

from gateway.settings.redis_url import parse

KEY_PATTERN = r"^sk-skh-[a-z0-9]{1,32}-[A-Za-z0-9_-]{16,128}$"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def check_redis_url(value: str) -> str:
    parse(value)  # its ValueError says what is wrong
    return value


def check_bootstrap_key(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not re.match(KEY_PATTERN, value.get_secret_value()):
        raise ValueError("expected sk-skh-<id>-<secret>, id of 1-32 a-z 0-9, secret of 16-128 A-Z a-z 0-9 _ -")
    return value


def check_issuer_url(value: str) -> str:
    parts = urlsplit(value)
    local = parts.hostname in LOOPBACK_HOSTS
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ValueError("expected https://host/path as the provider spells it (http:// on this machine only)")
    return value


def check_public_url(value: str | None) -> str | None:
    parts = urlsplit(value or "http://localhost")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("expected https://host or https://host:port, without a path")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        raise ValueError("expected https:// (http:// on this machine only): a session's cookie must not travel openly")
    return value and value.rstrip("/")


def check_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for network in value:
        ip_network(network)  # its ValueError says what is wrong
    return value


def check_claim_path(value: str) -> str:
    if not all(value.split(".")):
        raise ValueError("expected a claim, or a path such as realm_access.roles")
    return value


def check_time_zone(value: str) -> str:
    try:
        return value if value == "UTC" else ZoneInfo(value).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("expected a time zone such as Asia/Tokyo or UTC") from None


def is_loopback(host: str) -> bool:
    try:
        return host in LOOPBACK_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False


# Fields that steer an engine are the door's alone to set, and none may choose where a request goes.
_NEVER_ALLOWED = frozenset(
    {"priority", "cache_salt", "request_id", "rid", "kv_transfer_params", "lora_path", "custom_logit_processor",
     "logits_processors", "api_base", "base_url", "api_key"}
)  # fmt: skip


def check_allowed_fields(value: frozenset[str]) -> frozenset[str]:
    if refused := value & _NEVER_ALLOWED:
        raise ValueError(f"expected names of harmless fields; {', '.join(sorted(refused))} may not be let through")
    return value
