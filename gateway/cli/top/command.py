"""`sekisho top`: what goes on at a running gateway, live on a terminal, or once."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.console import CliError, out, plain
from gateway.cli.office import GATEWAY, GatewayUrl

if TYPE_CHECKING:
    from gateway.cli.top.client import Snapshot


def top(
    url: GatewayUrl = GATEWAY,
    api_key: Annotated[
        str, typer.Option(envvar=["SEKISHO_API_KEY", "SEKISHO_KEY"], help="An auditor's or admin's.", show_envvar=True)
    ] = "",
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One picture, as where this is no terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object: activity, queue, backends, alerts.")] = False,
) -> None:
    """Who runs and waits, how quick it is and what fails: live, as htop shows a machine. ? tells the keys."""
    if not api_key:
        raise CliError("give an auditor's or admin's key: --api-key, or SEKISHO_API_KEY.", exit_code=2)
    if not (once or as_json) and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM") != "dumb":
        from gateway.cli.top.live import watch

        asyncio.run(watch(url, api_key, interval))
        return
    snapshot = asyncio.run(_look(url, api_key))
    if as_json:
        import msgspec

        plain(msgspec.json.encode(snapshot._asdict()).decode())
    else:
        _print(snapshot, url)


async def _look(url: str, api_key: str) -> Snapshot:
    from gateway.cli.top.client import TopClient

    async with TopClient(url, api_key) as client:
        return await client.look()


def _print(snapshot: Snapshot, url: str) -> None:
    from gateway.cli.top.rows import picture
    from gateway.cli.top.screen import whole

    for text in whole(picture(snapshot), out.width, url):
        text.rstrip()
        out.print(text, soft_wrap=True)
