"""`sekisho plan` against worked examples, by the command lines that people type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.cli.console import CliError
from gateway.cli.main import app

EXAMPLES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "capacity.json").read_text())

CONFIG = json.dumps(
    {"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288}
    | {"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    | {"rms_norm_eps": 1e-6, "max_position_embeddings": 40960}
).encode()


def plan(line: str) -> Result:
    return CliRunner().invoke(app, ["plan", *line.split()])


def found(line: str) -> Any:
    result = plan(f"{line} --json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def refusal(line: str) -> str:
    result = plan(line)
    assert isinstance(result.exception, CliError), result.output
    return str(result.exception)


def test_the_throughput_example_to_the_digit() -> None:
    line = (
        "--active-weight-bytes 3e9 --layers 48 --kv-heads 4 --head-dim 128 --kv-dtype-bytes 2 --context 4096 "
        "--bandwidth 273e9 --output-tokens 500 --target 20"
    )
    made = found(line)
    shown = [
        {name: row[name] if name == "meets_target" else round(row[name]) for name in expected}
        for row, expected in zip(made["rows"], EXAMPLES["throughput"]["rows"], strict=True)
    ]
    assert shown == EXAMPLES["throughput"]["rows"]
    fifty = EXAMPLES["throughput"]["fifty_users"]
    assert round(made["finish"]["sequential_s"], 1) == fifty["sequential_last_done_s"]
    assert round(made["finish"]["batched_s"], 1) == fifty["batched_last_done_s"]
    assert round(made["finish"]["speedup"], 1) == fifty["speedup"]
    assert f"after {fifty['sequential_shown']} one after the other" in plan(line).stdout


@pytest.mark.parametrize("row", EXAMPLES["memory"]["rows"], ids=lambda row: f"{row['model']} on {row['vram_gib']} GiB")
def test_the_memory_examples_to_the_digit(row: dict[str, Any]) -> None:
    memory = found(
        f"--params {row['params']} --layers {row['num_layers']} --kv-heads 8 --head-dim 128 "
        f"--vram-gib {row['vram_gib']} --utilisation 0.92 --context 8192"
    )["memory"]
    for name in ("weights_gib", "kv_kib_per_token", "kv_budget_gib"):
        assert round(memory[name], 1) == row[name]
    held = {name: round(number, 1) for name, number in memory["conversations"].items()}
    assert held == {"bf16": row["conversations_bf16"], "fp8": row["conversations_fp8"]}


def test_a_person_is_told_the_speed_the_bytes_and_what_to_paste() -> None:
    told = plan("--model qwen3-30b-a3b --hardware h100 --gpus 2 --weights fp8 --kv-cache-dtype fp8 --people 300").stdout
    assert "upper bounds" in told
    assert "▓" in told
    assert "experts = " in told
    (native,) = [line for line in told.splitlines() if line.startswith("native:")]
    assert native.split(maxsplit=1)[1].startswith("sekisho engine --model hf:Qwen/Qwen3-30B-A3B --max-num-seqs ")
    assert native.endswith("--quantization fp8 --kv-cache-dtype fp8 --tensor-parallel-size 2")
    seats = native.split("--max-num-seqs ")[1].split()[0]
    for engine, start in (
        ("vLLM:", f"vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs {seats} --max-model-len 4096 "),
        ("SGLang:", "python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B "),
        ("llama.cpp:", f"llama-server -m qwen3-30b-a3b-Q8_0.gguf -np {seats} -c {int(seats) * 4096} "),
        ("Ollama:", f"OLLAMA_NUM_PARALLEL={seats} OLLAMA_CONTEXT_LENGTH=4096 "),
    ):
        (line,) = [line for line in told.splitlines() if line.startswith(engine)]
        assert line.removeprefix(engine).strip().startswith(start)


def test_an_fp8_cache_holds_twice_the_conversations_and_is_what_is_planned_with() -> None:
    line = "--model qwen3-32b --hardware h100"
    plain, small = found(line), found(f"{line} --kv-cache-dtype fp8")
    assert small["memory"]["conversations"] == pytest.approx(plain["memory"]["conversations"])
    assert small["advice"]["max_num_seqs"] == int(plain["memory"]["conversations"]["fp8"])


def test_a_folder_is_planned_for_by_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(CONFIG)
    assert found(f"--model {tmp_path} --hardware h100") == found("--model qwen3-8b --hardware h100")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "a model, or its layers, KV heads and head dim; --list"),
        (
            "--model qwen9",
            "--model is 'qwen9'; expected hf:org/name, a folder with a config.json, or one of smollm2-135m",
        ),
        ("--model qwen3-8b --hardware h9", "--hardware is 'h9'; expected one of l4"),
        ("--model qwen3-8b", "nothing can be said"),
        ("--model qwen3-8b --hardware h100 --weights fp4", "--weights is 'fp4'; expected one of bf16"),
        ("--model qwen3-8b --hardware dgx-spark --gpus 2", "--gpus is 2; expected 1 with dgx-spark"),
        ("--model qwen3-8b --hardware h100 --measured 16", "--measured is '16'; expected BATCH:TOK_S"),
    ],
)
def test_what_cannot_be_planned_is_said(line: str, said: str) -> None:
    assert said in refusal(line)


def test_models_and_machines_are_listed_with_their_sources() -> None:
    told = CliRunner().invoke(app, ["plan", "--list"], env={"COLUMNS": "200"}).stdout
    assert "Qwen/Qwen3-8B" in told
    assert "NVIDIA H200 data sheet" in told


def test_a_batch_that_finds_no_room_is_told_so_however_quick_it_would_be() -> None:
    told = plan("--model qwen3-8b --hardware h100").stdout
    verdicts = {cells[0]: cells[4:6] for line in told.splitlines() if len(cells := line.split()) > 6}
    assert verdicts["64"][0] == "yes"
    assert verdicts["128"] == ["no", "room"]


def test_a_measurement_above_the_bound_is_called_one_of_something_else() -> None:
    said = "above the upper bound"
    assert said in plan("--model qwen3-8b --hardware l4 --measured 1:30").stdout
    assert said not in plan("--model qwen3-8b --hardware l4 --measured 1:15").stdout


def test_a_format_that_vllm_and_sglang_do_not_make_themselves_asks_for_a_checkpoint() -> None:
    for weights in ("int8", "int4"):
        told = plan(f"--model qwen3-8b --hardware h100 --weights {weights}").stdout
        name = f"{weights.upper()}-CHECKPOINT"
        assert f"vllm serve {name} " in told
        assert f"--model-path {name} " in told
        (said,) = [line for line in told.splitlines() if line.startswith("For vLLM, SGLang: ")]
        assert f"a checkpoint of this model in {weights.upper()}" in said
        assert "--quantization" not in told.split("vllm serve")[1].split("\n")[0]


def test_a_mixture_of_experts_is_told_with_and_without_favourites() -> None:
    rows = found("--model qwen3-30b-a3b --hardware h100")["rows"]
    assert rows[0]["experts_read"] == pytest.approx(8)
    assert rows[0]["experts_read_skewed"] == pytest.approx(8)
    assert all(row["experts_read_skewed"] < row["experts_read"] for row in rows[1:])
    assert "skewed = " in plan("--model qwen3-30b-a3b --hardware h100").stdout
    assert "skewed" not in plan("--model qwen3-8b --hardware h100").stdout


FILES = [
    {"type": "file", "path": path, "size": len(CONFIG), "oid": "b" * 40}
    for path in ("config.json", "model.safetensors")
]


class Hub(BaseHTTPRequestHandler):
    """What huggingface_hub asks of the Hugging Face hub for one file of org/name."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/org/name/tree/"):
            self._send(json.dumps(FILES).encode())
        elif path.startswith("/api/models/org/name"):
            self._send(json.dumps({"id": "org/name", "sha": "a" * 40}).encode())
        elif path == f"/org/name/resolve/{'a' * 40}/config.json":
            self._send(CONFIG)
        else:
            self.send_error(404)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        for name, value in (("etag", '"b"'), ("x-repo-commit", "a" * 40), ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which huggingface_hub asks a server of this test, and keeps nothing elsewhere."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever).start()
    yield os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "home")}
    server.shutdown()
    server.server_close()


def test_a_model_of_the_hub_is_planned_for_by_its_configuration_alone(hub: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "gateway.cli.main",
        "plan",
        "--model",
        "hf:org/name",
        "--hardware",
        "h100",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=hub, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found("--model qwen3-8b --hardware h100")


def test_a_hub_name_without_the_hubs_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install huggingface_hub" in refusal("--model hf:org/name --hardware h100")


def test_the_lines_of_a_hub_model_name_it_as_each_engine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda repository, *, local_dir, **options: (local_dir / "config.json").write_bytes(CONFIG),
    )
    told = plan("--model hf:org/name --hardware h100").stdout
    for start in ("sekisho engine --model hf:org/name ", "vllm serve org/name ", "llama-server -m name-BF16.gguf "):
        assert start in told
