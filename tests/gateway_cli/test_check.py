"""`sekisho check`: every fault at once with its line, no secret told, and what settings name on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.cli.main import app

SECRET = "sk-skh-a-hunter2hunter2hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "config.yaml"
    found.touch(0o600)
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in ("check", *arguments)])


def findings(file: Path, text: str, *more: object) -> list[dict[str, Any]]:
    file.write_text(f"data_dir: {file.parent / 'data'}\n{text}")
    result = run(file, "--json", *more)
    report = json.loads(result.stdout)
    assert report["usable"] == (result.exit_code == 0) == all(one["verdict"] == "warn" for one in report["findings"])
    found: list[dict[str, Any]] = report["findings"]
    return found


def test_settings_that_can_be_used_are_called_so(file: Path) -> None:
    assert findings(file, "port: 9000\n") == []
    result = run(file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{file} can be used." in result.stderr
    assert not (file.parent / "data").exists(), "looking must not leave anything"


def test_all_faults_are_told_at_once_with_the_line_that_each_stands_in(file: Path) -> None:
    text = "port: 70000\nbackends:\n- name: gpu\n  kind: vllm\n  url: gpu:8000\nmax_quue: 3\n"
    found = {one["subject"]: one for one in findings(file, text)}
    assert {name: one["place"] for name, one in found.items()} == {
        "port": f"{file}:2",
        "backends.0.url": f"{file}:6",
        "max_quue": f"{file}:7",
    }
    assert "70000" in found["port"]["found"]
    assert "expected http://host:port" in found["backends.0.url"]["found"]
    assert "did you mean max_queue?" in found["max_quue"]["found"]
    assert f"fault: {file}:2: port: 70000 cannot be used" in run(file).stdout


def test_a_variable_over_the_file_is_not_blamed_on_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEKISHO_PORT", "70001")
    monkeypatch.setenv("SEKISHO_MAX_QUEU", "1")
    monkeypatch.setenv("SEKISHO_VENV", "/venv")
    assert [(one["subject"], one["place"]) for one in findings(file, "port: 1\n")] == [("port", "")]
    monkeypatch.delenv("SEKISHO_PORT")
    (warning,) = findings(file, "port: 1\n")
    assert (warning["subject"], warning["verdict"]) == ("SEKISHO_MAX_QUEU", "warn")
    assert "SEKISHO_MAX_QUEUE" in warning["remedy"]


@pytest.mark.parametrize(
    "text",
    [
        f"bootstrap_kye: {SECRET}\n",
        f"issuers:\n- issuer: https://idp.example\n  client_secret: {SECRET}\n",
        f"issuers:\n- issuer: https://idp.example\n  client_id: x\n  client_scret: {SECRET}\n",
        f"backends:\n- name: x\n  kind: vllm\n  url: http://x\n  api_key: {SECRET}\n  api_key_env: X\n",
        f"redis_url: http://user:{SECRET}@redis\n",
        f"bootstrap_key: {SECRET}!\n",
    ],
)
def test_no_fault_tells_a_secret(file: Path, text: str) -> None:
    assert findings(file, text)
    result = run(file)
    assert result.exit_code == 1
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port: 1\nx: [", ":2: is not YAML"),
        ("port: 1\nport: 2\n", ":2: is not YAML ('port' stands twice)"),
        ("- a\n", "expected lines of the form name: value"),
        ("1: 2\n", "expected lines of the form name: value"),
    ],
)
def test_a_file_that_is_no_settings_is_told(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    result = run(file)
    assert result.exit_code == 1
    assert f"fault: {file}" in result.stdout
    assert said in result.stdout


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = run(tmp_path / "none.yaml")
    assert (result.exit_code, "none.yaml: cannot be read" in result.stdout) == (1, True)


def test_what_settings_name_is_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = file.parent
    (folder / "empty").touch(0o600)
    (folder / "open").write_text("key")
    (folder / "open").chmod(0o644)
    engines = "".join(
        f"- {{name: {name}, kind: vllm, url: 'http://x:1', {key}}}\n"
        for name, key in {
            "gone": f"api_key_file: {folder}/gone",
            "empty": f"api_key_file: {folder}/empty",
            "open": f"api_key_file: {folder}/open",
            "unset": "api_key_env: NOT_SET",
        }.items()
    )
    text = f"redis_url: rediss://x:1/0?ssl_ca_certs={folder}/ca.pem\nbackends:\n{engines}"
    found = {one["subject"]: (one["verdict"], one["found"]) for one in findings(file, text)}
    assert found == {
        "backends.gone.api_key_file": ("fail", f"{folder}/gone cannot be read"),
        "backends.empty.api_key_file": ("fail", f"{folder}/empty is empty"),
        "backends.open.api_key_file": ("warn", f"{folder}/open can be read by others"),
        "backends.unset.api_key_env": ("fail", "the variable 'NOT_SET' is not set"),
        "redis_url": ("fail", f"{folder}/ca.pem cannot be used: No such file or directory"),
    }


@pytest.mark.parametrize("url", ["redis+sentinel://a:1,b:1/main", "redis+cluster://a:1,b:1", "unix:///run/valkey.sock"])
def test_every_way_to_name_redis_is_taken(url: str, file: Path) -> None:
    assert findings(file, f"redis_url: {url}\n") == []


def test_secrets_that_others_can_read_are_warned_of(file: Path) -> None:
    file.chmod(0o644)
    key = file.parent / "data" / "server.key"
    key.parent.mkdir()
    key.write_bytes(b"k" * 32)
    key.chmod(0o644)
    issuer = "issuers: [{issuer: 'https://idp.example', client_id: x, client_secret: y}]\n"
    found = [(one["verdict"], one["remedy"]) for one in findings(file, issuer)]
    assert found[:2] == [("warn", f"chmod 600 {file}"), ("warn", f"chmod 600 {key}")]
    assert "public_url" in found[2][1]


def test_a_server_key_of_another_length_is_a_fault(file: Path) -> None:
    key = file.parent / "data" / "server.key"
    key.parent.mkdir()
    key.write_bytes(b"short")
    key.chmod(0o600)
    (found,) = findings(file, "")
    assert (found["verdict"], found["found"]) == ("fail", f"{key} holds 5 bytes; expected 32")


def test_policies_are_checked_with_the_settings(file: Path, tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("policies:\n  everyone:\n    tokens_per_dya: 5\n")
    found = findings(file, "", "--policies", policies, "--policies", tmp_path / "none.yaml")
    assert {one["subject"] for one in found} == {str(policies), str(tmp_path / "none.yaml")}
    assert any("tokens_per_dya" in one["found"] for one in found)


def test_serve_refuses_what_check_finds(file: Path) -> None:
    file.write_text(
        f"data_dir: {file.parent}\nbackends: [{{name: a, kind: vllm, url: 'http://x', api_key_env: NOT}}]\n"
    )
    result = CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert "backends.a.api_key_env: the variable 'NOT' is not set" in str(result.exception)
    assert getattr(result.exception, "exit_code", None) == 2


def test_a_file_that_only_names_where_a_providers_secret_is_may_be_read_by_all(file: Path) -> None:
    file.chmod(0o644)
    secret = file.with_name("client_secret")
    secret.write_text("hush")
    issuer = "issuers:\n- issuer: https://login.example.com\n  client_id: sekisho\n"
    named = f"public_url: https://ai.example.com\n{issuer}  client_secret_file: {secret}\n"
    assert [one for one in findings(file, named) if one["subject"] == str(file)] == []
    (told,) = [one for one in findings(file, f"{issuer}  client_secret: hush\n") if one["subject"] == str(file)]
    assert "holds secrets" in told["found"]
