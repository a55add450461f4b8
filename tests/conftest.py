"""What holds for every test: no setting leaks in from the machine it runs on."""

from __future__ import annotations

import os

import pytest

from tests.external.provider import make_provider, provider, provider_control

# Fixtures for every test.
__all__ = ["clean_environment", "make_provider", "provider", "provider_control"]

# Triton reads this where it is first imported. Torch could tell better whether there is a GPU, but takes seconds.
if not any(map(os.path.exists, ("/dev/nvidia0", "/dev/kfd"))):
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no SEKISHO_* setting but those that they set themselves."""
    for name in [name for name in os.environ if name.startswith("SEKISHO_")]:
        monkeypatch.delenv(name)
