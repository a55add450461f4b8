"""LlamaIndex's client at SEKISHO_URL; prints what it saw, as JSON."""

import json
import os

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(
    model="fake",
    api_base=os.environ["SEKISHO_URL"],
    api_key=os.environ["SEKISHO_KEY"],
    is_chat_model=True,
    max_retries=0,
)
question = [ChatMessage(role="user", content="Hello")]
seen = {
    "chat": model.chat(question).message.content,
    "stream": "".join(piece.delta or "" for piece in model.stream_chat(question)),
    "complete": model.complete("Hello").text,
}
print(json.dumps(seen))
