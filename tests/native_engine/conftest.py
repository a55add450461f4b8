"""The real model, fetched once into an ignored folder of the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from native_engine.loading import store

CACHE = Path(__file__).parents[2] / ".cache"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct, Q4_1: the model that `sekisho up` starts with."""
    return store.pull("smollm2-135m", CACHE)
