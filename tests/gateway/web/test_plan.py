"""/plan/v1: what the planner's page asks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends.capacity.engine_lines import NOTES
from backends.capacity.plan import FORMULAS
from gateway.api.plan import PlanQuery
from gateway.web.assets import FOLDER
from tests.gateway.conftest import RunningDoor, error_of
from tests.gateway.web.measuring import set_speed

EXAMPLES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "capacity.json").read_text())
WORDS = re.sub(r'"\s*\+\s*"', "", (FOLDER / "plan" / "words.js").read_text("utf-8"))


async def plan(door: RunningDoor, **query: Any) -> Any:
    async with door.client.get("/plan/v1/plan", params=query) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_the_throughput_example_to_the_digit(door: RunningDoor) -> None:
    made = await plan(
        door,
        active_weight_bytes=3e9,
        layers=48,
        kv_heads=4,
        head_dim=128,
        context=4096,
        bandwidth=273e9,
        output_tokens=500,
        target=20,
    )
    shown = [
        {name: row[name] if name == "meets_target" else round(row[name]) for name in expected}
        for row, expected in zip(made["rows"], EXAMPLES["throughput"]["rows"], strict=True)
    ]
    assert shown == EXAMPLES["throughput"]["rows"]
    assert (made["memory"], made["lines"]) == (None, [])


async def test_a_model_on_a_machine_has_everything(door: RunningDoor) -> None:
    made = await plan(door, model="qwen3-8b", hardware="l4", target=10, measured="1:17,8:100")
    assert made["formulas"] == FORMULAS
    assert made["memory"]["conversations"].keys() == {"bf16", "fp8"}
    assert [line["engine"] for line in made["lines"]] == ["native", "vLLM", "SGLang", "llama.cpp", "Ollama"]
    assert f"--max-num-seqs {made['advice']['max_num_seqs']} " in made["lines"][0]["command"]
    shares = {row["batch"]: row["measured_share"] for row in made["rows"] if row["measured_share"]}
    assert made["advice"]["expected_share"] == pytest.approx(min(shares.values()))


async def test_options_are_what_can_be_planned_with(door: RunningDoor) -> None:
    async with door.client.get("/plan/v1/options") as response:
        found = await response.json()
    assert found["models"][0]["shape"].keys() >= {"num_layers", "num_kv_heads", "head_dim", "num_experts"}
    assert all(one["source"] and one["bandwidth"] > 1e11 for one in found["hardware"])
    for weights in found["weights"]:
        for kv in found["kv_cache_dtypes"]:
            await plan(door, model=found["models"][0]["name"], hardware="h100", weights=weights, kv_cache_dtype=kv)


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("model=qwen9&hardware=h100", "model", None),
        ("model=qwen3-8b&hardware=h9", "hardware", None),
        ("model=qwen3-8b&hardware=dgx-spark&gpus=2", "gpus", None),
        ("model=qwen3-8b&hardware=h100&weights=fp4", "weights", None),
        ("model=qwen3-8b", None, "incomplete_plan"),
        ("", None, "incomplete_plan"),
        ("model=qwen3-8b&hardware=h100&measured=16", "measured", None),
        ("model=qwen3-8b&hardware=h100&measured=" + ",".join(f"{n}:1" for n in range(1, 18)), "measured", None),
        ("model=qwen3-8b&hardware=h100&other=1", "other", None),
        ("model=qwen3-8b&hardware=h100&people=1&people=2", None, None),
        *(
            (f"model=qwen3-8b&hardware=h100&{name}={value}", name, None)
            for name, value in (
                ("context", "0"),
                ("context", "10000001"),
                ("people", "many"),
                ("target", "nan"),
                ("target", "inf"),
                ("target", "0"),
                ("utilisation", "1.01"),
                ("utilisation", "nan"),
                ("gpus", "65"),
                ("shared_prefix", "-1"),
            )
        ),
        ("layers=1&kv_heads=1&head_dim=1&params=nan&vram_gib=1", "params", None),
        ("layers=1&kv_heads=1&head_dim=1&active_weight_bytes=1&bandwidth=nan", "bandwidth", None),
        ("layers=1&kv_heads=1&head_dim=1&active_weight_bytes=1&bandwidth=1e300", "bandwidth", None),
    ],
)
async def test_what_cannot_be_planned_names_its_parameter(
    door: RunningDoor, query: str, param: str | None, code: str | None
) -> None:
    async with door.client.get(f"/plan/v1/plan?{query}") as response:
        error = await error_of(response, 400, code)
        assert error["param"] == param


async def test_the_least_and_the_most_of_everything_can_be_planned_with(door: RunningDoor) -> None:
    least = "context=1&output_tokens=1&people=1&target=0.1&utilisation=0.01&layers=1&kv_heads=1&head_dim=1"
    most = (
        "context=10000000&output_tokens=10000000&people=1000000&target=10000&utilisation=1&layers=10000"
        "&kv_heads=10000&head_dim=10000"
    )
    for query in (
        f"{least}&params=1&active_weight_bytes=1&bandwidth=1e6&vram_gib=0.01",
        f"{most}&params=1e14&active_weight_bytes=1e15&bandwidth=1e16&vram_gib=1e6",
        f"{least}&params=1&active_weight_bytes=1&bandwidth=1e16&vram_gib=1e6",
        f"{most}&params=1&active_weight_bytes=1&bandwidth=1e6&vram_gib=1e6",
    ):
        async with door.client.get(f"/plan/v1/plan?{query}") as response:
            assert response.status == 200, await response.text()


async def test_what_was_measured_here_is_told_of_models_that_the_asker_may_use(door: RunningDoor) -> None:
    async def measured(headers: dict[str, str]) -> Any:
        async with door.client.get("/plan/v1/measured", headers=headers) as response:
            return (await response.json())["data"]

    set_speed(door, n=40, x=160, y=2)  # four at once, a token each in 50 ms
    assert await measured({}) == [{"model": "fake", "running": 4.0, "tok_s": pytest.approx(80), "answers": 40}]
    key = await narrow_key(door)
    assert await measured({"authorization": f"Bearer {key}"}) == []
    set_speed(door, n=19, x=76, y=0.95)
    assert await measured({}) == []


async def narrow_key(door: RunningDoor) -> str:
    """Of a program that may use another model alone."""
    async with door.post({"name": "narrow"}, "/admin/v1/service-accounts") as response:
        assert response.status < 300, await response.text()
        account = (await response.json())["id"]
    body = {"name": "narrow", "owner": f"service_account:{account}", "models": ["other"]}
    async with door.post(body, "/admin/v1/keys") as response:
        assert response.status < 300, await response.text()
        return str((await response.json())["key"])


async def test_the_page_is_sent_with_a_policy_that_lets_no_foreign_script_run(door: RunningDoor) -> None:
    async with door.client.get("/plan", headers={"accept": "text/html"}) as response:
        assert response.status == 200
        policy = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
        text = await response.text()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert response.headers["cache-control"] == "no-store"
    assert re.findall(r'src="([^"]+)"', text)[-1].endswith("/plan/main.js")


def test_the_page_tells_formulas_as_the_arithmetic_has_them() -> None:
    said = dict(re.findall(r'^  formula_(\w+): \{\s*en:\s*"([^"]+)",\s*ja:', WORDS, re.MULTILINE))
    assert said == FORMULAS


def test_the_page_has_words_for_all_that_it_may_have_to_show() -> None:
    words = set(re.findall(r"^  (\w+): \{", WORDS, re.MULTILINE))
    fields = set(msgspec.structs.asdict(PlanQuery()))
    assert fields <= words
    assert {f"note_{name}" for name in NOTES} <= words


async def test_a_key_of_any_kind_may_ask(door: RunningDoor) -> None:
    headers = {"authorization": f"Bearer {await narrow_key(door)}"}
    async with door.client.get("/plan/v1/plan?model=qwen3-8b&hardware=h100", headers=headers) as response:
        assert response.status == 200
