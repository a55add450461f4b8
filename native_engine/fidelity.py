"""What a format costs in accuracy: one text through the model in each, against the same model in float32.

Perplexity is exp of the mean negative log likelihood of each next token; KL the mean Kullback-Leibler divergence of a
format's next-token distribution from float32's, in nats; both over windows of WINDOW tokens, each begun anew.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import BLOCK_SIZE, KV_CACHE_DTYPES, EngineConfig
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights
from native_engine.model_runner import Runner, fill_step, load_runner
from native_engine.quantization.dequantize import as_type
from native_engine.request import SamplingParams, Sequence

WINDOW = 256
SAMPLE = Path(__file__).with_name("fidelity.txt")  # of our own documents

Floats = npt.NDArray[np.float32]
OnProgress = Callable[[str, int, int], None]  # format, windows done, windows in all


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table. `as_file`: the weights as the file has them; otherwise plain ones, as a checkpoint's."""

    name: str
    quantization: str = "auto"
    kv_cache_dtype: str = "float32"
    dtype: str = "auto"
    as_file: bool = False


REFERENCE = Setting("float32", "none", dtype="float32")
SETTINGS = (
    Setting("bfloat16", dtype="bfloat16"),
    Setting("float16", dtype="float16"),
    Setting("fp8", "fp8"),
    Setting("int8", "int8"),
    Setting("q8_0", "q8_0"),
    Setting("int4", "int4"),
    Setting("q4_1", "q4_1"),
    Setting("q4_0", "q4_0"),
    Setting("as the file is", as_file=True),
    *(
        Setting(f"KV {dtype}", "none", dtype, "float32")
        for dtype in KV_CACHE_DTYPES
        if dtype not in ("auto", "float32", "fp8_e4m3")  # the last is fp8 by its full name
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """`weight_bytes` are held by the weights, `kv_bytes_per_token` by a token's keys and values. `rms_error` is of
    logits; `same_top`: the share of places where the likeliest token is float32's."""

    name: str
    weight_bytes: int
    kv_bytes_per_token: float
    perplexity: float
    kl: float
    rms_error: float
    same_top: float


def measure(
    weights: Weights, tokens: list[int], settings: tuple[Setting, ...] = SETTINGS, on_progress: OnProgress | None = None
) -> Iterator[Row]:
    """The reference's row, then one for each setting as it is done. The reference's logits go to a temporary file."""
    windows = [tokens[start : start + WINDOW] for start in range(0, len(tokens), WINDOW)]
    told = on_progress or (lambda name, done, total: None)
    plain = as_plain(weights)
    shape = (len(windows), WINDOW, weights.config.vocab_size)
    places = len(tokens)
    counts = np.array([places - len(windows), places, places * weights.config.vocab_size, places])
    with tempfile.TemporaryFile() as file:
        reference = np.memmap(file, np.float32, "w+", shape=shape)
        for setting in (REFERENCE, *settings):
            runner = load_runner(_config(setting), weights if setting.as_file else plain)
            sums = np.zeros(4)
            for index, window in enumerate(windows):
                told(setting.name, index, len(windows))
                logits = _logits(runner, window)
                if setting is REFERENCE:
                    reference[index, : len(window)] = logits
                sums += _compared(logits, reference[index, : len(window)], window[1:])
            told(setting.name, len(windows), len(windows))
            yield _row(setting.name, runner, sums / counts)


def as_plain(weights: Weights) -> Weights:
    """The matrices as a bfloat16 checkpoint would have them, whatever the file's format; kept, for each format asks."""

    @cache
    def plain(name: str) -> RawTensor:
        raw = weights.get(name)
        return as_type(raw, "BF16") if len(raw.shape) > 1 else raw

    return replace(weights, _readers={name: partial(plain, name) for name in weights.names()})


def _config(setting: Setting) -> EngineConfig:
    return EngineConfig(
        model="",
        max_model_len=WINDOW,
        max_num_seqs=WINDOW,  # logits of every row
        max_num_batched_tokens=WINDOW,
        quantization=setting.quantization,
        kv_cache_dtype=setting.kv_cache_dtype,
        dtype=setting.dtype,
    )


def _logits(runner: Runner, window: list[int]) -> Floats:
    sequence = Sequence("window", window, SamplingParams())
    sequence.block_table = list(range(-(-len(window) // BLOCK_SIZE)))
    count = len(window)
    fill_step(runner.step, ScheduledBatch([ScheduledSequence(sequence, count, count)]).items)
    return runner.forward()[0].numpy()


def _compared(logits: Floats, reference: Floats, following: list[int]) -> npt.NDArray[np.float64]:
    """Sums over a window: of negative log likelihoods, of KL, of squared logit errors, of equal likeliest tokens."""
    ours, exact = (torch.from_numpy(np.array(each)).double().log_softmax(-1) for each in (logits, reference))
    likelihoods = ours[torch.arange(len(following)), torch.tensor(following, dtype=torch.long)]
    kl = (exact.exp() * (exact - ours)).sum()
    squares = float(np.square(logits - reference, dtype=np.float64).sum())
    same = (logits.argmax(-1) == reference.argmax(-1)).sum()
    return np.array([-float(likelihoods.sum()), float(kl), squares, float(same)])


def _row(name: str, runner: Runner, means: npt.NDArray[np.float64]) -> Row:
    held = sum(cache.keys.nbytes + cache.values.nbytes for cache in runner.caches)
    likelihood, kl, square, same = means.tolist()
    per_token = held / (runner.num_blocks * BLOCK_SIZE)
    return Row(name, runner.weight_bytes, per_token, math.exp(likelihood), kl, math.sqrt(square), same)
