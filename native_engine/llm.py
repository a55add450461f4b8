"""The engine without a server: prompts in, completions or vectors out, in one thread. Knows no HTTP and no streams.

llm = LLM("smollm2-135m")
for completion in llm.generate(["The capital of France is"], SamplingParams(max_tokens=16)):
    print(completion.text)

vectors = LLM("all-minilm-l6-v2").embed(["The sea is blue.", "海は青い。"])
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as ListLike
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from rich.progress import Progress

from native_engine.beam_search import BeamSearchParams, beam_search
from native_engine.config import EngineConfig, validate
from native_engine.embedder import Encoder, Vector, embed, shortened
from native_engine.engine import Engine, Stats
from native_engine.journal import Journal, key_of
from native_engine.request import Constraint, SamplingParams, Sequence, Stages, stages_of
from native_engine.text.bad_words import spelled
from native_engine.text.choice import Choice

if TYPE_CHECKING:
    from native_engine.loading.chat_template import ChatTemplate
    from native_engine.loading.text_encoder import TextEncoder
    from native_engine.loading.tokenizer import Tokenizer
    from native_engine.structured.compiler import Compiler

Prompt = str | ListLike[int]
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """`token_ids` holds all that was generated; `text` ends before a stop string or the token that ended it."""

    text: str
    token_ids: list[int]
    finish_reason: str
    num_prompt_tokens: int
    num_cached_tokens: int
    stages: Stages


class BeamCompletion(NamedTuple):
    """`token_ids` may end with the token that ended the answer, which is no part of the text."""

    text: str
    token_ids: tuple[int, ...]
    logprob: float
    score: float


class _Embedding(NamedTuple):
    encoder: Encoder
    texts: TextEncoder


class LLM:
    """A loaded model, which generates or makes embeddings. One that is not here yet is fetched first.

    `settings` are the fields of EngineConfig.
    """

    def __init__(self, model: str, *, data_dir: str | Path | None = None, **settings: Any) -> None:
        config = EngineConfig(model=model, **settings)
        if faults := validate(config):
            raise ValueError("; ".join(faults))
        if config.tensor_parallel_size > 1:
            raise ValueError(
                f"tensor_parallel_size is {config.tensor_parallel_size}, but LLM works in one process: run "
                f"`sekisho engine --model {model} --tensor-parallel-size {config.tensor_parallel_size}` and ask it "
                "over HTTP, or leave it at 1"
            )
        self._config = config
        self._loaded = _load(config, Path(data_dir) if data_dir else _data_dir())

    def generate(
        self,
        prompts: Prompt | ListLike[Prompt],
        params: SamplingParams | ListLike[SamplingParams] | None = None,
        *,
        structured_outputs: Mapping[str, Any] | None = None,
        progress: bool = False,
        journal: str | Path | None = None,
    ) -> list[Completion]:
        """Text or token ids, one or many; `params` for all, or one for each. Answers come in the prompts' order.

        `structured_outputs` is the form that every answer has, as the HTTP field: {"json": schema}, {"regex": ...},
        {"choice": [...]}, {"grammar": ...}. With `journal`, a file, each completion is kept there as it comes, and what
        is there already is not asked again.
        """
        _, tokenizer, _ = self._generator
        encoded = [tokenizer.encode(each) if isinstance(each, str) else list(each) for each in _as_list(prompts)]
        return self._generate(encoded, params, structured_outputs, progress, journal)

    def chat(
        self,
        conversations: ListLike[Message] | ListLike[ListLike[Message]],
        params: SamplingParams | ListLike[SamplingParams] | None = None,
        *,
        structured_outputs: Mapping[str, Any] | None = None,
        progress: bool = False,
        journal: str | Path | None = None,
    ) -> list[Completion]:
        """The answer to one conversation, or to each of several; the rest as in `generate`."""
        from native_engine.loading.chat_prompt import encode_chat

        _, tokenizer, template = self._generator
        if template is None:
            raise ValueError("the model has no chat template; use generate()")
        one = bool(conversations) and isinstance(conversations[0], Mapping)
        each: Any = [conversations] if one else conversations
        encoded = [encode_chat(tokenizer, template, messages) for messages in each]
        return self._generate(encoded, params, structured_outputs, progress, journal)

    def beam_search(self, prompts: Prompt | ListLike[Prompt], params: BeamSearchParams) -> list[list[BeamCompletion]]:
        """For each prompt the `beam_width` likeliest answers, the best first, as transformers searches for them."""
        engine, tokenizer, _ = self._generator
        encoded = [tokenizer.encode(each) if isinstance(each, str) else list(each) for each in _as_list(prompts)]
        found = beam_search(engine, encoded, params, tokenizer.eos_token_ids)
        return [[BeamCompletion(tokenizer.decode(list(beam.token_ids)), *beam) for beam in beams] for beams in found]

    def embed(
        self, inputs: Prompt | ListLike[Prompt], *, dimensions: int | None = None, progress: bool = False
    ) -> Vector:
        """Text or token ids, one or many: [inputs, dimensions], in their order. Refuses all where one is too long.

        `dimensions`: only so many of each vector's numbers, the first ones, for models that were trained for it.
        """
        if not isinstance(self._loaded, _Embedding):
            raise ValueError(f"{self._config.model} generates text: use generate() or chat()")
        encoder, texts = self._loaded
        encoded = [texts.encode(each) if isinstance(each, str) else list(each) for each in _as_list(inputs)]
        for index, tokens in enumerate(encoded):
            if not 0 < len(tokens) <= encoder.max_model_len:
                raise ValueError(f"input {index}: {len(tokens)} tokens, and {encoder.max_model_len} at most can be")
        if dimensions is not None and not 1 <= dimensions <= encoder.dimensions:
            raise ValueError(f"dimensions is {dimensions}, but the vectors of this model have {encoder.dimensions}")
        with Progress(disable=not progress) as bar:
            task = bar.add_task("embedding", total=len(encoded))
            vectors = embed(encoder, self._config, encoded, lambda: bar.advance(task))
        return shortened(vectors, dimensions, encoder)

    def stats(self) -> Stats:
        """What the engine has done so far: tokens, steps, cache hits, guesses."""
        engine, _, _ = self._generator
        return engine.stats()

    def _generate(
        self,
        prompts: list[list[int]],
        params: SamplingParams | ListLike[SamplingParams] | None,
        structured_outputs: Mapping[str, Any] | None,
        progress: bool,
        journal: str | Path | None,
    ) -> list[Completion]:
        engine, tokenizer, _ = self._generator
        each = _for_each(params, len(prompts))
        grammar = _grammar(structured_outputs)
        constraints = self._compiler.constraints(self._compiler.compile(grammar), len(prompts)) if grammar else None
        with Journal(journal, self._config.model) if journal else nullcontext() as kept:
            return generate(
                engine,
                tokenizer,
                prompts,
                each,
                constraints=constraints,
                grammar=grammar,
                progress=progress,
                journal=kept,
            )

    @cached_property
    def _compiler(self) -> Compiler:
        from native_engine.structured.compiler import Compiler

        _, tokenizer, _ = self._generator
        return Compiler(tokenizer)

    @property
    def _generator(self) -> tuple[Engine, Tokenizer, ChatTemplate | None]:
        if isinstance(self._loaded, _Embedding):
            raise ValueError(f"{self._config.model} makes embeddings: use embed()")
        return self._loaded


def generate(
    engine: Engine,
    tokenizer: Tokenizer,
    prompts: ListLike[list[int]],
    params: ListLike[SamplingParams],
    *,
    constraints: ListLike[Constraint] | None = None,
    grammar: str = "",
    progress: bool = False,
    journal: Journal | None = None,
) -> list[Completion]:
    """Runs all prompts to their ends on an idle engine. Refuses the whole list where one prompt can never run.

    `constraints`: one for each, all of the same `grammar`.
    """
    sequences = [
        Sequence(
            str(index),
            prompt,
            spelled(each, tokenizer),
            eos_token_ids=tokenizer.eos_token_ids,
            constraint=constraints[index] if constraints else None,
        )
        for index, (prompt, each) in enumerate(zip(prompts, params, strict=True))
    ]
    for sequence in sequences:
        try:
            engine.check(sequence)
        except ValueError as fault:
            raise ValueError(f"prompt {sequence.request_id}: {fault}") from fault
    done = _kept(journal, sequences, grammar) if journal else {}
    with Progress(disable=not progress) as bar:
        task = bar.add_task("generating", total=len(sequences), completed=len(done))

        def end(sequence: Sequence, completion: Completion) -> None:
            done[sequence.request_id] = completion
            if journal and completion.finish_reason in ("stop", "length"):  # what failed may go better next time
                journal.add(_key(sequence, grammar), msgspec.to_builtins(completion))
            bar.advance(task)

        try:
            _run(engine, tokenizer, [each for each in sequences if each.request_id not in done], end)
        finally:  # an interrupt leaves the engine as idle as it was
            engine.abort_all()
    return [done[sequence.request_id] for sequence in sequences]


def _run(
    engine: Engine, tokenizer: Tokenizer, sequences: list[Sequence], on_end: Callable[[Sequence, Completion], None]
) -> None:
    """Calls `on_end` with each as it ends."""
    choices = {
        sequence.request_id: Choice(0, sequence.request_id, sequence.params, tokenizer.id_to_bytes)
        for sequence in sequences
    }
    texts = dict.fromkeys(choices, "")
    by_id = {sequence.request_id: sequence for sequence in sequences}
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        for output in engine.step():
            choice, sequence = choices[output.request_id], by_id[output.request_id]
            texts[output.request_id] += choice.take(output).text
            if choice.finish_reason is not None:
                engine.abort(output.request_id)  # ends the one that met a stop string; others have ended by themselves
                on_end(sequence, _completion(sequence, texts[output.request_id], choice.finish_reason))


def _kept(journal: Journal, sequences: list[Sequence], grammar: str) -> dict[str, Completion]:
    """What an earlier run has answered, by request id."""
    found = ((sequence.request_id, journal.take(_key(sequence, grammar))) for sequence in sequences)
    return {request_id: msgspec.convert(entry, Completion) for request_id, entry in found if entry is not None}


def _key(sequence: Sequence, grammar: str) -> str:
    return key_of(sequence.token_ids[: sequence.num_prompt_tokens], sequence.params, grammar)


def _grammar(structured_outputs: Mapping[str, Any] | None) -> str:
    from native_engine.structured.grammars import structured_form

    form = structured_form(structured_outputs or {})
    return form.grammar if form else ""


def _completion(sequence: Sequence, text: str, finish_reason: str) -> Completion:
    return Completion(
        text,
        sequence.output_token_ids,
        finish_reason,
        sequence.num_prompt_tokens,
        sequence.num_cached_tokens,
        stages_of([sequence], time.monotonic()),
    )


def _load(config: EngineConfig, data_dir: Path) -> _Embedding | tuple[Engine, Tokenizer, ChatTemplate | None]:
    from native_engine.device import settled
    from native_engine.encoder import load_encoder
    from native_engine.loading.chat_template import ChatTemplate
    from native_engine.loading.encoder_config import is_encoder
    from native_engine.loading.store import pull
    from native_engine.loading.text_encoder import TextEncoder
    from native_engine.loading.tokenizer import load_tokenizer
    from native_engine.loading.weights import open_weights
    from native_engine.model_runner import load_runner

    path = pull(config.model, data_dir)
    if is_encoder(path):
        return _Embedding(load_encoder(config, path), TextEncoder(path))
    weights = open_weights(path)
    tokenizer = load_tokenizer(path)
    source = weights.config.chat_template
    template = ChatTemplate(source, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token) if source else None
    config = settled(config)
    return Engine.create(load_runner(config, weights), config), tokenizer, template


def _data_dir() -> Path:
    """Where the CLI keeps models too."""
    chosen = os.environ.get("SEKISHO_DATA_DIR")
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(chosen or f"{base}/sekisho").expanduser()


def _as_list(prompts: Prompt | ListLike[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def _for_each(params: SamplingParams | ListLike[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if len(params) != count:
        raise ValueError(f"{len(params)} sampling parameters for {count} prompts")
    return list(params)
