"""One function a path. Each reads its request, and answers, or raises what the app answers with."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from collections.abc import Sequence as ListLike
from dataclasses import replace

import msgspec

from backends.wire import requests, responses
from backends.wire.errors import InvalidRequest
from backends.wire.responses import Head, ModelEntry
from backends.wire.schema import ChatRequest, CompletionRequest, Message
from native_engine.engine import EngineStopped
from native_engine.request import Constraint, SamplingParams, Sequence
from native_engine.server import answers, metrics, traces
from native_engine.server.constraints import constraints
from native_engine.server.dialects import CHAT, COMPLETION, Dialect
from native_engine.server.generation import Generation
from native_engine.server.http import HttpError, Receive, Scope, Send, header, read_body, send_whole, unavailable
from native_engine.server.prompts import chat_prompt, completion_prompts, sampling_params
from native_engine.server.reading import choices_of, opening_of
from native_engine.server.refusals import refuse_unsupported_chat, refuse_unsupported_completion
from native_engine.server.service import BaseService, Service
from native_engine.server.tools import check_tools

MAX_ANSWERS = 256
ACCOUNT_PATH = "/internal/requests/"  # and the request's id; the door lists no such path
_MAX_ID_CHARACTERS = 200
# By the class that the door tells; whoever is of none is a program.
PRIORITIES = {"interactive": 0, "api": 1, "batch": 2}


async def chat(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    arrived = time.perf_counter()
    request = requests.parse_chat(await read_body(receive))
    check_model(service, request.model)
    refuse_unsupported_chat(request)
    check_tools(request, service.template)
    prompts = [await chat_prompt(service, request)]
    await _answer(service, scope, receive, send, CHAT, request, prompts, arrived)


async def completions(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    arrived = time.perf_counter()
    request = requests.parse_completion(await read_body(receive))
    check_model(service, request.model)
    refuse_unsupported_completion(request)
    prompts = await completion_prompts(service, request)
    await _answer(service, scope, receive, send, COMPLETION, request, prompts, arrived)


async def models(service: BaseService, scope: Scope, receive: Receive, send: Send) -> None:
    info = service.info
    entry = ModelEntry(info.name, info.created, "sekisho", info.max_model_len, info.task)
    await send_whole(send, 200, responses.model_list([entry]))


async def account(service: BaseService, scope: Scope, receive: Receive, send: Send) -> None:
    """What one request has cost so far, or did."""
    request_id = scope["path"].removeprefix(ACCOUNT_PATH)
    found = service.accounts.find(request_id)
    if found is None:
        message = f"No request {request_id[:_MAX_ID_CHARACTERS]!r} is known, or no longer."
        raise HttpError(404, message, "invalid_request_error", "request_not_found")
    await send_whole(send, 200, msgspec.json.encode(found))


async def show_metrics(service: BaseService, scope: Scope, receive: Receive, send: Send) -> None:
    text = service.metrics.render(service.info.name, service.worker.stats())
    await send_whole(send, 200, text, metrics.CONTENT_TYPE)


class TokenizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A raw prompt, or messages as chat would render them."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True


async def tokenize(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        asked = msgspec.json.decode(await read_body(receive), type=TokenizeRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise InvalidRequest(f"The request body is not valid: {fault}.", code="invalid_json") from fault
    name = asked.model or service.info.name
    check_model(service, name)
    if (asked.prompt is None) == (not asked.messages):
        raise InvalidRequest("Expected either 'prompt' or 'messages'.", "prompt")
    if asked.messages:
        chat_request = ChatRequest(
            model=name, messages=asked.messages, add_generation_prompt=asked.add_generation_prompt
        )
        tokens = await chat_prompt(service, chat_request)
    else:
        plain = CompletionRequest(model=name, prompt=asked.prompt or "", add_special_tokens=asked.add_special_tokens)
        (tokens,) = await completion_prompts(service, plain)
    made = {"count": len(tokens), "max_model_len": service.info.max_model_len, "tokens": tokens}
    await send_whole(send, 200, msgspec.json.encode(made))


async def _answer(
    service: Service,
    scope: Scope,
    receive: Receive,
    send: Send,
    dialect: Dialect,
    request: ChatRequest | CompletionRequest,
    prompts: list[list[int]],
    arrived: float,
) -> None:
    answers_each = request.answers_each
    if answers_each * len(prompts) > MAX_ANSWERS:
        message = f"A request may ask for {MAX_ANSWERS} answers at most, n (or best_of) x prompts."
        raise InvalidRequest(message, "n", "invalid_value")
    parameters = [sampling_params(request, len(each), service, dialect.field) for each in prompts]
    request_id = id_of(scope)
    opening = opening_of(service, request, prompts[0])
    held = await constraints(service, request, answers_each * len(prompts), opening)
    sequences = list(_sequences(service, scope, request, request_id, prompts, parameters, held))
    choices = choices_of(service, request, sequences, opening)
    generation = Generation(service.delivery, service.metrics, choices, arrived, answers_each)
    _start(generation, sequences)
    spelling = service.tokenizer.spelling
    head = Head(dialect.id_prefix + request_id, int(time.time()), request.model)
    traced = traces.traced(service, scope, request_id, arrived, traces.asked_of(request), generation)
    with traced, service.accounts.kept(request_id, generation), answers.cancelled_when_gone(receive, generation):
        if request.stream:
            usage = request.includes_usage
            await answers.send_stream(send, generation, dialect, head, spelling, include_usage=usage)
        else:
            await answers.send_collected(send, generation, dialect, head, spelling, request)


def _start(generation: Generation, sequences: list[Sequence]) -> None:
    try:
        generation.start(sequences)
    except ValueError as fault:
        raise InvalidRequest(f"The engine cannot run this request: {fault}.", None, "invalid_value") from fault
    except EngineStopped as fault:
        raise unavailable("The engine is shutting down.") from fault


def _sequences(
    service: Service,
    scope: Scope,
    request: ChatRequest | CompletionRequest,
    request_id: str,
    prompts: list[list[int]],
    parameters: list[SamplingParams],
    held: ListLike[Constraint | None],
) -> Iterable[Sequence]:
    """In the order of the choices. The answers to one prompt share its blocks through the prefix cache; so only the
    first has the prompt's log probabilities computed, unless each shows them."""
    salt = (header(scope, b"x-sekisho-cache-salt") or "").encode("latin-1")
    priority = PRIORITIES.get(header(scope, b"x-sekisho-class") or "", PRIORITIES["api"])
    eos, answers_each = service.tokenizer.eos_token_ids, request.answers_each
    for index, (prompt, params) in enumerate(
        (prompt, params) for prompt, params in zip(prompts, parameters, strict=True) for _ in range(answers_each)
    ):
        number = index % answers_each
        # One seed for all would make all answers to a prompt the same.
        own = params if params.seed is None or not number else replace(params, seed=params.seed + number)
        if number and not request.echo:
            own = replace(own, prompt_logprobs=None)
        yield Sequence(
            f"{request_id}-{index}",
            prompt,
            own,
            eos_token_ids=eos,
            cache_salt=salt,
            constraint=held[index],
            priority=priority,
        )


def id_of(scope: Scope) -> str:
    """The caller's where it gave one; the same each time."""
    if "request_id" not in scope:
        given = header(scope, b"x-request-id")
        usable = given and len(given) <= _MAX_ID_CHARACTERS and given.isprintable()
        scope["request_id"] = given if usable else uuid.uuid4().hex
    return str(scope["request_id"])


def check_model(service: BaseService, name: str) -> None:
    if name != service.info.name:
        raise HttpError(404, f"The model '{name[:100]}' does not exist.", "invalid_request_error", "model_not_found")
