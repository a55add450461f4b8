"""The Redis that is named, or the Valkey of `sekisho up`: where that does not run it is started meanwhile."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.cli import datadir, parts, probes
from gateway.cli.console import note
from gateway.cli.parts import Place
from gateway.cli.supervisor import Supervisor


@asynccontextmanager
async def reached(data_dir: Path, redis_url: str | None) -> AsyncIterator[str]:
    """Its URL. Raises CliError."""
    place = Place(data_dir, datadir.socket_dir(data_dir))
    if redis_url is not None or await probes.valkey_answers(place.valkey_socket):
        yield redis_url or place.redis_url
        return
    datadir.prepare(data_dir)
    place.log("").parent.mkdir(mode=0o700, exist_ok=True)
    datadir.make_socket_dir(data_dir)
    lock = datadir.lock(data_dir)
    supervisor = Supervisor([parts.valkey(place, os.environ, lock)], note)
    try:
        await supervisor.start(lambda name, seconds: None)
        yield place.redis_url
    finally:
        await supervisor.stop()
        os.close(lock)
