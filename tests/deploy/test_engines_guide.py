"""What the guide says that engines can do is what their adapters let through."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from backends.base import Options
from backends.registry import create
from tests.house.tree import ROOT

KINDS = ("native", "vllm", "sglang", "llamacpp", "ollama", "openai")
CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
SAID = [{"role": "user", "content": "Hello"}]
PICTURE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "tool calls": (CHAT, {"tools": [{"type": "function", "function": {"name": "f"}}]}),
    "images": (CHAT, {"messages": PICTURE}),
    "JSON schemas": (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}}),
    "several answers (`n`)": (CHAT, {"n": 2}),
    "log probabilities": (CHAT, {"logprobs": True, "top_logprobs": 3}),
    "`logit_bias`": (CHAT, {"logit_bias": {"1": 1}}),
    "`reasoning_effort`": (CHAT, {"reasoning_effort": "low"}),
    "`prompt_logprobs`": (CHAT, {"prompt_logprobs": 1}),
    "embeddings": (EMBEDDINGS, {"input": "a"}),
    "`dimensions` of embeddings": (EMBEDDINGS, {"input": "a", "dimensions": 64}),
    "rerank": ("/v1/rerank", {"query": "a", "documents": ["b"]}),
}
# The engine says so itself, in the same words.
REFUSED_BY_OURS = {"images"}


def can(kind: str, what: str) -> str:
    usual, told = (
        create(kind, "http://127.0.0.1:1", options=options) for options in (Options(), Options(tools=True, images=True))
    )
    path, fields = ASKED[what]
    body = {"model": "m", **({"messages": SAID} if path == CHAT else {}), **fields}
    raw = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in body.items()}
    if told.refusal(path, raw) is not None or (kind == "native" and what in REFUSED_BY_OURS):
        return "no"
    return "yes" if usual.refusal(path, raw) is None else "where it can"


def goes_on(kind: str) -> str:
    return "yes" if create(kind, "http://127.0.0.1:1").continues else "no"


def rows() -> list[str]:
    told = {what: [can(kind, what) for kind in KINDS] for what in ASKED}
    told["goes on with an answer that another began"] = [goes_on(kind) for kind in KINDS]
    return [f"| {what} | {' | '.join(answers)} |" for what, answers in told.items()]


@pytest.mark.parametrize("row", rows())
def test_a_row_of_the_guide_is_what_adapters_do(row: str) -> None:
    assert row in (ROOT / "deploy" / "guides" / "engines.md").read_text("utf-8").splitlines()
