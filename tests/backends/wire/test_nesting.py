"""Depth told from bytes equals depth told by a parser, and hostile bodies cost little."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.nesting import is_deeper_than

JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\[]{}', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='"\\[{', max_size=3), inner, max_size=3)
    ),
)


def depth(value: Any) -> int:
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 1 + max(map(depth, value.values()), default=0) if isinstance(value, dict) else 0


@given(JSON, st.integers(0, 6))
def test_depth_agrees_with_a_parser(value: Any, limit: int) -> None:
    assert is_deeper_than(json.dumps(value).encode(), limit) == (depth(value) > limit)


@pytest.mark.parametrize(
    "body",
    [b"[" * 65 + b"]" * 65, b"[" * 100_000, b'{"a":' * 100_000, b'{"messages":[' + b"[{" * 40],
    ids=["just over", "never closed", "objects", "mixed"],
)
def test_deep_bodies_are_found(body: bytes) -> None:
    assert is_deeper_than(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 64 + b"]" * 64,
        b'["' + b"[" * 100 + b'"]',
        b'["\\"' + b"[" * 100 + b'"]',
        b'"\\\\' + b"[" * 100,
        b"[]" * 100,
    ],
    ids=["at the limit", "in a string", "after an escaped quote", "in an unfinished string", "wide"],
)
def test_shallow_bodies_pass(body: bytes) -> None:
    assert not is_deeper_than(body)


@pytest.mark.parametrize(
    "piece",
    [b"[", b"[{", b"[]", b'""', b'\\"', b"\\", b'"[', b"[" * 60 + b"]" * 60],
    ids=lambda piece: piece[:4].decode(),
)
def test_hostile_bodies_cost_linear_time(piece: bytes) -> None:
    body = b"[" * 65 + b"]" * 64 + piece * (2_000_000 // len(piece))
    started = time.process_time()
    is_deeper_than(body)
    assert time.process_time() - started < 1.0
