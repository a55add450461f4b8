from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine.text.detokenize import IncrementalText

FAMILY = "👨‍👩‍👧‍👦"


def bytewise() -> IncrementalText:
    """The worst tokenizer there can be: every token is one byte, and token 256 is special."""
    return IncrementalText(lambda token: b"" if token == 256 else bytes([token]))


@pytest.mark.parametrize(
    "text", ["🎌", FAMILY, "日本語の文", "naïve café", "한국어", "🏳️‍🌈 and 👍🏽", "𝔘𝔫𝔦", "\u0000\ufeff"]
)
def test_characters_appear_whole_whatever_the_tokens_cut(text: str) -> None:
    stream = bytewise()
    pieces = [stream.push([byte]) for byte in text.encode()]
    assert "".join(pieces) == text
    assert [piece for piece in pieces if piece] == list(text)


def test_unfinished_bytes_wait_for_the_token_that_completes_them() -> None:
    stream = bytewise()
    first, *rest = "🎌".encode()
    assert stream.push([first]) == ""
    assert stream.push(rest[:2]) == ""
    assert stream.push([256]) == ""
    assert stream.push([rest[2], ord("!")]) == "🎌!"
    assert stream.flush() == ""


def test_a_cut_in_mid_character_shows_nothing_until_it_is_flushed() -> None:
    stream = bytewise()
    assert stream.push([ord("a"), *"語".encode()[:2]]) == "a"
    assert stream.flush() == "\ufffd"


def test_bytes_that_cannot_be_text_become_replacement_characters_once_that_is_certain() -> None:
    stream = bytewise()
    assert stream.push([0xE6]) == ""
    assert stream.push([ord("x")]) == "\ufffdx"


@given(st.text(), st.integers(1, 5))
def test_pieces_of_any_text_join_to_it_without_a_replacement_character(text: str, width: int) -> None:
    raw, stream = text.encode("utf-8"), bytewise()
    pieces = [stream.push(raw[at : at + width]) for at in range(0, len(raw), width)]
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text
    assert stream.flush() == ""


@given(st.lists(st.integers(0, 255)), st.integers(1, 5))
def test_pieces_of_any_bytes_join_to_the_decode_of_the_whole(raw: list[int], width: int) -> None:
    stream = bytewise()
    text = "".join(stream.push(raw[at : at + width]) for at in range(0, len(raw), width)) + stream.flush()
    assert text == bytes(raw).decode("utf-8", "replace")
