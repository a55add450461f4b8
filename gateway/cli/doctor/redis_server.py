"""Redis or Valkey: reached, quick, keeping what it is given, holding what this gateway can read. Changes nothing."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli import datadir
from gateway.cli.console import CliError
from gateway.cli.findings import Finding, Verdict, fail, ok, warn
from gateway.cli.parts import Place, valkey_binary

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.settings.redis_url import RedisAt
    from gateway.store.redis import Store

_OLDEST = (7, 0)  # SET with NX and GET, EXPIRETIME
_SECONDS = 5.0
_SKEW_SECONDS = 2.0
_SLOW_SECONDS = 0.01  # a request waits for two answers
_PINGS = 20
_FULL = 0.9


def examine(settings: Settings, data_dir: Path) -> Iterator[Finding]:
    """The one that the settings name; else the Valkey of `sekisho up`, or at least that it could be started."""
    from gateway.settings import without_credentials

    socket = Place(data_dir, datadir.socket_dir(data_dir)).valkey_socket
    if settings.source("redis_url") != "default":
        yield from asyncio.run(_examine(settings.redis, without_credentials(settings.redis_url), data_dir))
    elif socket.exists():
        yield from asyncio.run(_examine(f"unix://{socket}", str(socket), data_dir))
    else:
        yield _binary()


def _binary() -> Finding:
    try:
        return ok("Redis", f"none is named; `sekisho up` starts {valkey_binary()}")
    except CliError as fault:
        return fail("Redis", str(fault), "run a Redis or Valkey of your own and name it: SEKISHO_REDIS_URL")


async def _examine(at: RedisAt | str, named: str, data_dir: Path) -> list[Finding]:
    from gateway.errors import StoreAway
    from gateway.store.redis import Store

    store = Store(at, _SECONDS)
    try:
        told = _parsed(await store.command("INFO"))
        return [
            _server(told, named),
            *_kept(told, await _saves(store)),
            *_memory(told),
            *_data(await _version(store), await _fingerprint(store), data_dir),
            await _clock(store),
            await _quickness(store),
        ]
    except StoreAway as fault:
        remedy = "start it, or mend redis_url, its password, or the network between"
        return [fail("Redis", f"{named} does not answer ({fault.__cause__})", remedy)]
    finally:
        await store.aclose()


def _parsed(info: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines() if ":" in line)
    return {name: value for name, _, value in pairs}


def _server(told: dict[str, str], url: str) -> Finding:
    version = told.get("redis_version", "0.0")  # Valkey's says which Redis it stands for
    name = f"{told.get('server_name', 'redis')} {told.get('valkey_version', version)} at {url}"
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        return fail("Redis", name, "use Redis 7.0 or newer, or Valkey")
    if told.get("role") == "slave":
        return fail("Redis", f"{name} is a replica, which takes no writes", "name the primary, or the Sentinels")
    return ok("Redis", name)


def _kept(told: dict[str, str], saves: str | None) -> Iterator[Finding]:
    """Whether a restart loses what people have used, said and been given."""
    subject = "Redis, what it keeps"
    if told.get("aof_enabled") == "1":
        if told.get("aof_last_write_status", "ok") != "ok":
            yield fail(
                subject,
                "its last write to the append-only file failed",
                "see its log, and the room on its disk",
            )
        elif told.get("aof_last_bgrewrite_status", "ok") != "ok":
            yield warn(subject, "the append-only file could not be rewritten", "see its log, and the room on its disk")
        else:
            yield ok(subject, "an append-only file")
    elif saves:
        found = f"snapshots alone (save {saves}): a crash loses what came since the last one"
        yield warn(subject, found, "appendonly yes, appendfsync everysec")
    else:
        found = "nothing outlives a restart: " + (
            "appendonly is off, save is empty" if saves == "" else "appendonly is off"
        )
        yield fail(subject, found, "CONFIG SET appendonly yes, and the same in its configuration file")
    if told.get("rdb_last_bgsave_status", "ok") != "ok":
        remedy = "see its log, the room on its disk, and vm.overcommit_memory"
        yield fail(subject, "its last snapshot failed, and it may refuse writes therefore", remedy)


def _memory(told: dict[str, str]) -> Iterator[Finding]:
    policy, most, used = (
        told.get("maxmemory_policy", "noeviction"),
        int(told.get("maxmemory", 0)),
        int(told["used_memory"]),
    )
    found = f"{used / 2**20:.0f} MiB used" + (f" of {most / 2**20:.0f}" if most else "; no limit is set")
    if policy != "noeviction":
        verdict: Verdict = "fail" if most else "warn"
        found += f"; with maxmemory-policy {policy} it forgets keys and quotas when that is full"
        yield Finding(
            "Redis, memory", verdict, found, "CONFIG SET maxmemory-policy noeviction, and in its configuration file"
        )
    elif most and used > _FULL * most:
        yield fail("Redis, memory", f"{found}: full, it refuses all writes", "raise maxmemory")
    else:
        yield ok("Redis, memory", found)


def _data(version: int | None, fingerprint: bytes | None, data_dir: Path) -> Iterator[Finding]:
    from gateway.identity.server_key import fingerprint_of
    from gateway.store import schema

    newest, subject = schema.newest(), "Redis, data"
    if version == schema.RESTORING:
        yield fail(subject, "a restore was begun and has not ended", "sekisho restore FILE --replace")
    elif version is not None and version > newest:
        found = f"of version {version}; this release knows versions up to {newest}"
        yield fail(subject, found, "use the release that was used last, or a newer one")
    else:
        yield ok(subject, "none yet" if version is None else f"of version {version}")
    try:
        mine = fingerprint_of((data_dir / "server.key").read_bytes())
    except OSError:
        return  # what is wrong with the file is told with the settings
    if fingerprint is not None and not hmac.compare_digest(fingerprint, mine):
        found = f"{data_dir / 'server.key'} is not the key that the API keys in this Redis were made with"
        yield fail("server.key", found, "copy server.key from a gateway of this Redis, or name its data folder")


async def _clock(store: Store) -> Finding:
    before = time.time()
    seconds, micros = map(int, await store.command("TIME"))
    skew = seconds + micros / 1e6 - (before + time.time()) / 2
    found = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) > _SKEW_SECONDS:
        return warn("Redis, clock", found, "synchronise both with NTP (chrony, systemd-timesyncd)")
    return ok("Redis, clock", found)


async def _quickness(store: Store) -> Finding:
    times = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        await store.command("PING")
        times.append(time.perf_counter() - began)
    median = sorted(times)[_PINGS // 2]
    found = f"{median * 1000:.1f} ms for an answer (median of {_PINGS})"
    if median > _SLOW_SECONDS:
        return warn("Redis, speed", found, "every request waits for two: put Redis nearer to the gateways")
    return ok("Redis, speed", found)


async def _version(store: Store) -> int | None:
    from gateway.store import keys

    found = await store.command("HGET", keys.SCHEMA, "version")
    return None if found is None else int(found)


async def _fingerprint(store: Store) -> bytes | None:
    from gateway.store import keys

    found: bytes | None = await store.command("GET", keys.SERVER_KEY)
    return found


async def _saves(store: Store) -> str | None:
    """None where it may not be asked, as at managed services."""
    from gateway.errors import StoreAway

    beside = store.beside()
    try:
        return str((await beside.command("CONFIG", "GET", "save"))[1].decode())
    except StoreAway:
        return None
    finally:
        await beside.aclose()
