"""Each check finds what it looks for, on an engine that keeps every promise and on one that breaks one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from backends.base import Load, ModelCard, Options, Readiness, Refusal
from backends.check import CHECKS, Engine, Outcome, connect, examine, kind_of, service
from backends.check.suite import Check
from backends.errors import Unreachable
from backends.fake import FakeBackend
from tests.backends.check import words

BY_NAME: Mapping[str, Check] = {check.name: check for check in CHECKS}


async def tried(name: str, backend: FakeBackend, seconds: float = 10.0) -> Outcome:
    return await examine(BY_NAME[name], Engine(backend, "fake", words.CONTEXT), seconds)


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_NEWS_SECONDS", 0.5)


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "kind"])
async def test_an_engine_that_keeps_its_promises_passes(name: str) -> None:
    outcome = await tried(name, words.engine())
    assert outcome.verdict == "ok", outcome.seen


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("stream", "ends"),
        ("stream", "lumps"),
        ("stream", "stumbles"),
        ("usage", "usage"),
        ("max_tokens", "max_tokens"),
        ("max_tokens", "reasons"),
        ("max_completion_tokens", "max_completion_tokens"),
        ("stop", "stop"),
        ("stop", "stop is kept"),
        ("logprobs", "logprobs"),
        ("logprobs", "alternatives"),
        ("tools", "tools"),
        ("tools", "schemas"),
        ("structured_output", "forms"),
        ("structured_output", "schemas"),
        ("choices", "n"),
        ("unknown_model", "blames itself"),
        ("too_long", "blames itself"),
        ("too_long", "cuts"),
        ("bad_value", "blames itself"),
        ("turns", "cuts"),
        ("characters", "characters"),
        ("long_prompt", "cuts"),
        ("parallel", "ends"),
        ("completions", "ends"),
        ("embeddings", "vectors"),
        ("rerank", "ranks"),
        ("continuation", "repeats"),
    ],
)
async def test_a_broken_promise_is_found(name: str, broken: str) -> None:
    outcome = await tried(name, words.engine(broken))
    assert outcome.verdict == "failed", outcome.seen


@pytest.mark.parametrize(
    ("name", "broken"),
    [("seed", "moods"), ("greedy", "moods"), ("unknown_model", "any model"), ("continuation", "continues")],
)
async def test_what_an_engine_does_not_promise_is_no_failure(name: str, broken: str) -> None:
    assert (await tried(name, words.engine(broken))).verdict == "not supported"


@pytest.mark.parametrize("name", ["stream", "tools", "embeddings"])
async def test_what_the_adapter_refuses_is_not_supported_in_its_own_words(name: str) -> None:
    backend = words.engine()
    backend.refuses = Refusal("It cannot.", "n")
    outcome = await tried(name, backend)
    assert (outcome.verdict, outcome.seen) == ("not supported", "It cannot.")
    assert backend.asked == []


async def test_an_engine_may_say_that_it_lacks_what_is_optional_and_nothing_else() -> None:
    backend = FakeBackend(lambda body: words._json({"error": "no such thing"}, 501))
    verdicts = {check.name: (await tried(check.name, backend)).verdict for check in (BY_NAME["tools"], BY_NAME["stop"])}
    assert verdicts == {"tools": "not supported", "stop": "failed"}


class Told(FakeBackend):
    """Of load it says the next of these, and the last for ever."""

    def __init__(self, *running: int | None) -> None:
        super().__init__(words.engine().answer)
        self._told = list(running)

    async def load(self) -> Load:
        return Load(self._told.pop(0) if len(self._told) > 1 else self._told[0])


@pytest.mark.parametrize(
    ("name", "told", "verdict"),
    [
        ("load", (0, 0, 1), "ok"),
        ("load", (0,), "failed"),
        ("load", (None,), "not supported"),
        ("abort", (0, 1, 0), "ok"),
        ("abort", (0, 1), "failed"),
        ("abort", (None,), "ok"),
    ],
)
async def test_figures_of_load_may_come_late_but_must_come(
    name: str, told: tuple[int | None, ...], verdict: str
) -> None:
    assert (await tried(name, Told(*told))).verdict == verdict


async def test_who_leaves_closes_the_stream() -> None:
    backend = words.engine()
    await tried("abort", backend)
    assert backend.asked[0].aborted


async def test_an_engine_that_is_not_ready_or_lists_other_models_fails() -> None:
    backend = FakeBackend(models=["other"])
    backend.is_ready = False
    assert (await tried("readiness", backend)).seen == f"it is {Readiness.DOWN.value}"
    assert (await tried("models", backend)).verdict == "failed"


@pytest.mark.parametrize(
    ("owner", "kind", "verdict"),
    [
        ("vllm", "vllm", "ok"),
        ("vllm", "openai", "ok"),
        ("vllm", "sglang", "failed"),
        ("a company", "openai", "not supported"),
    ],
)
async def test_the_kind_is_held_against_what_the_model_list_says(owner: str, kind: str, verdict: str) -> None:
    backend = FakeBackend()
    backend.kind = kind
    backend._models = [ModelCard("fake", 4096, owner)]
    assert (await tried("kind", backend)).verdict == verdict


async def test_no_check_takes_longer_than_it_may_or_ends_the_run() -> None:
    async def waits(engine: Engine) -> str:
        await asyncio.sleep(60)
        return ""

    async def breaks(engine: Engine) -> str:
        raise Unreachable("gone")

    async def stumbles(engine: Engine) -> str:
        raise KeyError("data")

    engine = Engine(FakeBackend(), "fake")
    seen = [(await examine(Check("", "", run), engine, 0.05)).seen for run in (waits, breaks, stumbles)]
    assert seen == ["no end within 0.05 s", "Unreachable: gone", "it cannot be understood: KeyError: 'data'"]


@pytest.mark.parametrize(
    ("owners", "kind"),
    [(("llamacpp",), "llamacpp"), (("me", "library"), "ollama"), (("sekisho",), "native"), (("openai",), "openai")],
)
def test_the_kind_is_told_by_who_owns_the_models(owners: tuple[str, ...], kind: str) -> None:
    assert kind_of(ModelCard("m", None, owner) for owner in owners) == kind


async def test_the_first_model_is_taken_where_none_is_named() -> None:
    engine = await connect("http://unused", kind="fake", options=Options())
    assert (engine.model, engine.context_length) == ("fake", 4096)
    with pytest.raises(LookupError, match="no model other: fake"):
        await connect("http://unused", kind="fake", model="other", options=Options())
