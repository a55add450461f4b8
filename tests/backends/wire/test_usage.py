"""Usage of answers that come whole: as engines wrote it, and as none should have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.usage import Counted, usage_of


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 3, "total_tokens": 3}, Counted(3, 3)),
        ({"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 5, "prompt_tokens_details": None}, Counted(3, 5)),
        ({"total_tokens": 7}, Counted(7, 7)),  # a reranker's
        ({"prompt_tokens": 3}, Counted(3, 3)),
        ({"prompt_tokens": 9, "total_tokens": 1}, Counted(9, 9)),
        ({"prompt_tokens": 0, "total_tokens": 0}, None),
        ({"prompt_tokens": -4, "total_tokens": True}, None),
        ({"prompt_tokens": "3", "total_tokens": 2.5}, None),
        ({"prompt_tokens": 10**30}, None),
        ({}, None),
        (None, None),
        (7, None),
    ],
)
def test_only_counts_that_can_be_are_believed(usage: Any, counted: Counted | None) -> None:
    assert usage_of(json.dumps({"object": "list", "data": [], "usage": usage}).encode()) == counted


@pytest.mark.parametrize("body", [b"", b"[]", b'[{"score": 1}]', b"{}", b"{", b"\xff", b"[" * 100_000])
def test_answers_without_usage_count_nothing(body: bytes) -> None:
    assert usage_of(body) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything(body: bytes) -> None:
    assert usage_of(body) is None
