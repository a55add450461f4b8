"""How many tokens a prompt will be, guessed from the bytes of its request, for asking a tokenizer takes milliseconds.

Plain data and arithmetic: knows no engine. What it learns is kept in memory, and learned anew by each process.
"""

from __future__ import annotations

from typing import NamedTuple

# English is about 4 bytes a token, Japanese 2 to 3 in most vocabularies. The first figure is a request's own: what the
# chat template adds, less what the JSON around the text does not cost. It may be negative.
_START = (0.0, 0.25, 0.4)
_BOUNDS = ((-500.0, 500.0), (0.02, 1.0), (0.02, 1.0))
# How firmly the start is believed, in units of one observed request: its variance over that of a guess.
_BELIEF = (1e-4, 4.0, 1.0)
_MEMORY = 0.99  # what an observation is still worth after the next one: the last hundred or so count
# One odd request (bytes that no prompt is made of, a prompt cut off by its engine) moves the ratios by no more than
# this factor would; the tokens are for a prompt so short that a factor says little.
_TRUST = 4
_TRUST_TOKENS = 100
# An image is 85 to 1,500 tokens, whatever its bytes.
_ATTACHMENT_TOKENS = 1000

_ASCII = bytes(range(128))
_ATTACHED = b";base64,"
_ESCAPE = b"\\u"


class PromptSize(NamedTuple):
    """Bytes of a request's body by what they cost: ASCII, and all other characters as UTF-8 spells them."""

    plain: int
    wide: int
    attachments: int = 0


def size_of(body: bytes) -> PromptSize:
    attachments, attached = _attachments(body) if _ATTACHED in body else (0, 0)
    # Many clients escape what is not ASCII: six bytes for a character of about three.
    escapes = body.count(_ESCAPE)
    wide = 0 if body.isascii() else len(body.translate(None, _ASCII))
    plain = len(body) - wide - attached - 6 * escapes
    return PromptSize(max(plain, 0), wide + 3 * escapes, attachments)


class PromptEstimates:
    """Learns, for each model, tokens = a + b x plain bytes + c x other bytes, from what engines have counted."""

    def __init__(self) -> None:
        self._models: dict[str, _Fit] = {}

    def tokens(self, model: str, size: PromptSize) -> int:
        """At least 1. Meant for the size of a reservation, never for a bill."""
        base, plain, wide = self._models[model].ratios if model in self._models else _START
        guess = base + plain * size.plain + wide * size.wide + _ATTACHMENT_TOKENS * size.attachments
        return max(1, round(guess))

    def learn(self, model: str, size: PromptSize, prompt_tokens: int) -> None:
        """From a settled request. One with attachments teaches nothing: what they cost cannot be told from the text."""
        if prompt_tokens > 0 and not size.attachments:
            guess = self.tokens(model, size)
            believable = min(max(prompt_tokens, guess // _TRUST, 1), guess * _TRUST + _TRUST_TOKENS)
            self._models.setdefault(model, _Fit()).add((1.0, size.plain, size.wide), believable)


class _Fit:
    """Weighted least squares that forgets. Weighing by relative error, long prompts say no more than short ones."""

    def __init__(self) -> None:
        self.ratios: tuple[float, ...] = _START
        self._products = [[0.0] * 3 for _ in range(3)]
        self._answers = [0.0] * 3

    def add(self, inputs: tuple[float, float, float], tokens: int) -> None:
        scaled = [value / tokens for value in inputs]
        for row, left in enumerate(scaled):
            self._answers[row] = _MEMORY * self._answers[row] + left
            for column, right in enumerate(scaled):
                self._products[row][column] = _MEMORY * self._products[row][column] + left * right
        solved = _solve(*self._with_belief())
        self.ratios = tuple(min(max(value, low), high) for value, (low, high) in zip(solved, _BOUNDS, strict=True))

    def _with_belief(self) -> tuple[list[list[float]], list[float]]:
        """What was seen, and the start as if it had been seen a little: so there is always a solution."""
        products = [list(row) for row in self._products]
        for index, belief in enumerate(_BELIEF):
            products[index][index] += belief
        answers = [seen + belief * start for seen, belief, start in zip(self._answers, _BELIEF, _START, strict=True)]
        return products, answers


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination; no pivoting, which a symmetric and positive definite matrix does not need."""
    size = len(right)
    for pivot in range(size):
        for row in range(pivot + 1, size):
            factor = matrix[row][pivot] / matrix[pivot][pivot]
            for column in range(pivot, size):
                matrix[row][column] -= factor * matrix[pivot][column]
            right[row] -= factor * right[pivot]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(matrix[row][column] * solution[column] for column in range(row + 1, size))
        solution[row] = (right[row] - known) / matrix[row][row]
    return solution


def _attachments(body: bytes) -> tuple[int, int]:
    """(how many, their bytes): what stands between `;base64,` and the quote that ends its string."""
    number = size = 0
    start = body.find(_ATTACHED)
    while start >= 0:
        end = body.find(b'"', start)
        end = len(body) if end < 0 else end
        number, size = number + 1, size + end - start
        start = body.find(_ATTACHED, end)
    return number, size
