from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from native_engine.fidelity import REFERENCE, WINDOW, Row, Setting, measure
from native_engine.loading.weights import open_weights

TOKENS = np.random.default_rng(0).integers(0, 96, WINDOW + 100).tolist()
SETTINGS = (
    Setting("int8", "int8"),
    Setting("q4_0", "q4_0"),
    Setting("as the file is", as_file=True),
    Setting("KV bfloat16", "none", "bfloat16", "float32"),
)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    config = LlamaConfig(**shape, **heads, max_position_embeddings=WINDOW, initializer_range=0.2)
    model = LlamaForCausalLM(config).eval()
    for parameter in model.parameters():  # what is measured is the model as a bfloat16 checkpoint would have it
        parameter.data = parameter.data.bfloat16().float()
    return model


@pytest.fixture(scope="module")
def progress() -> list[tuple[str, int, int]]:
    return []


@pytest.fixture(scope="module")
def rows(
    model: LlamaForCausalLM, progress: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    told = lambda *step: progress.append(step)  # noqa: E731
    return {row.name: row for row in measure(open_weights(folder), TOKENS, SETTINGS, told)}


def test_the_perplexity_of_float32_is_that_of_transformers(model: LlamaForCausalLM, rows: dict[str, Row]) -> None:
    total, count = 0.0, 0
    with torch.inference_mode():
        for window in (torch.tensor([TOKENS[:WINDOW]]), torch.tensor([TOKENS[WINDOW:]])):
            predictions = window.shape[1] - 1
            total += float(model(window, labels=window).loss) * predictions
            count += predictions
    assert rows[REFERENCE.name].perplexity == pytest.approx(np.exp(total / count), rel=1e-4)


def test_float32_differs_from_itself_in_nothing(rows: dict[str, Row]) -> None:
    exact = rows[REFERENCE.name]
    assert (exact.kl, exact.rms_error, exact.same_top) == (0, 0, 1)
    assert rows["as the file is"].rms_error < 1e-3  # the file is float32, and so computed; its KV cache too


def test_a_coarser_format_differs_more(rows: dict[str, Row]) -> None:
    fine, coarse = rows["int8"], rows["q4_0"]
    assert 0 < fine.kl < coarse.kl
    assert 0 < fine.rms_error < coarse.rms_error
    assert 1 > fine.same_top > coarse.same_top
    assert rows[REFERENCE.name].weight_bytes > fine.weight_bytes > coarse.weight_bytes


def test_a_kv_cache_is_measured_apart_from_the_weights(rows: dict[str, Row]) -> None:
    exact, cached = rows[REFERENCE.name], rows["KV bfloat16"]
    assert cached.weight_bytes == exact.weight_bytes
    assert cached.kv_bytes_per_token * 2 == exact.kv_bytes_per_token == 2 * 2 * 32 * 4
    assert 0 < cached.rms_error < rows["q4_0"].rms_error


def test_progress_is_told_by_window(rows: dict[str, Row], progress: list[tuple[str, int, int]]) -> None:
    assert list(dict.fromkeys(name for name, _, _ in progress)) == list(rows)
    assert [step[1:] for step in progress if step[0] == "int8"] == [(0, 2), (1, 2), (2, 2)]
