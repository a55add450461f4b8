"""A model that thinks, at the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from native_engine.loading.chat_template import ChatTemplate
from tests.native_engine.server.conftest import Answer, Bench
from tests.native_engine.server.test_forms import SCHEMA, official
from tests.native_engine.server.test_tools import CALL, TOOL_TEMPLATE, WEATHER
from tests.native_engine.tiny_model import TEMPLATE

MARKS = "{# <think></think> #}"
OPENS = MARKS + TEMPLATE.replace("assistant\n'", "assistant\n<think>\n'")
MAY_CLOSE = MARKS + TEMPLATE.replace(
    "assistant\n' }}", "assistant\n' }}{% if enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)


@pytest.fixture
async def bench(bench: Bench) -> Bench:
    bench.service.template = ChatTemplate(MARKS + TEMPLATE)
    return bench


def message(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    made = answer.json["choices"][0]["message"]
    assert isinstance(made, dict)
    return made


def parts(answer: Answer) -> tuple[str, str]:
    made = message(answer)
    return made.get("reasoning_content", ""), made["content"]


async def test_a_thought_is_no_content(bench: Bench) -> None:
    bench.say("<think>\nhm\n</think>\n\nhello")
    answer = await bench.client.chat()
    assert parts(answer) == ("hm", "hello")
    usage = answer.json["usage"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


async def test_an_answer_without_a_thought_tells_of_none(bench: Bench) -> None:
    bench.say("so <think> is a mark")
    answer = await bench.client.chat()
    assert message(answer) == {"role": "assistant", "content": "so <think> is a mark", "refusal": None}
    assert answer.json["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}


async def test_a_model_that_does_not_think_counts_no_thoughts(bench: Bench) -> None:
    bench.service.template = ChatTemplate(TEMPLATE)
    bench.say("<think>hm</think>")
    answer = await bench.client.chat()
    assert parts(answer) == ("", "<think>hm</think>")
    assert "completion_tokens_details" not in answer.json["usage"]


async def test_thoughts_are_streamed_before_the_content(bench: Bench) -> None:
    bench.say("<think>hm hello</think>world, yes")
    answer = await bench.client.chat(stream=True)
    deltas = [event["choices"][0]["delta"] for event in answer.events if event != "[DONE]"]
    assert deltas[0] == {"role": "assistant", "content": ""}
    kinds = ["reasoning_content" if "reasoning_content" in delta else "content" for delta in deltas[1:-1]]
    assert kinds == sorted(kinds, reverse=True)
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "hm hello"
    assert kinds.count("reasoning_content") > 2
    assert "".join(answer.deltas) == "world, yes"


@pytest.mark.parametrize(("limit", "said"), [(4, ("hm", "")), (100, ("hm x", "hello"))])
async def test_a_thought_that_the_prompt_begins(bench: Bench, limit: int, said: tuple[str, str]) -> None:
    bench.service.template = ChatTemplate(OPENS)
    bench.say("hm x</think>\n\nhello")
    answer = await bench.client.chat(max_tokens=limit)
    assert (parts(answer)[0][:2], parts(answer)[1]) == (said[0][:2], said[1])
    assert answer.json["choices"][0]["finish_reason"] == ("length" if limit == 4 else "stop")


async def test_a_prompt_that_ends_the_thought_has_all_the_answer_as_content(bench: Bench) -> None:
    bench.service.template = ChatTemplate(MAY_CLOSE)
    bench.say("<think>hm</think>hello")
    assert parts(await bench.client.chat()) == ("hm", "hello")
    closed = await bench.client.chat(chat_template_kwargs={"enable_thinking": False})
    assert parts(closed) == ("", "<think>hm</think>hello")


async def test_a_stop_string_ends_the_answer_but_no_thought(bench: Bench) -> None:
    bench.say("<think>a.b</think>c.d")
    answer = await bench.client.chat(stop=".", logprobs=True)
    assert parts(answer) == ("a.b", "c")
    told = "".join(token["token"] for token in answer.json["choices"][0]["logprobs"]["content"])
    assert told == "<think>a.b</think>c"


async def test_probabilities_are_told_with_thoughts_as_with_content(bench: Bench) -> None:
    bench.say("<think>hm</think>\nhello")
    answer = await bench.client.chat(logprobs=True, stream=True)
    choices = [event["choices"][0] for event in answer.events if event != "[DONE]"]
    told = [token["token"] for choice in choices if choice["logprobs"] for token in choice["logprobs"]["content"]]
    assert "".join(told) == "<think>hm</think>\nhello"


@pytest.mark.parametrize(
    ("template", "wanted", "thought"),
    [
        (MARKS + TEMPLATE, '<think>{"no"</think>\n\nno', '{"no"'),
        (MARKS + TEMPLATE, '{"hello', ""),
        (OPENS, "hm</think>hello", "hm"),
    ],
)
async def test_a_form_begins_behind_the_thought(bench: Bench, template: str, wanted: str, thought: str) -> None:
    bench.service.template = ChatTemplate(template)
    bench.say(wanted)
    answer = await bench.client.chat(response_format=official(SCHEMA))
    assert json.loads(message(answer)["content"]).keys() == {"colour", "is_warm"}
    assert parts(answer)[0] == thought


async def test_behind_an_ended_thought_the_form_begins_at_once(bench: Bench) -> None:
    bench.service.template = ChatTemplate(MAY_CLOSE)
    bench.say("<think>")
    answer = await bench.client.chat(response_format=official(SCHEMA), chat_template_kwargs={"enable_thinking": False})
    assert json.loads(message(answer)["content"]).keys() == {"colour", "is_warm"}


@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_a_call_follows_the_thought(bench: Bench, choice: str) -> None:
    bench.service.template = ChatTemplate(MARKS + TOOL_TEMPLATE)
    bench.say(f"<think>\nI call {CALL[:11]}.\n</think>\n\n{CALL}")
    answer = await bench.client.chat(tools=[WEATHER], tool_choice=choice)
    assert message(answer)["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert message(answer)["reasoning_content"] == "I call <tool_call>."


@pytest.mark.parametrize(
    ("said", "wanted", "read"),
    [
        ("hello ", "<think>world", ("", "<think>world")),
        ("<think>\nhm", " so</think>yes", ("so", "yes")),
        ("<think>hm</think>well", " yes", ("", " yes")),
    ],
)
async def test_a_message_goes_on_where_it_broke_off(
    bench: Bench, said: str, wanted: str, read: tuple[str, str]
) -> None:
    bench.say(wanted)
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": said}]
    answer = await bench.client.chat(messages=messages, continue_final_message=True, add_generation_prompt=False)
    assert parts(answer) == read


async def test_a_form_goes_on_behind_the_thought_that_was_said(bench: Bench) -> None:
    begun = '<think>hm</think>{"colour": "re'
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": begun}]
    fields: dict[str, Any] = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    answer = await bench.client.chat(response_format=official(SCHEMA), **fields)
    assert json.loads('{"colour": "re' + message(answer)["content"])["colour"] == "red"


async def test_a_raw_prompt_has_text_alone(bench: Bench) -> None:
    bench.say("<think>hm</think>yes")
    answer = await bench.client.post("/v1/completions", {"model": "tiny", "prompt": "x"})
    assert answer.json["choices"][0]["text"] == "<think>hm</think>yes"


HARMONY = "{# <|start|>assistant<|channel|>analysis<|message|> <|end|> #}" + TEMPLATE
FINAL = "<|channel|>final<|message|>"


@pytest.mark.parametrize("tools", [{}, {"tools": [WEATHER]}])
async def test_channels_are_thoughts_and_content(bench: Bench, tools: dict[str, Any]) -> None:
    bench.service.template = ChatTemplate(HARMONY.replace("{% for", "{% if tools %}{% endif %}{% for", 1))
    bench.say(f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant{FINAL}hello")
    answer = await bench.client.chat(stream=True, **tools)
    assert "".join(answer.deltas) == "hello"
    assert parts(await bench.client.chat(**tools)) == ("hm", "hello")


async def test_a_form_stands_in_the_final_channel(bench: Bench) -> None:
    bench.service.template = ChatTemplate(HARMONY)
    bench.say(f'{FINAL}{{"colour": "blue", "is_warm": true}}')
    answer = await bench.client.chat(response_format=official(SCHEMA))
    assert parts(answer) == ("", '{"colour": "blue", "is_warm": true}')


async def test_a_message_in_the_final_channel_goes_on_in_it(bench: Bench) -> None:
    bench.service.template = ChatTemplate(HARMONY)
    bench.say('d"}')
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": '{"x": "re'}]
    fields: dict[str, Any] = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    form = {"json": {"type": "object", "properties": {"x": {"const": "red"}}, "additionalProperties": False}}
    assert parts(await bench.client.chat(structured_outputs=form, **fields)) == ("", 'd"}')


EFFORT = "{{ reasoning_effort }}" + TEMPLATE


@pytest.mark.parametrize(
    ("template", "effort", "status"),
    [(TEMPLATE, "low", 400), (TEMPLATE, "none", 200), (EFFORT, "low", 200), (MAY_CLOSE, "low", 200)],
)
async def test_an_effort_is_for_templates_that_know_of_it(
    bench: Bench, template: str, effort: str, status: int
) -> None:
    bench.service.template = ChatTemplate(template)
    bench.say("hello")
    answer = await bench.client.chat(reasoning_effort=effort)
    assert answer.status == status
    assert status == 200 or answer.json["error"]["param"] == "reasoning_effort"


async def test_no_effort_is_no_thinking(bench: Bench) -> None:
    bench.service.template = ChatTemplate(MAY_CLOSE)
    bench.say("<think>hm</think>hello")
    assert parts(await bench.client.chat(reasoning_effort="none"))[0] == ""
    assert parts(await bench.client.chat(reasoning_effort="low"))[0] == "hm"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("key", ["thinking", "reasoning_content"])
async def test_earlier_thoughts_go_to_the_template_by_the_name_that_it_has(bench: Bench, field: str, key: str) -> None:
    bench.service.template = ChatTemplate("{% for message in messages %}{{ message." + key + " }}{% endfor %}")
    said = {"role": "assistant", "content": "yes", field: "hello world"}
    answer = await bench.client.post("/tokenize", {"messages": [said]})
    assert bench.service.tokenizer.decode(answer.json["tokens"]) == "hello world"
