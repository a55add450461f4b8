from __future__ import annotations

import json
import random

import pytest

from backends.estimate import PromptEstimates, PromptSize, size_of

ENGLISH = "The quick brown fox jumps over the lazy dog. " * 20
JAPANESE = "関所は道の途中にあり、通る人を一人ずつ確かめる。" * 20


def body(text: str, *, escaped: bool = False) -> bytes:
    chat = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return json.dumps(chat, ensure_ascii=escaped).encode()


def test_ascii_and_other_characters_are_counted_apart() -> None:
    assert size_of(b'{"a":"abc"}') == PromptSize(11, 0)
    assert size_of('{"a":"日本é"}'.encode()) == PromptSize(8, 8)


def test_escaped_characters_count_as_what_they_stand_for() -> None:
    assert size_of(body(JAPANESE, escaped=True)) == size_of(body(JAPANESE))


def test_an_attached_image_is_not_read_as_text() -> None:
    image = "data:image/png;base64," + "iVBORw0K" * 100_000
    part = {"type": "image_url", "image_url": {"url": image}}
    size = size_of(json.dumps({"messages": [{"role": "user", "content": [part, part]}]}).encode())
    assert size.attachments == 2
    assert size.plain < 300
    assert 2000 <= PromptEstimates().tokens("m", size) < 2200
    assert size_of(b'{"x":"a;base64,cut off in the middle') == PromptSize(7, 0, 1)


@pytest.mark.parametrize("hostile", [b"", b"\\u", b"\\u" * 50, b";base64,", b"\xff" * 10, b'";base64,";base64,"'])
def test_any_bytes_have_a_size(hostile: bytes) -> None:
    assert min(size_of(hostile)) >= 0
    assert PromptEstimates().tokens("m", size_of(hostile)) >= 1


def test_the_first_guess_is_of_the_right_order() -> None:
    estimates = PromptEstimates()
    assert 200 < estimates.tokens("m", size_of(body(ENGLISH))) < 300
    assert 400 < estimates.tokens("m", size_of(body(JAPANESE))) < 700


def counted(size: PromptSize, plain: float = 0.21, wide: float = 0.63, base: float = 15) -> int:
    """A tokenizer, as far as bytes tell."""
    return round(base + plain * size.plain + wide * size.wide)


def sizes(number: int, seed: int = 1) -> list[PromptSize]:
    rng = random.Random(seed)
    texts = [ENGLISH, JAPANESE, ENGLISH + JAPANESE]
    return [size_of(body(rng.choice(texts)[: rng.randrange(5, 1800)])) for _ in range(number)]


def test_it_learns_both_ratios_and_the_templates_share() -> None:
    estimates = PromptEstimates()
    for size in sizes(200):
        estimates.learn("m", size, counted(size))
    for size in sizes(50, seed=2):
        assert estimates.tokens("m", size) == pytest.approx(counted(size), rel=0.05, abs=3)


def test_it_forgets_a_tokenizer_that_is_no_longer_there() -> None:
    estimates = PromptEstimates()
    for size in sizes(300):
        estimates.learn("m", size, counted(size))
    for size in sizes(600, seed=3):
        estimates.learn("m", size, counted(size, plain=0.3, wide=0.3))
    for size in sizes(50, seed=2):
        assert estimates.tokens("m", size) == pytest.approx(counted(size, plain=0.3, wide=0.3), rel=0.1, abs=5)


def test_models_learn_apart() -> None:
    estimates = PromptEstimates()
    size = size_of(body(ENGLISH))
    for _ in range(50):
        estimates.learn("heavy", size, 700)
    assert estimates.tokens("heavy", size) == pytest.approx(700, rel=0.1)
    assert estimates.tokens("other", size) == PromptEstimates().tokens("other", size)


@pytest.mark.parametrize(
    ("size", "tokens"), [(PromptSize(30_000_000, 0), 1), (PromptSize(10, 0), 10**9), (PromptSize(0, 30_000_000), 3)]
)
def test_one_absurd_request_does_not_spoil_the_estimate_of_the_others(size: PromptSize, tokens: int) -> None:
    estimates = PromptEstimates()
    for each in sizes(200):
        estimates.learn("m", each, counted(each))
    estimates.learn("m", size, tokens)
    for each in sizes(50, seed=2):
        assert estimates.tokens("m", each) == pytest.approx(counted(each), rel=0.35, abs=10)


def test_what_teaches_nothing_changes_nothing() -> None:
    estimates = PromptEstimates()
    size = size_of(body(ENGLISH))
    before = estimates.tokens("m", size)
    estimates.learn("m", size, 0)
    estimates.learn("m", size._replace(attachments=1), 5000)
    assert estimates.tokens("m", size) == before
