"""What not every engine can do: probabilities, tools, forms of output, several choices, vectors, continuation."""

from __future__ import annotations

from typing import Any

import msgspec

from backends.check.engine import Engine
from backends.check.verdicts import Failed, Unsupported

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Tokyo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
_COLOURS = ("red", "green", "blue")
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": list(_COLOURS)}, "is_warm": {"type": "boolean"}},
    "required": ["colour", "is_warm"],
    "additionalProperties": False,
}
_COUNTED = "1, 2, 3, 4, 5, 6, 7, 8, 9,"


async def logprobs(engine: Engine) -> str:
    answer = await engine.chat(max_tokens=8, logprobs=True, top_logprobs=2)
    found = answer.logprobs
    if not found:
        raise Failed("none came")
    if any(one.logprob > 0 or not one.top_logprobs for one in found):
        raise Failed(f"not those of {len(found)} tokens with alternatives: {msgspec.json.encode(found[0]).decode()}")
    return f"of {len(found)} tokens, with alternatives"


async def tools(engine: Engine) -> str:
    named = {"type": "function", "function": {"name": "get_weather"}}
    answer = await engine.chat(
        "What is the weather in Paris?", tools=[_TOOL], tool_choice=named, max_tokens=_room(engine)
    )
    if not answer.calls:
        raise Failed(f"no call came, but {answer.text[:80]!r}")
    name, arguments = answer.calls[0]
    given = _parsed(arguments)
    if name != "get_weather" or not isinstance(given, dict) or given.get("city") not in ("Paris", "Tokyo"):
        raise Failed(f"the call is {name}({arguments})")
    return f"{name}({arguments}), then {answer.finish_reason}"


async def structured_output(engine: Engine) -> str:
    form = {"type": "json_schema", "json_schema": {"name": "colour", "strict": True, "schema": _SCHEMA}}
    answer = await engine.chat(
        'Answer in JSON, with the keys "colour" and "is_warm": which colour has the sea?',
        response_format=form,
        max_tokens=_room(engine),
    )
    given = _parsed(answer.text)
    fits = isinstance(given, dict) and given.keys() == {"colour", "is_warm"}
    if not fits or given["colour"] not in _COLOURS or not isinstance(given["is_warm"], bool):
        raise Failed(f"it does not fit the schema: {answer.text[:80]!r}")
    return msgspec.json.encode(given).decode()


async def choices(engine: Engine) -> str:
    answer = await engine.chat(n=2, temperature=1)
    if sorted(answer.finish_reasons) != [0, 1] or not all(answer.contents.values()):
        raise Failed(f"of two, these came to an end: {sorted(answer.finish_reasons)}")
    return "two whole answers"


async def embeddings(engine: Engine) -> str:
    answer = await engine.post("/v1/embeddings", {"input": ["the sea", "a fisherman"], "encoding_format": "float"})
    vectors = [one["embedding"] for one in answer["data"]]
    sizes = {len(vector) for vector in vectors}
    if len(vectors) != 2 or len(sizes) != 1 or not all(isinstance(x, (int, float)) for x in vectors[0]):
        raise Failed(f"{len(vectors)} vectors of {sizes} numbers for 2 texts")
    return f"2 vectors of {sizes.pop()} numbers"


async def rerank(engine: Engine) -> str:
    documents = ["Paris is the capital of France.", "Fish live in the sea."]
    answer = await engine.post("/v1/rerank", {"query": "Where do fish live?", "documents": documents})
    found = sorted(one["index"] for one in answer["results"])
    if found != [0, 1]:
        raise Failed(f"of two documents, these have a score: {found}")
    return "2 documents with scores"


async def continuation(engine: Engine) -> str:
    """A cut answer goes on where it ended, and says nothing twice."""
    if not engine.backend.continues:
        raise Unsupported("it cannot go on with an answer that another began")
    messages = [
        {"role": "user", "content": "Write the numbers from 1 to 20, separated by commas."},
        {"role": "assistant", "content": _COUNTED},
    ]
    answer = await engine.chat(
        messages=messages, continue_final_message=True, add_generation_prompt=False, max_tokens=12
    )
    if not answer.text.lstrip().startswith("10"):
        raise Failed(f"after {_COUNTED!r} came {answer.text!r}")
    return f"after {_COUNTED[-6:]!r} came {answer.text!r}"


def _room(engine: Engine) -> int:
    """Tokens enough for a model that thinks before it answers."""
    return min(1000, engine.long_answer)


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise Failed(f"this is not JSON: {text[:80]!r}") from None
