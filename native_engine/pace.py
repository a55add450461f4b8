"""How large a step may be so that those that decode keep their speed. Told seconds; knows neither clock nor requests.

The model of the machine is a line, seconds = a + b * tokens. It goes through what steps without a part of a prompt took
lately, and through what those with one did, weighted alike: thousands of plain decodes in between do not make it forget
what a prompt costs, and where the true curve bends, the line is right at the sizes that are in use.
"""

from __future__ import annotations

DECAY = 0.9  # what a step weighs against the one after it


class Pace:
    """`target`: the seconds that a step in which something decodes should take."""

    def __init__(self, target: float) -> None:
        self.target = target
        self._decodes = _Recent()
        self._prefills = _Recent()

    def observe(self, num_tokens: int, seconds: float, *, has_prefill: bool) -> None:
        (self._prefills if has_prefill else self._decodes).add(num_tokens, seconds)

    @property
    def limit(self) -> int | None:
        """The most tokens that fit the target: 0 where not even one does, None while nothing is known."""
        known = [each for each in (self._decodes, self._prefills) if each.weight]
        if not known:
            return None
        fixed, each = _line(known)
        return max(0, int((self.target - fixed) / each))


class _Recent:
    """Decayed sums over steps: of weights, tokens, seconds, and the products that a least-squares line needs."""

    def __init__(self) -> None:
        self.weight = self.tokens = self.seconds = self.tokens_squared = self.tokens_seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.weight = self.weight * DECAY + 1
        self.tokens = self.tokens * DECAY + tokens
        self.seconds = self.seconds * DECAY + seconds
        self.tokens_squared = self.tokens_squared * DECAY + tokens * tokens
        self.tokens_seconds = self.tokens_seconds * DECAY + tokens * seconds


def _line(groups: list[_Recent]) -> tuple[float, float]:
    """Least squares over the groups, each weighing the same: seconds of an empty step, and of each token."""
    tokens, seconds, squared, product = (
        sum(getattr(group, name) / group.weight for group in groups) / len(groups)
        for name in ("tokens", "seconds", "tokens_squared", "tokens_seconds")
    )
    spread = squared - tokens * tokens
    slope = (product - tokens * seconds) / spread if spread > 1e-9 * squared else 0.0
    if slope <= 0:  # one size only, or noise: whatever a step took, its tokens took it
        return 0.0, max(seconds / tokens, 1e-9)
    return seconds - slope * tokens, slope
