"""The planner: the page /plan, and /plan/v1, which computes what it shows. Arithmetic, but for what was measured."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from backends.capacity import HUB_NAMES, MACHINES, SHAPES
from backends.capacity.engine_lines import EngineLine, Setup, engine_lines
from backends.capacity.plan import Advice, Finish, Memory, Prefill, Row
from backends.capacity.question import KV_BYTES, WEIGHTS, BadQuestion, Incomplete, Question, answer, read_measurement
from gateway.api.admin.operation import Asked, Operation
from gateway.api.door import Door
from gateway.api.http import send_json
from gateway.api.language import language
from gateway.api.pages import page, send_app
from gateway.errors import BadRequest
from gateway.identity.administration.forms import Form
from gateway.identity.administration.views import View
from gateway.scope import RequestScope
from gateway.web.app_page import app_page
from gateway.web.words import said

# Before so many answers an engine's speed is an accident.
_FEWEST_ANSWERS = 20
_MOST_MEASUREMENTS = 16

Tokens = Annotated[int, Meta(ge=1, le=10_000_000)]


class PlanQuery(Form, frozen=True, kw_only=True):
    """As the options of `sekisho plan`. Without a model or a hardware the bare figures count."""

    model: Annotated[str, Meta(max_length=64)] | None = None
    hardware: Annotated[str, Meta(max_length=64)] | None = None
    gpus: Annotated[int, Meta(ge=1, le=64)] = 1
    weights: Annotated[str, Meta(max_length=16)] = "bf16"
    kv_cache_dtype: Annotated[str, Meta(max_length=16)] = "bf16"
    context: Tokens = 4096
    output_tokens: Tokens = 500
    shared_prefix: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    people: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    target: Annotated[float, Meta(ge=0.1, le=10_000)] = 20.0
    utilisation: Annotated[float, Meta(ge=0.01, le=1)] = 0.92
    measured: Annotated[str, Meta(max_length=400, description="BATCH:TOK_S, several with commas between.")] = ""
    active_weight_bytes: Annotated[float, Meta(ge=1, le=1e15)] | None = None
    params: Annotated[float, Meta(ge=1, le=1e14)] | None = None
    layers: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    kv_heads: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    head_dim: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    bandwidth: Annotated[float, Meta(ge=1e6, le=1e16)] | None = None
    vram_gib: Annotated[float, Meta(ge=0.01, le=1e6)] | None = None


class PlanShown(View, frozen=True, kw_only=True):
    """As backends.capacity.plan has it; lines: what to paste for each engine, none without a known model and advice."""

    object: Literal["plan"] = "plan"
    rows: list[Row]
    memory: Memory | None
    finish: Finish | None
    prefill: Prefill | None
    advice: Advice | None
    lines: list[EngineLine]
    formulas: dict[str, str]


class KnownModel(View, frozen=True, kw_only=True):
    """hub: where its shape is from, on the Hugging Face hub. shape: as backends.capacity.ModelShape names it."""

    name: str
    hub: str
    shape: dict[str, int]


class KnownMachine(View, frozen=True, kw_only=True):
    """As backends.capacity.Machine has it: memory_gib; bandwidth and link in bytes/s, operations in FLOP/s."""

    name: str
    memory_gib: float
    bandwidth: float
    operations: float | None
    link: float
    source: str


class PlanOptions(View, frozen=True, kw_only=True):
    """What a plan may name."""

    object: Literal["plan_options"] = "plan_options"
    models: list[KnownModel]
    hardware: list[KnownMachine]
    weights: list[str]
    kv_cache_dtypes: list[str]


class Measured(View, frozen=True, kw_only=True):
    """running: how many ran at once, on average; tok_s: of all of them together; answers: how many that is the mean of,
    older ones weighing less."""

    model: str
    running: float
    tok_s: float
    answers: int


@page
async def show(door: Door, request: RequestScope) -> None:
    """The page."""
    title = said("planner", language(request))
    await send_app(door, request, app_page(language(request), title, "plan/main.js", styles=["plan/plan.css"]))


async def compute(asked: Asked, query: PlanQuery) -> PlanShown:
    """How many people a machine carries, and how quickly"""
    question = _question(query)
    try:
        made = answer(question)
    except BadQuestion as fault:
        raise BadRequest(f"{fault}.", param=fault.name) from None
    except Incomplete as fault:
        raise BadRequest(f"{str(fault).capitalize()}.", code="incomplete_plan") from None
    seats = made.advice.max_num_seqs if made.advice is not None else 0
    return PlanShown(
        rows=made.rows,
        memory=made.memory,
        finish=made.finish,
        prefill=made.prefill,
        advice=made.advice,
        lines=_lines(query, seats) if seats else [],
        formulas=made.formulas,
    )


async def options(asked: Asked) -> PlanOptions:
    """Models and hardware that are known, with their figures and sources"""
    return PlanOptions(
        models=[KnownModel(name=name, hub=HUB_NAMES[name], shape=shape._asdict()) for name, shape in SHAPES.items()],
        hardware=[KnownMachine(name=name, **machine._asdict()) for name, machine in MACHINES.items()],
        weights=list(WEIGHTS),
        kv_cache_dtypes=list(KV_BYTES),
    )


async def measured(door: Door, request: RequestScope) -> None:
    """How quick the engines behind this gateway were lately, by each model that the asker may use."""
    found: list[Measured] = []
    for permits, models in door.rooms.told():
        usable = [model for model in models if await door.pipeline.may_use(request, model)]
        for speed in permits.speeds.values() if usable else ():
            if speed.n >= _FEWEST_ANSWERS:
                shown = Measured(
                    model=usable[0], running=speed.mean_x, tok_s=speed.mean_x / speed.mean_y, answers=round(speed.n)
                )
                found.append(shown)
    await send_json(request, {"object": "list", "data": found})


def _question(query: PlanQuery) -> Question:
    try:
        found = dict(map(read_measurement, filter(None, query.measured.split(","))))
    except BadQuestion as fault:
        raise BadRequest(f"{fault}.", param=fault.name) from None
    if len(found) > _MOST_MEASUREMENTS:
        raise BadRequest(f"At most {_MOST_MEASUREMENTS} measurements are taken.", param="measured")
    return Question(**query.given() | {"measured": found})


def _lines(query: PlanQuery, seats: int) -> list[EngineLine]:
    if query.model is None:
        return []
    setup = Setup(
        model=query.model,
        weights=query.weights,
        kv_cache_dtype=query.kv_cache_dtype,
        max_num_seqs=seats,
        max_model_len=query.context,
        gpus=query.gpus,
        utilisation=query.utilisation,
    )
    return engine_lines(setup)


OPERATIONS = (
    Operation("GET", "/plan/v1/plan", compute, role="user", endpoint=None),
    Operation("GET", "/plan/v1/options", options, role="user", endpoint=None),
)
