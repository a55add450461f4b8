"""An answer's text into its parts as it comes: thoughts, calls, and text up to a stop string. Knows no tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from native_engine.text.stops import StopMatcher
from native_engine.text.thoughts import ThoughtReader
from native_engine.text.tool_calls import CallPiece, CallReader


class Parts(NamedTuple):
    thought: str
    text: str
    calls: list[CallPiece]


class AnswerReader:
    """Stop strings are looked for in the answer, never in a thought, which would lose its answer by them."""

    __slots__ = ("_calls", "_most_calls", "_stops", "_thoughts", "hidden", "stopped")

    def __init__(
        self,
        stops: Sequence[str] = (),
        thoughts: ThoughtReader | None = None,
        calls: CallReader | None = None,
        most_calls: int = 0,
    ) -> None:
        self._thoughts = thoughts
        self._stops = StopMatcher(stops)
        self._calls = calls
        self._most_calls = most_calls
        self.stopped = False  # by a stop string
        self.hidden = 0  # characters that a stop string has taken, or may yet take

    @property
    def tells_thoughts(self) -> bool:
        return self._thoughts is not None

    @property
    def thinking(self) -> bool:
        return self._thoughts is not None and self._thoughts.thinking

    @property
    def called(self) -> bool:
        return self._calls is not None and self._calls.started > 0

    @property
    def called_enough(self) -> bool:
        return self._calls is not None and 0 < self._most_calls <= self._calls.complete

    def push(self, text: str, *, may_stop: bool = True) -> Parts:
        thought, text = self._thoughts.push(text) if self._thoughts is not None else ("", text)
        if may_stop:
            text = self._before_stop(text)
        return self._with_calls(thought, text)

    def flush(self) -> Parts:
        """The answer ended: what was held back is what it seems to be."""
        thought = text = ""
        if not self.stopped:
            if self._thoughts is not None:
                thought, text = self._thoughts.flush()
            text = self._before_stop(text) + self._stops.flush()
        parts = self._with_calls(thought, text)
        return parts if self._calls is None else parts._replace(text=parts.text + self._calls.flush())

    def _before_stop(self, text: str) -> str:
        shown, stopped = self._stops.push(text)
        self.stopped = stopped is not None
        self.hidden += len(text) - len(shown)
        return shown

    def _with_calls(self, thought: str, text: str) -> Parts:
        if self._calls is None:
            return Parts(thought, text, [])
        return Parts(thought, *self._calls.push(text))
