"""vLLM. What it has beyond the OpenAI API, and the endpoints that it has only for a model that serves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from backends import refusals, translation
from backends.base import Backend, Fields, Options, Refusal, Upstream
from backends.errors import Rejected
from backends.openai import OpenAIBackend
from backends.wire.errors import error_body

_UNABLE: Mapping[str, Any] = {**refusals.NOWHERE, "typical_p": 1.0}


class VLLMBackend(OpenAIBackend):
    """`Options.tools`: unless it is False tools are sent, for vLLM itself says that it has no parser for them."""

    kind = "vllm"
    forwarded = frozenset({"traceparent"})
    # The one knows our key, the other whether the engine behind the server lives.
    probed = ("/v1/models", "/health")
    continues = True

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        return (
            refusals.unable(fields, _UNABLE)
            or refusals.too_many_answers(fields)
            or refusals.unreadable_content(fields, images=bool(self.options.images))
            or (refusals.tools(fields) if self.options.tools is False else None)
        )

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> Upstream:
        try:
            return await super().open(path, self._translated(path, body, headers), headers)
        except Rejected as error:
            if error.status == 404 and error.body == b'{"detail":"Not Found"}':
                raise Rejected(501, _NO_SUCH_ROUTE) from error
            raise

    def _translated(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        fields = translation.split(body)
        if translation.generates(path):
            fields |= translation.salt(headers)
            fields["request_id"] = translation.attempt_id(headers)
            if self.options.priority:
                fields["priority"] = translation.rank(headers)  # the lowest goes first
        return msgspec.json.encode(fields)


_NO_SUCH_ROUTE = error_body(
    "This model's engine does not serve this endpoint. Use another model.", "not_supported_error"
)


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return VLLMBackend(name, url, api_key, options)
