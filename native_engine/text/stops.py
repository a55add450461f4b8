"""Stop strings in a stream of text pieces. Knows nothing of tokens: a match may begin and end anywhere in a piece."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Emits text up to the first completed stop string and holds back any tail that may yet become one.

    The outcome depends on the text alone, not on how it was cut into pieces. Of several stop strings that are
    completed by the same character the longest counts.
    """

    __slots__ = ("_automata", "_held")

    def __init__(self, stops: Sequence[str]) -> None:
        self._automata = [_Automaton(stop) for stop in sorted(set(stops), key=len, reverse=True) if stop]
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        """The text that may be shown now, and the stop string that was completed, if any."""
        if not self._automata:
            return text, None
        text_with_held = self._held + text
        for position, character in enumerate(text, start=len(self._held) + 1):
            for automaton in self._automata:
                if automaton.advance(character):
                    self._held = ""
                    return text_with_held[: position - len(automaton.stop)], automaton.stop
        keep = len(text_with_held) - max(automaton.matched for automaton in self._automata)
        self._held = text_with_held[keep:]
        return text_with_held[:keep], None

    def flush(self) -> str:
        """The tokens ended: what was held back is text after all."""
        held, self._held = self._held, ""
        return held


class _Automaton:
    """Knuth, Morris, Pratt: how much of the stop string the text seen so far ends with, at O(1) a character."""

    __slots__ = ("_fallback", "matched", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        self._fallback = _fallback_table(stop)

    def advance(self, character: str) -> bool:
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._fallback[self.matched]
        if self.stop[self.matched] == character:
            self.matched += 1
        return self.matched == len(self.stop)


def _fallback_table(stop: str) -> list[int]:
    """At n: the longest proper prefix of stop[:n] that is also its suffix."""
    table, longest = [0, 0], 0
    for character in stop[1:]:
        while longest and stop[longest] != character:
            longest = table[longest]
        longest += stop[longest] == character
        table.append(longest)
    return table
