"""The `sekisho` command: the list of commands. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Annotated

import typer

from gateway.cli import (
    audit,
    backends,
    bench,
    check,
    engine,
    groups,
    keys,
    models,
    plan,
    queue,
    quotas,
    run_batch,
    secret_files,
    serve,
    service_accounts,
    sessions,
    sign_in,
    up,
    usage,
    users,
    verify,
)
from gateway.cli.backup import command as backup
from gateway.cli.console import CliError, note, plain
from gateway.cli.doctor.command import doctor
from gateway.cli.top.command import top

app = typer.Typer(
    name="sekisho",
    help="The one door between a company's people and its LLM engines.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # as rich's own markup, what stands in [brackets] would not be shown
    # Tracebacks with local variables would show secrets.
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:
    if asked:
        plain(importlib.metadata.version("sekisho"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Print the version.")
    ] = False,
) -> None:
    """Options of no command. `version` has told itself already."""


app.command("up")(up.up)
app.command("serve")(serve.serve)
app.command("engine")(engine.engine)
app.command("sign-in")(sign_in.sign_in)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(users.app, name="users")
app.add_typer(groups.app, name="groups")
app.add_typer(service_accounts.app, name="service-accounts")
app.add_typer(quotas.app, name="quotas")
app.command("run-batch")(run_batch.run_batch)
app.command("usage")(usage.usage)
app.add_typer(queue.app, name="queue")
app.add_typer(sessions.app, name="sessions")
app.add_typer(audit.app, name="audit")
app.add_typer(backends.app, name="backends")
app.command("top")(top)
app.command("plan")(plan.plan)
app.add_typer(bench.app, name="bench")
app.command("verify")(verify.verify)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("check")(check.check)
app.command("doctor")(doctor)


def main() -> None:
    try:
        os.environ.update(secret_files.variables(os.environ))
        app()
    except CliError as fault:
        note(f"sekisho: {fault}")
        sys.exit(fault.exit_code)


if __name__ == "__main__":
    main()
