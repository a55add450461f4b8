"""`sekisho quotas selftest`: makes a policy of each kind for a program of its own, and sees whether it refuses."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, NamedTuple

import aiohttp
import msgspec
from rich.table import Table

from gateway.cli.console import CliError, note, out
from gateway.cli.office import cell, show_json
from gateway.quotas.policy import COUNTED

_SECONDS = 120.0
# A policy is believed for a second at most after it was changed, by every gateway.
_SPREADING_SECONDS = 1.5
_PROMPT = "Say one word."
_OUTPUT = 4
# Tokens are counted from three requests' worth on: these are enough, even where an answer is shorter than the first.
_MOST_REQUESTS = 16
_TOGETHER = 8


class Outcome(msgspec.Struct, frozen=True):
    """refused: as it should be. skipped: it cannot be told here."""

    kind: str
    verdict: Literal["refused", "let through", "skipped", "failed"]
    detail: str


class Answer(NamedTuple):
    status: int
    code: str
    message: str
    usage: dict[str, int]


class Probe(NamedTuple):
    """At most `most` requests; the last that is sent has to be refused so."""

    kind: str
    policy: dict[str, Any]
    status: int
    code: str
    most: int = _MOST_REQUESTS
    fields: dict[str, Any] = {}  # noqa: RUF012
    together: bool = False

    def is_met(self, answer: Answer, policy: str) -> bool:
        return (answer.status, answer.code) == (self.status, self.code) and repr(policy) in answer.message


class Tester:
    """Speaks to the gateway as an administrator, and as the programs that it makes."""

    def __init__(self, client: aiohttp.ClientSession, model: str) -> None:
        self._client = client
        self._model = model

    async def administer(self, method: str, path: str, body: Any = None) -> Any:
        """Raises CliError with the gateway's own words."""
        async with self._client.request(method, f"/admin/v1{path}", json=body) as response:
            answer = await _json(response)
            if response.status >= 400:
                raise CliError(f"the gateway refuses {method} /admin/v1{path}: {_error(answer)['message']}")
            return answer

    async def ask(self, key: str, fields: dict[str, Any]) -> Answer:
        messages = [{"role": "user", "content": _PROMPT}]
        body = {"model": self._model, "messages": messages, "max_tokens": _OUTPUT} | fields
        headers = {"authorization": f"Bearer {key}"}
        async with self._client.post("/v1/chat/completions", json=body, headers=headers) as response:
            answer = await _json(response)
            error = _error(answer) if response.status >= 400 else {}
            usage = answer.get("usage") or {} if isinstance(answer, dict) else {}
            return Answer(response.status, str(error.get("code")), str(error.get("message")), usage)

    @asynccontextmanager
    async def program(self, name: str) -> AsyncIterator[str]:
        """The key of a service account that is gone afterwards."""
        async with self._removed(f"/service-accounts/{name}"):
            await self.administer("POST", "/service-accounts", {"id": name, "name": "Quota self-test"})
            made = await self.administer("POST", "/keys", {"owner": f"service_account:{name}", "name": "selftest"})
            yield made["key"]

    @asynccontextmanager
    async def policy(self, name: str, fields: dict[str, Any]) -> AsyncIterator[None]:
        async with self._removed(f"/policies/{name}"):
            await self.administer("PUT", f"/policies/{name}", {"applies_to": [f"service_account:{name}"]} | fields)
            yield

    @asynccontextmanager
    async def _removed(self, path: str) -> AsyncIterator[None]:
        """Also where nobody heard whether it was made."""
        try:
            yield
        finally:
            async with self._client.delete(f"/admin/v1{path}") as response:
                if response.status not in (200, 404):
                    note(f"{path} could not be removed: {response.status}. Remove it by hand.")


async def prove(url: str, api_key: str, model: str) -> list[Outcome]:
    """Raises CliError where the gateway cannot be asked."""
    headers = {"authorization": f"Bearer {api_key}"}
    patience = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with aiohttp.ClientSession(url, headers=headers, timeout=patience) as client:
            return await _proved(Tester(client, model or await _first_model(client)))
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise CliError(f"{url} does not answer: {error or type(error).__name__}.") from error


def show(outcomes: list[Outcome], as_json: bool) -> None:
    if as_json:
        show_json(outcomes)
        return
    table = Table("kind", "verdict", "detail")
    for outcome in outcomes:
        table.add_row(*(cell("", getattr(outcome, column)) for column in Outcome.__struct_fields__))
    out.print(table)


async def _proved(tester: Tester) -> list[Outcome]:
    tag = f"selftest-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        key = await stack.enter_async_context(tester.program(tag))
        first = await tester.ask(key, {})
        if first.status != 200:
            raise CliError(f"the gateway refuses a request without any limit of this test: {first.message}")
        prepared = []
        for probe in _probes(first.usage):
            name = f"{tag}-{probe.kind}"
            key = await stack.enter_async_context(tester.program(name))
            await stack.enter_async_context(tester.policy(name, probe.policy))
            prepared.append((name, key, probe))
        await asyncio.sleep(_SPREADING_SECONDS)
        return [await _tried(tester, *one) for one in prepared]


def _probes(usage: dict[str, int]) -> Iterator[Probe]:
    """A policy of each kind that lets little through, and the requests that it has to refuse."""
    prompt, output = max(1, usage.get("prompt_tokens", 1)), max(1, usage.get("completion_tokens", 1))
    per_request = {"requests": 1, "input_tokens": prompt, "output_tokens": output, "tokens": prompt + output}
    for kind in COUNTED:
        unit, _, period = kind.partition("_per_")
        code = "rate_limit_exceeded" if period == "minute" else "insufficient_quota"
        if unit in per_request:
            yield Probe(kind, {kind: 3 * per_request[unit]}, 429, code)
    many = {"max_tokens": 64}
    yield Probe(
        "concurrent_requests", {"concurrent_requests": 1}, 429, "rate_limit_exceeded", fields=many, together=True
    )
    yield Probe("cost_per_month", {"cost_per_month": "0.000001"}, 429, "insufficient_quota")
    long = {"messages": [{"role": "user", "content": "word " * 200}]}
    yield Probe("max_context_tokens", {"max_context_tokens": 20}, 400, "context_length_exceeded", 1, long)
    yield Probe("max_output_tokens", {"max_output_tokens": 1}, 400, "max_output_exceeded", 1)
    yield Probe("allowed_models", {"allowed_models": []}, 404, "model_not_found", 1)
    yield Probe("shadow", {"allowed_models": [], "shadow": True}, 200, "", 1)


async def _tried(tester: Tester, name: str, key: str, probe: Probe) -> Outcome:
    answers: list[Answer] = []
    if probe.together:
        answers = await asyncio.gather(*(tester.ask(key, probe.fields) for _ in range(_TOGETHER)))
    else:
        while len(answers) < probe.most and all(answer.status == 200 for answer in answers):
            answers.append(await tester.ask(key, probe.fields))
    return await _judged(tester, name, probe, answers)


async def _judged(tester: Tester, name: str, probe: Probe, answers: list[Answer]) -> Outcome:
    through = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status != 200]
    if probe.kind == "shadow" and through:
        return Outcome(probe.kind, "let through", "counted, not enforced")
    if strange := [answer for answer in refused if not probe.is_met(answer, name)]:
        return Outcome(probe.kind, "failed", f"{strange[0].status} {strange[0].code}: {strange[0].message}")
    if refused:
        return Outcome(probe.kind, "refused", f"after {len(through)}: {refused[0].status} {refused[0].code}")
    if probe.kind == "cost_per_month" and await _is_free(tester, name):
        return Outcome(probe.kind, "skipped", "the model has no price (settings: prices)")
    return Outcome(probe.kind, "failed", f"{len(through)} requests were let through")


async def _is_free(tester: Tester, name: str) -> bool:
    rows = (await tester.administer("GET", "/usage?by=service_account&limit=10000"))["data"]
    return all(row["cost"] == "0" for row in rows if row["id"] == name)


async def _first_model(client: aiohttp.ClientSession) -> str:
    async with client.get("/v1/models") as response:
        answer = await _json(response)
        if response.status >= 400:
            raise CliError(f"the gateway refuses GET /v1/models: {_error(answer)['message']}")
        if not answer["data"]:
            raise CliError("the gateway serves no model at the moment.")
        return str(answer["data"][0]["id"])


async def _json(response: aiohttp.ClientResponse) -> Any:
    try:
        return await response.json(content_type=None)
    except ValueError:
        return None


def _error(answer: Any) -> dict[str, Any]:
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) else {"message": "it is no gateway of ours", "code": ""}
