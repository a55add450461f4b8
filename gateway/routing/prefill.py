"""How long a first token takes at one backend, learned from those that came. Pure.

It takes about `per_token * uncached prompt tokens + each * (running + 1)` seconds: what is computed of the prompt, and
a share of the engine's step for every request that runs, this one included. The two are fitted by least squares over
the last few dozen answers. Until these tell the two apart, their ratio is as believed at first, their size as measured:
else engines of one kind would differ by how many answers each has given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Believed as much as one answer with a prompt of so many tokens, and as one that ran alone.
_PRIOR_TOKENS = 1000.0
_PRIOR_PER_TOKEN = 0.0002
_PRIOR_EACH = 0.01
# Never nothing: a backend on which one more costs nothing would be given all of them.
_LEAST = 1e-6
_KEPT = 0.98  # of the older answers' weight with each new one


@dataclass(slots=True)
class PrefillSpeed:
    """`least_each`: seconds of one step of the engine, where its memory is known: backends.capacity.step_seconds."""

    least_each: float = _LEAST
    per_token: float = _PRIOR_PER_TOKEN
    each: float = field(init=False)
    # Sums over the answers: x is uncached tokens, r is running and this one, y seconds.
    _xx: float = 0.0
    _xr: float = 0.0
    _rr: float = 0.0
    _xy: float = 0.0
    _ry: float = 0.0

    def __post_init__(self) -> None:
        self.each = max(_PRIOR_EACH, self.least_each)

    def seconds(self, uncached_tokens: float, running: float = 0.0) -> float:
        """Expected seconds to the first token, were so many others running."""
        return self.per_token * uncached_tokens + self.each * (running + 1)

    def learn(self, uncached_tokens: float, running: float, seconds: float) -> None:
        """`running`: others, when the engine was asked. `seconds`: from then to the first token."""
        x, r = uncached_tokens, running + 1
        self._xx = self._xx * _KEPT + x * x
        self._xr = self._xr * _KEPT + x * r
        self._rr = self._rr * _KEPT + r * r
        self._xy = self._xy * _KEPT + x * seconds
        self._ry = self._ry * _KEPT + r * seconds
        self._fit()

    def _fit(self) -> None:
        """Both at least what they must be; where one would be less, the other alone is fitted."""
        xx, rr, xr = self._xx + _PRIOR_TOKENS**2, self._rr + 1, self._xr
        scale = self._scale()
        xy = self._xy + _PRIOR_TOKENS**2 * _PRIOR_PER_TOKEN * scale
        ry = self._ry + max(_PRIOR_EACH * scale, self.least_each)
        determinant = xx * rr - xr * xr
        self.each = (xx * ry - xr * xy) / determinant
        self.per_token = (rr * xy - xr * ry) / determinant
        if self.each < self.least_each:
            self.each = self.least_each
            self.per_token = (xy - self.each * xr) / xx
        elif self.per_token < _LEAST:
            self.each = max((ry - _LEAST * xr) / rr, self.least_each)
        self.per_token = max(self.per_token, _LEAST)

    def _scale(self) -> float:
        """How many times slower than was believed it is as a whole, which the first answer tells already."""
        per_token, each = _PRIOR_PER_TOKEN, _PRIOR_EACH
        believed = per_token**2 * self._xx + 2 * per_token * each * self._xr + each**2 * self._rr
        return (per_token * self._xy + each * self._ry + each**2) / (believed + each**2)
