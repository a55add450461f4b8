"""Where a request comes from, seen through proxies of ours and through no others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network


def client_address(peer: str, forwarded: bytes, trusted: Sequence[Network]) -> str:
    """The nearest address that is not a trusted proxy's. `forwarded` is X-Forwarded-For, nearest hop last.

    An empty peer is a Unix socket, which a proxy of this machine has opened.
    """
    if not trusted or not (peer == "" or _is_in(peer, trusted)):
        return peer
    nearest = peer
    for hop in reversed(forwarded.decode("latin-1").split(",")):
        if _address(hop.strip()) is None:
            break  # nothing behind what cannot be read is to be believed
        nearest = hop.strip()
        if not _is_in(nearest, trusted):
            break
    return nearest


def is_allowed(address: str, networks: tuple[str, ...]) -> bool:
    """Whether a key may be used from there; an empty list allows every place."""
    return not networks or _is_in(address, _parsed(networks))


@lru_cache(maxsize=1024)
def _parsed(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(network, strict=False) for network in networks)


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    found = _address(address)
    return found is not None and any(found in network for network in networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
