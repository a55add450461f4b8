"""Text to token ids for a model that writes none: tokenizer.json whatever its kind, or a GGUF file's. Knows no way
back."""

from __future__ import annotations

from pathlib import Path

from native_engine.loading.gguf import GGUFModel
from native_engine.loading.gguf_tokenizer import build_tokenizer
from native_engine.loading.tokenizer import read_backend


class TextEncoder:
    """Never cuts: whether an input is too long is for others to say."""

    def __init__(self, path: Path) -> None:
        file = None if path.is_dir() else GGUFModel.open(path)
        self._backend = build_tokenizer(str(path), file.metadata) if file else read_backend(path)
        self.vocab_size = self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """`add_special`: between [CLS] and [SEP], or with EOS behind it, as the model expects a sentence."""
        return self._backend.encode_batch_fast([text], add_special_tokens=add_special)[0].ids
