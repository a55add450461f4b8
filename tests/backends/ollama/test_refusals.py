"""What Ollama would ignore in silence is refused by its name; what it does anyway is let pass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from backends.ollama.refusals import needs, unsupported
from backends.wire.schema import ChatRequest, CompletionRequest

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
MESSAGES = [{"role": "user", "content": "Hello"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
IGNORED: dict[str, tuple[Any, Any]] = {  # by Ollama, in silence: what is refused, what asks for nothing
    "n": (2, 1),
    "logprobs": (True, False),
    "top_logprobs": (5, 0),
    "logit_bias": ({"50256": -100}, {}),
    "tool_choice": ("required", "auto"),
    "parallel_tool_calls": (False, True),
    "functions": ([{"name": "f"}], []),
    "continue_final_message": (True, False),
    "add_generation_prompt": (False, True),
    "ignore_eos": (True, False),
    "min_tokens": (3, 0),
    "stop_token_ids": ([2], []),
    "bad_words": (["x"], []),
    "include_stop_str_in_output": (True, False),
    "skip_special_tokens": (False, True),
    "structured_outputs": ({"regex": "a+"}, {}),
    "chat_template_kwargs": ({"enable_thinking": False}, {}),
    "modalities": (["text", "audio"], ["text"]),
}


def split(fields: dict[str, Any]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}


def refused(path: str = CHAT, /, **fields: Any) -> str | None:
    given = {"model": "m"} | ({"messages": MESSAGES} if path == CHAT else {}) | fields
    found = unsupported(path, split(given))
    return found and found.param


@pytest.mark.parametrize("name", IGNORED)
def test_what_would_be_ignored_is_refused_by_name_and_its_usual_value_is_not(name: str) -> None:
    wanted, usual = IGNORED[name]
    assert [refused(CHAT, **{name: value}) for value in (wanted, usual, None)] == [name, None, None]


def test_a_tool_that_must_be_called_is_refused() -> None:
    assert refused(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "f"}}) == "tool_choice"
    assert refused(tools=TOOLS, tool_choice="none") is None


@pytest.mark.parametrize(
    ("name", "wanted"), [("echo", True), ("suffix", "end"), ("best_of", 2), ("logprobs", 0), ("n", 2)]
)
def test_completions_have_refusals_of_their_own(name: str, wanted: Any) -> None:
    assert refused(COMPLETIONS, prompt="a", **{name: wanted}) == name


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [[1, 2]], "", [""]])
def test_only_one_prompt_of_text_is_taken(prompt: Any) -> None:
    assert refused(COMPLETIONS, prompt=prompt) == "prompt"
    assert refused(COMPLETIONS, prompt=["a"]) is None


@pytest.mark.parametrize("given", [[1, 2], [[1], [2]]])
def test_token_ids_are_not_embedded(given: Any) -> None:
    assert refused(EMBEDDINGS, input=given) == "input"
    assert refused(EMBEDDINGS, input=["a", "b"], encoding_format="base64", user="u") is None


def test_every_known_field_is_taken_or_refused_and_never_dropped() -> None:
    """A field that the wire format learns later is refused until somebody has thought of it here."""
    for path, struct in ((CHAT, ChatRequest), (COMPLETIONS, CompletionRequest)):
        for name in struct.__struct_fields__:
            assert name == "prompt" or unsupported(path, split({name: None})) is None
    assert refused(a_field_of_tomorrow=1) == "a_field_of_tomorrow"
    assert refused(priority=1) == "priority"


def test_what_concerns_no_answer_is_let_pass() -> None:
    assert refused(user="u", metadata={"a": "b"}, store=True, service_tier="auto", prompt_cache_key="k") is None


def test_there_is_no_reranking() -> None:
    found = unsupported("/v1/rerank", split({"model": "m", "query": "a", "documents": ["b"]}))
    assert found is not None
    assert found.code == "unsupported_endpoint"


def with_part(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [*MESSAGES, {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}]


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, ".image_url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,notbase64"}}, ".image_url"),
        ({"type": "image_url", "image_url": {}}, ".image_url"),
        ({"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}}, ".type"),
        ({"type": "file", "file": {"file_id": "a"}}, ".type"),
    ],
)
def test_content_that_cannot_be_read_is_refused_by_place(part: dict[str, Any], param: str) -> None:
    assert refused(messages=with_part(part)) == "messages[1].content[1]" + param


def test_an_image_in_the_request_needs_a_model_that_sees() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert refused(messages=with_part(image)) is None
    assert needs(split({"messages": with_part(image)})) == {"vision": "messages[1].content"}


def test_tools_and_effort_need_a_model_that_can() -> None:
    assert needs(split({"messages": MESSAGES, "tools": TOOLS, "reasoning_effort": "low"})) == {
        "tools": "tools",
        "thinking": "reasoning_effort",
    }
    assert needs(split({"messages": MESSAGES, "tools": TOOLS, "tool_choice": "none", "reasoning_effort": "none"})) == {}
    assert needs(split({"messages": MESSAGES, "tools": [], "reasoning_effort": None})) == {}


def test_a_text_about_images_is_no_image() -> None:
    talk = [
        {"role": "user", "content": 'What does {"type": "image_url"} mean?'},
        {"role": "user", "content": "image_url"},
    ]
    assert refused(messages=talk) is None
    assert needs(split({"messages": talk})) == {}
