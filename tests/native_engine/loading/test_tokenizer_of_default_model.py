"""The default model's tokens, held to what llama.cpp b11434 makes of the same file (its /tokenize, recorded once)."""

from __future__ import annotations

from pathlib import Path

import pytest

from native_engine.loading.tokenizer import load_tokenizer
from native_engine.text.detokenize import IncrementalText

LLAMA_CPP = {
    "Hello, world! It's 2024-11-29.": [19556, 28, 905, 17, 657, 506, 216, 34, 32, 34, 36, 29, 33, 33, 29, 34, 41, 30],
    "日本語のテキスト、漢字とかな。": [
        23274,
        115,
        40993,
        179,
        120,
        248,
        26453,
        11100,
        224,
        10391,
        251,
        10391,
        134,
        11100,
        226,
        29917,
        177,
        137,
        112,
        36518,
        7365,
        118,
        7365,
        229,
        7365,
        120,
        19076,
    ],
    "def f(x):\n    return x**2  # ok\n\n\n\tpass": [
        1604,
        275,
        24,
        104,
        727,
        472,
        1003,
        1792,
        828,
        34,
        216,
        907,
        10907,
        16506,
        197,
        5467,
    ],
    "👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈": [
        10813,
        235,
        118,
        321,
        231,
        10813,
        235,
        119,
        321,
        231,
        10813,
        235,
        117,
        321,
        231,
        10813,
        235,
        116,
        15107,
        233,
        128,
        31752,
        321,
        231,
        10813,
        230,
        226,
    ],
    "naïve café ½ ٣٤٥": [3546, 46494, 37366, 216, 16738, 216, 164, 113, 164, 114, 164, 115],
    "I'll we've DON'T": [57, 3060, 392, 3543, 422, 2154, 23, 68],
    "1,000,000 3.14159": [33, 28, 32, 32, 32, 28, 32, 32, 32, 216, 35, 30, 33, 36, 33, 37, 41],
    "<|im_start|>user\nhi<|im_end|>\n": [1, 4093, 198, 6004, 2, 198],
    "   leading  and trailing  \n \n": [256, 2899, 216, 284, 35079, 32057, 3717],
}


@pytest.mark.slow
def test_the_default_model_is_tokenised_as_llama_cpp_does(smollm2: Path) -> None:
    tokenizer = load_tokenizer(smollm2)
    for text, expected in LLAMA_CPP.items():
        assert tokenizer.encode(text) == expected, text


@pytest.mark.slow
def test_every_token_of_the_default_model_streams_as_the_library_decodes_it(smollm2: Path) -> None:
    tokenizer = load_tokenizer(smollm2)
    ids = list(range(tokenizer.vocab_size))
    stream = IncrementalText(tokenizer.id_to_bytes)
    assert "".join(stream.push([token]) for token in ids) + stream.flush() == tokenizer.decode(ids)
