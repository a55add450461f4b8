"""Shapes of models that are measured and planned for."""

from __future__ import annotations

from backends.capacity.weights import ModelShape

SHAPES = {
    "qwen3-0.6b": ModelShape(151936, 1024, 3072, 28, 16, 8, 128),
    "qwen3-8b": ModelShape(151936, 4096, 12288, 36, 32, 8, 128),
    "qwen3-30b-a3b": ModelShape(151936, 2048, 768, 48, 32, 4, 128, num_experts=128, experts_per_token=8),
}
