"""The GPU's path from prompts to tokens, in Triton's interpreter, held to plain torch on the CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from kernels.device import DeviceOp
from kernels.testing import assert_close
from native_engine import device_model
from native_engine.batch import UNKNOWN, ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.device_runner import DeviceRunner
from native_engine.engine import Engine
from native_engine.loading.weights import Weights, open_weights
from native_engine.model_runner import Runner, TorchRunner, load_runner
from native_engine.request import SamplingParams, Sequence
from native_engine.server.offline import answering
from tests.native_engine.driving import generate, run
from tests.native_engine.test_models import GEMMA3_ROPE, logits_of, save
from tests.native_engine.tiny_model import write_gguf

VOCABULARY = 150
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
}
GEMMA: dict[str, Any] = {
    **SHAPE,
    "sliding_window": 13,
    "layer_types": ["sliding_attention", "full_attention"],
    "query_pre_attn_scalar": 24,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
MODELS = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE),
    "gemma2": Gemma2Config(**GEMMA, attn_logit_softcapping=0.5, final_logit_softcapping=0.7),
    "gemma3": Gemma3TextConfig(**GEMMA, rope_parameters=GEMMA3_ROPE),
    "qwen3moe": Qwen3MoeConfig(**SHAPE, **EXPERTS, norm_topk_prob=True),
    "gpt-oss": GptOssConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2, sliding_window=20),
}
CONFIG = EngineConfig(
    model="",
    device="gpu",
    dtype="float32",
    kv_cache_dtype="float32",
    max_model_len=64,
    max_num_seqs=4,
    max_num_batched_tokens=24,
    num_threads=1,
)
FEW = SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True)
GREEDY = SamplingParams(max_tokens=5, temperature=0.0, ignore_eos=True)
PROMPTS = [np.random.default_rng(length).integers(0, VOCABULARY, length).tolist() for length in (1, 19, 30)]


@pytest.fixture(scope="module")
def weights_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def weights(name: str) -> Weights:
        folder = tmp_path_factory.mktemp(name)
        save(MODELS[name], folder)
        return open_weights(folder)

    return weights


@pytest.fixture(scope="module")
def llama(weights_of: Any) -> Weights:
    return weights_of("llama")  # type: ignore[no-any-return]


def both(weights: Weights, config: EngineConfig = CONFIG) -> tuple[Engine, Engine]:
    """The same engine twice: on plain torch, and on the GPU's path."""
    return (
        Engine.create(TorchRunner(config, weights), config),
        Engine.create(load_runner(config, weights), config),
    )


def first_logits(runner: Runner) -> np.ndarray:
    return logits_of(runner, PROMPTS[2])


@pytest.fixture
def plain_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every op's reference in the place of its kernel, which the interpreter takes seconds for."""
    ops = {"argmax", "attention", "gated", "linear", "moe", "rms_norm", "rotary", "sample", "soft_cap"}
    monkeypatch.setattr(DeviceOp, "fallen_back", ops)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_kernels_give_the_tokens_of_the_cpu_through_chunks_and_mixed_batches(name: str, weights_of: Any) -> None:
    plain, device = both(weights_of(name), replace(CONFIG, max_num_batched_tokens=13))
    prompts = [PROMPTS[0], PROMPTS[1][:18]]
    assert generate(device, prompts, FEW) == generate(plain, prompts, FEW)
    assert not DeviceOp.fallen_back


@pytest.mark.usefixtures("plain_ops")
def test_a_cached_prefix_and_a_preemption_change_nothing(llama: Weights) -> None:
    per_block = 2 * 2 * 2 * 32 * 4 * 16
    prompts, params, outputs = [PROMPTS[2][:length] for length in (17, 15, 14)], replace(GREEDY, max_tokens=20), []
    for engine in both(llama, replace(CONFIG, kv_cache_memory=4 * per_block)):
        first = generate(engine, prompts[:1], params)
        outputs.append([first, generate(engine, prompts, params)])
        assert engine.stats().preemptions_total > 0
        assert engine.stats().prefix_cache_hits > 0
    assert outputs[0] == outputs[1]
    assert outputs[0][0][0] == outputs[0][1][0]


@pytest.mark.usefixtures("plain_ops")
def test_blocks_come_back_from_the_host_as_they_went(llama: Weights) -> None:
    per_block = 2 * 2 * 2 * 32 * 4 * 16
    config = replace(CONFIG, kv_cache_memory=4 * per_block, kv_offload_memory=8 * per_block)
    outputs = []
    for engine in both(llama, config):
        outputs.append([generate(engine, [prompt], GREEDY) for prompt in (PROMPTS[2], [9] * 55, PROMPTS[2])])
        assert engine.stats().host_blocks_fetched > 0
    assert outputs[0] == outputs[1]


@pytest.mark.usefixtures("plain_ops")
def test_a_cache_in_fp8_gives_what_it_gives_on_the_cpu(weights_of: Any) -> None:
    config = replace(CONFIG, kv_cache_dtype="fp8")
    plain, device = (engine.runner for engine in both(weights_of("qwen3"), config))
    assert device.caches[0].keys.dtype == torch.float8_e4m3fn
    assert_close(first_logits(device), first_logits(plain), 2e-2)


@pytest.mark.usefixtures("plain_ops")
@pytest.mark.parametrize("method", ["fp8", "int8", "int4", "q8_0"])
def test_weights_quantised_on_load_stay_so_and_mean_the_same(method: str, llama: Weights) -> None:
    config = replace(CONFIG, quantization=method)
    plain, device = (engine.runner for engine in both(llama, config))
    assert_close(first_logits(device), first_logits(plain), 2e-2)
    assert device.weight_bytes < 0.7 * DeviceRunner(CONFIG, llama).weight_bytes


@pytest.mark.usefixtures("plain_ops")
def test_requests_that_need_the_host_get_there_what_they_get_on_the_cpu(llama: Weights) -> None:
    asked = [
        replace(GREEDY, frequency_penalty=1.5, presence_penalty=0.5),
        replace(GREEDY, logit_bias={3: 50.0}, logprobs=2),
        replace(GREEDY, prompt_logprobs=1),
        GREEDY,
    ]
    outcomes = []
    for engine in both(llama):
        sequences = [Sequence(str(n), PROMPTS[2], params) for n, params in enumerate(asked)]
        for sequence in sequences:
            engine.add(sequence)
        run(engine, sequences)
        outcomes.append(sequences)
    for plain, device in zip(*outcomes, strict=True):
        assert device.output_token_ids == plain.output_token_ids
        assert [each.rank for each in device.logprobs] == [each.rank for each in plain.logprobs]
        told = [[each.chosen for each in sequence.prompt_logprobs] for sequence in (device, plain)]
        assert told[0] == pytest.approx(told[1], abs=1e-4)
    assert outcomes[1][1].output_token_ids == [3] * 5
    assert len(outcomes[1][2].prompt_logprobs) == len(PROMPTS[2]) - 1


DRAWN = [
    SamplingParams(max_tokens=4, seed=seed, ignore_eos=True, **limits)
    for seed, limits in enumerate(({}, {"temperature": 0.7, "top_p": 0.9}, {"top_k": 9}, {"min_p": 0.05}))
]


@pytest.mark.usefixtures("plain_ops")
def test_a_seed_draws_the_same_alone_and_in_company_and_without_limits_what_it_draws_on_the_cpu(llama: Weights) -> None:
    plain, device = both(llama)
    sequences = [Sequence(str(n), PROMPTS[1], params) for n, params in enumerate(DRAWN)]
    for sequence in sequences:
        device.add(sequence)
    run(device, sequences)
    alone = [generate(device, [PROMPTS[1]], params)[0] for params in DRAWN]
    assert [sequence.output_token_ids for sequence in sequences] == alone
    assert len({tuple(text) for text in alone}) == len(DRAWN)
    assert generate(plain, [PROMPTS[1]], DRAWN[0]) == alone[:1]


@pytest.mark.usefixtures("plain_ops")
def test_guesses_change_no_answer(llama: Weights) -> None:
    asked = [replace(GREEDY, max_tokens=24), SamplingParams(max_tokens=24, temperature=0.05, seed=1, ignore_eos=True)]
    prompts = [PROMPTS[1], PROMPTS[2][:9]]
    _, plain = both(llama)
    _, guessing = both(llama, replace(CONFIG, num_speculative_tokens=3))
    for params in asked:
        assert generate(guessing, prompts, params) == generate(plain, prompts, params)
    assert 0 < guessing.stats().accepted_tokens < guessing.stats().draft_tokens


@pytest.mark.usefixtures("plain_ops")
def test_the_engines_own_seed_is_given_out_in_the_order_of_arrival(llama: Weights) -> None:
    """Whether a request is drawn for on the device or, as one with a bias, on the host."""
    texts = []
    for engine in both(llama, replace(CONFIG, seed=3)):
        asked = [SamplingParams(max_tokens=3, ignore_eos=True, logit_bias=bias) for bias in ({1: 0.1}, None, {2: 0.1})]
        sequences = [Sequence(str(n), PROMPTS[1], params) for n, params in enumerate(asked)]
        for sequence in sequences:
            engine.add(sequence)
        run(engine, sequences)
        texts.append([sequence.output_token_ids for sequence in sequences])
    assert texts[0] == texts[1]


def scheduled(sequence: Sequence, first: int = 0, follows: int | None = None) -> ScheduledSequence:
    """All tokens from `first` on."""
    sequence.num_computed_tokens = first
    item = ScheduledSequence(sequence, len(sequence.token_ids) - first, 1)
    item.follows = follows
    return item


def sequences_with_blocks(*prompts: list[int]) -> list[Sequence]:
    made = [Sequence(str(n), prompt, GREEDY) for n, prompt in enumerate(prompts)]
    for n, sequence in enumerate(made):
        sequence.block_table = [2 * n, 2 * n + 1]
    return made


@pytest.mark.usefixtures("plain_ops")
def test_a_step_may_follow_tokens_that_the_host_does_not_know_yet(weights_of: Any) -> None:
    runner = DeviceRunner(CONFIG, weights_of("qwen3"))
    prompts = [[1, 2, 3, 4], [99, 100]]  # whose every token comes by the one before
    waited = sequences_with_blocks(*prompts)
    for step in range(3):
        items = [scheduled(each, 0 if step == 0 else len(each.token_ids) - 1) for each in waited]
        for each, (token,) in zip(waited, runner.execute(ScheduledBatch(items)), strict=True):
            each.token_ids.append(token)
    ahead = sequences_with_blocks(*prompts)
    launches = [runner.launch(ScheduledBatch([scheduled(each) for each in ahead]))]
    for _ in range(2):
        assert launches[-1].on_device
        for each in ahead:
            each.token_ids.append(UNKNOWN)
        # In another order than that of the step before, so that each has to find its own.
        items = [scheduled(each, len(each.token_ids) - 1, follows) for follows, each in enumerate(ahead)]
        launches.append(runner.launch(ScheduledBatch(items[::-1])))
        ahead.reverse()
    first, second, third = (launch.tokens() for launch in launches)
    assert [first[0], second[1], third[0]] == [[token] for token in waited[0].output_token_ids]
    assert [first[1], second[0], third[1]] == [[token] for token in waited[1].output_token_ids]


@pytest.mark.usefixtures("plain_ops")
def test_a_row_that_is_not_finite_is_told_and_what_follows_it_does_no_harm(weights_of: Any) -> None:
    runner = DeviceRunner(CONFIG, weights_of("qwen3"))
    broken, whole = sequences_with_blocks([149, 3], [5, 6])
    runner._model._model.backbone.embedding[149] = torch.nan
    launched = runner.launch(ScheduledBatch([scheduled(broken), scheduled(whole)]))
    for each in (broken, whole):
        each.token_ids.append(UNKNOWN)
    items = [scheduled(each, 2, follows) for follows, each in enumerate((broken, whole))]
    after = runner.launch(ScheduledBatch(items)).tokens()
    assert launched.tokens()[0] == [-1]
    assert launched.tokens()[1] != [-1]
    assert after[0] == [-1]
    assert after[1] != [-1]


@pytest.mark.usefixtures("plain_ops")
def test_a_host_that_has_a_part_in_a_choice_is_waited_for(llama: Weights) -> None:
    runner = DeviceRunner(CONFIG, llama)
    plain, biased, drafted = sequences_with_blocks([5], [6], [7])
    biased.params = replace(GREEDY, logit_bias={1: 5.0})
    assert runner.launch(ScheduledBatch([scheduled(plain)])).on_device
    assert not runner.launch(ScheduledBatch([scheduled(plain), scheduled(biased)])).on_device
    item = scheduled(drafted)
    item.drafts, item.num_logits = [4, 4], 3
    launched = runner.launch(ScheduledBatch([item]))
    assert not launched.on_device
    (tokens,) = launched.tokens()
    (alone,) = runner.execute(ScheduledBatch([scheduled(drafted)]))
    assert tokens[0] == alone[0]


@pytest.mark.usefixtures("plain_ops")
def test_decode_steps_run_in_the_recorded_sizes_and_say_the_same(
    llama: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = generate(Engine.create(DeviceRunner(CONFIG, llama), CONFIG), PROMPTS, GREEDY)
    replayed: list[int] = []

    def record(compute: Any) -> Any:
        def replay() -> Any:
            result = compute()
            replayed.append(len(result.tensor))
            return result

        return replay

    monkeypatch.setattr(device_model, "recorder", lambda config, device: lambda: record)
    runner = DeviceRunner(CONFIG, llama)
    assert generate(Engine.create(runner, CONFIG), PROMPTS, GREEDY) == expected
    assert set(replayed) == {1, 4}  # three sequences fill up the step of four


@pytest.mark.usefixtures("plain_ops")
async def test_the_server_answers_from_a_gpu_what_it_answers_from_a_cpu(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf")
    body = json.dumps({"model": "tiny", "prompt": "hello world", "max_tokens": 4, "temperature": 0}).encode()
    texts = []
    for device in ("cpu", "gpu"):
        config = replace(CONFIG, model=str(path), device=device, quantization="none")
        async with answering(config, tmp_path, "tiny") as ask:
            answer = await ask("/v1/completions", body)
        assert answer.status == 200
        texts.append(json.loads(answer.body)["choices"][0]["text"])
    assert texts[0] == texts[1] != ""


def test_only_what_a_step_needs_is_recorded() -> None:
    assert device_model.recorder(CONFIG, torch.device("cpu")) is None
    assert device_model.recorder(replace(CONFIG, enforce_eager=True), torch.device("cuda")) is None


def test_a_kernel_that_fell_back_to_plain_torch_turns_graphs_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device_model.DeviceOp, "fallen_back", {"attention"})
    assert device_model.recorder(CONFIG, torch.device("cuda")) is None
    assert "no CUDA graphs: attention run on plain torch" in caplog.text
