"""LangChain's client at SEKISHO_URL; prints what it saw, as JSON."""

import json
import os

from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Colour(BaseModel):
    colour: str
    is_warm: bool


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return city


model = ChatOpenAI(model="fake", base_url=os.environ["SEKISHO_URL"], api_key=os.environ["SEKISHO_KEY"], max_retries=0)
whole = model.invoke("Hello")
called = model.bind_tools([get_weather], tool_choice="get_weather").invoke("The weather in Paris?")
seen = {
    "invoke": whole.content,
    "usage": whole.usage_metadata["output_tokens"],
    "stream": "".join(piece.content for piece in model.stream("Hello")),
    "batch": [answer.content for answer in model.batch(["one", "two", "three"])],
    "structured": model.with_structured_output(Colour, method="json_schema").invoke("The sea?").model_dump(),
    "tools": [(call["name"], call["args"]) for call in called.tool_calls],
}
print(json.dumps(seen))
