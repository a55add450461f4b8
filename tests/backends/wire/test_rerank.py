"""Reranking requests: documents as strings and as objects, and what is neither."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.errors import InvalidRequest
from backends.wire.rerank import MAX_DOCUMENTS, parse_rerank


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "query": "q", "documents": ["a", "b"], **fields}).encode()


def test_documents_as_strings_and_as_objects_are_the_same_texts() -> None:
    request = parse_rerank(body(documents=["a", {"text": "b"}], top_n=1, return_documents=True, user="u"))
    assert request.texts == ["a", "b"]
    assert (request.query, request.top_n, request.return_documents, request.user) == ("q", 1, True, "u")


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"query": ""}, "query", "invalid_value"),
        ({"query": ["q"]}, "query", "invalid_type"),
        ({"documents": []}, "documents", "invalid_value"),
        ({"documents": "a"}, "documents", "invalid_type"),
        ({"documents": ["a", ""]}, "documents[1]", "invalid_value"),
        ({"documents": ["a", 5]}, "documents[1]", "invalid_type"),
        ({"documents": [{"text": ""}]}, "documents[0].text", "invalid_value"),
        ({"documents": [{}]}, "documents[0].text", "missing_required_parameter"),
        ({"documents": [{"text": "a", "title": "b"}]}, "documents[0].title", "unknown_parameter"),
        ({"documents": ["a"] * (MAX_DOCUMENTS + 1)}, "documents", "invalid_value"),
        ({"top_n": 0}, "top_n", "invalid_value"),
        ({"return_documents": "yes"}, "return_documents", "invalid_type"),
        ({"priority": 1}, "priority", "unknown_parameter"),
    ],
)
def test_fields_are_refused_by_name(fields: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_rerank(body(**fields))
    assert (caught.value.param, caught.value.code) == (param, code)


def test_what_is_missing_is_named() -> None:
    for name in ("model", "query", "documents"):
        fields = json.loads(body())
        del fields[name]
        with pytest.raises(InvalidRequest) as caught:
            parse_rerank(json.dumps(fields).encode())
        assert caught.value.param == name


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_rerank(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_no_value_in_any_field_raises_anything_else(value: Any) -> None:
    for name in ("model", "query", "documents", "top_n", "return_documents", "truncate_prompt_tokens"):
        with suppress(InvalidRequest):
            assert parse_rerank(body(**{name: value})).texts
