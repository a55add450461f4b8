"""A GGUF file as metadata, a ModelConfig and memory-mapped raw tensors. Dequantises nothing."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUF_MAGIC, GGUFReader, GGUFValueType, ReaderField

from native_engine.loading import gemma
from native_engine.loading.errors import ModelError
from native_engine.loading.expert_config import experts_of_gguf
from native_engine.loading.model_config import Activation, ModelConfig
from native_engine.loading.rope import Scaling, rope_of_gguf, stretched_length
from native_engine.loading.windows import windows_of_gguf

KNOWN_ARCHITECTURES = ("gemma2", "gemma3", "gpt-oss", "llama", "phi3", "qwen2", "qwen3", "qwen3moe")
SUPPORTED_TENSOR_TYPES = frozenset(
    ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4"]
)
_ACTIVATIONS: dict[str, Activation] = {"gemma2": "gelu_tanh", "gemma3": "gelu_tanh", "gpt-oss": "clamped_silu"}

# Control tokens that end a turn in well-known chat formats. A file names one as its end of text; the others end an
# answer just as well, and a model that emits them would otherwise talk on to the length limit.
END_OF_TURN_TEXTS = frozenset(
    {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "</s>"}
    | {"<|return|>", "<|call|>"}
)
# What ends a turn elsewhere, but only a message of several here (gpt-oss thinks in the first).
_GOES_ON = {"gpt-oss": {"<|end|>"}}
CONTROL_TOKEN = 3

_DAMAGED = (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct.error)


@dataclass(frozen=True)
class GGUFTensor:
    """`shape` is in torch's order (out, in); `data` is (rows, bytes of a row), mapped from the file."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


class _Reader(GGUFReader):
    """The library's reader, which makes two arrays for every element: seconds for a vocabulary. This makes one list."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[GGUFValueType]]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        item_type = GGUFValueType(int(self._get(orig_offs, np.uint32)[0]))
        count = int(self._get(orig_offs + 4, np.uint64)[0])
        start = orig_offs + 12
        if item_type == GGUFValueType.STRING:
            values, end = self._strings(start, count)
            return end - orig_offs, [values], [0], [GGUFValueType.ARRAY, item_type]
        numbers = self._get(start, self.gguf_scalar_to_np[item_type], count)
        if len(numbers) != count:
            raise IndexError("array runs past the end of the file")
        return start + int(numbers.nbytes) - orig_offs, [numbers.tolist()], [0], [GGUFValueType.ARRAY, item_type]

    def _strings(self, offset: int, count: int) -> tuple[list[str], int]:
        buffer, length = self.data.data, struct.Struct(">Q" if self.byte_order == "S" else "<Q")
        values = []
        for _ in range(count):
            (size,) = length.unpack_from(buffer, offset)
            offset += 8 + size
            if offset > len(buffer):
                raise IndexError("string runs past the end of the file")
            values.append(str(buffer[offset - size : offset], "utf-8"))
        return values, offset


class GGUFModel:
    """An opened file. The tensors' bytes stay in the file until they are read."""

    def __init__(self, path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, GGUFTensor]) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors

    @classmethod
    def open(cls, path: str | Path) -> GGUFModel:
        path = Path(path)
        _check_magic(path)
        try:
            reader = _Reader(path)
            metadata = {key: _value(field) for key, field in reader.fields.items()}
            tensors = {each.name: _tensor(path, each) for each in reader.tensors}
        except _DAMAGED as fault:
            raise ModelError(_damage_message(path, fault)) from fault
        return cls(path, metadata, tensors)

    def config(self) -> ModelConfig:
        architecture = self._architecture()
        read = _Section(self.path, self.metadata, architecture)
        hidden, heads = read.integer("embedding_length"), read.integer("attention.head_count")
        head_dim = read.integer("attention.key_length", hidden // max(heads, 1))
        rotary_dim = read.integer("rope.dimension_count", head_dim)
        if rotary_dim != head_dim and architecture == "llama":  # whose rows are reordered for its own rotary form
            raise ModelError(f"{self.path}: rotary position on a part of each head is not supported.")
        context_length, layers = read.integer("context_length"), read.integer("block_count")
        scaling = self._rope_scaling(read, context_length)
        if architecture == "gpt-oss" and scaling:  # it does not round YaRN's bounds, and no key says so
            scaling["truncate"] = False
        return ModelConfig(
            architecture=architecture,
            vocab_size=self._embedding().shape[0],
            hidden_size=hidden,
            intermediate_size=read.integer("feed_forward_length"),
            num_layers=layers,
            num_heads=heads,
            num_kv_heads=read.integer("attention.head_count_kv", heads),
            head_dim=head_dim,
            rotary_dim=rotary_dim,
            rms_norm_eps=read.number("attention.layer_norm_rms_epsilon"),
            rope_theta=read.number("rope.freq_base", 10000.0),
            rope_scaling=scaling,
            max_position=stretched_length(scaling, context_length),
            windows=windows_of_gguf(architecture, read.optional, layers),
            tie_embeddings="output.weight" not in self.tensors,
            qk_norm="blk.0.attn_q_norm.weight" in self.tensors,
            experts=experts_of_gguf(read.optional, read.integer),
            activation=_ACTIVATIONS.get(architecture, "silu"),
            bos_token_id=self.metadata.get("tokenizer.ggml.bos_token_id"),
            eos_token_ids=self._eos_token_ids(END_OF_TURN_TEXTS - _GOES_ON.get(architecture, set())),
            chat_template=self.metadata.get("tokenizer.chat_template"),
            name=self.metadata.get("general.name") or self.path.stem,
            **(gemma.fields_of_gguf(architecture, read.optional) if architecture in gemma.ARCHITECTURES else {}),
        )

    def _architecture(self) -> str:
        architecture = self.metadata.get("general.architecture")
        if architecture not in KNOWN_ARCHITECTURES:
            known = ", ".join(KNOWN_ARCHITECTURES)
            raise ModelError(f"{self.path}: architecture {architecture!r} is not supported; known: {known}.")
        return str(architecture)

    def _embedding(self) -> GGUFTensor:
        if "token_embd.weight" not in self.tensors:
            raise ModelError(f"{self.path}: no token embedding inside; this is not a whole language model.")
        return self.tensors["token_embd.weight"]

    def _rope_scaling(self, read: _Section, context_length: int) -> Scaling | None:
        try:
            return rope_of_gguf(read.optional, self.tensors, context_length)
        except (TypeError, ValueError) as fault:
            raise ModelError(f"{self.path}: {fault}.") from fault

    def _eos_token_ids(self, end_of_turn: AbstractSet[str]) -> frozenset[int]:
        named = {self.metadata.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")}
        texts = self.metadata.get("tokenizer.ggml.tokens") or []
        types = self.metadata.get("tokenizer.ggml.token_type") or []
        known = {
            number
            for number, (text, kind) in enumerate(zip(texts, types, strict=False))
            if kind == CONTROL_TOKEN and text in end_of_turn
        }
        return frozenset(int(each) for each in named | known if each is not None)


class _Section:
    """The metadata of one architecture, with errors that name the missing key."""

    def __init__(self, path: Path, metadata: Mapping[str, Any], prefix: str) -> None:
        self._path, self._metadata, self._prefix = path, metadata, prefix

    def optional(self, key: str) -> Any:
        return self._metadata.get(f"{self._prefix}.{key}")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.optional(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ModelError(f"{self._path}: metadata {self._prefix}.{key} is {value!r}, expected a number.")
        return float(value)

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self.number(key, default))


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as fault:
        raise ModelError(f"{path}: cannot be opened ({fault.strerror}).") from fault
    if head != struct.pack("<I", GGUF_MAGIC):
        raise ModelError(f"{path}: not a GGUF file (it does not begin with the letters GGUF).")


def _damage_message(path: Path, fault: BaseException) -> str:
    if "GGMLQuantizationType" in str(fault):
        return f"{path}: holds a tensor type this version does not know ({fault})."
    if "version" in str(fault):
        return f"{path}: {fault}."
    return f"{path}: the file is cut short or damaged ({fault}). Fetch the model again."


def _value(field: ReaderField) -> Any:
    if field.types and field.types[0] == GGUFValueType.ARRAY:
        return field.parts[-1]
    return field.contents()


def _tensor(path: Path, read: Any) -> GGUFTensor:
    type_name = read.tensor_type.name
    if type_name not in SUPPORTED_TENSOR_TYPES:
        known = ", ".join(sorted(SUPPORTED_TENSOR_TYPES))
        raise ModelError(f"{path}: tensor {read.name} has type {type_name}, which is not supported; known: {known}.")
    shape = tuple(int(size) for size in reversed(read.shape))
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    return GGUFTensor(read.name, type_name, shape, read.data.view(np.uint8).reshape(rows, -1))
