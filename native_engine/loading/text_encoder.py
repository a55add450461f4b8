"""Text to token ids for a model that writes none: tokenizer.json whatever its kind. Knows no way back."""

from __future__ import annotations

from pathlib import Path

from native_engine.loading.tokenizer import read_backend


class TextEncoder:
    """Never cuts: whether an input is too long is for others to say."""

    def __init__(self, folder: Path) -> None:
        self._backend = read_backend(folder)
        self.vocab_size = self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """`add_special`: between [CLS] and [SEP], as the model expects a sentence."""
        return self._backend.encode_batch_fast([text], add_special_tokens=add_special)[0].ids
