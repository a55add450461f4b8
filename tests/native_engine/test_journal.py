"""A run that is cut off and started again: what was answered stays, and is not asked twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from native_engine.engine import Engine
from native_engine.journal import Journal, JournalFault, key_of
from native_engine.llm import LLM
from native_engine.request import SamplingParams
from tests.native_engine.fake_runner import FakeRunner, expected_output, make_scheduler
from tests.native_engine.test_llm import Letters

PROMPTS = ["1", "22", "333", "4444", "1"]
PARAMS = SamplingParams(max_tokens=6)


@pytest.fixture
def engine() -> Engine:
    return Engine(FakeRunner(64), make_scheduler(64, max_num_seqs=1))


@pytest.fixture
def llm(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> LLM:
    monkeypatch.setattr("native_engine.llm._load", lambda config, data_dir: (engine, Letters(), None))
    return LLM("any")


def texts(llm: LLM, path: Path | None, params: SamplingParams = PARAMS) -> list[str]:
    return [each.text for each in llm.generate(PROMPTS, params, journal=path)]


def test_an_interrupted_run_goes_on_where_it_was(
    llm: LLM, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, path = texts(llm, None), tmp_path / "answers.jsonl"
    execute, steps = engine.runner.execute, 0

    def interrupted(batch: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 15:  # in the middle of the third
            raise KeyboardInterrupt
        return execute(batch)

    with monkeypatch.context() as context:
        context.setattr(engine.runner, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            texts(llm, path)
    before = engine.scheduler.generation_tokens
    assert texts(llm, path) == wanted
    assert engine.scheduler.generation_tokens - before == 3 * 6


def test_a_finished_run_is_answered_from_the_file_alone(llm: LLM, engine: Engine, tmp_path: Path) -> None:
    first = llm.generate(PROMPTS, PARAMS, journal=tmp_path / "answers.jsonl")
    before = engine.steps
    assert llm.generate(PROMPTS, PARAMS, journal=tmp_path / "answers.jsonl") == first
    assert engine.steps == before


def test_other_parameters_are_another_question(llm: LLM, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    texts(llm, path)
    assert texts(llm, path, SamplingParams(max_tokens=2)) == texts(llm, None, SamplingParams(max_tokens=2))


def test_who_asks_the_same_twice_is_answered_twice(llm: LLM, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    llm.generate(["1"], PARAMS, journal=path)
    before = engine.scheduler.generation_tokens
    llm.generate(["1", "1"], PARAMS, journal=path)
    assert engine.scheduler.generation_tokens - before == 6


def test_a_line_that_was_cut_short_is_asked_again(llm: LLM, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    wanted = texts(llm, path)
    path.write_bytes(path.read_bytes()[:-5])
    before = engine.scheduler.generation_tokens
    assert texts(llm, path) == wanted
    assert engine.scheduler.generation_tokens - before == 6
    assert [json.loads(line) for line in path.read_bytes().splitlines()]


def test_what_failed_is_not_kept(llm: LLM, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(batch: Any) -> Any:
        raise RuntimeError("out of luck")

    with monkeypatch.context() as context:
        context.setattr(engine.runner, "execute", failing)
        failed = llm.generate(["1"], PARAMS, journal=tmp_path / "answers.jsonl")
    assert failed[0].finish_reason == "error"
    (completion,) = llm.generate(["1"], PARAMS, journal=tmp_path / "answers.jsonl")
    assert completion.token_ids == expected_output([1], 6)


def test_a_file_of_another_model_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with Journal(path, "large") as journal:
        journal.add("key", {"text": "x"})
    before = path.read_bytes()
    with pytest.raises(JournalFault, match=r"holds completions of 'large'.*not of 'small'"):
        Journal(path, "small")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"prompt,answer\n", b"[1]\n", b"{}\n", b'{"journal": 1, "model": "m"}\n{}\n'])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(JournalFault, match=r"line \d: this is no journal"):
        Journal(path, "m")
    assert path.read_bytes() == content


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "answers.jsonl", "m"), pytest.raises(JournalFault, match="another run"):
        Journal(tmp_path / "answers.jsonl", "m")


def test_the_key_of_a_question_is_the_same_in_any_order_of_its_sets() -> None:
    some, same = (SamplingParams(stop_token_ids=frozenset(ids)) for ids in ([1, 2**20, 3], [3, 2**20, 1]))
    assert key_of([1, 2], some) == key_of([1, 2], same)
    assert key_of([1, 2], some) != key_of([2, 1], some)
