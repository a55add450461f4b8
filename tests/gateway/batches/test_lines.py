"""The input of a batch: what it may say, and how what is wrong is told."""

from __future__ import annotations

import json
from collections.abc import Sized
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.batches import lines
from gateway.batches.lines import InvalidInput, read, read_body
from tests.gateway.batches.conftest import URL, jsonl, request


def faults_of(path: Path, data: bytes, longest: int = 10_000) -> list[tuple[int | None, str]]:
    path.write_bytes(data)
    with pytest.raises(InvalidInput) as caught:
        read(path, URL, longest)
    return [(fault.line, fault.code) for fault in caught.value.faults]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.jsonl"


def test_each_line_is_found_again_by_its_place(path: Path) -> None:
    requests = [request(f"r{number}", "é" * number) for number in range(5)]
    path.write_bytes(jsonl(*requests[:3], b"", *requests[3:])[:-1])
    found = read(path, URL, 10_000)
    assert found.model == "fake"
    assert [line.custom_id for line in found.lines] == ["r0", "r1", "r2", "r3", "r4"]
    bodies = [json.loads(read_body(path, line)) for line in found.lines]
    assert bodies == [request["body"] for request in requests]


BAD: list[tuple[Any, str]] = [
    (b"{", "invalid_json_line"),
    (b"[1]", "invalid_json_line"),
    (b'"text"', "invalid_json_line"),
    (b"\xff\xfe", "invalid_json_line"),
    (b"[" * 500 + b"]" * 500, "invalid_json_line"),
    ({"method": "POST", "url": URL, "body": {"model": "fake"}}, "invalid_json_line"),
    (request(""), "invalid_json_line"),
    (request("x" * 513), "invalid_json_line"),
    (request("a") | {"custom_id": 7}, "invalid_json_line"),
    (request("a") | {"body": [1]}, "invalid_json_line"),
    (request("a") | {"body": {"messages": []}}, "invalid_json_line"),
    (request("a", model=""), "invalid_json_line"),
    (request("a") | {"method": "GET"}, "invalid_method"),
    (request("a", url="/v1/embeddings"), "mismatched_endpoint"),
    (request("a", url="/admin/v1/keys"), "mismatched_endpoint"),
    (request("a", stream=True), "invalid_value"),
    (request("first"), "duplicate_custom_id"),
    (request("a", model="other"), "mismatched_model"),
]


@pytest.mark.parametrize(("bad", "code"), BAD)
def test_a_bad_line_is_told_with_its_number(path: Path, bad: Any, code: str) -> None:
    assert faults_of(path, jsonl(request("first"), request("second"), bad, request("last"))) == [(3, code)]


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\n"])
def test_a_file_without_a_request_is_refused(path: Path, data: bytes) -> None:
    assert faults_of(path, data) == [(None, "empty_file")]


def test_a_line_longer_than_a_request_is_refused_without_being_read_whole(path: Path) -> None:
    long = request("long", "x" * 200_000)
    assert faults_of(path, jsonl(request("a"), long, b"{"), longest=1000) == [(2, "line_too_long")]


def test_more_lines_than_a_batch_may_have_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_LINES", 3)
    path.write_bytes(jsonl(*(request(f"r{number}") for number in range(3))))
    assert len(read(path, URL, 10_000).lines) == 3
    assert faults_of(path, path.read_bytes() + b"\n") == [(4, "too_many_lines")]


def test_of_very_many_faults_the_first_hundred_are_told(path: Path) -> None:
    assert faults_of(path, b"{\n" * 1000) == [(number, "invalid_json_line") for number in range(1, 101)]


@given(data=st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([jsonl(bad) for bad, _ in BAD]))))
def test_whatever_is_sent_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("lines") / "in.jsonl"
    path.write_bytes(b"".join(data))
    try:
        found: Sized = read(path, URL, 10_000).lines
    except InvalidInput as error:
        found = error.faults
    assert 0 < len(found) <= 101
