"""The contract's checks on real engines: ours, and those that deploy/bench/peers.py has installed here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from backends.base import Options
from backends.check import CHECKS, Check, connect, examine
from deploy.bench.installing import bf16_weights, llama_server, vllm_command
from deploy.bench.servers import Plan, Server, free_port, ours_started
from native_engine.loading import store
from tests.house.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.system]

CONTEXT = 2048
SLOTS = 4
SECONDS = 300  # of one check: the machine may be busy with other things
# What an engine, as it is started here, does not do. Everything else has to be well.
LACKS = {
    "native": {"tools", "embeddings", "rerank"},
    "llamacpp": {"tools", "unknown_model", "embeddings", "rerank"},
    "vllm": {"embeddings", "rerank"},
}


class Running(NamedTuple):
    kind: str
    url: str


@pytest.fixture(scope="module", params=LACKS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Each engine once, one after the other."""
    gguf = store.pull("smollm2-135m", ROOT / ".cache")
    with started(request.param, gguf, tmp_path_factory.mktemp("logs")) as server:
        yield Running(request.param, server.url)


def started(kind: str, gguf: Path, logs: Path) -> Server:
    plan = Plan(gguf, CONTEXT, SLOTS, threads=2, logs=logs)
    if kind == "native":
        return ours_started(plan)
    command = {"llamacpp": llama_server, "vllm": vllm_command}[kind]()
    if command is None:
        pytest.skip(f"{kind} is not installed: python deploy/bench/peers.py install {kind}")
    port = str(free_port())
    where = ["--host", "127.0.0.1", "--port", port]
    if kind == "llamacpp":
        flags = ["-m", str(gguf), "-c", str(SLOTS * CONTEXT), "--parallel", str(SLOTS), "-t", "2", "--metrics"]
        return Server(kind, f"http://127.0.0.1:{port}", [str(command), *flags, *where], logs=logs)
    flags = ["--dtype", "bfloat16", "--max-model-len", str(CONTEXT), "--max-num-seqs", str(SLOTS), "--enforce-eager"]
    flags += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    model = str(bf16_weights(gguf))
    environment = {"VLLM_CPU_KVCACHE_SPACE": "2"}  # GiB
    return Server(kind, f"http://127.0.0.1:{port}", [str(command), "serve", model, *flags, *where], environment, logs)


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
async def test_it_does_what_its_adapter_promises(running: Running, check: Check) -> None:
    engine = await connect(running.url, kind=running.kind, options=Options())
    try:
        outcome = await examine(check, engine, SECONDS)
    finally:
        await engine.backend.aclose()
    assert outcome.verdict == ("not supported" if check.name in LACKS[running.kind] else "ok"), outcome.seen


async def test_its_kind_is_told_by_its_model_list(running: Running) -> None:
    engine = await connect(running.url, options=Options())
    await engine.backend.aclose()
    assert engine.backend.kind == running.kind
