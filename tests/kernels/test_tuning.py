"""The choice of tiles, with a clock that is told what each tile takes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from triton.runtime.errors import OutOfResources

from kernels import tuning
from kernels.tuning import Tuner, choose

TILES = [(16, 64), (32, 64), (64, 64)]
SECONDS = {(16, 64): 3.0, (32, 64): 1.0, (64, 64): 2.0}


class Clock:
    """A call takes what `SECONDS` says of the tile that it ran with."""

    def __init__(self) -> None:
        self.timed: list[tuple[int, int]] = []
        self.written = torch.zeros(3)

    def run(self, tile: tuple[int, int]) -> torch.Tensor:
        self.tile = tile
        self.written[:2] = torch.tensor([1.0, -2.0])
        return self.written

    def __call__(self, call: Callable[[], object]) -> float:
        call()
        self.timed.append(self.tile)
        return SECONDS[self.tile]


def test_each_tile_is_timed_once_for_a_shape_and_the_quickest_is_taken_from_then_on() -> None:
    clock = Clock()
    tuner = Tuner(None, clock)
    assert [tuner.choose("op", (4096,), TILES, clock.run) for _ in range(3)] == [(32, 64)] * 3
    assert clock.timed == TILES
    tuner.choose("op", (8192,), TILES, clock.run)
    tuner.choose("other op", (4096,), TILES, clock.run)
    assert clock.timed == TILES * 3


def test_a_tile_that_cannot_be_built_is_passed_over() -> None:
    def run(tile: tuple[int, int]) -> torch.Tensor:
        if tile == (32, 64):
            raise OutOfResources(200_000, 100_000, "shared memory")
        return clock.run(tile)

    clock = Clock()
    assert Tuner(None, clock).choose("op", (), TILES, run) == (64, 64)


@pytest.mark.parametrize("wrong", [None, 1.5, float("nan")])
def test_a_tile_that_writes_something_else_or_nothing_is_passed_over(
    wrong: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    def run(tile: tuple[int, int]) -> torch.Tensor:
        if tile != (32, 64):
            return clock.run(tile)
        clock.tile = tile
        if wrong is not None:
            clock.written[0] = wrong
        return clock.written

    clock = Clock()
    assert Tuner(None, clock).choose("op", (), TILES, run) == (64, 64)
    assert clock.timed == [(16, 64), (64, 64)]
    assert "(32, 64)" in caplog.text


def test_sums_in_another_order_are_no_other_answer() -> None:
    def run(tile: tuple[int, int]) -> torch.Tensor:
        written = clock.run(tile)
        written[1] += 0.01 * (tile == (32, 64))
        return written

    clock = Clock()
    assert Tuner(None, clock).choose("op", (), TILES, run) == (32, 64)


def test_where_no_tile_can_be_built_that_is_told() -> None:
    def run(tile: tuple[int, int]) -> torch.Tensor:
        raise OutOfResources(200_000, 100_000, "shared memory")

    with pytest.raises(OutOfResources):
        Tuner(None, Clock()).choose("op", (), TILES, run)


def test_other_faults_of_a_kernel_are_not_hidden() -> None:
    def run(tile: tuple[int, int]) -> torch.Tensor:
        raise ValueError("a shape that does not fit")

    with pytest.raises(ValueError, match="does not fit"):
        Tuner(None, Clock()).choose("op", (), TILES, run)


def test_where_memory_for_timing_is_wanting_it_is_the_first_and_nothing_is_kept(tmp_path: Path) -> None:
    def run(tile: tuple[int, int]) -> torch.Tensor:
        timed.append(tile)
        raise torch.OutOfMemoryError

    timed: list[tuple[int, int]] = []
    tuner = Tuner(tmp_path / "gpu.json", Clock())
    assert [tuner.choose("op", (), TILES, run) for _ in range(2)] == [(16, 64)] * 2
    assert timed == [(16, 64)]
    assert not list(tmp_path.iterdir())


def test_a_choice_outlives_the_process(tmp_path: Path) -> None:
    file = tmp_path / "tiles" / "gpu.json"
    first, second = Clock(), Clock()
    Tuner(file, first).choose("op", (torch.bfloat16, 4096), TILES, first.run)
    assert Tuner(file, second).choose("op", (torch.bfloat16, 4096), TILES, second.run) == (32, 64)
    assert second.timed == []
    assert list(file.parent.iterdir()) == [file]


def test_processes_that_share_a_file_keep_each_others_choices(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    clock = Clock()
    one, other = Tuner(file, clock), Tuner(file, clock)
    one.choose("op", (1,), TILES, clock.run)
    other.choose("op", (2,), TILES, clock.run)
    assert len(json.loads(file.read_text("utf-8"))) == 2


def test_a_choice_is_made_again_when_the_sources_or_the_tiles_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gpu.json"
    clock = Clock()
    Tuner(file, clock).choose("op", (), TILES, clock.run)
    Tuner(file, clock).choose("op", (), TILES[::2], clock.run)
    assert clock.timed == TILES + TILES[::2]
    monkeypatch.setattr(tuning, "_source_hash", lambda run: "after a change")
    Tuner(file, clock).choose("op", (), TILES, clock.run)
    assert clock.timed == TILES + TILES[::2] + TILES


def test_the_sources_are_all_those_of_the_folder_of_what_runs(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a = 1", "utf-8")
    before = tuning._folder_hash.__wrapped__(tmp_path)
    (tmp_path / "two.py").write_text("b = 2", "utf-8")
    assert tuning._folder_hash.__wrapped__(tmp_path) != before
    assert tuning._source_hash(Clock().run) == tuning._folder_hash.__wrapped__(Path(__file__).parent)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"op () x": 7}', "\udcff"])
def test_a_file_that_is_no_use_does_no_harm(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gpu.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    clock = Clock()
    assert Tuner(file, clock).choose("op", (), TILES, clock.run) == (32, 64)
    assert set(json.loads(file.read_text("utf-8")).values()) == {"(32, 64)"}


def test_a_file_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be", "utf-8")
    clock = Clock()
    tuner = Tuner(tmp_path / "taken" / "gpu.json", clock)
    assert [tuner.choose("op", (), TILES, clock.run) for _ in range(2)] == [(32, 64)] * 2
    assert clock.timed == TILES


def test_what_cannot_be_timed_now_is_the_first_and_is_timed_later(tmp_path: Path) -> None:
    clock = Clock()
    tuner = Tuner(None, clock)
    assert tuner.choose("op", (), TILES, clock.run, may_time=False) == (16, 64)
    assert clock.timed == []
    assert tuner.choose("op", (), TILES, clock.run) == (32, 64)
    assert tuner.choose("op", (), TILES, clock.run, may_time=False) == (32, 64)


@pytest.mark.skipif(torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1", reason="has a GPU")
def test_without_a_gpu_it_is_the_first() -> None:
    clock = Clock()
    assert choose("op", (), TILES, clock.run) == (16, 64)
    assert clock.timed == []


def test_on_a_gpu_choices_are_kept_for_its_name_and_not_made_while_a_graph_is_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    capturing = [True, False, True]
    monkeypatch.setattr(tuning, "interpreting", lambda: False)
    monkeypatch.setattr(tuning, "_seconds_on_gpu", clock)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200/SXM")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing.pop(0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tuning._tuner.cache_clear()
    try:
        chosen = [choose("op", (), TILES, clock.run) for _ in range(3)]
    finally:
        tuning._tuner.cache_clear()
    assert chosen == [(16, 64), (32, 64), (32, 64)]
    (file,) = (tmp_path / "sekisho" / "tiles").iterdir()
    assert file.name.startswith("NVIDIA-H200-SXM-triton-")
