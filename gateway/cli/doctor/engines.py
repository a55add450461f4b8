"""The engines behind the door, each asked once what it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from gateway.settings import BackendSettings, Settings

_SECONDS = 10.0


def examine(settings: Settings) -> Iterator[Finding]:
    """Nothing where none is named: `sekisho up` starts its own."""
    if settings.backends or settings.source("engine_url") != "default":
        yield from asyncio.run(_all(settings))


async def _all(settings: Settings) -> list[Finding]:
    return list(await asyncio.gather(*(_one(engine) for engine in settings.engines)))


async def _one(engine: BackendSettings) -> Finding:
    from backends.errors import BackendError
    from gateway.routing.member import NoKey, make_member
    from gateway.settings import without_credentials

    subject, url = f"engine {engine.name}", without_credentials(engine.url)
    try:
        member = make_member(engine)
    except NoKey:
        return warn(subject, "not asked: its key is missing", "see above")
    try:
        async with asyncio.timeout(_SECONDS):
            member.serves(await member.backend.models())
    except (BackendError, TimeoutError, OSError) as error:
        why = str(error) or f"no answer within {_SECONDS:.0f} s"
        return fail(subject, f"{url}: {why}", "start it, or mend its url, its key, or the network between")
    finally:
        await member.backend.aclose()
    if not member.names:
        wanted = ", ".join(engine.models or ()) or "any"
        return fail(subject, f"{url} serves none of what is wanted ({wanted})", "mend models, or load them there")
    return ok(subject, f"{url} serves {', '.join(sorted(member.names)[:10])}")
