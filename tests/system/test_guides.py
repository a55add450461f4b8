"""Documents tell what is so: every command and snippet is done in its order, on one running whole."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from native_engine.loading import store
from tests.guides import documents, snippets
from tests.house.tree import ROOT, name_of
from tests.system.conftest import CACHE
from tests.system.driving import Up, clean_environment
from tests.system.engines import Engine
from tests.system.reader import Reader

pytestmark = [pytest.mark.slow, pytest.mark.system]
EMBEDDER = "all-minilm-l6-v2"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Up]:
    """As an operator has it who gave the door an engine for embeddings too."""
    store.pull(EMBEDDER, CACHE)
    folder = tmp_path_factory.mktemp("whole")
    data_dir = folder / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "models").symlink_to(models)
    embedder = Engine("embed", folder, data_dir, EMBEDDER)
    settings = folder / "sekisho.yaml"
    settings.write_text(yaml.safe_dump({"backends": [_backend(embedder)]}), "utf-8")
    embedder.start()
    up = Up(data_dir, SEKISHO_CONFIG=str(settings))
    try:
        up.wait_until("curl ", 120)
        yield up
    finally:
        up.stop()
        embedder.kill()


def _backend(engine: Engine) -> dict[str, object]:
    return {"name": engine.name, "kind": "native", "url": f"unix:{engine.socket}"}


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_a_document_can_be_followed_from_its_beginning_to_its_end(document: Path, whole: Up, tmp_path: Path) -> None:
    known = {"http://127.0.0.1:8080": whole.url, "sk-skh-...": whole.key}
    environment = clean_environment(SEKISHO_DATA_DIR=str(whole.data_dir), SEKISHO_KEY=whole.key, SEKISHO_URL=whole.url)
    reader = Reader(tmp_path, environment, known)
    try:
        for snippet in snippets(document):
            reader.follow(snippet)
    finally:
        reader.close()


def test_the_rag_example_answers_with_its_sources_and_computes_its_instructions_once(whole: Up) -> None:
    questions = ["How many unused days of paid leave are carried over?", "在宅勤務は週に何日？"]
    asked = subprocess.run(
        [sys.executable, str(ROOT / "deploy" / "examples" / "rag" / "ask.py"), *questions],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(OPENAI_BASE_URL=f"{whole.url}/v1", OPENAI_API_KEY=whole.key),
    )
    assert asked.returncode == 0, asked.stderr
    head, *answers = re.split(rf"^(?:{'|'.join(map(re.escape, questions))})$", asked.stdout, flags=re.MULTILINE)
    assert "11 passages of 4 documents" in head
    sources = [re.findall(r"^  \[\d\] (.+)$", answer, re.MULTILINE) for answer in answers]
    assert [len(found) for found in sources] == [3, 3]
    assert sources[0][0] == "leave.md#Carrying days over"
    told = [re.search(r"prompt_tokens=(\d+) cached_tokens=(\d+)", answer) for answer in answers]
    cached = [(int(found[1]), int(found[2])) for found in told if found]
    # Whole blocks of 16 of the instructions, and of no more: the passages are others.
    assert all(200 < tokens < prompt for prompt, tokens in cached[1:])
    assert all(answer.strip().partition("\n")[0] for answer in answers)
