"""A `tokenizers.Tokenizer` from the metadata of a GGUF file: byte-level BPE and SentencePiece BPE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from native_engine.loading.errors import ModelError
from native_engine.loading.gguf import CONTROL_TOKEN
from native_engine.loading.pretokenizers import PRE_TOKENIZERS, PreTokenizer

USER_DEFINED_TOKEN = 4
_KEEP_SPACE = ("<unk>", "<s>", "<|endoftext|>")  # among the control tokens of Phi-3


def build_tokenizer(source: str, metadata: Mapping[str, Any]) -> Tokenizer:
    """`source` names the file in errors."""
    model = metadata.get("tokenizer.ggml.model")
    builders = {"gpt2": _byte_level, "llama": _sentencepiece}
    if model not in builders:
        raise ModelError(f"{source}: tokenizer {model!r} is not supported; known: {', '.join(sorted(builders))}.")
    tokenizer = builders[model](source, metadata)
    tokenizer.add_special_tokens(_added(metadata, CONTROL_TOKEN, special=True))
    tokenizer.add_tokens(_added(metadata, USER_DEFINED_TOKEN, special=False))
    _add_boundaries(tokenizer, metadata, bos_by_default=model == "llama" or _adds_bos_by_name(metadata))
    return tokenizer


def _byte_level(source: str, metadata: Mapping[str, Any]) -> Tokenizer:
    pre = _pre_tokenizer(source, metadata)
    merges = [_pair(source, merge) for merge in _required(source, metadata, "tokenizer.ggml.merges")]
    model = models.BPE(vocab=_vocabulary(source, metadata), merges=merges, ignore_merges=pre.ignore_merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre.build()
    normalizer = pre.normalizer()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(source: str, metadata: Mapping[str, Any]) -> Tokenizer:
    vocabulary = _vocabulary(source, metadata)
    scores = _required(source, metadata, "tokenizer.ggml.scores")
    unknown = metadata["tokenizer.ggml.tokens"][metadata.get("tokenizer.ggml.unknown_token_id", 0)]
    merges = merges_from_scores(vocabulary, scores)
    model = models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        steps.insert(0, normalizers.Prepend("▁"))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def merges_from_scores(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The order of merges that SentencePiece's scores stand for: best result first, as transformers converts them."""
    found: list[tuple[float, str, str]] = []
    for piece, number in vocabulary.items():
        cuts = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [(left, right) for left, right in cuts if left in vocabulary and right in vocabulary]
        known.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        found.extend((scores[number], left, right) for left, right in known)
    found.sort(key=lambda each: (each[0], len(each[1]), len(each[2])), reverse=True)
    return [(left, right) for _, left, right in found]


def _pre_tokenizer(source: str, metadata: Mapping[str, Any]) -> PreTokenizer:
    name = metadata.get("tokenizer.ggml.pre", "default")
    if name not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise ModelError(f"{source}: pre-tokenizer {name!r} is not supported; known: {known}.")
    return PRE_TOKENIZERS[name]


def _adds_bos_by_name(metadata: Mapping[str, Any]) -> bool:
    """Older Llama 3 files leave the flag out; their tokenizer begins every text with BOS all the same."""
    return metadata.get("tokenizer.ggml.pre") in {"llama-bpe", "llama3", "llama-v3", "tekken"}


def _required(source: str, metadata: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = metadata.get(key)
    if not isinstance(value, list) or not value:
        raise ModelError(f"{source}: metadata {key} is missing, so text cannot be tokenised. Use a newer conversion.")
    return value


def _vocabulary(source: str, metadata: Mapping[str, Any]) -> dict[str, int]:
    return {text: number for number, text in enumerate(_required(source, metadata, "tokenizer.ggml.tokens"))}


def _pair(source: str, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not space:
        raise ModelError(f"{source}: merge {merge!r} is not a pair; the tokenizer is damaged.")
    return left, right


def _added(metadata: Mapping[str, Any], kind: int, *, special: bool) -> list[AddedToken]:
    texts, kinds = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.token_type") or []
    chosen = [text for text, each in zip(texts, kinds, strict=False) if each == kind]
    swallow = special and _swallows_space(metadata)
    return [
        AddedToken(text, special=special, normalized=False, rstrip=swallow and text not in _KEEP_SPACE)
        for text in chosen
    ]


def _swallows_space(metadata: Mapping[str, Any]) -> bool:
    """Phi-3's control tokens take the white space behind them along; GGUF has no key that says so."""
    return metadata.get("general.architecture") == "phi3" and metadata["tokenizer.ggml.model"] == "llama"


def _add_boundaries(tokenizer: Tokenizer, metadata: Mapping[str, Any], *, bos_by_default: bool) -> None:
    begin = _boundary(metadata, "bos", default=bos_by_default)
    end = _boundary(metadata, "eos", default=False)
    if begin or end:
        template = [text for text, _ in begin] + ["$A"] + [text for text, _ in end]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=begin + end)


def _boundary(metadata: Mapping[str, Any], kind: str, *, default: bool) -> list[tuple[str, int]]:
    number = metadata.get(f"tokenizer.ggml.{kind}_token_id")
    if number is None or not metadata.get(f"tokenizer.ggml.add_{kind}_token", default):
        return []
    return [(metadata["tokenizer.ggml.tokens"][number], number)]
