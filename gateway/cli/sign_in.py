"""`sekisho sign-in`: a one-time link for the operator of this machine, where no identity provider is set up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import note, plain
from gateway.cli.directory import RedisUrl, on_store, with_store
from gateway.cli.parts import Place

if TYPE_CHECKING:
    from gateway.store.redis import Store

_DEFAULT_URL = "http://127.0.0.1:8080"
Url = Annotated[
    str | None,
    typer.Option(envvar="SEKISHO_PUBLIC_URL", help="Where your browser reaches the gateway. [default: as `up` runs]"),
]


def sign_in(url: Url = None, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Print a link that signs the local admin in: once, within ten minutes."""
    folder = datadir.chosen(data_dir, os.environ)
    noted = Place(folder, datadir.socket_dir(folder)).address_file
    known = noted.read_text("utf-8") if noted.exists() else _DEFAULT_URL
    plain((url or known).rstrip("/") + with_store(data_dir, redis_url, _make))
    note("It works once, within ten minutes, and only while no identity provider is set up.")


async def make_link(place: Place, url: str) -> str:
    return url + await on_store(place.redis_url, _make)


async def _make(store: Store) -> str:
    from gateway.identity import local_link
    from gateway.identity.api_keys import local_admin
    from gateway.store.directory import Directory
    from gateway.store.records import Records

    return await local_link.make(store, (await local_admin(Directory(Records(store)))).id)
