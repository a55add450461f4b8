"""Which tokens a device chooses by itself, and what it is told about each row."""

from __future__ import annotations

from collections.abc import Sequence as ListLike

import torch

from kernels.argmax import argmax
from kernels.device import DeviceTensor
from kernels.sampling.device import DeviceDraws, sample
from native_engine.batch import ScheduledSequence
from native_engine.request import Sequence, is_ready
from native_engine.sampling.sampler import Sampler

_BELOW_ONE = 1 - 2**-24  # the largest in float32
_GREEDY = (0.0, 0, 1.0, 0.0, 0.0)
_NAMES = ("temperature", "top_k", "top_p", "min_p", "uniform")  # of DeviceDraws


def is_plain(sequence: Sequence) -> bool:
    """Whether its next token needs only temperature, top_k, top_p and min_p. Everything else is done on the host."""
    params = sequence.params
    told = params.logprobs is not None or sequence.wants_prompt_logprobs
    return not (told or sequence.looks_back or params.logit_bias or params.typical_p < 1.0)


class RowArrays:
    """What a step says of its rows besides StepArrays, in one piece of memory here and on the device: how each row to
    sample is drawn, and which rows have a token that only the device knows yet."""

    def __init__(self, max_rows: int, device: torch.device) -> None:
        self._staged = torch.zeros(6, max_rows, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._memory = torch.zeros_like(self._staged, device=device)
        numbers = self._staged.view(torch.float32).numpy()
        self._host = {name: numbers[index] for index, name in enumerate(_NAMES)}
        self._host["top_k"] = self._staged.numpy()[1]
        self._follows = self._staged.numpy()[5]
        self._num_drawn = self._num_following = 0
        self._draws = False

    def fill(self, items: ListLike[ScheduledSequence], sampler: Sampler) -> None:
        """Rows that the host chooses for are drawn greedily: that tells whether they are finite."""
        rows = [row for item in items for row in _draws_of(item, sampler)]
        for name, column in zip(_NAMES, zip(*rows, strict=True), strict=False):
            self._host[name][: len(rows)] = column
        self._num_drawn, self._draws = len(rows), any(row[0] for row in rows)
        follows = [-1 if item.follows is None else item.follows for item in items]
        self._num_following = max((index + 1 for index, place in enumerate(follows) if place >= 0), default=0)
        self._follows[: self._num_following] = follows[: self._num_following]

    def upload(self) -> None:
        """The caller waits for the copy before it fills again."""
        if self._draws or self._num_following:
            self._memory.copy_(self._staged, non_blocking=True)

    def put_chosen(self, token_ids: torch.Tensor, chosen: torch.Tensor) -> None:
        """Writes the tokens that the step before chose, int32, over the first rows that follow them. One that is no
        token (-1) becomes the first of the vocabulary: what is computed behind it is thrown away."""
        if self._num_following:
            places, rows = self._memory[5, : self._num_following], token_ids[: self._num_following]
            followed = chosen.index_select(0, places.clamp(min=0)).clamp(min=0)
            rows.copy_(torch.where(places >= 0, followed, rows))

    def choose(self, logits: DeviceTensor) -> torch.Tensor:
        """int32 [rows]: of each row to sample the token; -1 where the row is not finite."""
        if not self._draws:
            return argmax(logits)
        rows = self._memory[:, : self._num_drawn]
        numbers = rows.view(torch.float32)
        return sample(logits, DeviceDraws(numbers[0], rows[1], numbers[2], numbers[3], numbers[4]))


def _draws_of(item: ScheduledSequence, sampler: Sampler) -> list[tuple[float, int, float, float, float]]:
    """For each row of an item that needs logits, in the order of _NAMES."""
    sequence, params = item.sequence, item.sequence.params
    # Made in the order of the items, wherever each is sampled: by that the engine's own seed is given out.
    stream = sampler.state(sequence).stream if item.samples and is_ready(sequence) else None
    if stream is None or not is_plain(sequence):
        return [_GREEDY] * item.num_logits
    limits, place = (params.temperature, params.top_k, params.top_p, params.min_p), sequence.num_output_tokens
    return [(*limits, min(stream.at(place + row), _BELOW_ONE)) for row in range(item.num_logits)]
