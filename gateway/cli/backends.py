"""`sekisho backends`: how engines are, in what use, and whether one keeps to what its adapter promises.

The checks are backends.check's; the rest asks a running gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gateway.cli.console import CliError, err, note, out
from gateway.cli.office import GATEWAY, GatewayUrl, cell, show_json

if TYPE_CHECKING:
    from backends.base import Options
    from backends.check import Check, Outcome

_COLOURS = {"ok": "green", "failed": "red", "not supported": "yellow"}

app = typer.Typer(no_args_is_help=True, help="The engines behind the gateway.")


ApiKey = Annotated[
    str,
    typer.Option(
        envvar=["SEKISHO_API_KEY", "SEKISHO_KEY"],
        help="An admin's; to look, an auditor's will do.",
        show_envvar=True,
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")]


class Use(StrEnum):
    enabled = "enabled"
    drained = "drained"
    disabled = "disabled"


@app.command("list")
def list_(
    url: GatewayUrl = GATEWAY,
    api_key: ApiKey = "",
    as_json: Annotated[bool, typer.Option("--json", help="As the admin API answers.")] = False,
) -> None:
    """How each engine is, as a running gateway sees it, and why."""
    shown = asyncio.run(_asked(url, api_key, "GET", ""))
    if as_json:
        out.print_json(data=shown)
        return
    table = Table("name", "kind", "models", "state", "why", "held", "running", "kv", "prompt tok/s")
    for one in shown["data"]:
        kv = "-" if one["kv_use"] is None else f"{one['kv_use']:.0%}"
        running = "-" if one["running"] is None else str(one["running"])
        speed = f"{one['prompt_tokens_per_second']:.0f}"
        told = (one["name"], one["kind"], ", ".join(one["models"]), one["state"], one["stale"] or one["why"])
        table.add_row(*(cell("", text) for text in told), f"{one['held']} of {one['capacity']}", running, kv, speed)
    out.print(table)


@app.command("set")
def set_(
    name: Name,
    use: Annotated[
        Use | None, typer.Option(help="drained: nobody new. disabled: as if the settings did not name it.")
    ] = None,
    weight: Annotated[float | None, typer.Option(help="How quick it is beside others. 0: as the settings say.")] = None,
    url: GatewayUrl = GATEWAY,
    api_key: ApiKey = "",
) -> None:
    """Drain, disable, enable or weigh an engine, at every gateway. What runs there may finish."""
    change: dict[str, Any] = {} if use is None else {"use": use.value}
    if weight is not None:
        change["weight"] = weight or None
    if not change:
        raise CliError("nothing to set: give --use or --weight", exit_code=2)
    shown = asyncio.run(_asked(url, api_key, "PATCH", f"/{quote(name, safe='')}", change))
    note(f"{shown['name']} is {shown['state']}, weight {shown['weight']:g}")


@app.command("test")
def attempt(name: Name, url: GatewayUrl = GATEWAY, api_key: ApiKey = "") -> None:
    """Let a gateway ask an engine something short now. Exits with 1 if it does not answer."""
    trial = asyncio.run(_asked(url, api_key, "POST", f"/{quote(name, safe='')}/test"))
    if not trial["ok"]:
        raise CliError(f"{name} failed after {trial['seconds']:.2f} s: {trial['error']}")
    note(
        f"{name} answered as {trial['model']} in {trial['seconds']:.2f} s, "
        f"the first of it after {trial['ttft_seconds']:.2f} s"
    )


async def _asked(url: str, api_key: str, method: str, path: str, body: Any = None) -> Any:
    import aiohttp

    headers = {"authorization": f"Bearer {api_key}"}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=90)) as client,
            client.request(method, f"{url.rstrip('/')}/admin/v1/backends{path}", json=body) as response,
        ):
            told = await response.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as fault:
        raise CliError(f"{url} did not answer as a gateway does: {fault}") from fault
    if response.status != 200:
        raise CliError(f"{url} refused: {told['error']['message']}")
    return told


@app.command()
def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="http(s)://host:port or unix:/path.")],
    kind: Annotated[str | None, typer.Option(help="Which adapter. [default: as its model list tells]")] = None,
    model: Annotated[str | None, typer.Option(help="As the engine names it. [default: the first it lists]")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="SEKISHO_ENGINE_API_KEY", show_envvar=True, help="Its own key.")
    ] = None,
    tools: Annotated[bool | None, typer.Option(help="It was started with a parser for tool calls.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Longest time of one check.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="A list of outcomes.")] = False,
) -> None:
    """Run every check on a running engine: what it does, and what it lacks. Exits with 1 if one fails."""
    from backends.base import Options
    from backends.registry import KINDS

    if kind is not None and kind not in KINDS:
        raise CliError(f"--kind {kind}: there is no such kind of engine, but {', '.join(KINDS)}", exit_code=2)
    outcomes = asyncio.run(_examined(url, kind, model, api_key, Options(tools=tools), seconds))
    if as_json:
        show_json(outcomes)
    else:
        _show(outcomes)
    raise typer.Exit(int(any(outcome.verdict == "failed" for outcome in outcomes)))


async def _examined(
    url: str, kind: str | None, model: str | None, api_key: str | None, options: Options, seconds: float
) -> list[Outcome]:
    from backends.check import CHECKS, connect, examine
    from backends.errors import BackendError

    try:
        engine = await connect(url, api_key, kind=kind, model=model, options=options)
    except (BackendError, LookupError) as fault:
        raise CliError(f"{url} cannot be examined: {fault}") from fault
    note(f"{engine.model} at {url}, as an engine of kind {engine.backend.kind}")
    outcomes = []
    try:
        with _progress(len(CHECKS)) as (begin, end):
            for one in CHECKS:
                begin(one)
                outcomes.append(await examine(one, engine, seconds))
                end(outcomes[-1])
    finally:
        await engine.backend.aclose()
    return outcomes


@contextmanager
def _progress(total: int) -> Iterator[tuple[Callable[[Check], None], Callable[[Outcome], None]]]:
    """What to call as a check begins and as it ends: a bar on a terminal, a line for each elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def end(outcome: Outcome) -> None:
            bar.advance(task)
            if bar.disable:
                note(f"{outcome.check}: {outcome.verdict} ({outcome.milliseconds} ms)")

        yield lambda one: bar.update(task, description=one.title), end


def _show(outcomes: list[Outcome]) -> None:
    table = Table("check", "what has to hold", "", "seen")
    table.add_column("ms", justify="right")
    for one in outcomes:
        # What an engine says is foreign text.
        seen = cell("", one.seen)
        verdict = f"[{_COLOURS[one.verdict]}]{one.verdict}[/]"
        table.add_row(one.check, one.title, verdict, seen, str(one.milliseconds))
    out.print(table)
