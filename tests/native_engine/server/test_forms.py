from __future__ import annotations

import json
from typing import Any

import pytest

from tests.native_engine.server.conftest import MODEL, Answer, Bench

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "is_warm": {"type": "boolean"}},
    "required": ["colour", "is_warm"],
    "additionalProperties": False,
}

TAG = {"structures": [{"begin": "<f=a>", "schema": {"type": "object"}, "end": "</f>"}], "triggers": ["<f="]}


def official(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "colour", "strict": True, "schema": schema}}


async def complete(bench: Bench, **fields: Any) -> Answer:
    return await bench.client.post("/v1/completions", {"model": MODEL, "prompt": "x", **fields})


def content(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    text = answer.json["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("fields", [{"response_format": official(SCHEMA)}, {"structured_outputs": {"json": SCHEMA}}])
@pytest.mark.parametrize("temperature", [0, 1])
async def test_an_answer_fits_the_schema_though_the_model_wants_otherwise(
    bench: Bench, fields: dict[str, Any], temperature: float
) -> None:
    bench.say("hello world, I would rather talk")
    answer = await bench.client.chat(**fields, temperature=temperature)
    given = json.loads(content(answer))
    assert given["colour"] in ("red", "blue")
    assert isinstance(given["is_warm"], bool)
    assert answer.json["choices"][0]["finish_reason"] == "stop"


async def test_what_fits_is_said_as_the_model_wants_it(bench: Bench) -> None:
    wanted = '{\n  "colour": "blue",\n  "is_warm": false\n}'
    bench.say(wanted)
    assert content(await bench.client.chat(response_format=official(SCHEMA))) == wanted


async def test_any_object_is_an_object(bench: Bench) -> None:
    bench.say('{"hello": [1, {"x": null}]} and more')
    assert content(await bench.client.chat(response_format={"type": "json_object"})) == '{"hello": [1, {"x": null}]}'


async def test_each_of_several_answers_has_its_own_place_in_the_grammar(bench: Bench) -> None:
    answer = await bench.client.chat(response_format=official(SCHEMA), n=3, seed=5)
    for choice in answer.json["choices"]:
        assert json.loads(choice["message"]["content"]).keys() == {"colour", "is_warm"}


@pytest.mark.parametrize(
    ("form", "wanted", "said"),
    [
        ({"choice": ["yes", 'n"o']}, 'n"o way', 'n"o'),
        ({"regex": "[0-9]{3}-[a-z]+!"}, "123-abc!!", "123-abc!"),
        ({"grammar": 'start: "a" "b"+ "!"'}, "abb!abb", "abb!"),
        ({"grammar": 'root ::= "x" [0-9]'}, "x77", "x7"),
        ({"json": json.dumps({"type": "integer", "minimum": 10, "maximum": 99})}, "123", "12"),
        ({"json_object": True}, "{}x", "{}"),
        ({"structural_tag": TAG}, 'so <f=a>{"x": 1}</f>, well', 'so <f=a>{"x": 1}</f>, well'),
        ({"structural_tag": json.dumps(TAG)}, "hello", "hello"),
    ],
)
async def test_other_forms(bench: Bench, form: dict[str, Any], wanted: str, said: str) -> None:
    bench.say(wanted)
    assert content(await bench.client.chat(structured_outputs=form)) == said
    assert (await complete(bench, structured_outputs=form)).json["choices"][0]["text"] == said


async def test_plain_text_is_no_form(bench: Bench) -> None:
    bench.say("hello")
    assert content(await bench.client.chat(response_format={"type": "text"}, structured_outputs={})) == "hello"


@pytest.mark.parametrize(
    ("fields", "param", "named"),
    [
        ({"response_format": official({"type": "objekt"})}, "response_format.json_schema.schema", "objekt"),
        ({"response_format": official({"$ref": "#/nowhere"})}, "response_format.json_schema.schema", "nowhere"),
        ({"response_format": official({"not": {}})}, "response_format.json_schema.schema", "not"),
        ({"response_format": official("text")}, "response_format.json_schema.schema", "object"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "object"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json", "not valid JSON"),
        ({"structured_outputs": {"regex": "(["}}, "structured_outputs.regex", "unclosed"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex", "text"),
        ({"structured_outputs": {"grammar": "start: nowhere"}}, "structured_outputs.grammar", "nowhere"),
        ({"structured_outputs": {"grammar": 'root ::= ("a"'}}, "structured_outputs.grammar", "grammar"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "list"),
        ({"structured_outputs": {"choice": ["a"], "regex": "b"}}, "structured_outputs", "one of"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag", "not valid JSON"),
        ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs.structural_tag", "structures"),
        (
            {"structured_outputs": {"structural_tag": TAG | {"triggers": ["<g"]}}},
            "structured_outputs.structural_tag",
            "no trigger",
        ),
        ({"structured_outputs": {"lark": "x"}}, "structured_outputs.lark", "not supported"),
        ({"structured_outputs": {"json": {"$ref": "#"}}}, "structured_outputs.json", "cannot be used"),
        (
            {"structured_outputs": {"json": '{"items": ' * 200 + "{}" + "}" * 200}},
            "structured_outputs.json",
            "recursion",
        ),
        ({"structured_outputs": {"json": {"enum": []}}}, "structured_outputs.json", "cannot be used"),
        ({"structured_outputs": {"choice": ["x" * 300_000]}}, "structured_outputs.choice", "characters long"),
        ({"structured_outputs": {"regex": "(a+)+$b"}}, "structured_outputs.regex", "lookarounds"),
        (
            {"structured_outputs": {"choice": ["a"]}, "response_format": {"type": "json_object"}},
            "structured_outputs.choice",
            "exclude",
        ),
        ({"response_format": {"type": "json_object"}, "min_tokens": 3}, "min_tokens", "form"),
        ({"response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos", "form"),
    ],
)
async def test_a_bad_form_is_refused_with_its_fault_before_anything_runs(
    bench: Bench, fields: dict[str, Any], param: str, named: str
) -> None:
    answer = await bench.client.chat(**fields)
    error = answer.json["error"]
    assert (answer.status, error["param"]) == (400, param)
    assert named in error["message"]
    assert bench.runner.steps == 0


async def test_a_continued_answer_goes_on_in_its_grammar(bench: Bench) -> None:
    bench.say("hello")
    begun = '{"colour": "re'
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": begun}]
    fields: dict[str, Any] = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    answer = await bench.client.chat(response_format=official(SCHEMA), **fields)
    assert json.loads(begun + content(answer))["colour"] == "red"


async def test_log_probabilities_are_those_before_the_form(bench: Bench) -> None:
    bench.say("hello")
    answer = await bench.client.chat(structured_outputs={"choice": ["no"]}, logprobs=True, top_logprobs=1)
    first = answer.json["choices"][0]["logprobs"]["content"][0]
    assert first["logprob"] == pytest.approx(-50)
    assert first["top_logprobs"][0]["token"] == "hello"
