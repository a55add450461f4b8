"""What is asked of a server, by dataset."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from backends.bench import BenchConfig, BenchError, measure, usual_lengths, validate
from backends.bench.datasets import Conversation, conversations, repeated
from backends.bench.lengths import ANSWERS, PROMPTS, Spread
from backends.bench.pages import html_page
from backends.bench.prompts import Scale
from backends.bench.stats import percentile
from tests.backends.bench.server import Script, serving

ONE_WORD_A_TOKEN = Scale()


def made(**settings: Any) -> list[Conversation]:
    config = BenchConfig(**settings)
    assert validate(config) == []
    return conversations(config, ONE_WORD_A_TOKEN)


def prompts(asked: list[Conversation]) -> list[list[str]]:
    return [turn.messages[0]["content"].split() for one in asked for turn in one.turns]


def answers(asked: list[Conversation]) -> list[int]:
    return [turn.output_tokens for one in asked for turn in one.turns]


@pytest.mark.parametrize("name", ["random", "sharegpt-like", "rag", "multi-turn"])
def test_the_same_seed_asks_the_same_and_another_asks_something_else(name: str) -> None:
    settings = {"dataset_name": name, "num_requests": 9, "shared_prefix_tokens": 5, "document_tokens": 9}
    assert made(**settings) == made(**settings)
    assert made(**settings) != made(**settings, seed=1)
    assert len(prompts(made(**settings))) == 9


def test_fixed_lengths_are_fixed() -> None:
    asked = made(num_requests=3, input_tokens=50, output_tokens=7)
    assert {len(text) for text in prompts(asked)} == {50}
    assert answers(asked) == [7, 7, 7]


def test_lengths_like_sharegpts_spread_around_the_means_asked_for() -> None:
    asked = made(dataset_name="sharegpt-like", num_requests=4000, input_tokens=160, output_tokens=300)
    for lengths, wanted, middle in (
        (list(map(len, prompts(asked))), 160, 160 * 64 / 212),
        (answers(asked), 300, 300 * 471 / 468),
    ):
        assert mean(lengths) == pytest.approx(wanted, rel=0.1)
        assert median(lengths) == pytest.approx(middle, rel=0.1)
        assert min(lengths) >= 1
        assert max(lengths) <= wanted * 8


@pytest.mark.parametrize(
    ("spread", "percentiles"),
    [(PROMPTS, {10: 16, 50: 64, 80: 262, 90: 600, 95: 1089}), (ANSWERS, {10: 67, 50: 471, 90: 871, 99: 1003})],
)
def test_at_its_own_mean_a_spread_has_the_percentiles_that_were_published(
    spread: Spread, percentiles: dict[float, float]
) -> None:
    rng = random.Random(3)
    drawn = sorted(spread.drawn(rng, spread.mean) for _ in range(20_000))
    assert mean(drawn) == pytest.approx(spread.mean, rel=0.03)
    for percent, length in percentiles.items():
        assert percentile(drawn, percent) == pytest.approx(length, rel=0.06)


def test_without_lengths_those_of_the_people_are_asked_for() -> None:
    assert usual_lengths("sharegpt-like") == (212, 468)
    assert usual_lengths("rag") == (128, 128)


def test_prompts_of_rag_share_an_instruction_or_a_document_too() -> None:
    asked = prompts(
        made(
            dataset_name="rag",
            num_requests=200,
            input_tokens=60,
            shared_prefix_tokens=20,
            document_tokens=30,
            num_prefixes=3,
            documents_per_prefix=4,
        )
    )
    assert {len(text) for text in asked} == {60}
    assert len({tuple(text[:20]) for text in asked}) == 3
    assert len({tuple(text[:50]) for text in asked}) == 3 * 4
    assert len({tuple(text[20:50]) for text in asked}) == 3 * 4  # an instruction's documents are its own
    assert len({tuple(text) for text in asked}) == 200


def test_rag_needs_its_lengths() -> None:
    assert "document_tokens is 0: expected at least 1" in validate(BenchConfig(dataset_name="rag"))
    too_long = BenchConfig(dataset_name="rag", input_tokens=50, shared_prefix_tokens=20, document_tokens=30)
    assert validate(too_long) == ["shared_prefix_tokens with document_tokens is 50: expected below the 50 input tokens"]


def test_conversations_have_their_turns_and_the_last_has_the_rest() -> None:
    asked = made(dataset_name="multi-turn", num_requests=10, num_turns=4)
    assert [len(one.turns) for one in asked] == [4, 4, 2]


async def test_each_turn_carries_the_conversation_so_far(tmp_path: Path) -> None:
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        config = BenchConfig(url=url, dataset_name="multi-turn", num_requests=3, num_turns=3, output_tokens=2)
        report = await measure(config)
    first, second, third = (body["messages"] for body in script.bodies[-3:])
    said = {"role": "assistant", "content": "word word "}
    assert [message["role"] for message in third] == ["user", "assistant"] * 2 + ["user"]
    assert second[:2] == [*first, said]
    assert third[:4] == [*second, said]
    assert report.completed == 3


async def test_a_person_asks_again_only_when_answered(tmp_path: Path) -> None:
    script = Script(first_token_s=0.01)
    async with serving(tmp_path / "s", script) as url:
        await measure(BenchConfig(url=url, dataset_name="multi-turn", num_requests=12, num_turns=4, num_warmups=0))
    assert script.peak_in_flight == 3


async def test_a_turn_that_failed_is_forgotten(tmp_path: Path) -> None:
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        config = BenchConfig(
            url=url, dataset_name="multi-turn", num_requests=2, num_turns=2, output_tokens=2, num_warmups=0
        )
        report = await measure(config, lambda now: setattr(script, "error_event", now.running == 1 and not now.failed))
    assert (report.completed, report.failed) == (1, 1)
    assert [message["role"] for message in script.bodies[-1]["messages"]] == ["user"]


async def test_the_completions_endpoint_is_sent_a_conversation_as_one_text(tmp_path: Path) -> None:
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        config = BenchConfig(
            url=url, endpoint="completions", dataset_name="multi-turn", num_requests=2, num_turns=2, output_tokens=1
        )
        await measure(config)
    first, second = (body["prompt"] for body in script.bodies[-2:])
    assert second.startswith(f"{first}\n\nword \n\n")


def written(tmp_path: Path, *lines: object) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return str(path)


async def test_a_jsonl_is_sent_as_it_stands(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    path = written(
        tmp_path, {"prompt": "one", "max_tokens": 3}, {"messages": messages, "output_tokens": 2}, "", {"prompt": "two"}
    )
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        config = BenchConfig(
            url=url, dataset_name="custom", dataset_path=path, num_requests=3, output_tokens=4, concurrency=1
        )
        report = await measure(config)
    assert [body["max_tokens"] for body in script.bodies[-3:]] == [3, 2, 4]
    assert [body["messages"] for body in script.bodies[-3:]] == [
        [{"role": "user", "content": "one"}],
        messages,
        [{"role": "user", "content": "two"}],
    ]
    assert report.to_dict()["num_prompts"] == 3
    assert report.to_dict()["repeated_prompts"] == 0


def test_a_file_that_is_too_short_is_drawn_from_again_unless_it_is_replayed(tmp_path: Path) -> None:
    path = written(tmp_path, *({"prompt": name, "timestamp": index} for index, name in enumerate("abc")))
    asked = made(dataset_name="custom", dataset_path=path, num_requests=40)
    texts = [text for (text,) in prompts(asked)]
    assert texts[:3] == ["a", "b", "c"]
    assert len(texts) == 40
    assert set(texts[3:]) == {"a", "b", "c"}, "each as likely as another"
    assert asked == made(dataset_name="custom", dataset_path=path, num_requests=40)
    assert repeated(asked) == 37
    assert len(made(dataset_name="custom", dataset_path=path, num_requests=40, replay_speed=1.0)) == 3


async def test_a_run_that_repeats_itself_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "one"}, {"prompt": "two"})
    async with serving(tmp_path / "s", Script()) as url:
        report = await measure(BenchConfig(url=url, dataset_name="custom", dataset_path=path, num_requests=5))
    assert report.to_dict()["repeated_prompts"] == 3
    assert "3 requests repeat another" in report.to_text()
    assert "3 requests repeat another" in html_page({"a run": report.to_dict()})


def test_a_log_without_texts_has_lengths_and_a_new_text_each_time(tmp_path: Path) -> None:
    path = written(tmp_path, {"input_tokens": 30, "max_tokens": 3}, {"input_tokens": 5})
    assert repeated(made(dataset_name="custom", dataset_path=path, num_requests=50)) == 0
    asked = made(dataset_name="custom", dataset_path=path, num_requests=2)
    assert [len(text) for text in prompts(asked)] == [30, 5]
    assert len(made(dataset_name="custom", dataset_path=path, num_requests=1)) == 1


def test_timestamps_in_seconds_or_iso_8601_order_a_log(tmp_path: Path) -> None:
    iso = ["2026-01-01T09:00:02Z", "2026-01-01T10:00:00.5+01:00", "2026-01-01T09:00:00Z"]
    for times in (iso, [102, 100.5, 100]):
        path = written(tmp_path, *({"prompt": f"{index}", "timestamp": time} for index, time in enumerate(times)))
        asked = made(dataset_name="custom", dataset_path=path, num_requests=3)
        assert [one.at for one in asked] == pytest.approx([0, 0.5, 2])
        assert prompts(asked) == [["2"], ["1"], ["0"]]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        {},
        {"prompt": "a", "messages": [{"role": "user", "content": "b"}]},
        {"messages": []},
        {"prompt": "a", "max_tokens": 0},
        {"prompt": 5},
        {"prompt": "a", "timestamp": "yesterday"},
    ],
    ids=str,
)
def test_a_bad_line_is_named(tmp_path: Path, line: object) -> None:
    with pytest.raises(BenchError, match=r"log\.jsonl, line 2: "):
        made(dataset_name="custom", dataset_path=written(tmp_path, {"prompt": "good"}, line))


def test_a_file_that_holds_nothing_or_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="holds no request"):
        made(dataset_name="custom", dataset_path=written(tmp_path, ""))
    with pytest.raises(BenchError, match=r"dataset_path is .*nowhere.*No such file"):
        made(dataset_name="custom", dataset_path=f"{tmp_path}/nowhere")


def test_a_path_belongs_to_custom_and_to_nothing_else() -> None:
    assert "expected a JSONL file" in validate(BenchConfig(dataset_name="custom"))[0]
    assert "dataset_name custom" in validate(BenchConfig(dataset_path="a.jsonl"))[0]
    assert validate(BenchConfig(dataset_name="sharegpt"))[0].endswith("random, sharegpt-like, rag, multi-turn, custom")
