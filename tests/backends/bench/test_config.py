"""What a run may be told."""

from __future__ import annotations

import pytest

from backends.bench import BenchConfig, BenchError, parse_goodput, validate
from backends.bench.client import address
from backends.bench.prompts import fitted, prompt


def test_a_plain_configuration_has_no_fault() -> None:
    assert validate(BenchConfig()) == []


def test_a_fault_names_field_value_and_expectation() -> None:
    assert validate(BenchConfig(concurrency=0)) == ["concurrency is 0: expected at least 1"]
    assert "below the 10 input tokens" in validate(BenchConfig(input_tokens=10, shared_prefix_tokens=10))[0]


def test_goodput_terms_in_one_text_or_several() -> None:
    assert parse_goodput(["ttft:2000", "tpot:50"]) == parse_goodput(["ttft:2000 tpot:50"]) == {"ttft": 2000, "tpot": 50}
    assert parse_goodput([]) == {}


@pytest.mark.parametrize("term", ["ttft", "ttft:", "ttft:fast", "ttft:-1", "ttft:nan", "itl:5", ":5"])
def test_bad_goodput_terms_are_named(term: str) -> None:
    with pytest.raises(BenchError, match="expected NAME:MILLISECONDS"):
        parse_goodput([term])


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/llm/", "https://h/llm/v1"),
        ("unix:/a/b", "http://localhost/v1"),
        ("unix:///a/b", "http://localhost/v1"),
    ],
)
async def test_urls_with_and_without_the_api_prefix(url: str, base: str) -> None:
    found, connector = address(url)
    await connector.close()
    assert found == base


def test_the_same_seed_writes_the_same_prompt_and_another_index_another() -> None:
    assert prompt(20, 5, 1, 0) == prompt(20, 5, 1, 0)
    assert prompt(20, 5, 1, 0).split()[:5] == prompt(20, 5, 1, 1).split()[:5]
    assert prompt(20, 5, 1, 0) != prompt(20, 5, 1, 1)
    assert len(prompt(20, 5, 1, 0).split()) == 20


def test_the_scale_counts_the_template_once() -> None:
    scale = fitted(8, 30, 108, 155)
    assert scale.words_for(128) == 86
    assert scale.words_for(1) == 1
    assert fitted(8, 30, 108, 30).words_for(7) == 7
