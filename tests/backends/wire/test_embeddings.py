"""Embeddings requests: every official form of input, and what is none."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.embeddings import MAX_INPUTS, parse_embeddings
from backends.wire.errors import InvalidRequest


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_embeddings(body(**fields))
    return caught.value


@pytest.mark.parametrize(
    ("value", "inputs"),
    [("hi", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1], [2, 3]], 2), (["a"] * MAX_INPUTS, MAX_INPUTS), ([7] * 5000, 1)],
)
def test_input_in_all_four_forms(value: Any, inputs: int) -> None:
    assert parse_embeddings(body(input=value)).inputs == inputs


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (None, "input"),
        (5, "input"),
        ({"text": "hi"}, "input"),
        ("", "input"),
        ([], "input"),
        (["a", ""], "input[1]"),
        (["a", 1], "input"),
        ([[1], 2], "input"),
        ([[1], []], "input[1]"),
        ([[1], ["a"]], "input[1][0]"),
        ([-1], "input[0]"),
        ([1.5], "input[0]"),
        ([True], "input[0]"),
        (["a"] * (MAX_INPUTS + 1), "input"),
        ([[1]] * (MAX_INPUTS + 1), "input"),
    ],
)
def test_input_in_no_form_is_refused_where_it_stands(value: Any, param: str) -> None:
    error = refusal(input=value)
    assert error.param == param


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": ""}, "model", "invalid_value"),
        ({"encoding_format": "int8"}, "encoding_format", "invalid_value"),
        ({"dimensions": 0}, "dimensions", "invalid_value"),
        ({"dimensions": "64"}, "dimensions", "invalid_type"),
        ({"user": 5}, "user", "invalid_type"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "invalid_value"),
        ({"priority": 1}, "priority", "unknown_parameter"),
    ],
)
def test_fields_are_refused_by_name(fields: dict[str, Any], param: str, code: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, code)


def test_a_setting_may_let_a_name_through_but_no_bound_down() -> None:
    allowed = frozenset({"normalize", "dimensions"})
    assert parse_embeddings(body(normalize=True, dimensions=64), allowed=allowed).dimensions == 64
    with pytest.raises(InvalidRequest):
        parse_embeddings(body(normalize=True, dimensions=0), allowed=allowed)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_embeddings(data)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@given(_ANYTHING)
def test_no_value_in_any_field_raises_anything_else(value: Any) -> None:
    for name in ("model", "input", "encoding_format", "dimensions", "user", "truncate_prompt_tokens"):
        with suppress(InvalidRequest):
            assert parse_embeddings(body(**{name: value})).inputs >= 1
