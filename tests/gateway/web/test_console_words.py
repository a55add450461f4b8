"""What the console has to have a word for, because the API may say it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import gateway.web
from gateway.alerts import Severity
from gateway.routing.health import State

WORDS = Path(gateway.web.__file__).parent / "static" / "console" / "words"


def test_every_state_of_an_engine_and_every_severity_has_its_word() -> None:
    live = (WORDS / "live.js").read_text("utf-8")
    for name in (*(f"state_{state.value}" for state in State), "state_disabled", *get_args(Severity)):
        assert f"\n  {name}: {{" in live, name
