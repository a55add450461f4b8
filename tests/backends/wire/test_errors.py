"""Errors of real engines, as recorded, in the official vocabulary and without a server's secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.wire.errors import MAX_MESSAGE_CHARACTERS, InvalidRequest, error_body, normalise
from backends.wire.sse import EventParser

DATA = Path(__file__).parents[1] / "data"
RECORDED: list[dict[str, Any]] = json.loads((DATA / "engine_errors.json").read_text())


def recorded(engine: str, name: str) -> tuple[int, bytes]:
    row = next(row for row in RECORDED if row["engine"].startswith(engine) and row["name"] == name)
    return row["status"], row["body"].encode()


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['engine']}-{row['name']}")
def test_every_recorded_error_becomes_one_shape(row: dict[str, Any]) -> None:
    error = normalise(row["status"], row["body"].encode())
    assert error.status == row["status"]
    assert 0 < len(error.message) <= MAX_MESSAGE_CHARACTERS
    for secret in ('File "', "'loc'", "input_value", ".cc", "Traceback"):
        assert secret not in error.message
    assert error.type.endswith(("_error",))


@pytest.mark.parametrize("engine", ["llama", "vllm", "sglang"])
def test_a_prompt_too_long_has_the_official_code(engine: str) -> None:
    assert normalise(*recorded(engine, "17-prompt-too-long")).code == "context_length_exceeded"


@pytest.mark.parametrize("engine", ["vllm", "ollama"])
def test_an_unknown_model_has_the_official_code(engine: str) -> None:
    assert normalise(*recorded(engine, "16-unknown-model")).code == "model_not_found"


def test_validation_errors_keep_only_what_is_said() -> None:
    assert normalise(*recorded("sglang", "18-invalid-json")).message == "JSON decode error"


def test_an_error_inside_a_stream_carries_its_own_status() -> None:
    first = EventParser().feed((DATA / "streams" / "sglang-queue-full.sse").read_bytes())[0]
    error = normalise(200, first.data)
    assert (error.status, error.type, error.message) == (503, "unavailable_error", "The request queue is full.")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cannot open /opt/models/a b.gguf", "cannot open (path) b.gguf"),
        (r"cannot open C:\models\a.gguf now", "cannot open (path) now"),
        ("see https://example.com/a/b/c", "see https://example.com/a/b/c"),
        ("use /v1/chat/completions", "use /v1/chat/completions"),
        ("1/2 or 3/4/5", "1/2 or 3/4/5"),
        ('bad\nTraceback (most recent call last):\n  File "x.py"', "bad"),
    ],
)
def test_paths_are_hidden_and_addresses_are_not(text: str, clean: str) -> None:
    assert normalise(500, json.dumps({"error": {"message": text}}).encode()).message == clean


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"null", b"[]", b"[" * 5000, b'{"error": null}', b'{"error": {"message": 5}}']
)
def test_no_body_is_too_strange(body: bytes) -> None:
    error = normalise(502, body)
    assert error.status == 502
    assert error.message


def test_error_bodies_have_all_four_fields() -> None:
    made = json.loads(error_body("No.", "server_error"))
    assert made == {"error": {"message": "No.", "type": "server_error", "param": None, "code": None}}
    assert json.loads(InvalidRequest("Bad.", "n", "invalid_value").body())["error"] == {
        "message": "Bad.",
        "type": "invalid_request_error",
        "param": "n",
        "code": "invalid_value",
    }
