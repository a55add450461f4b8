from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from native_engine.engine import Engine
from native_engine.llm import LLM, Completion, Prompt, generate
from native_engine.request import SamplingParams
from tests.native_engine.fake_runner import FakeRunner, expected_output, make_scheduler
from tests.native_engine.tiny_model import write_gguf


class Letters:
    """A tokenizer whose token n is the character 48 + n."""

    vocab_size = 50

    def __init__(self, *end: int) -> None:
        self.eos_token_ids = frozenset(end)

    def encode(self, text: str) -> list[int]:
        return [ord(character) - 48 for character in text]

    def id_to_bytes(self, token_id: int) -> bytes:
        return chr(48 + token_id).encode()


def text_of(tokens: list[int]) -> str:
    return "".join(chr(48 + token) for token in tokens)


def make_engine() -> Engine:
    return Engine(FakeRunner(64), make_scheduler(64, max_num_seqs=2))


def run(
    prompts: list[list[int]], params: SamplingParams, end: int = -1, engine: Engine | None = None
) -> list[Completion]:
    tokenizer: Any = Letters(end)
    return generate(engine or make_engine(), tokenizer, prompts, [params] * len(prompts))


def test_answers_come_in_the_order_of_the_prompts() -> None:
    prompts = [[number] * length for number, length in ((1, 40), (2, 3), (3, 70), (4, 1))]
    completions = run(prompts, SamplingParams(max_tokens=12))
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.token_ids == expected_output(prompt, 12)
        assert completion.text == text_of(completion.token_ids)
        assert (completion.finish_reason, completion.num_prompt_tokens) == ("length", len(prompt))


def test_a_stop_string_ends_a_completion_before_it() -> None:
    output = expected_output([1, 2, 3], 20)
    stop = text_of(output[5:8])
    (completion,) = run([[1, 2, 3]], SamplingParams(max_tokens=20, stop=(stop,)))
    assert (completion.text, completion.finish_reason) == (text_of(output[:5]), "stop")
    assert completion.token_ids == output[:8]


def test_the_token_that_ends_the_text_is_no_part_of_it() -> None:
    output = expected_output([1, 2, 3], 20)
    first = output.index(output[6])
    (completion,) = run([[1, 2, 3]], SamplingParams(max_tokens=20), end=output[6])
    assert (completion.text, completion.finish_reason) == (text_of(output[:first]), "stop")


def test_a_prompt_that_can_never_run_is_named_and_nothing_is_run() -> None:
    engine = make_engine()
    with pytest.raises(ValueError, match="prompt 1: the prompt has 2000 tokens"):
        run([[1], [2] * 2000], SamplingParams(), engine=engine)
    assert engine.stats().steps == 0


def test_an_interrupt_leaves_the_engine_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    execute = engine.runner.execute

    def interrupted(batch: Any) -> list[int]:
        if engine.steps == 3:
            raise KeyboardInterrupt
        return execute(batch)

    monkeypatch.setattr(engine.runner, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run([[1, 2, 3]], SamplingParams(max_tokens=20), engine=engine)
    assert not engine.scheduler.has_work
    assert engine.stats().kv_blocks_used == 0


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> LLM:
    monkeypatch.setattr("native_engine.llm._load", lambda config, data_dir: (make_engine(), Letters(), None))
    return LLM("any")


def test_one_prompt_or_many_as_text_or_as_tokens(llm: LLM) -> None:
    params = SamplingParams(max_tokens=4)
    alone = llm.generate("123", params)
    assert alone[0].token_ids == expected_output([1, 2, 3], 4)
    assert [each.token_ids for each in llm.generate([1, 2, 3], params)] == [alone[0].token_ids]
    both: list[Prompt] = ["123", [1, 2, 3]]
    assert [each.token_ids for each in llm.generate(both, params)] == [alone[0].token_ids] * 2
    assert llm.generate([], params) == []


def test_each_prompt_can_have_its_own_parameters(llm: LLM) -> None:
    completions = llm.generate(["1", "2"], [SamplingParams(max_tokens=1), SamplingParams(max_tokens=2)])
    assert [len(completion.token_ids) for completion in completions] == [1, 2]
    with pytest.raises(ValueError, match="1 sampling parameters for 2 prompts"):
        llm.generate(["1", "2"], [SamplingParams()])


def test_a_model_without_a_template_cannot_chat(llm: LLM) -> None:
    with pytest.raises(ValueError, match="no chat template"):
        llm.chat([{"role": "user", "content": "Hello"}])


def test_settings_that_cannot_hold_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--max-num-seqs is 0.*; --block-size is 7"):
        LLM("any", data_dir=tmp_path, max_num_seqs=0, block_size=7)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    path = write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")
    return LLM(str(path), max_model_len=128)


def test_answers_have_the_form_that_was_asked_for(tiny: LLM, tmp_path: Path) -> None:
    params = SamplingParams(max_tokens=40, temperature=1.0, seed=5)
    asked: dict[str, Any] = {"choice": ["yes", "no, never"]}
    for completion in tiny.generate(["hello", "world", "12"], params, structured_outputs=asked):
        assert completion.text in ("yes", "no, never")
    (chatted,) = tiny.chat([{"role": "user", "content": "hello"}], params, structured_outputs={"regex": "[0-9]{3}"})
    assert chatted.text.isdigit()
    assert len(chatted.text) == 3


def test_another_form_is_another_question_to_the_journal(tiny: LLM, tmp_path: Path) -> None:
    params, path = SamplingParams(max_tokens=20), tmp_path / "answers.jsonl"
    for form in (None, {"choice": ["yes"]}, {"choice": ["no"]}):
        (completion,) = tiny.generate("hello", params, structured_outputs=form, journal=path)
        assert form is None or completion.text == form["choice"][0]


def test_a_form_that_is_none_is_refused_by_its_fault(tiny: LLM) -> None:
    with pytest.raises(ValueError, match=r"structured_outputs\.json"):
        tiny.generate("hello", structured_outputs={"json": "{"})
