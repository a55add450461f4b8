"""`sekisho quotas`: who may use how much; policies from a file; what holds for somebody; proof that it is enforced."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import CliError, note, plain
from gateway.cli.directory import RedisUrl, actor
from gateway.cli.office import (
    GATEWAY,
    GatewayUrl,
    Json,
    Limit,
    gathered,
    in_office,
    in_office_on_store,
    show_json,
    show_list,
)
from gateway.cli.serve import Config, load_settings

if TYPE_CHECKING:
    from gateway.cli.selftest import Outcome
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import Page
    from gateway.quotas.administration import EffectiveShown, PolicyShown
    from gateway.quotas.changes import Change
    from gateway.quotas.policy import Policy
    from gateway.store.redis import Store
    from gateway.what_if import WhatIfShown

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `quotas list` shows it.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="YAML; - is standard input.")]

app = typer.Typer(no_args_is_help=True, help="Say who may use how much; see what holds; prove that it does.")


@app.command("list")
def list_(
    limit: Limit = 1000, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """The policies that exist."""
    from gateway.cli.policies import Row
    from gateway.identity.administration.forms import Paging, read_fields
    from gateway.identity.administration.office import page, records
    from gateway.quotas.administration import shown
    from gateway.quotas.policy import Policy

    async def work(office: Office) -> Page[PolicyShown]:
        async def read(after: str, count: int) -> Page[PolicyShown]:
            query = read_fields({"after": after, "limit": count}, Paging)
            found, following = await records(office, Policy, query.after, query.limit)
            return page([shown(policy) for policy in found], following)

        return await gathered(read, limit)

    found = in_office(data_dir, redis_url, work)
    if as_json:
        show_json(found)
    else:
        rows = page([Row.of(policy) for policy in found.data], found.next)
        show_list(rows, Row.__struct_fields__, as_json=False)


@app.command()
def show(name: Name, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """One policy, as `quotas set` takes it."""
    from gateway.quotas import changes
    from gateway.quotas.administration import shown
    from gateway.quotas.policy import Policy

    policy = in_office(data_dir, redis_url, lambda office: office.directory.find(Policy, name))
    if as_json:
        show_json(shown(policy))
    else:
        plain(changes.as_text(policy))


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of a policy that is there, or of a new one.")],
    file: File,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make a policy of the fields in a file, in place of what it said before."""
    from gateway.quotas import administration, changes

    policy, faults = changes.read_one(name, _text(file))
    if policy is None:
        raise _refusal(file, faults)
    wanted = policy

    async def work(office: Office) -> Policy:
        return await administration.put(office.directory, actor(), wanted)

    made = in_office(data_dir, redis_url, work)
    if as_json:
        show_json(administration.shown(made))
    else:
        plain(changes.as_text(made))


@app.command()
def delete(name: Name, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """What it limited is limited by the other policies alone."""
    from gateway.quotas import administration

    in_office(data_dir, redis_url, lambda office: administration.delete(office.directory, actor(), name))
    plain(f"{name} is deleted.")


@app.command()
def effective(
    model: Annotated[str, typer.Option(help="As requests name it.")],
    user: Annotated[str, typer.Option(help="A user's id, or SERVICE_ACCOUNT/NAME as `usage` shows it.")] = "",
    service_account: Annotated[str, typer.Option(help="Its id; with --user: it asks for that person.")] = "",
    key: Annotated[str, typer.Option(help="Its id; with --user: its program asks for that person.")] = "",
    config: Config = None,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Which limits hold for somebody on a model, by which policy and why, and what is left of each."""
    from gateway.cli import policies
    from gateway.identity.administration.forms import EffectiveQuery, read_fields

    settings = load_settings(config)
    fields = {"user": user, "service_account": service_account, "key": key, "model": model}

    async def work(office: Office, store: Store) -> EffectiveShown:
        return await policies.in_effect(office, store, settings, read_fields(fields, EffectiveQuery))

    policies.show_effective(in_office_on_store(data_dir, redis_url, work), as_json)


@app.command("what-if")
def what_if(
    policy: Annotated[
        str,
        typer.Argument(metavar="FILE|NAME", help="A file as `quotas set` takes it (- is standard input), or a policy."),
    ],
    first: Annotated[str | None, typer.Option("--from", help="YYYY-MM-DD (UTC). [default: seven days in all]")] = None,
    last: Annotated[str | None, typer.Option("--to", help="YYYY-MM-DD (UTC). [default: today]")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows at most.")] = 100,
    config: Config = None,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Who would have been refused by a policy on days that have passed, and by how much. Nothing is changed."""
    from gateway import what_if as replayed
    from gateway.cli import policies
    from gateway.identity.administration.forms import WhatIfQuery, read_fields
    from gateway.quotas.policy import Policy

    settings = load_settings(config)
    days = {name: day for name, day in (("from", first), ("to", last)) if day is not None}
    given = _proposed(policy) if policy == "-" or Path(policy).is_file() else None

    async def work(office: Office, store: Store) -> WhatIfShown:
        wanted = given or await office.directory.get(Policy, policy)
        if wanted is None:
            raise CliError(f"{policy} is neither a file nor the name of a policy.", exit_code=2)
        query = read_fields(days | {"limit": limit}, WhatIfQuery)
        people = policies.people_of(office, settings)
        return await replayed.what_if(office, people, store, settings, wanted, query)

    policies.show_what_if(in_office_on_store(data_dir, redis_url, work), as_json)


@app.command()
def apply(
    file: File,
    prune: Annotated[bool, typer.Option("--prune", help="Remove the policies that the file does not have.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make the policies those of a file, after showing what would change."""
    from gateway.quotas import changes

    wanted, faults = changes.read(_text(file))
    if faults:
        raise _refusal(file, faults)
    stored = in_office(data_dir, redis_url, lambda office: changes.stored(office.directory))
    found = changes.compared(stored, wanted, prune=prune)
    for change in found:
        for line in changes.lines(change):
            plain(line)
    kept = sorted({policy.id for policy in stored} - {policy.id for policy in wanted})
    if kept and not prune:
        note(f"Not in the file, and left as they are (--prune removes them): {', '.join(kept)}.")
    if not found:
        plain("Nothing to change.")
    elif dry_run or not _agreed(yes, file):
        note("Nothing was changed.")
    else:
        in_office(data_dir, redis_url, lambda office: _applied(office, found))
        plain(f"{len(found)} changed.")


@app.command()
def selftest(
    url: GatewayUrl = GATEWAY,
    api_key: Annotated[str, typer.Option(envvar="SEKISHO_KEY", help="An administrator's.")] = "",
    model: Annotated[str, typer.Option(help="To ask. [default: the first that is served]")] = "",
    as_json: Json = False,
) -> None:
    """Prove on a running gateway that each kind of limit refuses. What is made for it is removed again."""
    from gateway.cli import selftest as test

    if not api_key:
        raise CliError("give an administrator's key: --api-key, or SEKISHO_KEY.", exit_code=2)
    outcomes: list[Outcome] = asyncio.run(test.prove(url, api_key, model))
    test.show(outcomes, as_json)
    if any(outcome.verdict == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _proposed(file: str) -> Policy:
    from gateway.quotas import changes

    policy, faults = changes.read_one("proposed", _text(file))
    if policy is None:
        raise _refusal(file, faults)
    return policy


async def _applied(office: Office, found: list[Change]) -> None:
    from gateway.quotas import changes

    for change in found:
        await changes.apply(office.directory, actor(), change)


def _agreed(yes: bool, file: str) -> bool:
    if yes:
        return True
    if file == "-" or not sys.stdin.isatty():
        raise CliError("nobody is there to be asked; --yes applies it, --dry-run only shows it.", exit_code=2)
    return typer.confirm("Apply?", err=True)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CliError(f"{file} cannot be read: {reason}.", exit_code=2) from None


def _refusal(file: str, faults: list[str]) -> CliError:
    return CliError(f"{file} cannot be used:\n  " + "\n  ".join(faults), exit_code=2)
