"""Starting, starting again, crashing, stopping: what `sekisho up` promises of its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.cli import probes
from tests.processes import is_running
from tests.system.driving import Up, eventually, question, request, sekisho

NewDataDir = Callable[[str], Path]


def ask(up: Up, key: str) -> int:
    return request(f"{up.url}/v1/chat/completions", key, question()).status


def assert_nothing_left(pids: dict[str, int]) -> None:
    eventually(lambda: not any(map(is_running, pids.values())), 10, lambda: f"still running: {pids}")


def test_a_second_start_keeps_keys_and_says_how_long_it_took(new_data_dir: NewDataDir) -> None:
    folder = new_data_dir("data")
    first = Up(folder)
    first.wait_until("curl ")
    key = first.key
    assert ask(first, key) == 200
    assert first.stop() == 0
    assert_nothing_left(first.pids())

    second = Up(folder)
    try:
        second.wait_until("curl ")
        assert ask(second, key) == 200
        took = time.monotonic() - second.started
        assert "sk-skh-" not in second.text().replace("SEKISHO_KEY=sk-skh-...", "")
    finally:
        second.stop()
    print(f"started again and answered within {took:.1f} s")
    assert key not in "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if _is_text(path))


def _is_text(path: Path) -> bool:
    return path.is_file() and path.suffix != ".gguf" and "models" not in path.parts


def test_a_crashed_engine_is_reported_and_restarted(new_data_dir: NewDataDir) -> None:
    up = Up(new_data_dir("data"))
    try:
        up.wait_until("curl ")
        key = up.key
        os.kill(up.pids()["engine"], signal.SIGKILL)
        up.wait_until("engine stopped (killed by SIGKILL); starting it again")
        up.wait_until("engine is back")
        eventually(lambda: ask(up, key) == 200, 10, lambda: "the door does not use the restarted engine")
    finally:
        up.stop()


def test_crashed_valkey_and_gateway_come_back_with_their_data(new_data_dir: NewDataDir) -> None:
    up = Up(new_data_dir("data"), "--no-engine")
    try:
        up.wait_until("curl ")
        key = up.key
        time.sleep(1.1)  # appendfsync everysec: what is older than a second is on the disk
        for part in ("valkey", "gateway"):
            os.kill(up.pids()[part], signal.SIGKILL)
            up.wait_until(f"{part} is back")
        eventually(lambda: request(f"{up.url}/metrics", key).status == 200, 10, lambda: "the key is gone")
    finally:
        up.stop()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_children(new_data_dir: NewDataDir, how: signal.Signals) -> None:
    up = Up(new_data_dir("data"), "--no-engine")
    up.wait_until("curl ")
    assert len(up.pids()) == 2
    assert up.stop(how) == 0
    assert_nothing_left(up.pids())


@pytest.mark.skipif(not os.path.exists("/proc"), reason="only Linux tells children of their parent's death")
def test_killed_without_warning_it_leaves_no_child(new_data_dir: NewDataDir) -> None:
    folder = new_data_dir("data")
    up = Up(folder)
    up.wait_until("curl ")
    assert len(up.pids()) == 3
    up.stop(signal.SIGKILL)
    assert_nothing_left(up.pids())

    again = Up(folder, "--no-engine")  # neither a stale lock nor a stale socket is in its way
    try:
        again.wait_until("curl ")
    finally:
        again.stop()


def test_stopped_while_starting_it_leaves_no_child(new_data_dir: NewDataDir) -> None:
    folder = new_data_dir("data")
    up = Up(folder)
    up.wait_until("gateway is ready")
    assert up.stop() == 0
    assert asyncio.run(probes.get("/health", socket=folder / "run" / "engine.sock")).status == 0


def test_bootstrap_key_is_the_first_key(new_data_dir: NewDataDir) -> None:
    key = "sk-skh-automation-0123456789abcdefghij"
    up = Up(new_data_dir("data"), "--no-engine", SEKISHO_BOOTSTRAP_KEY=key)
    try:
        up.wait_until("curl ")
        eventually(lambda: request(f"{up.url}/metrics", key).status == 200, 5, lambda: "the key is not known")
        assert key not in up.text()
        assert "$SEKISHO_BOOTSTRAP_KEY" in up.curl_line
    finally:
        up.stop()


def test_a_long_data_folder_gets_its_sockets_elsewhere(new_data_dir: NewDataDir, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    up = Up(folder, "--no-engine")
    try:
        up.wait_until("curl ")
        assert sekisho("keys", "list", "--data-dir", str(folder)).returncode == 0
    finally:
        up.stop()


def test_a_port_in_use_stops_it_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = sekisho("up", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert result.returncode == 1
    assert f"--port is {port}, where another program listens already" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_second_up_on_the_same_folder_is_refused(running: Up) -> None:
    result = sekisho("up", "--port", "0", "--data-dir", str(running.data_dir))
    assert result.returncode == 1
    assert "is using" in result.stderr
    assert str(running.process.pid) in result.stderr


def test_an_engine_that_cannot_start_stops_it_with_the_reason(new_data_dir: NewDataDir) -> None:
    result = sekisho("up", "--port", "0", "--data-dir", str(new_data_dir("data")), "--kv-cache-memory", "1MiB")
    assert result.returncode == 1
    assert "engine could not start" in result.stderr
    assert "--max-model-len" in result.stderr
    assert "Traceback" not in result.stderr
