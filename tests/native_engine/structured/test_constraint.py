"""What a grammar lets through, whatever the model wants, and through whatever the scheduler does to the request."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from native_engine.batch import ScheduledBatch
from native_engine.block_manager import BlockManager
from native_engine.engine import Engine
from native_engine.loading.tokenizer import Tokenizer, load_tokenizer
from native_engine.request import FinishReason, SamplingParams, Sequence
from native_engine.sampling.sampler import Sampler
from native_engine.scheduler import Scheduler
from native_engine.structured.compiler import MAX_KEPT, Compiler, GrammarFault
from native_engine.structured.constraint import GrammarConstraint
from native_engine.structured.grammars import schema_grammar
from tests.native_engine.fake_runner import FakeRunner
from tests.native_engine.tiny_model import write_gguf

LONGEST = 400

TOKENIZER: Tokenizer
COMPILER: Compiler

names = st.sampled_from(["a", "name", "日本", 'q"x', "with space"])
leaves = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"enum": ["red", 3, None, "è"]}),
    st.builds(
        lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
        st.integers(-50, 50),
        st.integers(0, 200),
    ),
    st.builds(
        lambda low, size: {"type": "string", "minLength": low, "maxLength": low + size},
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    st.just({"type": "string", "pattern": "^[a-c]{2,4}$"}),
)


def _object(properties: dict[str, Any], optional: bool) -> dict[str, Any]:
    required = sorted(properties)[:1] if optional else list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(_object, st.dictionaries(names, inner, max_size=3), st.booleans()),
        st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(0, 3)),
        st.builds(lambda *kinds: {"anyOf": list(kinds)}, inner, inner),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module", autouse=True)
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    global TOKENIZER, COMPILER  # hypothesis takes no fixture of a function's scope
    TOKENIZER = load_tokenizer(write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))
    COMPILER = Compiler(TOKENIZER)
    return COMPILER


class NoiseRunner(FakeRunner):
    """A model that wants anything at all: its logits are noise, made of the tokens so far."""

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        self.store(batch)
        sequences = [item.sequence for item in batch.items if item.samples]
        logits = torch.stack([noise(self.read(sequence)) for sequence in sequences]) if sequences else torch.zeros(0, 1)
        return self.sampler.sample(logits, logits.argmax(-1).tolist() if sequences else [], batch.items)

    sampler = Sampler(seed=0)


def noise(tokens: list[int]) -> torch.Tensor:
    random = np.random.default_rng(tokens)
    return torch.from_numpy(random.standard_normal(TOKENIZER.vocab_size).astype(np.float32) * 3)


def constrained(request_id: str, grammar: str, prompt: list[int], **params: Any) -> Sequence:
    (constraint,) = COMPILER.constraints(COMPILER.compile(grammar), 1)
    chosen = SamplingParams(**{"max_tokens": LONGEST, "seed": 1, **params})
    return Sequence(request_id, prompt, chosen, eos_token_ids=TOKENIZER.eos_token_ids, constraint=constraint)


def answers(sequences: list[Sequence], num_blocks: int = 400) -> tuple[list[list[int]], Engine]:
    runner = NoiseRunner(num_blocks)
    engine = Engine(runner, Scheduler(BlockManager(num_blocks, 16, True), 8, 64, 4096))
    for sequence in sequences:
        engine.add(sequence)
    while engine.scheduler.has_work:
        engine.step()
    return [sequence.output_token_ids for sequence in sequences], engine


def text(tokens: list[int]) -> str:
    return b"".join(map(TOKENIZER.id_to_bytes, tokens)).decode()


@settings(max_examples=60, deadline=None)
@given(schema=schemas, seed=st.integers(0, 1000), temperature=st.sampled_from([0.0, 1.0]))
def test_whatever_the_model_wants_the_answer_fits_its_schema(
    schema: dict[str, Any], seed: int, temperature: float
) -> None:
    sequence = constrained("r", schema_grammar(schema), [seed % 250 + 1, 5], seed=seed, temperature=temperature)
    answers([sequence])
    assert sequence.finish_reason is FinishReason.STOP
    jsonschema_rs.validate(schema, json.loads(text(sequence.output_token_ids)))


SCHEMA = _object({"a": {"type": "string", "minLength": 20, "maxLength": 40}, "b": {"enum": ["x", "y"]}}, optional=False)


def test_a_preempted_request_goes_on_where_its_grammar_was() -> None:
    def five() -> list[Sequence]:
        return [constrained(str(n), schema_grammar(SCHEMA), [n + 1] * 20, seed=n) for n in range(5)]

    alone = [answers([sequence])[0][0] for sequence in five()]
    crowded, engine = answers(five(), num_blocks=12)
    assert engine.scheduler.num_preemptions > 0
    assert crowded == alone
    for tokens in crowded:
        jsonschema_rs.validate(SCHEMA, json.loads(text(tokens)))


def test_neighbours_without_a_grammar_are_not_held_to_one() -> None:
    free = Sequence("free", [3, 4], SamplingParams(max_tokens=30, temperature=0.0))
    (alone,), _ = answers([Sequence("free", [3, 4], SamplingParams(max_tokens=30, temperature=0.0))])
    answers([constrained("held", schema_grammar(SCHEMA), [1, 2]), free])
    assert free.output_token_ids == alone


def test_an_aborted_request_leaves_nothing_behind() -> None:
    runner = NoiseRunner(40)
    engine = Engine(runner, Scheduler(BlockManager(40, 16, True), 8, 64, 4096))
    engine.add(constrained("gone", schema_grammar(SCHEMA), [1, 2]))
    engine.step()
    engine.step()
    assert [output.finish_reason for output in engine.abort("gone")] == [FinishReason.ABORT]
    assert engine.scheduler.blocks.num_used == 0
    assert engine.step() == []


def test_a_grammar_beyond_its_limits_ends_its_own_request_with_an_error() -> None:
    class Lost:
        ready = True

        def allowed(self) -> bytes | None:
            return None

        def push(self, token: int) -> None:
            raise AssertionError("a token that never was")

    lost = Sequence("lost", [1, 2], SamplingParams(max_tokens=9), constraint=Lost())
    other = constrained("other", schema_grammar(SCHEMA), [1, 2])
    answers([lost, other])
    assert (lost.finish_reason, other.finish_reason) == (FinishReason.ERROR, FinishReason.STOP)


def test_a_place_that_was_lost_is_told(compiler: Compiler) -> None:
    (constraint,) = compiler.constraints(compiler.compile(schema_grammar(SCHEMA)), 1)
    assert constraint.allowed() is not None
    constraint.push(TOKENIZER.encode("}")[0])
    assert constraint.allowed() is None


def test_it_is_ready_as_soon_as_its_mask_is_made(compiler: Compiler) -> None:
    matcher = compiler.compile(schema_grammar(SCHEMA))
    with ThreadPoolExecutor(1) as masks:
        gate = threading.Event()
        masks.submit(gate.wait)
        constraint = GrammarConstraint(matcher.deep_copy(), masks)
        assert not constraint.ready
        gate.set()
        assert constraint.allowed() is not None
        assert constraint.ready


def test_a_fault_in_a_grammar_is_named(compiler: Compiler) -> None:
    with pytest.raises(GrammarFault, match="objekt"):
        compiler.compile(schema_grammar({"type": "objekt"}))


@pytest.mark.parametrize("begun", ['{"a": "twenty characters', '{\n  "a"', "{"])
def test_an_answer_that_was_begun_is_gone_on_with(compiler: Compiler, begun: str) -> None:
    (constraint,) = compiler.constraints(compiler.compile(schema_grammar(SCHEMA), begun), 1)
    params = SamplingParams(max_tokens=LONGEST, seed=1)
    sequence = Sequence("r", [1], params, eos_token_ids=TOKENIZER.eos_token_ids, constraint=constraint)
    answers([sequence])
    jsonschema_rs.validate(SCHEMA, json.loads(begun + text(sequence.output_token_ids)))


def test_what_cannot_be_gone_on_with_is_refused(compiler: Compiler) -> None:
    with pytest.raises(GrammarFault, match="does not begin"):
        compiler.compile(schema_grammar(SCHEMA), "Sure! Here")


def test_a_grammar_that_was_used_is_not_compiled_again(compiler: Compiler) -> None:
    grammar = schema_grammar({"type": "object", "properties": {"only": {"const": "here"}}})
    first, second = compiler.compile(grammar), compiler.compile(grammar)
    assert compiler._compiled.cache_info().hits > 0
    first.consume_token(TOKENIZER.encode("{")[0])
    assert second.compute_bitmask() == compiler.compile(grammar).compute_bitmask() != first.compute_bitmask()


def test_only_so_many_grammars_are_kept() -> None:
    compiler = Compiler(TOKENIZER)
    for number in range(MAX_KEPT + 5):
        compiler.compile(f'start: "{number}"')
    assert compiler._compiled.cache_info().currsize == MAX_KEPT


HOSTILE: dict[str, Any] = {
    "deep": reduce(lambda inner, _: {"type": "array", "items": inner}, range(60), {"type": "null"}),
    "recursive": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
    "long": {"type": "string", "maxLength": 10_000_000},
    "many": {"enum": [f"value {number}" for number in range(5000)]},
    "wide": {"anyOf": [{"type": "object", "required": [f"key {number}"]} for number in range(200)]},
}


def followed(grammar: str) -> FinishReason | None:
    """How an answer in this form ends, beside another; None where the form is refused."""
    try:
        sequence = constrained("hostile", grammar, [1, 2], max_tokens=60)
    except GrammarFault:
        return None
    neighbour = constrained("other", schema_grammar(SCHEMA), [1, 2])
    answers([sequence, neighbour])
    assert neighbour.finish_reason is FinishReason.STOP
    return sequence.finish_reason


ENDS = (None, FinishReason.STOP, FinishReason.LENGTH, FinishReason.ERROR)


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_schema_is_refused_or_followed(schema: Any) -> None:
    assert followed(schema_grammar(schema)) in ENDS


@pytest.mark.parametrize(
    "regex", ["(a|b)*a(a|b){14}", "(a{1,1000}){1,1000}", "(.*a.*b.*c.*d.*){50}", r"(\p{L}|\p{N}){200,4000}", "(a*)*b"]
)
def test_a_hostile_regex_is_refused_or_followed(regex: str) -> None:
    assert followed(LLMatcher.grammar_from_regex(regex)) in ENDS


@pytest.mark.parametrize("grammar", ['start: a\na: a a | "x"', "start: a\na: a", 'start: "a" b\nb: b "c"'])
def test_a_grammar_without_an_end_is_refused_or_followed(grammar: str) -> None:
    assert followed(grammar) in ENDS


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#"}, "nothing can begin"),
        ({"enum": []}, "empty"),
        ({"allOf": [{"pattern": f"(a|b)*a(a|b){{{n}}}"} for n in range(9)]}, "empty"),
    ],
)
def test_what_no_answer_can_fit_is_refused_in_a_few_words(compiler: Compiler, schema: Any, reason: str) -> None:
    with pytest.raises(GrammarFault, match=reason) as fault:
        compiler.compile(schema_grammar(schema))
    assert len(str(fault.value)) < 500


@pytest.mark.slow
def test_a_real_model_says_what_fits(smollm2: Path) -> None:
    from native_engine.llm import LLM

    engine, tokenizer, _ = LLM(str(smollm2), max_model_len=1024)._generator
    compiler = Compiler(tokenizer)
    matcher = compiler.compile(schema_grammar(SCHEMA))
    prompt = tokenizer.encode("<|im_start|>user\nWrite JSON.<|im_end|>\n<|im_start|>assistant\n")
    sequences = [
        Sequence(
            str(n),
            prompt,
            SamplingParams(max_tokens=300, seed=n),
            eos_token_ids=tokenizer.eos_token_ids,
            constraint=each,
        )
        for n, each in enumerate(compiler.constraints(matcher, 4))
    ]
    for sequence in sequences:
        engine.add(sequence)
    while engine.scheduler.has_work:
        engine.step()
    for sequence in sequences:
        assert sequence.finish_reason is FinishReason.STOP
        jsonschema_rs.validate(SCHEMA, json.loads(tokenizer.decode(sequence.output_token_ids)))
