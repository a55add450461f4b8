"""The reranking request as Jina and Cohere write it; vLLM, SGLang and llama.cpp take it. Knows nothing of answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from backends.wire.decoding import decode
from backends.wire.schema import INT64_MAX, NonEmpty, Positive

MAX_DOCUMENTS = 2048


class Document(Struct, frozen=True, forbid_unknown_fields=True):
    text: NonEmpty


class RerankRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: NonEmpty
    query: NonEmpty
    documents: Annotated[list[NonEmpty | Document], Meta(min_length=1, max_length=MAX_DOCUMENTS)]
    top_n: Positive | None = None
    return_documents: bool | None = None
    user: str | None = None
    # The engines' extension: the last tokens of a longer pair, -1 for as many as the model takes.
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None

    @property
    def texts(self) -> list[str]:
        """The documents in the one form that every engine reads."""
        return [item if isinstance(item, str) else item.text for item in self.documents]


_DECODER: msgspec.json.Decoder[RerankRequest] = msgspec.json.Decoder(RerankRequest)
_KNOWN = frozenset(RerankRequest.__struct_fields__)


def parse_rerank(body: bytes, *, allowed: frozenset[str] = frozenset()) -> RerankRequest:
    """`allowed`: names beyond the known ones that this model's setting lets through unread."""
    return decode(_DECODER, body, allowed - _KNOWN)
