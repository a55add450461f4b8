"""A whole GGUF model of a few kilobytes: two layers, a byte-level vocabulary, ChatML. Its words mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from native_engine.loading.tokenizer import _LETTERS

END_OF_TEXT, TURN_START, TURN_END = 0, 1, 2
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "Ġwor l", "Ġworl d", "1 2"]
USER_DEFINED = "<think>"
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, LAYERS = 128, 4, 2, 64, 2  # heads of 32: what native kernels take


def vocabulary() -> list[str]:
    letters = sorted(_LETTERS, key=_LETTERS.__getitem__)
    return [*SPECIALS, *letters, *(merge.replace(" ", "") for merge in MERGES), USER_DEFINED]


def write_gguf(
    path: Path, *, architecture: str = "llama", without: frozenset[str] = frozenset(), **changes: Any
) -> Path:
    """`without` leaves keys or tensors out; `changes` replace metadata, dots in a key written as double underscores."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (metadata(architecture) | {k.replace("__", "."): v for k, v in changes.items()}).items():
        if key not in without:
            add_key(writer, key, value)
    for name, tensor in tensors(len(vocabulary())).items():
        if name not in without:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def metadata(architecture: str) -> dict[str, Any]:
    texts = vocabulary()
    return {
        f"{architecture}.block_count": LAYERS,
        f"{architecture}.context_length": 256,
        f"{architecture}.embedding_length": HIDDEN,
        f"{architecture}.feed_forward_length": FEED_FORWARD,
        f"{architecture}.attention.head_count": HEADS,
        f"{architecture}.attention.head_count_kv": KV_HEADS,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": [3] * len(SPECIALS) + [1] * (len(texts) - len(SPECIALS) - 1) + [4],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": TURN_START,
        "tokenizer.ggml.eos_token_id": TURN_END,
        "tokenizer.chat_template": TEMPLATE,
    }


def tensors(vocab_size: int, seed: int = 0) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    random = np.random.default_rng(seed)

    def matrix(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return random.normal(0, 0.1, shape).astype(np.float32)

    head = HIDDEN // HEADS
    made = {"token_embd.weight": matrix(vocab_size, HIDDEN), "output_norm.weight": matrix(HIDDEN)}
    for layer in range(LAYERS):
        made |= {
            f"blk.{layer}.attn_norm.weight": matrix(HIDDEN),
            f"blk.{layer}.attn_q.weight": matrix(HIDDEN, HIDDEN),
            f"blk.{layer}.attn_k.weight": matrix(KV_HEADS * head, HIDDEN),
            f"blk.{layer}.attn_v.weight": matrix(KV_HEADS * head, HIDDEN),
            f"blk.{layer}.attn_output.weight": matrix(HIDDEN, HIDDEN),
            f"blk.{layer}.ffn_norm.weight": matrix(HIDDEN),
            f"blk.{layer}.ffn_gate.weight": matrix(FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_up.weight": matrix(FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_down.weight": matrix(HIDDEN, FEED_FORWARD),
        }
    return made


def add_key(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)
