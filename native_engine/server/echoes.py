"""A prompt before its answer, as `echo` asks for it. Knows no sockets."""

from __future__ import annotations

from backends.wire.schema import CompletionRequest
from native_engine.loading.tokenizer import Tokenizer
from native_engine.request import Sequence
from native_engine.text.choice import Echo
from native_engine.text.detokenize import IncrementalText
from native_engine.text.logprobs import UNKNOWN, TokenLogprobs


def echo_of(tokenizer: Tokenizer, request: CompletionRequest, sequence: Sequence) -> Echo | None:
    """With the probabilities of its tokens where the answer's are asked for."""
    if not request.echo:
        return None
    prompt = sequence.token_ids[: sequence.num_prompt_tokens]
    text, pieces, starts, length = IncrementalText(tokenizer.id_to_bytes), [], [], 0
    for token in prompt:
        starts.append(length)
        pieces.append(text.push([token]))
        length += len(pieces[-1])

    def told() -> list[TokenLogprobs]:
        if request.logprobs is None:
            return []
        known = (UNKNOWN, *sequence.prompt_logprobs)
        return [TokenLogprobs(*each) for each in zip(prompt, starts, known, strict=False)]  # fewer where it failed

    return Echo("".join(pieces), told)
