"""What to paste for each engine so that it serves what was planned. Computes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from backends.capacity.shapes import HUB_NAMES

# What has to be done beside pasting.
Note = Literal["int8_checkpoint", "int4_checkpoint", "gguf"]
NOTES: dict[Note, str] = {
    "int8_checkpoint": "Choose a checkpoint of this model in INT8 (compressed-tensors W8A8 or GPTQ with 8 bits); put "
    "its name in the place of INT8-CHECKPOINT. The engine reads the format from it: no --quantization.",
    "int4_checkpoint": "Choose a checkpoint of this model in INT4 (AWQ or GPTQ, groups of 128); put its name in the "
    "place of INT4-CHECKPOINT. The engine reads the format from it: no --quantization.",
    "gguf": "Choose a GGUF of this model in the format that the file's name ends in.",
}

# The format of a GGUF that comes next to it.
_GGUF = {"bf16": "BF16", "fp8": "Q8_0", "int8": "Q8_0", "int4": "Q4_K_M"}
_CHECKPOINTS: dict[str, Note] = {"int8": "int8_checkpoint", "int4": "int4_checkpoint"}


@dataclass(frozen=True, slots=True)
class EngineLine:
    engine: str
    command: str
    note: Note | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the lines say. model: a name of SHAPES, of the hub (hf:org/name) or a folder's path."""

    model: str
    weights: str
    kv_cache_dtype: str
    max_num_seqs: int
    max_model_len: int
    gpus: int
    utilisation: float


def engine_lines(setup: Setup) -> list[EngineLine]:
    return [_native(setup), _vllm(setup), _sglang(setup), _llamacpp(setup), _ollama(setup)]


def _native(setup: Setup) -> EngineLine:
    own = f"hf:{HUB_NAMES[setup.model]}" if setup.model in HUB_NAMES else setup.model
    flags = [f"--max-num-seqs {setup.max_num_seqs}", f"--max-model-len {setup.max_model_len}"]
    flags += [f"--quantization {setup.weights}"] * (setup.weights != "bf16")
    flags += ["--kv-cache-dtype fp8"] * _has_fp8_cache(setup)
    flags += [f"--tensor-parallel-size {setup.gpus}"] * (setup.gpus > 1)
    return EngineLine("native", " ".join(["sekisho engine --model", own, *flags]))


def _vllm(setup: Setup) -> EngineLine:
    flags = [f"--max-num-seqs {setup.max_num_seqs}", f"--max-model-len {setup.max_model_len}"]
    flags += [f"--gpu-memory-utilization {setup.utilisation:g}"]
    flags += ["--quantization fp8"] * (setup.weights == "fp8")
    flags += ["--kv-cache-dtype fp8"] * _has_fp8_cache(setup)
    flags += [f"--tensor-parallel-size {setup.gpus}"] * (setup.gpus > 1)
    return EngineLine("vLLM", " ".join(["vllm serve", _checkpoint(setup), *flags]), _CHECKPOINTS.get(setup.weights))


def _sglang(setup: Setup) -> EngineLine:
    flags = [f"--max-running-requests {setup.max_num_seqs}", f"--context-length {setup.max_model_len}"]
    flags += [f"--mem-fraction-static {setup.utilisation:g}"]
    flags += ["--quantization fp8"] * (setup.weights == "fp8")
    flags += ["--kv-cache-dtype fp8_e4m3"] * _has_fp8_cache(setup)
    flags += [f"--tp {setup.gpus}"] * (setup.gpus > 1)
    command = ["python -m sglang.launch_server --model-path", _checkpoint(setup), *flags]
    return EngineLine("SGLang", " ".join(command), _CHECKPOINTS.get(setup.weights))


def _llamacpp(setup: Setup) -> EngineLine:
    """Its context is that of all slots together; its caches know no fp8, q8_0 comes next."""
    file = f"{PurePath(setup.model.removeprefix('hf:')).name}-{_GGUF[setup.weights]}.gguf"
    flags = [f"-np {setup.max_num_seqs}", f"-c {setup.max_num_seqs * setup.max_model_len}"]
    flags += ["-ctk q8_0 -ctv q8_0"] * _has_fp8_cache(setup)
    return EngineLine("llama.cpp", " ".join(["llama-server -m", file, *flags]), "gguf")


def _ollama(setup: Setup) -> EngineLine:
    cache = "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 " if _has_fp8_cache(setup) else ""
    slots = f"OLLAMA_NUM_PARALLEL={setup.max_num_seqs} OLLAMA_CONTEXT_LENGTH={setup.max_model_len} "
    return EngineLine("Ollama", f"{slots}{cache}ollama serve")


def _checkpoint(setup: Setup) -> str:
    if setup.weights in _CHECKPOINTS:
        return f"{setup.weights.upper()}-CHECKPOINT"
    return HUB_NAMES.get(setup.model, setup.model.removeprefix("hf:"))


def _has_fp8_cache(setup: Setup) -> bool:
    return setup.kv_cache_dtype == "fp8"
