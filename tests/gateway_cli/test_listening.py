"""Opening the public socket, or saying what is in its way."""

from __future__ import annotations

import socket

import pytest

from gateway.cli import listening
from gateway.cli.console import CliError


def test_it_accepts_before_anything_serves() -> None:
    with listening.listen("127.0.0.1", 0) as listener:
        socket.create_connection(listening.address(listener)).close()
        assert listening.url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_all_addresses_are_reached_by_loopback() -> None:
    with listening.listen("0.0.0.0", 0) as listener:
        assert listening.address(listener)[0] == "127.0.0.1"


def test_port_in_use_is_named() -> None:
    with listening.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CliError, match=f"--port is {port}, where another program listens"):
            listening.listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "not an address"])
def test_foreign_address_is_named(host: str) -> None:
    with pytest.raises(CliError, match=f"--host is '{host}'"):
        listening.listen(host, 0)
