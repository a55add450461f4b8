"""Several ranks say what one says: families, formats, both ways of computing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from transformers import Gemma2Config, GptOssConfig, LlamaConfig, Phi3Config, Qwen3Config, Qwen3MoeConfig

from native_engine.config import EngineConfig
from tests.native_engine.gguf_of import write_as_gguf
from tests.native_engine.parallel.ranks import Case, run, tokens
from tests.native_engine.test_models import save

pytestmark = pytest.mark.slow  # five processes

# Two KV heads: of four ranks, two share one. 301 words: no size divides them. Weights so large that choices are clear.
SHAPE: dict[str, Any] = {
    "vocab_size": 301,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "head_dim": 32,
    "tie_word_embeddings": False,
    "initializer_range": 0.2,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
MODELS = {
    "llama": LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True),
    "qwen3": Qwen3Config(**{**SHAPE, "num_key_value_heads": 4, "tie_word_embeddings": True}),
    "phi3": Phi3Config(**SHAPE | {"hidden_size": 256, "pad_token_id": None}),
    "gemma2": Gemma2Config(
        **SHAPE | {"tie_word_embeddings": True},
        sliding_window=21,
        query_pre_attn_scalar=24,
        final_logit_softcapping=5.0,
    ),
    "qwen3moe": Qwen3MoeConfig(**SHAPE, **EXPERTS, norm_topk_prob=True),
    "small": LlamaConfig(**SHAPE | {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2}),
    "gpt-oss": GptOssConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2, sliding_window=40),
}
FAMILIES = [name for name in MODELS if name != "small"]
QUANTISED = ("Q8_0", "Q4_1")
# Chunks of 32 tokens; 12 blocks of 16, so that the second time the first prompts come from the host tier.
CONFIG = EngineConfig(
    model="",
    max_model_len=128,
    max_num_batched_tokens=32,
    max_num_seqs=4,
    kv_cache_dtype="float32",
    dtype="float32",
    num_threads=1,
)
BLOCK = 16 * 2 * SHAPE["num_hidden_layers"] * 32 * 4  # of one KV head


def case(model: str, runner: str) -> Case:
    heads = SHAPE["num_key_value_heads"] if model in MODELS and model != "qwen3" else 4
    return Case(
        model, runner, replace(CONFIG, kv_cache_memory=12 * BLOCK * heads, kv_offload_memory=64 * BLOCK * heads)
    )


CASES = [
    *(case(model, "native") for model in (*FAMILIES, *(f"{each}.gguf" for each in QUANTISED))),
    *(case(model, "torch") for model in ("llama", "gemma2", "gpt-oss", "Q4_1.gguf")),
]
ON_GPU = Case("small", "gpu", replace(CONFIG, device="gpu", max_model_len=64), short=True)
OF_SIZE = {2: [*CASES, ON_GPU], 4: [case("llama", "native"), case("gpt-oss", "native"), case("qwen3", "torch")]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    for name, config in MODELS.items():
        save(config, made / name)
    plain = write_as_gguf(save(MODELS["qwen3"], made / "plain"), made / "plain.gguf", "qwen3", {})
    for quantised in QUANTISED:
        quantise(plain, made / f"{quantised}.gguf", quantised)
    return made


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[tuple[int, Case], list[list[int]]]:
    return run(OF_SIZE, folder)


@pytest.mark.parametrize(
    ("size", "case"),
    [(size, case) for size, cases in OF_SIZE.items() for case in cases],
    ids=lambda value: f"{value.model}-{value.runner}" if isinstance(value, Case) else str(value),
)
def test_several_ranks_say_what_one_says(
    size: int, case: Case, folder: Path, said: dict[tuple[int, Case], list[list[int]]]
) -> None:
    alone = tokens(case, (replace(case, runner="torch") if case.short else case).load(folder))
    assert len({tuple(each) for each in alone}) == len(alone)
    assert said[size, case] == alone


def quantise(source: Path, target: Path, type_name: str) -> None:
    """Matrices in that type."""
    reader, kind = gguf.GGUFReader(source), gguf.GGMLQuantizationType[type_name]
    writer = gguf.GGUFWriter(target, "qwen3")
    for field in reader.fields.values():
        if field.name.startswith("qwen3."):
            writer.add_key_value(field.name, field.contents(), field.types[0])
    for name, values in _tensors(reader):
        if values.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(reader: gguf.GGUFReader) -> Iterator[tuple[str, np.ndarray]]:
    for each in reader.tensors:
        yield each.name, np.array(each.data).reshape(tuple(reversed(each.shape.tolist())))
