"""The command line on one data folder and one Valkey."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from gateway.cli.console import CliError
from gateway.cli.main import app
from gateway.cli.office import open_office
from gateway.identity.administration.office import Office
from gateway.identity.server_key import load_server_key
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import start_valkey


class Terminal:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        where = ("--data-dir", str(self.folder), "--redis-url", self.url)
        return CliRunner().invoke(app, [*arguments, *where], input=stdin)

    def tells(self, *arguments: str, stdin: str | None = None) -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.tells(*arguments, "--json"))

    def refuses(self, *arguments: str, stdin: str | None = None) -> str:
        result = self.run(*arguments, stdin=stdin)
        assert isinstance(result.exception, CliError), result.output
        return str(result.exception)

    def does(self, work: Callable[[Office], Awaitable[Any]]) -> Any:
        return self.does_on_store(lambda store: work(open_office(store, load_server_key(self.folder))))

    def does_on_store(self, work: Callable[[Store], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            store = Store(self.url, REDIS_TIMEOUT)
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(main())


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process, url = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield url
    process.terminate()
    process.wait()


@pytest.fixture
def terminal(valkey: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    redis.Redis.from_url(valkey).flushall()
    monkeypatch.setenv("COLUMNS", "300")
    return Terminal(valkey, tmp_path)
