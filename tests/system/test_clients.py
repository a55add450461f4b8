"""The running whole, used by curl and by the official client."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import openai
import pytest

from gateway.cli import probes
from tests.system.driving import MODEL, Up, eventually, question, request, sekisho

QUESTION = question()["messages"]


@pytest.fixture
def client(running: Up) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(running: Up) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as client:
        yield client


def test_the_printed_curl_line_works_when_pasted(running: Up) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", running.curl_line], capture_output=True, text=True, timeout=60, check=True
    )
    events = [line.removeprefix("data: ") for line in result.stdout.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    text = "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1])
    assert len(text.split()) > 3


def test_official_client_gets_a_whole_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_completion_tokens=8, temperature=0)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_official_client_streams_the_same_text(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=16, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            max_tokens=16,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.completion_tokens == whole.usage.completion_tokens  # type: ignore[union-attr]


def test_official_client_completes_plain_text(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4, temperature=0)
    assert "Paris" in answer.choices[0].text


def test_official_client_gets_responses_that_say_what_chat_says(client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12, temperature=0)
    asked = QUESTION[0]["content"]
    whole = client.responses.create(model=MODEL, input=asked, max_output_tokens=12, temperature=0)
    stream = client.responses.create(model=MODEL, input=asked, max_output_tokens=12, temperature=0, stream=True)
    events = list(stream)
    last = events[-1]
    assert last.type in {"response.completed", "response.incomplete"}
    assert chat.choices[0].message.content == whole.output_text == last.response.output_text  # type: ignore[union-attr]
    assert whole.usage
    assert chat.usage
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (
        chat.usage.prompt_tokens,
        chat.usage.completion_tokens,
    )


def test_several_answers_to_one_prompt(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def test_same_seed_same_text(client: openai.OpenAI) -> None:
    texts = {
        client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12, temperature=1, seed=7)
        .choices[0]
        .message.content
        for _ in range(2)
    }
    assert len(texts) == 1


async def test_official_async_client_many_at_once(async_client: openai.AsyncOpenAI) -> None:
    async def ask() -> str | None:
        answer = await async_client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, temperature=0)
        return answer.choices[0].message.content

    assert len(set(await asyncio.gather(*(ask() for _ in range(8))))) == 1


async def test_official_async_client_streams(async_client: openai.AsyncOpenAI) -> None:
    stream = await async_client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, stream=True)
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices[0].finish_reason in {"stop", "length"}


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_wrong_key_is_401(running: Up, client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError) as refusal:
        client.with_options(api_key="sk-skh-nobody-0123456789abcdef").models.list()
    assert refusal.value.code == "invalid_api_key"
    assert request(f"{running.url}/v1/models").status == 401


def test_unknown_model_is_404(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refusal:
        client.chat.completions.create(model="gpt-none", messages=QUESTION)
    assert refusal.value.code == "model_not_found"


def test_prompt_beyond_the_context_is_400_with_both_numbers(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 9000}])
    assert refusal.value.code == "context_length_exceeded"
    assert len(re.findall(r"\d{4,}", refusal.value.message)) >= 2


def test_unknown_field_is_400_that_names_it(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="priority"):
        client.chat.completions.create(model=MODEL, messages=QUESTION, extra_body={"priority": 1})


def test_a_path_that_is_not_listed_is_404(running: Up) -> None:
    refusal = request(f"{running.url}/v1/engines", running.key)
    assert refusal.status == 404
    assert refusal.json()["error"]["type"] == "invalid_request_error"
    assert refusal.headers["x-request-id"]


def test_a_client_that_leaves_frees_the_engine(running: Up) -> None:
    address = urlsplit(running.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    body = json.dumps(question("Tell me a long story.", stream=True, max_tokens=4000, ignore_eos=True))
    headers = {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body, headers)
    answer = connection.getresponse()
    answer.read1(64)
    assert running_in_engine(running) == 1
    answer.close()
    connection.close()
    left = time.monotonic()
    eventually(lambda: running_in_engine(running) == 0, 3, lambda: "the engine still runs a request of nobody")
    print(f"freed {time.monotonic() - left:.2f} s after the client left")


def running_in_engine(up: Up) -> int:
    socket = up.data_dir / "run" / "engine.sock"
    metrics = asyncio.run(probes.get("/metrics", socket=socket)).body.decode()
    found = re.search(r"^sekisho_engine_num_requests_running\S* (\S+)$", metrics, re.MULTILINE)
    assert found, metrics
    return int(float(found[1]))


def test_keys_are_made_listed_and_revoked_by_the_cli(running: Up) -> None:
    where = ("--data-dir", str(running.data_dir))
    key = sekisho("keys", "create", "a script", *where).stdout.strip()
    assert request(f"{running.url}/v1/models", key).status == 200
    assert request(f"{running.url}/metrics", key).status == 403
    listing = sekisho("keys", "list", *where).stdout
    key_id = key.split("-")[2]
    assert key_id in listing
    assert key not in listing
    assert sekisho("keys", "revoke", key_id, *where).returncode == 0
    eventually(lambda: request(f"{running.url}/v1/models", key).status == 401, 10, lambda: "a revoked key still works")


def test_bench_measures_the_door(running: Up) -> None:
    flags = ("--num-requests", "4", "--concurrency", "2", "--input-tokens", "40", "--output-tokens", "8")
    result = sekisho("bench", "serve", "--url", running.url, "--api-key", running.key, *flags)
    assert result.returncode == 0, result.stderr
    assert "TTFT" in result.stdout
