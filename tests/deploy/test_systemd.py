"""Units for one machine: accepted by systemd, shut in, and calling commands that exist with settings that are good."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest
import typer.main

from gateway.cli.main import app
from gateway.cli.parts import valkey_binary
from gateway.settings import Settings, load
from native_engine.server.serve import CLOSE_SECONDS, serve_engine
from tests.external.packages import give_up
from tests.house.tree import ROOT

SYSTEMD = ROOT / "deploy" / "systemd"
UNITS = sorted(path.name for path in SYSTEMD.glob("*.service"))
COMMANDS = "/opt/sekisho/bin"
# What `systemd-analyze security` may find, in tenths; 100 is a service without any fence.
EXPOSURE = 15
# What stands for what in the lines of a unit, where its port is 8080.
SPECIFIERS = {"%i": "8080", "%S": "/var/lib", "%t": "/run", "%d": "/run/credentials", "%C": "/var/cache"}
# How long each takes to end at most, by its own word.
DRAIN_SECONDS = {
    "sekisho-gateway@.service": 120,
    "sekisho-engine.service": signature(serve_engine).parameters["drain_seconds"].default + CLOSE_SECONDS,
    "sekisho-valkey.service": 10,  # shutdown-timeout, for replicas
}


def lines(unit: str) -> list[tuple[str, str]]:
    text = (SYSTEMD / unit).read_text("utf-8")
    found = [line.partition("=") for line in text.splitlines() if line and line[0] not in "#["]
    return [(name, value) for name, _, value in found]


def last(unit: str, name: str) -> str:
    return [value for key, value in lines(unit) if key == name][-1]


def command(unit: str, **environ: str) -> list[str]:
    """ExecStart as systemd would run it."""
    text = last(unit, "ExecStart")
    for name, value in SPECIFIERS.items() | {(f"${{{name}}}", value) for name, value in environ.items()}:
        text = text.replace(name, value)
    words = shlex.split(text)
    return [part for word in words for part in (environ[word[1:]].split() if word.startswith("$") else [word])]


def variables(file: str) -> dict[str, str]:
    text = (SYSTEMD / file).read_text("utf-8")
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        give_up("systemd-analyze", "Debian's package systemd is not installed")
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, with commands that are there to be called."""
    for name in ("sekisho", "valkey-server"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for unit in SYSTEMD.glob("*.*"):
        if unit.suffix in (".service", ".target"):
            name = unit.name.replace("@.", "@8080.")
            (tmp_path / name).write_text(unit.read_text("utf-8").replace(COMMANDS, str(tmp_path)))
    return tmp_path


@pytest.mark.parametrize("drop_in", [False, True], ids=["plain", "nvidia"])
def test_systemd_takes_the_units_without_a_word(analyze: str, installed: Path, drop_in: bool) -> None:
    if drop_in:
        shutil.copytree(SYSTEMD / "sekisho-engine.service.d", installed / "sekisho-engine.service.d")
    units = sorted(map(str, [*installed.glob("*.service"), *installed.glob("*.target")]))
    environ = {**os.environ, "SYSTEMD_UNIT_PATH": f"{installed}:"}
    done = subprocess.run(
        [analyze, "verify", "--man=no", *units], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS)
def test_a_service_is_shut_in(analyze: str, installed: Path, unit: str) -> None:
    file = installed / unit.replace("@.", "@8080.")
    asked = [analyze, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", str(file)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_service_may_not_forget(unit: str) -> None:
    given = dict(lines(unit))
    assert given["User"].startswith("sekisho")
    assert given["MemoryMax"]
    assert (given["KillMode"], given["Restart"]) == ("mixed", "on-failure")
    assert "WatchdogSec" not in given  # no program of these tells systemd that it is alive
    assert int(given["TimeoutStopSec"]) > DRAIN_SECONDS[unit]
    assert dict(lines("sekisho.target"))["WantedBy"] == "multi-user.target"
    assert given["WantedBy"] == given["PartOf"] == "sekisho.target"


def test_engine_and_valkey_have_no_network_and_nobody_sees_what_is_anothers() -> None:
    folders = {unit: f"/var/lib/{last(unit, 'StateDirectory')}" for unit in UNITS}
    for unit in UNITS:
        given = dict(lines(unit))
        assert given.get("PrivateNetwork", "no") == ("no" if unit.startswith("sekisho-gateway") else "yes")
        shut = {path.removeprefix("-") for path in given["InaccessiblePaths"].split()}
        assert shut >= set(folders.values()) - {folders[unit]}


@pytest.mark.parametrize("unit", ["sekisho-gateway@.service", "sekisho-engine.service"])
def test_a_service_calls_a_command_that_exists(unit: str) -> None:
    program, name, *arguments = command(unit, **variables("engine.env"))
    assert program == f"{COMMANDS}/sekisho"
    typer.main.get_group(app).commands[name].make_context(name, arguments)  # raises where an option is unknown


def test_the_gateways_settings_are_good_and_name_the_sockets_of_the_other_units() -> None:
    own = dict(value.split("=", 1) for name, value in lines("sekisho-gateway@.service") if name == "Environment")
    settings = load(
        SYSTEMD / "sekisho.yaml", variables("sekisho.env") | {"SEKISHO_DRAIN_SECONDS": own["SEKISHO_DRAIN_SECONDS"]}
    )
    assert settings.drain_seconds == DRAIN_SECONDS["sekisho-gateway@.service"]
    unset = Settings(host="127.0.0.1")
    assert settings.redis_url == f"unix://{command('sekisho-valkey.service')[-1]}"
    engine = command("sekisho-engine.service", **variables("engine.env"))
    assert settings.engine_url == f"unix:{engine[engine.index('--uds') + 1]}"
    assert str(settings.max_concurrency) == engine[engine.index("--max-num-seqs") + 1]
    assert str(settings.data_dir) == f"/var/lib/{last('sekisho-gateway@.service', 'StateDirectory')}"
    assert settings.issuers != unset.issuers


def test_secrets_are_handed_over_by_systemd_from_a_file_that_is_roots_alone() -> None:
    name, _, source = last("sekisho-gateway@.service", "LoadCredential").partition(":")
    assert command("sekisho-gateway@.service")[-1] == f"/run/credentials/{name}"
    modes = [line.split() for line in (SYSTEMD / "tmpfiles.d" / "sekisho.conf").read_text().splitlines()]
    assert ["z", source, "0600", "root", "root", "-"] in modes
    assert not [name for name in variables("sekisho.env") if "KEY" in name or "SECRET" in name]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Path]:
    """The socket of a Valkey that runs as its unit says."""
    socket_file = tmp_path / "valkey.sock"
    words = command("sekisho-valkey.service")
    moved = {"/etc/sekisho/valkey.conf": SYSTEMD / "valkey.conf", "/var/lib/sekisho-valkey": tmp_path}
    arguments = [str(moved.get(word, word)) for word in words[1:-1]]
    process = subprocess.Popen([valkey_binary(), *arguments, str(socket_file)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not socket_file.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield socket_file
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_valkey_takes_its_settings_and_is_on_a_socket_alone(valkey: Path) -> None:
    names = ("port", "appendonly", "maxmemory-policy", "maxmemory")
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(str(valkey))
        line.sendall(b"CONFIG GET " + b" ".join(name.encode() for name in names) + b"\r\n")
        line.sendall(b"QUIT\r\n")
        words = b"".join(iter(lambda: line.recv(4096), b"")).decode().split("\r\n")[2::2]
    told = dict(zip(words[::2], words[1::2], strict=False))
    assert told["port"] == "0"
    assert (told["appendonly"], told["maxmemory-policy"]) == ("yes", "noeviction")
    assert int(told["maxmemory"]) < int(last("sekisho-valkey.service", "MemoryMax").removesuffix("G")) * 2**30
    assert valkey.stat().st_mode & 0o777 == 0o770
