"""`sekisho doctor` on the machine itself, its folders and ports: each fault with a real cause."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli import datadir
from gateway.cli.doctor import folders, machine, ports
from gateway.cli.findings import Finding
from gateway.settings import load


def one(findings: Iterator[Finding], subject: str) -> Finding:
    (found,) = [finding for finding in findings if finding.subject == subject]
    return found


def test_memory_is_what_the_container_may_use(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{3 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2 * 2**30}\n")
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    found = one(machine.memory(tmp_path), "memory")
    assert found.verdict == "warn"
    assert "this container may use 3.0 GiB, of which 1.0 GiB is left" in found.found
    assert "1.5" in one(machine.memory(tmp_path), "processors").found


def test_without_a_limit_memory_is_the_machines(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    meminfo = tmp_path / "meminfo"
    for available, verdict in ((1, "warn"), (9, "ok")):
        meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable: {available * 2**20} kB\n")
        found = one(machine.memory(tmp_path, meminfo), "memory")
        assert (found.verdict, f"{available}.0 GiB available" in found.found) == (verdict, True)


def test_too_few_open_files_are_told_with_how_many_are_needed() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    settings = load(max_queue=1000, max_concurrency=100)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1455, hard))
        found = one(machine.open_files(settings), "open files")
        assert (found.verdict, "ulimit -n 1456" in found.remedy) == ("fail", True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1456, hard))
        assert one(machine.open_files(settings), "open files").verdict == "ok"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_folder_open_to_others_is_warned_of_and_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found = one(folders.examine(tmp_path), "data folder")
    assert (found.verdict, found.remedy) == ("warn", f"chmod 700 {tmp_path}")
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_cannot_be_made_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder, for root neither")
    assert one(folders.examine(tmp_path / "file" / "data"), "data folder").verdict == "fail"


def test_a_folder_of_sockets_that_others_may_enter_fails(tmp_path: Path) -> None:
    sockets = datadir.socket_dir(tmp_path)
    sockets.mkdir(mode=0o755)
    found = one(folders.examine(tmp_path), "sockets")
    sockets.rmdir()
    assert (found.verdict, str(sockets) in found.remedy) == ("fail", True)


LISTENS = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("name", "verdict"), [("another-program", "fail"), ("gateway.cli.main", "ok")])
def test_a_taken_port_is_told_with_who_holds_it(name: str, verdict: str) -> None:
    command = [sys.executable, "-c", LISTENS, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        found = one(ports.examine(load(port=port)), "port")
        holder.communicate("")
    assert found.verdict == verdict
    assert f"process {holder.pid}:" in found.found
    assert one(ports.examine(load(port=port)), "port").verdict == "ok"


def test_an_address_of_another_machine_fails_for_the_metrics_port_too() -> None:
    found = one(ports.examine(load(port=0, metrics_port=9999, metrics_host="192.0.2.1")), "metrics_port")
    assert (found.verdict, "192.0.2.1" in found.found) == ("fail", True)


def test_a_port_held_through_ipv6_is_found() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        found = one(ports.examine(load(port=server.getsockname()[1])), "port")
    assert f"process {os.getpid()}:" in found.found
