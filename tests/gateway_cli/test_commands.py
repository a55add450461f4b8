"""Every command's words and refusals, without starting anything."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import engine, summary, up
from gateway.cli.console import CliError
from gateway.cli.main import app
from native_engine.config import EngineConfig, on_device, validate
from native_engine.loading import store
from tests.native_engine.tiny_model import write_gguf

COMMANDS = ["up", "serve", "engine", "sign-in", "models", "bench", "doctor"]
COMMANDS += ["keys", "users", "groups", "service-accounts", "sessions", "audit", "quotas", "usage"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def fault(*arguments: str) -> CliError:
    result = invoke(*arguments)
    assert isinstance(result.exception, CliError), result.output
    return result.exception


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_there(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize(
    ("command", "shown"),
    [("usage", "[default: today]"), ("bench sweep", "[default: the first that the server lists]")],
)
def test_help_shows_what_stands_in_brackets(command: str, shown: str) -> None:
    assert shown in CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "250"}).output


@pytest.mark.parametrize("arguments", [("up", "--port", "70000"), ("up", "--port", "x"), ("up", "--max-num-seqs", "0")])
def test_bad_flags_of_up_are_usage_errors(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert arguments[1] in result.output


def test_engine_tells_all_bad_settings_at_once(tmp_path: Path) -> None:
    flags = ("--max-num-seqs", "0", "--block-size", "8", "--kv-cache-dtype", "int3", "--gpu-memory-utilization", "2")
    refusal = fault("engine", "--data-dir", str(tmp_path), "--uds", str(tmp_path / "s"), *flags)
    assert refusal.exit_code == 2
    for flag in flags[::2]:
        assert flag in str(refusal)


def test_the_engines_device_and_its_numbers_reach_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[EngineConfig] = []
    monkeypatch.setattr(engine, "_serve", lambda config, *_: given.append(config))
    for flags in ((), ("--device", "gpu", "--enforce-eager", "--max-num-seqs", "64")):
        assert invoke("engine", *flags).exit_code == 0
    plain, changed = (on_device(config, "gpu") for config in given)
    assert [(config.device, config.enforce_eager) for config in given] == [("auto", False), ("gpu", True)]
    assert (plain.max_num_seqs, plain.max_num_batched_tokens) == (256, 8192)
    assert (changed.max_num_seqs, changed.max_num_batched_tokens) == (64, 8192)
    assert "--device is 'tpu'; expected one of auto, cpu, gpu" in validate(replace(plain, device="tpu"))


@pytest.mark.parametrize(
    ("files", "device", "seats"), [((), "auto", 64), (("/dev/kfd",), "auto", 256), (("/dev/nvidiactl",), "cpu", 64)]
)
def test_up_lets_in_as_many_as_its_engine_takes(
    files: tuple[str, ...], device: str, seats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up.os.path, "exists", lambda path: path in files)
    assert up._seats(device) == seats


def test_up_tells_its_engine_where_traces_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def nothing(*_: object) -> None: ...

    plans: list[up.Plan] = []
    monkeypatch.setattr(up, "ensure_model", lambda *_: None)
    monkeypatch.setattr(up.datadir, "lock", lambda folder: 0)
    monkeypatch.setattr(up, "_parts", lambda plan, *_: plans.append(plan))
    monkeypatch.setattr(up, "_supervise", nothing)
    for endpoint in ("", "http://127.0.0.1:4318/"):
        if endpoint:
            monkeypatch.setenv("SEKISHO_OTLP_ENDPOINT", endpoint)
        assert invoke("up", "--port", "0", "--data-dir", str(tmp_path)).exit_code == 0
    without, traced = (list(plan.engine_options) for plan in plans)
    assert traced == [*without, "--otlp-endpoint", "http://127.0.0.1:4318"]


def test_engine_says_what_a_collectors_address_looks_like() -> None:
    said = str(fault("engine", "--uds", "x", "--otlp-endpoint", "collector:4318"))
    assert "otlp_endpoint: 'collector:4318' cannot be used: expected http://host:port" in said


def test_engine_says_what_a_size_looks_like() -> None:
    assert "--kv-cache-memory: not a size: 'big'" in str(fault("engine", "--kv-cache-memory", "big"))
    assert "--target-tpot: not a duration: '50'" in str(fault("engine", "--target-tpot", "50"))


def test_serve_tells_all_bad_settings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEKISHO_MAX_QUEUE", "-1")
    refusal = fault("serve", "--redis-url", "nonsense")
    assert refusal.exit_code == 2
    assert "redis_url" in str(refusal)
    assert "max_queue" in str(refusal)


def test_keys_say_that_nothing_runs(tmp_path: Path) -> None:
    assert f"no `sekisho up` runs on the data folder {tmp_path}" in str(
        fault("keys", "list", "--data-dir", str(tmp_path))
    )


def test_bench_tells_all_that_cannot_be_measured() -> None:
    refusal = fault("bench", "serve", "--url", "ftp://x", "--num-requests", "0")
    assert "url" in str(refusal)
    assert "num_requests" in str(refusal)


def test_models_not_pulled_yet_are_listed(tmp_path: Path) -> None:
    result = invoke("models", "list", "--data-dir", str(tmp_path))
    assert result.exit_code == 0
    assert "smollm2-135m" in result.output


def test_unknown_model_names_those_that_are_known(tmp_path: Path) -> None:
    assert "smollm2-135m" in str(fault("models", "pull", "no-such-model", "--data-dir", str(tmp_path)))
    assert "not installed" in str(fault("models", "rm", "smollm2-135m", "--data-dir", str(tmp_path)))


@pytest.mark.parametrize(
    ("key", "bootstrapped", "shown"),
    [
        ("sk-skh-a-secret", False, "sk-skh-a-secret"),
        (None, False, "$SEKISHO_KEY"),
        (None, True, "$SEKISHO_BOOTSTRAP_KEY"),
    ],
)
def test_the_line_to_paste_has_a_key_or_reads_one(
    key: str | None, bootstrapped: bool, shown: str, tmp_path: Path
) -> None:
    facts = summary.Facts("http://127.0.0.1:8080", "smollm2-135m", key, bootstrapped, tmp_path)
    words = shlex.split(summary.curl_line(facts))
    assert words[:2] == ["curl", "-N"]
    assert f"Authorization: Bearer {shown}" in words


def test_an_installed_model_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.cli.models import ensure_model

    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    monkeypatch.setattr(store, "pull", lambda *_: pytest.fail("fetched"))
    ensure_model(str(own), tmp_path)


def test_up_refuses_a_public_address_where_the_operator_signs_in_by_a_link(tmp_path: Path) -> None:
    refusal = fault("up", "--host", "0.0.0.0", "--data-dir", str(tmp_path / "data"))
    assert refusal.exit_code == 2
    for part in ("0.0.0.0", "issuers", "local_sign_in: false"):
        assert part in str(refusal)
    assert not (tmp_path / "data").exists()


def test_a_link_needs_something_that_runs(tmp_path: Path) -> None:
    assert "no `sekisho up` runs" in str(fault("sign-in", "--data-dir", str(tmp_path)))


def test_up_tells_the_link_that_signs_in_and_is_silent_where_a_provider_does_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = "http://127.0.0.1:8080/auth/local?token=t"
    summary.show(summary.Facts("http://127.0.0.1:8080", None, None, False, tmp_path, link), [])
    assert link in capsys.readouterr().out
    summary.show(summary.Facts("http://127.0.0.1:8080", None, None, False, tmp_path), [])
    assert "signs in" not in capsys.readouterr().out


def test_formats_are_measured_a_line_each(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("hello world, hello world")
    model = write_gguf(tmp_path / "m.gguf")
    options = ["--model", str(model), "--data-dir", str(tmp_path), "--text", str(text), "--quick"]
    table = invoke("bench", "quantization", *options).stdout.splitlines()
    assert table[1].split()[:3] == ["format", "weights", "MiB"]
    rows = [json.loads(line) for line in invoke("bench", "quantization", *options, "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == [line[:16].strip() for line in table[2:]]
    assert rows[0]["name"] == "float32"
    assert all(row["perplexity"] > 1 for row in rows)


def test_a_text_that_predicts_nothing_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("")
    options = ["--model", str(write_gguf(tmp_path / "m.gguf")), "--data-dir", str(tmp_path), "--text", str(text)]
    assert "--text" in str(fault("bench", "quantization", *options))


def test_the_version_is_that_of_the_package() -> None:
    assert invoke("--version").output.strip() == version("sekisho")
