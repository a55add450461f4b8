"""Shapes of models that are measured and planned for, each from the config.json of its repository on the Hugging Face
hub (HUB_NAMES)."""

from __future__ import annotations

from backends.capacity.weights import ModelShape

SHAPES = {
    "smollm2-135m": ModelShape(49152, 576, 1536, 30, 9, 3, 64),
    "qwen3-0.6b": ModelShape(151936, 1024, 3072, 28, 16, 8, 128),
    "qwen3-1.7b": ModelShape(151936, 2048, 6144, 28, 16, 8, 128),
    "qwen3-4b": ModelShape(151936, 2560, 9728, 36, 32, 8, 128),
    "qwen3-8b": ModelShape(151936, 4096, 12288, 36, 32, 8, 128),
    "qwen3-14b": ModelShape(151936, 5120, 17408, 40, 40, 8, 128),
    "qwen3-32b": ModelShape(151936, 5120, 25600, 64, 64, 8, 128),
    "qwen3-30b-a3b": ModelShape(151936, 2048, 768, 48, 32, 4, 128, num_experts=128, experts_per_token=8),
    "qwen3-235b-a22b": ModelShape(151936, 4096, 1536, 94, 64, 4, 128, num_experts=128, experts_per_token=8),
    "llama-3.1-8b": ModelShape(128256, 4096, 14336, 32, 32, 8, 128),
    "llama-3.3-70b": ModelShape(128256, 8192, 28672, 80, 64, 8, 128),
}

HUB_NAMES = {
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "qwen3-14b": "Qwen/Qwen3-14B",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.3-70b": "meta-llama/Llama-3.3-70B-Instruct",
}
