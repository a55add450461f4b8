"""Text to token ids and back, for every kind of model folder or file. Knows no model and no request."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import Tokenizer as Backend

from native_engine.loading.errors import ModelError
from native_engine.loading.gguf import GGUFModel
from native_engine.loading.gguf_tokenizer import build_tokenizer
from native_engine.loading.model_config import config_from_folder, read_json, token_ids

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class Tokenizer:
    """`encode` reads control tokens written in the text; chat_prompt.py keeps those of users out of its reach."""

    def __init__(
        self, backend: Backend, *, eos_token_ids: frozenset[int], bos_token: str = "", eos_token: str = ""
    ) -> None:
        self._backend = backend
        self._byte_level = _is_byte_level(backend)
        self.eos_token_ids = eos_token_ids
        self.bos_token = bos_token
        self.eos_token = eos_token
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        added = backend.get_added_tokens_decoder()
        self._added = {number: b"" if each.special else each.content.encode() for number, each in added.items()}
        self.added_ids = {each.content: number for number, each in added.items()}
        self._special = {number: each.content.encode() for number, each in added.items() if each.special}
        self.special_ids = frozenset(self._special)
        self.special_texts = frozenset(each.content for each in added.values() if each.special)
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """`add_special`: begin with BOS where the model expects it. A chat template writes its own; pass False."""
        # The batch call lets other threads run meanwhile, and skips the offsets that nobody reads.
        return self._backend.encode_batch_fast([text], add_special_tokens=add_special)[0].ids

    def decode(self, ids: list[int]) -> str:
        return self._backend.decode(ids, skip_special_tokens=True)

    def id_to_bytes(self, token_id: int) -> bytes:
        """The raw bytes that the token adds to the text; none for a special token or an unknown id."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._make_bytes(token_id)
        return known

    def spelling(self, token_id: int) -> bytes:
        """As `id_to_bytes`, but of a special token its name: what people want to read of a single token."""
        return self._special.get(token_id) or self.id_to_bytes(token_id)

    def _make_bytes(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id]
        text = self._backend.id_to_token(token_id) if token_id >= 0 else None
        if text is None:
            return b""
        return _byte_level_bytes(text) if self._byte_level else _sentencepiece_bytes(text)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """From a .gguf file, or from the tokenizer.json of a Hugging Face folder."""
    path = Path(path)
    return _from_folder(path) if path.is_dir() else tokenizer_of(GGUFModel.open(path))


def tokenizer_of(model: GGUFModel) -> Tokenizer:
    metadata = model.metadata
    backend = build_tokenizer(str(model.path), metadata)
    texts = metadata["tokenizer.ggml.tokens"]

    def text_of(kind: str) -> str:
        number = metadata.get(f"tokenizer.ggml.{kind}_token_id")
        return texts[number] if number is not None and number < len(texts) else ""

    eos = model.config().eos_token_ids
    return Tokenizer(backend, eos_token_ids=eos, bos_token=text_of("bos"), eos_token=text_of("eos"))


def read_backend(folder: Path) -> Backend:
    """The tokenizer.json of a model folder, without what it says of cutting and filling up."""
    path = folder / "tokenizer.json"
    if not path.exists():
        raise ModelError(f"{path}: missing. Fetch the model again, or convert its tokenizer to tokenizer.json.")
    try:
        backend = Backend.from_file(str(path))
    except Exception as fault:  # the library raises bare Exception
        raise ModelError(f"{path}: not a readable tokenizer ({fault}). Fetch the model again.") from fault
    backend.no_truncation()
    backend.no_padding()
    return backend


def _from_folder(folder: Path) -> Tokenizer:
    backend = read_backend(folder)
    settings = read_json(folder / "tokenizer_config.json")
    bos, eos = _token_text(settings.get("bos_token")), _token_text(settings.get("eos_token"))
    own = token_ids(backend.token_to_id(eos) if eos else None)
    return Tokenizer(
        backend, eos_token_ids=config_from_folder(folder).eos_token_ids | own, bos_token=bos, eos_token=eos
    )


def _token_text(value: object) -> str:
    """tokenizer_config.json writes a token as text or as an object around it."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _is_byte_level(backend: Backend) -> bool:
    """Byte-level tokens spell bytes in a 256-letter alphabet; SentencePiece ones spell text, and bytes as <0xAB>."""
    state = json.loads(backend.decoder.__getstate__()) if backend.decoder else {}
    kinds = {state.get("type")} | {each.get("type") for each in state.get("decoders", [])}
    if "ByteLevel" in kinds:
        return True
    if kinds & {"ByteFallback", "Metaspace"}:
        return False
    raise ModelError(
        f"a tokenizer that decodes by {state.get('type')!r} is not supported; known: ByteLevel, ByteFallback."
    )


def _alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: the printable ones stand for themselves, the rest follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + position): byte for position, byte in enumerate(others)}


_LETTERS = _alphabet()


def _byte_level_bytes(text: str) -> bytes:
    try:
        return bytes([_LETTERS[letter] for letter in text])
    except KeyError:  # a token that was never in the alphabet stands for its own text, as the library decodes it
        return text.encode()


def _sentencepiece_bytes(text: str) -> bytes:
    match = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(match[1], 16)]) if match else text.replace("▁", " ").encode()
