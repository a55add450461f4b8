"""The text of one sequence as its tokens come: whole characters, cut at a stop string. Knows no HTTP and no JSON."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from native_engine.engine import SequenceOutput
from native_engine.request import FinishReason, Logprobs, SamplingParams
from native_engine.text.detokenize import IncrementalText
from native_engine.text.logprobs import HeldLogprobs, TokenLogprobs
from native_engine.text.stops import StopMatcher
from native_engine.text.tool_calls import CallPiece, ToolCallReader


class Taken(NamedTuple):
    """What may appear now: often nothing."""

    text: str
    logprobs: list[TokenLogprobs]
    calls: list[CallPiece]


class Choice:
    """`finish_reason` stays None until the text has its last piece; "abort" and "error" are no official reasons."""

    __slots__ = (
        "_calls",
        "_logprobs",
        "_min_tokens",
        "_most_calls",
        "_read",
        "_stops",
        "_text",
        "finish_reason",
        "index",
        "num_tokens",
        "sequence_id",
        "tells_logprobs",
    )

    def __init__(
        self,
        index: int,
        sequence_id: str,
        params: SamplingParams,
        id_to_bytes: Callable[[int], bytes],
        most_calls: int = 0,
    ) -> None:
        """`most_calls`: calls of tools after which the answer ends; 0 reads none."""
        self.index = index
        self.sequence_id = sequence_id
        self.num_tokens = 0
        self.finish_reason: str | None = None
        self.tells_logprobs = params.logprobs is not None
        self._min_tokens = params.min_tokens
        self._text = IncrementalText(id_to_bytes)
        self._stops = StopMatcher(params.stop)
        self._logprobs = HeldLogprobs()
        self._calls = ToolCallReader() if most_calls else None
        self._most_calls = most_calls
        self._read = 0  # characters, shown or held back

    def take(self, output: SequenceOutput) -> Taken:
        """What this step lets appear: the same as if its tokens came one by one, and none after a stop string.

        After a stop string the sequence itself is still running.
        """
        tokens, logprobs, reason = output.new_token_ids, output.logprobs, output.finish_reason
        if len(tokens) <= 1:
            return self._take(tokens, logprobs, reason)
        pieces = []
        for place, token in enumerate(tokens):
            last = place == len(tokens) - 1
            pieces.append(self._take([token], logprobs[place : place + 1], reason if last else None))
            if self.finish_reason is not None:
                break
        texts, told, calls = zip(*pieces, strict=True)
        return Taken("".join(texts), list(chain(*told)), list(chain(*calls)))

    def _take(self, token_ids: list[int], told: list[Logprobs], reason: FinishReason | None) -> Taken:
        """Of one token, or of an end without one."""
        self.num_tokens += len(token_ids)
        # The token that ended the answer is counted, but it is no part of the text.
        spoken = token_ids[:-1] if reason is FinishReason.STOP else token_ids
        if told and spoken:
            self._logprobs.push(TokenLogprobs(spoken[0], self._read, told[0]))
        text = self._text.push(spoken)
        self._read += len(text)
        stopped = None
        if self.num_tokens > self._min_tokens:
            text, stopped = self._stops.push(text)
        if stopped is not None:
            self.finish_reason = "stop"
        elif reason is not None:
            self.finish_reason = reason.value
            text += self._stops.flush()
        logprobs = self._logprobs.show(text, ended=reason is not None and stopped is None)
        if self._calls is None:
            return Taken(text, logprobs, [])
        shown, calls = self._read_calls(self._calls, text)
        return Taken(shown, logprobs, calls)

    def _read_calls(self, reader: ToolCallReader, text: str) -> tuple[str, list[CallPiece]]:
        text, calls = reader.push(text)
        if self.finish_reason is None and reader.complete >= self._most_calls:
            self.finish_reason = "stop"
        if self.finish_reason is not None:
            text += reader.flush()
        if self.finish_reason == "stop" and reader.started:
            self.finish_reason = "tool_calls"
        return text, calls
