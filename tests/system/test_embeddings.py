"""One door before an engine that chats and one that makes embeddings, used by the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import openai
import pytest

from native_engine.loading import store
from tests.gateway.conftest import ADMIN_KEY, start_valkey
from tests.system.conftest import CACHE
from tests.system.driving import MODEL
from tests.system.engines import Engine, Gateway

pytestmark = [pytest.mark.slow, pytest.mark.system]
EMBEDDER = "all-minilm-l6-v2"
TEXTS = ["A cat sits on the mat.", "A kitten is sitting on a rug.", "The bank refused my loan.", "猫がいる。"]


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    valkey, url = start_valkey(tmp_path)
    yield url
    valkey.terminate()
    valkey.wait()


@pytest.fixture
async def client(tmp_path: Path, redis_url: str, models: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    store.pull(EMBEDDER, CACHE)
    (tmp_path / "models").symlink_to(models)
    engines = [Engine("chat", tmp_path, tmp_path), Engine("embed", tmp_path, tmp_path, EMBEDDER)]
    gateway = Gateway(tmp_path, redis_url, engines)
    try:
        for engine in engines:
            engine.start()
        for engine in engines:
            await engine.ready()
        await gateway.start()
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=ADMIN_KEY, max_retries=0) as made:
            yield made
    finally:
        await gateway.stop()
        for engine in engines:
            if engine.runs:
                engine.kill()


async def test_the_official_client_chats_with_one_and_embeds_with_the_other(client: openai.AsyncOpenAI) -> None:
    assert {model.id async for model in client.models.list()} == {MODEL, EMBEDDER}
    made = await client.embeddings.create(model=EMBEDDER, input=TEXTS)  # in base64, as this client asks by itself
    assert [one.index for one in made.data] == [0, 1, 2, 3]
    assert made.usage.prompt_tokens == made.usage.total_tokens > len(TEXTS)
    cat, kitten, loan, _ = [one.embedding for one in made.data]
    assert dot(cat, kitten) > 0.5 > 0.2 > dot(cat, loan)
    plain = await client.embeddings.create(model=EMBEDDER, input=TEXTS[0], encoding_format="float", dimensions=64)
    assert len(plain.data[0].embedding) == 64
    assert abs(dot(plain.data[0].embedding, plain.data[0].embedding) - 1) < 1e-5
    hello = [{"role": "user", "content": "Hello"}]
    answer = await client.chat.completions.create(model=MODEL, messages=hello, max_tokens=4)
    assert answer.choices[0].message.content
    with pytest.raises(openai.BadRequestError, match="makes embeddings and generates no text"):
        await client.chat.completions.create(model=EMBEDDER, messages=hello, max_tokens=4)
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        await client.embeddings.create(model=MODEL, input="Hello")
    with pytest.raises(openai.BadRequestError, match="256 tokens"):
        await client.embeddings.create(model=EMBEDDER, input="sea " * 300)


def dot(first: list[float], second: list[float]) -> float:
    return sum(one * other for one, other in zip(first, second, strict=True))
