"""deploy/bench/gpu.py, kept running by Triton's interpreter on a tiny model: its figures mean nothing here."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from deploy.bench import gpu
from kernels.device import interpreting


@pytest.mark.slow
@pytest.mark.skipif(not interpreting(), reason="beside a GPU the script itself is run")
def test_a_whole_engine_is_timed_on_random_weights() -> None:
    head, *lines = gpu.part_lines(gpu.tiny(), "tiny int4")
    assert head.startswith("\ntiny int4; no GPU: copies")
    (prefill_head, prefill, decode_head, decode) = (line.split() for line in lines)
    assert prefill_head[:4] == ["prefill", "weights", "tokens", "ms"]
    assert decode_head[:4] == ["decode", "weights", "batch", "ms/step"]
    assert prefill[:3] == ["tiny", "int4", "5"]
    assert decode[:3] == ["tiny", "int4", "1"]
    assert all(float(figure.rstrip("%")) >= 0 for figure in prefill[3:] + decode[3:])
    assert len(decode) == 9


def test_every_model_and_format_is_a_part_and_kernels_come_first() -> None:
    names = gpu.parts(is_tiny=False)
    assert names[:2] == ["kernels", "qwen3-8b bf16"]
    assert len(names) == 1 + 3 * 3


def test_what_fails_or_has_no_time_left_is_told_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    seen: list[tuple[str, float]] = []

    def run(command: list[str], timeout: float, check: bool) -> Any:
        seen.append((command[-1], timeout))
        now[0] += 40
        if command[-1] == "endless":
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 1 if command[-1] == "broken" else 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])
    gpu.run_parts(["broken", "sound", "endless", "last"], 100, ["--tiny"])
    assert seen == [("broken", 100), ("sound", 60), ("endless", 20)]
    told = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in told] == ["broken: FAILED", "endless: broken off", "last: left out"]
