"""A model's thoughts apart from its answer, in a stream of text. Knows no tokens and no template."""

from __future__ import annotations

from typing import Literal, NamedTuple

from native_engine.text.markers import held_from

Opening = Literal["possible", "begun", "none"]


class ThoughtStyle(NamedTuple):
    """`again`: thoughts may also follow later; otherwise what looks like one inside of the answer is its text.

    `bridge` leads from a thought to what follows it.
    """

    start: str
    end: str
    again: bool = False
    bridge: str = ""


# The first whose marks a chat template or a vocabulary has.
STYLES = (
    ThoughtStyle(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        again=True,
        bridge="<|start|>assistant",
    ),
    ThoughtStyle("[THINK]", "[/THINK]"),
    ThoughtStyle("<think>", "</think>"),
)


class Split(NamedTuple):
    thought: str
    rest: str


class ThoughtReader:
    """The outcome depends on the text alone, not on how it was cut. Blanks around a thought are dropped.

    `opening`: whether the prompt has begun a thought, or whether none can come first.
    """

    __slots__ = ("_begun", "_held", "_next", "_style")

    def __init__(self, style: ThoughtStyle, opening: Opening) -> None:
        self._style = style
        self._begun = opening == "begun"
        self._held = ""
        self._next = self._outside if opening == "none" else self._before

    @property
    def thinking(self) -> bool:
        return self._next in (self._leading, self._inside) or (self._begun and self._next == self._before)

    def push(self, text: str) -> Split:
        self._held += text
        split = Split("", "")
        while (step := self._next()) is not None:  # each state takes what it can, until one wants more text
            split = Split(split.thought + step.thought, split.rest + step.rest)
        return split

    def flush(self) -> Split:
        """The answer ended: a half mark is no mark."""
        thinking, held = self.thinking, self._held
        self._held = ""
        if thinking:
            return Split(held.rstrip(), "")
        return Split("", "" if self._next == self._after else held)

    def _before(self) -> Split | None:
        """A model may say the mark again that the prompt ended with."""
        text = self._held.lstrip()
        if text.startswith(self._style.start):
            self._held, self._next = text[len(self._style.start) :], self._leading
        elif self._style.start.startswith(text):
            return None
        else:
            self._next = self._leading if self._begun else self._outside
        return Split("", "")

    def _leading(self) -> Split | None:
        self._held = self._held.lstrip()
        if not self._held:
            return None
        self._next = self._inside
        return Split("", "")

    def _inside(self) -> Split | None:
        before, found, after = self._held.partition(self._style.end)
        if found:
            self._held, self._next = after, self._after
            return Split(before.rstrip(), "")
        keep = len(self._held[: held_from(self._held, self._style.end)].rstrip())
        shown, self._held = self._held[:keep], self._held[keep:]
        return Split(shown, "") if shown else None

    def _after(self) -> Split | None:
        self._held = self._held.lstrip()
        if not self._held:
            return None
        self._next = self._outside
        return Split("", "")

    def _outside(self) -> Split | None:
        keep = len(self._held)
        if self._style.again:
            before, found, after = self._held.partition(self._style.start)
            if found:
                self._held, self._next = after, self._leading
                return Split("", before)
            keep = held_from(self._held, self._style.start)
        shown, self._held = self._held[:keep], self._held[keep:]
        return Split("", shown) if shown else None
