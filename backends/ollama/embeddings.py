"""Embeddings from Ollama's words to the official ones. Knows no transport."""

from __future__ import annotations

import base64
from array import array
from typing import Any

import msgspec

from backends.errors import Broken
from backends.wire.embeddings import EmbeddingsRequest
from backends.wire.errors import InvalidRequest


class _Answer(msgspec.Struct):
    embeddings: list[msgspec.Raw]
    prompt_eval_count: int = 0


def official(asked: EmbeddingsRequest, body: bytes) -> bytes:
    """The official answer, numbers as they were written. Raises Broken; InvalidRequest where a field was ignored."""
    try:
        told = msgspec.json.decode(body, type=_Answer)
        data = [_entry(asked, index, vector) for index, vector in enumerate(told.embeddings)]
    except msgspec.DecodeError as error:
        raise Broken("the engine's embeddings cannot be read") from error
    if len(data) != asked.inputs:
        raise Broken("the engine sent fewer or more embeddings than texts")
    usage = {"prompt_tokens": told.prompt_eval_count, "total_tokens": told.prompt_eval_count}
    return msgspec.json.encode({"object": "list", "data": data, "model": asked.model, "usage": usage})


def _entry(asked: EmbeddingsRequest, index: int, vector: msgspec.Raw) -> dict[str, Any]:
    embedding: msgspec.Raw | str = vector
    if asked.encoding_format == "base64" or asked.dimensions is not None:
        numbers = msgspec.json.decode(vector, type=list[float])
        if asked.dimensions not in (None, len(numbers)):
            raise InvalidRequest("This version of the engine ignores 'dimensions'. Leave it out.", "dimensions")
        if asked.encoding_format == "base64":
            embedding = base64.b64encode(array("f", numbers).tobytes()).decode()
    return {"object": "embedding", "index": index, "embedding": embedding}
