"""One sequence's answer as its tokens come: whole characters, in their parts. Knows no HTTP and no JSON."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from native_engine.engine import SequenceOutput
from native_engine.request import FinishReason, Logprobs, SamplingParams
from native_engine.text.answer_reader import AnswerReader, Parts
from native_engine.text.detokenize import IncrementalText
from native_engine.text.logprobs import HeldLogprobs, TokenLogprobs
from native_engine.text.tool_calls import CallPiece


class Taken(NamedTuple):
    """What may appear now: often nothing."""

    text: str
    logprobs: list[TokenLogprobs]
    calls: list[CallPiece]
    thought: str


class Echo(NamedTuple):
    """A prompt that is shown before its answer, and what the model thought of it once that is known."""

    text: str
    logprobs: Callable[[], list[TokenLogprobs]]


class Choice:
    """`finish_reason` stays None until the text has its last piece; "abort" and "error" are no official reasons."""

    __slots__ = (
        "_echo",
        "_logprobs",
        "_min_tokens",
        "_read",
        "_reader",
        "_text",
        "finish_reason",
        "index",
        "num_thought_tokens",
        "num_tokens",
        "sequence_id",
        "total_logprob",
    )

    def __init__(
        self,
        index: int,
        sequence_id: str,
        params: SamplingParams,
        id_to_bytes: Callable[[int], bytes],
        reader: AnswerReader | None = None,
        echo: Echo | None = None,
    ) -> None:
        """`reader`: where the answer has more parts than text up to a stop string."""
        self.index = index
        self.sequence_id = sequence_id
        self.num_tokens = 0
        self.num_thought_tokens: int | None = 0 if reader is not None and reader.tells_thoughts else None
        self.finish_reason: str | None = None
        self._min_tokens = params.min_tokens
        self._text = IncrementalText(id_to_bytes)
        self._reader = AnswerReader(params.stop) if reader is None else reader
        self._logprobs = HeldLogprobs()
        self.total_logprob = 0.0  # of all its tokens, where they are told
        self._echo = echo
        self._read = len(echo.text) if echo else 0  # characters, shown or held back

    def take(self, output: SequenceOutput) -> Taken:
        """What this step lets appear: the same as if its tokens came one by one, and none after a stop string.

        After a stop string the sequence itself is still running.
        """
        taken = self._take_all(output.new_token_ids, output.logprobs, output.finish_reason)
        if self._echo is None:
            return taken
        echo, self._echo = self._echo, None
        return taken._replace(text=echo.text + taken.text, logprobs=echo.logprobs() + taken.logprobs)

    def _take_all(self, tokens: list[int], logprobs: list[Logprobs], reason: FinishReason | None) -> Taken:
        if len(tokens) <= 1:
            return self._take(tokens, logprobs, reason)
        pieces = []
        for place, token in enumerate(tokens):
            last = place == len(tokens) - 1
            pieces.append(self._take([token], logprobs[place : place + 1], reason if last else None))
            if self.finish_reason is not None:
                break
        texts, told, calls, thoughts = zip(*pieces, strict=True)
        return Taken("".join(texts), list(chain(*told)), list(chain(*calls)), "".join(thoughts))

    def _take(self, token_ids: list[int], told: list[Logprobs], reason: FinishReason | None) -> Taken:
        """Of one token, or of an end without one."""
        self.num_tokens += len(token_ids)
        self.total_logprob += sum(each.chosen for each in told)
        # The token that ended the answer is counted, but it is no part of the text.
        spoken = token_ids[:-1] if reason is FinishReason.STOP else token_ids
        if told and spoken:
            self._logprobs.push(TokenLogprobs(spoken[0], self._read, told[0]))
        text = self._text.push(spoken)
        self._read += len(text)
        thinking = self._reader.thinking
        parts = self._reader.push(text, may_stop=self.num_tokens > self._min_tokens)
        if self.num_thought_tokens is not None and thinking and self._reader.thinking:  # the marks are no thought
            self.num_thought_tokens += len(spoken)
        if self._reader.stopped or self._reader.called_enough:
            self.finish_reason = "stop"
        elif reason is not None:
            self.finish_reason = reason.value
        ended = self._reader.flush() if self.finish_reason is not None else Parts("", "", [])
        if self.finish_reason == "stop" and self._reader.called:
            self.finish_reason = "tool_calls"
        logprobs = self._logprobs.show(
            self._read - self._reader.hidden, ended=reason is not None and not self._reader.stopped
        )
        return Taken(parts.text + ended.text, logprobs, parts.calls + ended.calls, parts.thought + ended.thought)
