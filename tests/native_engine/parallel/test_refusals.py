"""What is refused before any rank is started."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from native_engine import LLM
from native_engine.config import EngineConfig
from native_engine.server import ranks
from native_engine.server.serve import Served, StartRefused
from native_engine.sizing import ConfigurationError, default_cache_bytes, num_threads
from tests.native_engine.tiny_encoder import write_encoder
from tests.native_engine.tiny_model import write_gguf


@pytest.fixture(autouse=True)
def _no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(size: int, job: object) -> None:
        raise AssertionError("ranks were started")

    monkeypatch.setattr(ranks, "launch", launch)


def served(path: Path, size: int, device: str = "cpu") -> Served:
    config = EngineConfig(model=str(path), tensor_parallel_size=size, device=device)
    return Served("tiny", config, path, None, "127.0.0.1", 0, 30)


def test_a_size_that_the_heads_do_not_hold(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"size is 3, but .* has 4 attention heads .* expected one of 1, 2, 4$"
    ):
        ranks.serve_in_ranks(served(write_gguf(tmp_path / "tiny.gguf"), 3))


def test_more_ranks_than_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(StartRefused, match=r"size is 4; expected at most 2, the GPUs that can be seen here"):
        ranks.serve_in_ranks(served(write_gguf(tmp_path / "tiny.gguf"), 4, "gpu"))
    for size, device in ((2, "gpu"), (4, "cpu")):
        with pytest.raises(AssertionError, match="ranks were started"):
            ranks.serve_in_ranks(served(tmp_path / "tiny.gguf", size, device))


def test_a_model_that_makes_embeddings(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="size is 2, but tiny makes embeddings: leave it at 1"):
        ranks.serve_in_ranks(served(write_encoder(tmp_path / "encoder"), 2))


def test_an_engine_without_a_server_says_what_has_one() -> None:
    with pytest.raises(ValueError, match=r"LLM works in one process: run `sekisho engine --model m --tensor-parallel-"):
        LLM("m", tensor_parallel_size=2)


def test_ranks_share_the_cores_and_the_memory_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 4 * 2**30})())
    alone, shared = (EngineConfig(model="m", tensor_parallel_size=size) for size in (1, 4))
    assert (num_threads(alone), num_threads(shared)) == (8, 2)
    assert default_cache_bytes(alone, 0) > 3 * default_cache_bytes(shared, 0) > 0
