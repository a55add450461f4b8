"""The engine's tokens against Hugging Face transformers on the same weights, and against itself in any company."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.loading.tokenizer import load_tokenizer
from native_engine.loading.weights import Weights, open_weights
from native_engine.model_runner import NativeRunner, TorchRunner
from native_engine.quantization.dequantize import dequantize
from native_engine.request import SamplingParams, Sequence
from tests.native_engine.driving import GREEDY, generate, generate_in_traffic, reference_logits
from tests.native_engine.prompts import PROMPTS

pytestmark = pytest.mark.slow

LIMIT = 512
EXACT = EngineConfig(model="", max_model_len=LIMIT, quantization="none", kv_cache_dtype="float32")
FAST = EngineConfig(model="", max_model_len=LIMIT)
# How far below the best the fast path's choice may lie, in the exact model's logits, where the two first differ.
# Activations rounded to int8 move a logit by about 0.1 (their spread is about 3); the largest seen is in the README.
FAST_PATH_GAP = 0.6


@pytest.fixture(scope="module")
def weights(smollm2: Path) -> Weights:
    return open_weights(smollm2)


@pytest.fixture(scope="module")
def prompts(smollm2: Path) -> list[list[int]]:
    """The texts, and one prompt that leaves room for exactly the tokens asked for."""
    tokenizer = load_tokenizer(smollm2)
    encoded = [tokenizer.encode(prompt) for prompt in PROMPTS]
    long = list(itertools.islice(itertools.cycle(itertools.chain(*encoded)), LIMIT - 64))
    return [*encoded, long]


@pytest.fixture(scope="module")
def transformers_model(weights: Weights) -> LlamaForCausalLM:
    """The same dequantised weights in Hugging Face's implementation, float32."""
    config = weights.config
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            max_position_embeddings=config.max_position,
            rms_norm_eps=config.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=True,
        )
    )
    state = {name: torch.from_numpy(dequantize(weights.get(name))) for name in weights.names()}
    result = model.load_state_dict(state, strict=False)
    assert set(result.missing_keys) <= {"lm_head.weight"}
    assert not result.unexpected_keys
    return model.eval()


def test_greedy_tokens_equal_transformers_token_for_token(
    weights: Weights, prompts: list[list[int]], transformers_model: LlamaForCausalLM
) -> None:
    outputs = generate(Engine.create(NativeRunner(EXACT, weights), EXACT), prompts)
    assert len(prompts) >= 24
    for prompt, output in zip(prompts, outputs, strict=True):
        assert len(output) == 64
        assert reference_logits(transformers_model, prompt, output).argmax(-1).tolist() == output


def test_greedy_tokens_equal_what_transformers_itself_generates(
    weights: Weights, prompts: list[list[int]], transformers_model: LlamaForCausalLM
) -> None:
    engine = Engine.create(NativeRunner(EXACT, weights), EXACT)
    transformers_model.generation_config.eos_token_id = None  # go on past the end of the text, as ours was told to
    for prompt, output in zip(prompts[:2], generate(engine, prompts[:2]), strict=True):
        ids = torch.tensor([prompt])
        generated = transformers_model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=64
        )
        assert generated[0, len(prompt) :].tolist() == output


def test_plain_torch_without_the_native_kernels_says_the_same(
    weights: Weights, prompts: list[list[int]], transformers_model: LlamaForCausalLM
) -> None:
    chosen = prompts[:3]
    outputs = generate(Engine.create(TorchRunner(EXACT, weights), EXACT), chosen, replace(GREEDY, max_tokens=16))
    for prompt, output in zip(chosen, outputs, strict=True):
        assert reference_logits(transformers_model, prompt, output).argmax(-1).tolist() == output


def test_the_quantised_path_strays_only_where_the_choice_was_close(
    weights: Weights, prompts: list[list[int]], transformers_model: LlamaForCausalLM
) -> None:
    outputs = generate(Engine.create(NativeRunner(FAST, weights), FAST), prompts)
    gaps = []
    for prompt, output in zip(prompts, outputs, strict=True):
        logits = reference_logits(transformers_model, prompt, output)
        differs = (logits.argmax(-1) != torch.tensor(output)).nonzero()
        if len(differs):
            place = int(differs[0])
            gaps.append(float(logits[place].max() - logits[place, output[place]]))
    print(f"{len(gaps)} of {len(prompts)} outputs differ; gaps at the first difference: {sorted(gaps)}")
    assert max(gaps, default=0.0) < FAST_PATH_GAP


@pytest.fixture(scope="module")
def alone(weights: Weights, prompts: list[list[int]]) -> list[list[int]]:
    """Each prompt by itself in a fresh engine without prefix caching."""
    config = replace(FAST, enable_prefix_caching=False)
    runner = NativeRunner(config, weights)
    return [generate(Engine.create(runner, config), [prompt])[0] for prompt in prompts[:16]]


@pytest.mark.parametrize("caching", [True, False])
def test_company_changes_no_token(
    weights: Weights, prompts: list[list[int]], alone: list[list[int]], caching: bool
) -> None:
    config = replace(FAST, enable_prefix_caching=caching, max_num_seqs=16, max_num_batched_tokens=64)
    engine = Engine.create(NativeRunner(config, weights), config)
    assert generate_in_traffic(engine, prompts[:16], weights.config.vocab_size) == alone
    assert generate(engine, prompts[:16]) == alone  # a second time, over whatever the cache holds by now


def test_preemption_changes_no_token(weights: Weights, prompts: list[list[int]], alone: list[list[int]]) -> None:
    blocks = 34  # one request of the longest length and two more blocks
    per_block = 16 * 2 * weights.config.num_layers * weights.config.num_kv_heads * weights.config.head_dim * 2
    config = replace(FAST, kv_cache_memory=blocks * per_block)
    engine = Engine.create(NativeRunner(config, weights), config)
    assert generate(engine, prompts[:16]) == alone
    assert engine.stats().preemptions_total > 0
    assert engine.stats().kv_blocks_used == 0


def test_a_seed_gives_one_text_in_any_company(weights: Weights, prompts: list[list[int]]) -> None:
    params = SamplingParams(max_tokens=24, temperature=0.9, top_p=0.95, seed=42, ignore_eos=True)
    config = replace(FAST, max_num_seqs=16)
    engine = Engine.create(NativeRunner(config, weights), config)
    lonely = [generate(engine, [prompt], params)[0] for prompt in prompts[:6]]
    assert generate_in_traffic(engine, prompts[:6], weights.config.vocab_size, params) == lonely
    assert generate(engine, prompts[:6], replace(params, seed=43)) != lonely


def test_log_probabilities_equal_those_of_transformers(
    weights: Weights, prompts: list[list[int]], transformers_model: LlamaForCausalLM
) -> None:
    engine = Engine.create(NativeRunner(EXACT, weights), EXACT)
    sequence = Sequence("r", prompts[0], SamplingParams(max_tokens=16, temperature=0.7, seed=3, logprobs=5))
    engine.add(sequence)
    told = [logprobs for _ in range(16) for output in engine.step() for logprobs in output.logprobs]
    truth = reference_logits(transformers_model, prompts[0], sequence.output_token_ids).log_softmax(-1)
    for logprobs, token, row in zip(told, sequence.output_token_ids, truth, strict=True):
        assert logprobs.chosen == pytest.approx(float(row[token]), abs=1e-3)
        assert [value for _, value in logprobs.top] == pytest.approx(row.topk(5).values.tolist(), abs=1e-3)
