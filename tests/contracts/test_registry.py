"""Every kind of engine that a setting may name can be made, without being reached."""

from __future__ import annotations

from typing import get_args

import pytest

from backends.registry import KINDS, create
from gateway.settings import Settings


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made(kind: str) -> None:
    backend = create(kind, "unix:/nowhere/engine.sock", "key", name="gpu-a")
    assert (backend.name, backend.kind) == ("gpu-a", kind)


def test_the_setting_names_the_kinds_that_exist() -> None:
    assert get_args(Settings.model_fields["engine_kind"].annotation) == KINDS
