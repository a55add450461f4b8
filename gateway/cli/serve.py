"""`sekisho serve`: the gateway alone. Settings come from flags, SEKISHO_* variables and a YAML file, in this order."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.checking import usable
from gateway.cli.console import CliError

if TYPE_CHECKING:
    from gateway.settings import Settings

log = logging.getLogger("sekisho.settings")

Config = Annotated[Path | None, typer.Option(envvar="SEKISHO_CONFIG", help="Settings as YAML.")]


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on. [default: 8080]")] = None,
    config: Config = None,
    redis_url: Annotated[str | None, typer.Option(help="redis://, unix:///path, redis+sentinel:// ...")] = None,
    engine_url: Annotated[str | None, typer.Option(help="unix:/path, http:// or https://.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of what must survive a restart.")] = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="A listening socket, as `up` hands it over.")] = None,
) -> None:
    """Run the gateway alone, in front of an engine and a Redis or Valkey that run already."""
    import uvicorn

    from gateway.app import App
    from gateway.cli.leaving import LeavingServer
    from gateway.settings import load
    from gateway.telemetry import logs

    given = {"host": host, "port": port, "redis_url": redis_url, "engine_url": engine_url, "data_dir": data_dir}
    settings, warnings = usable(config, os.environ, **given)
    logs.setup(settings.log_level)
    for warning in warnings:
        log.warning("%s", warning)
    app = App(settings, file=config, read=lambda: load(config, os.environ, **given))
    server = LeavingServer(
        app,
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="on",
            log_config=None,  # what it says goes where all logs go
            access_log=False,
            proxy_headers=False,  # whose word is taken is a setting of ours: trusted_proxies
            server_header=False,
        ),
        settings.drain_delay_seconds,
        settings.drain_seconds,
    )
    server.run(sockets=None if fd is None else [socket.socket(fileno=fd)])


def load_settings(config: Path | None, **overrides: Any) -> Settings:
    """Without a look at what they name: for commands that start no gateway."""
    from gateway.settings import SettingsError, load

    try:
        return load(config, os.environ, **overrides)
    except SettingsError as error:
        faults = "\n  ".join(str(error).splitlines())
        raise CliError(f"these settings cannot be used:\n  {faults}", exit_code=2) from error
