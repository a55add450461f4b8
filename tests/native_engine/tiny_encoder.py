"""A whole BERT folder of a few kilobytes, as sentence-transformers writes one. Its words mean nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "sea", "is", "blue", "and", "cold", "海", "は", "青", "い"]
CLS, SEP = 2, 3
HIDDEN, LONGEST, POSITIONS = 32, 16, 24


def write_encoder(
    folder: Path, *, pooling: str = "mean_tokens", modules: tuple[str, ...] = ("Pooling", "Normalize"), **changes: Any
) -> Path:
    """`changes` replace what config.json says."""
    (folder / "1_Pooling").mkdir(parents=True)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        initializer_range=0.5,
    )
    tensors = {name: tensor.numpy() for name, tensor in BertModel(config).state_dict().items()}
    tensors["embeddings.position_ids"] = np.arange(POSITIONS)[None]
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, folder / "model.safetensors")
    _write(folder / "config.json", {**config.to_dict(), "model_type": "bert", **changes})
    _write(folder / "sentence_bert_config.json", {"max_seq_length": LONGEST})
    _write(folder / "1_Pooling" / "config.json", {f"pooling_mode_{pooling}": True, "pooling_mode_max_tokens": False})
    steps = [("Transformer", ""), *((kind, f"1_{kind}") for kind in modules)]
    _write(
        folder / "modules.json",
        [{"type": f"sentence_transformers.models.{kind}", "path": where} for kind, where in steps],
    )
    _write_tokenizer(folder)
    return folder


def _write_tokenizer(folder: Path) -> None:
    """One that would cut and fill up, as the published ones do."""
    tokenizer = Tokenizer(WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", CLS), ("[SEP]", SEP)])
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(folder / "tokenizer.json"))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
