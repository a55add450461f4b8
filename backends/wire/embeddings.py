"""The official embeddings request, validated. Knows nothing of answers."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct

from backends.wire.decoding import decode
from backends.wire.errors import InvalidRequest
from backends.wire.schema import INT64_MAX, Count, NonEmpty, Positive

MAX_INPUTS = 2048

_Input = NonEmpty | Count | Annotated[list[Count], Meta(min_length=1)]


class EmbeddingsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: NonEmpty
    input: NonEmpty | Annotated[list[_Input], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Positive | None = None
    user: str | None = None
    # The engines' extension: the last tokens of a longer input, -1 for as many as the model takes.
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None

    @property
    def each(self) -> list[str | list[int]]:
        """What a vector is asked for, one by one."""
        one = isinstance(self.input, str) or isinstance(self.input[0], int)
        return cast(list[str | list[int]], [self.input] if one else self.input)

    @property
    def inputs(self) -> int:
        """How many vectors are asked for."""
        return len(self.each)


_DECODER: msgspec.json.Decoder[EmbeddingsRequest] = msgspec.json.Decoder(EmbeddingsRequest)
_KNOWN = frozenset(EmbeddingsRequest.__struct_fields__)


def parse_embeddings(body: bytes, *, allowed: frozenset[str] = frozenset()) -> EmbeddingsRequest:
    """`allowed`: names beyond the known ones that this model's setting lets through unread."""
    request = decode(_DECODER, body, allowed - _KNOWN)
    if isinstance(request.input, list) and len({type(item) for item in request.input}) > 1:
        raise InvalidRequest(
            "'input' must be a string, an array of strings, an array of token ids, or an array of such arrays.",
            "input",
            "invalid_type",
        )
    if request.inputs > MAX_INPUTS:
        raise InvalidRequest(
            f"There are {request.inputs} inputs; at most {MAX_INPUTS} are taken in one request.",
            "input",
            "invalid_value",
        )
    return request
