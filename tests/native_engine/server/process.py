"""A process of its own for test_serve.py: the real server around a scripted model."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.loading.chat_template import ChatTemplate
from native_engine.loading.tokenizer import load_tokenizer
from native_engine.server.serve import Loaded, StartRefused, serve_engine
from tests.native_engine.server.conftest import ScriptedRunner
from tests.native_engine.tiny_model import TEMPLATE

TOKEN_SECONDS = 0.02


class SlowRunner(ScriptedRunner):
    def execute(self, batch):  # type: ignore[no-untyped-def]
        time.sleep(TOKEN_SECONDS)
        return super().execute(batch)


def load_slowly(config: EngineConfig, path: Path) -> Loaded:
    time.sleep(float(sys.argv[4]))
    if sys.argv[5] == "fail":
        raise ValueError("the model cannot be loaded, as the test wanted")
    tokenizer = load_tokenizer(path)
    runner = SlowRunner()
    runner.script = tokenizer.encode("hello " * 40, add_special=False)
    return Loaded(Engine.create(runner, config), tokenizer, ChatTemplate(TEMPLATE))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    _, model, data, uds, *_ = sys.argv
    try:
        serve_engine(EngineConfig(model=model), data_dir=data, uds=uds, drain_seconds=3, loader=load_slowly)
    except StartRefused as fault:
        sys.exit(str(fault))
