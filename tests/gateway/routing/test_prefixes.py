"""Chains of prompts' beginnings, and the map of where they are warm, against a map that keeps the texts themselves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.prefixes import ENDS, LEAST_BYTES, Chain, PrefixMap, chain


def fields(**values: Any) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(msgspec.json.encode(values), type=dict[str, msgspec.Raw])


def chat(*contents: Any, **more: Any) -> dict[str, msgspec.Raw]:
    roles = ["system", *["user"] * len(contents)]
    messages = [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]
    return fields(messages=messages, **more)


def warm_part(first: Chain, second: Chain) -> float:
    prefixes = PrefixMap()
    prefixes.note(first, "a")
    return prefixes.warm(second).get("a", 0.0)


def test_blocks_grow_and_end_at_the_bound() -> None:
    assert ENDS[:3] == (512, 1024, 1536)
    assert ENDS[-1] == 65_536
    assert len(ENDS) <= 32
    assert list(ENDS) == sorted(set(ENDS))


def test_prompts_that_begin_alike_are_warm_as_far_as_they_do() -> None:
    first, second = chain("t", "m", chat("i" * 6000, "one")), chain("t", "m", chat("i" * 6000, "two"))
    assert 0.9 < warm_part(first, second) <= 1.0
    assert warm_part(first, chain("t", "m", chat("i" * 6000, "x" * 6000))) == pytest.approx(0.5, abs=0.05)
    assert warm_part(first, chain("t", "m", chat("j" * 6000, "one"))) == 0.0


def test_the_same_prompt_is_another_one_of_another_tenant_or_model() -> None:
    prompt = chat("i" * 6000)
    mine = chain("t", "m", prompt)
    assert warm_part(mine, chain("t2", "m", prompt)) == 0.0
    assert warm_part(mine, chain("t", "m2", prompt)) == 0.0
    assert warm_part(chain("1", "2m", prompt), chain("12", "m", prompt)) == 0.0


def test_a_short_common_beginning_draws_nobody_anywhere() -> None:
    common = "i" * (LEAST_BYTES - 100)
    assert warm_part(chain("t", "m", chat(common, "one " * 500)), chain("t", "m", chat(common, "two " * 500))) == 0.0


def test_a_name_keeps_even_short_beginnings_together() -> None:
    first = chain("t", "m", chat("i" * 100, "one " * 500), "instructions")
    second = chain("t", "m", chat("i" * 100, "two " * 500), "instructions")
    assert 0 < warm_part(first, second) < 0.6
    assert warm_part(first, chain("t", "m", chat("i" * 100, "two " * 500), "others")) == 0.0
    assert warm_part(first, chain("t2", "m", chat("i" * 100, "one " * 500), "instructions")) == 0.0


def test_roles_tools_and_parts_belong_to_the_beginning() -> None:
    plain = chain("t", "m", chat("i" * 6000))
    swapped = chain("t", "m", fields(messages=[{"role": "user", "content": "i" * 6000}]))
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert warm_part(plain, swapped) == 0.0
    assert warm_part(plain, chain("t", "m", chat("i" * 6000, tools=tools))) == 0.0
    parts = chain("t", "m", chat([{"type": "text", "text": "i" * 6000}]))
    assert warm_part(parts, parts) > 0.9


def test_a_completion_has_a_chain_and_what_has_no_prompt_has_none() -> None:
    assert warm_part(*[chain("t", "m", fields(prompt="i" * 6000))] * 2) > 0.9
    assert warm_part(*[chain("t", "m", fields(prompt=list(range(3000))))] * 2) > 0.9
    assert chain("t", "m", fields(input="i" * 6000)).links == ()


def test_of_a_very_long_prompt_only_the_beginning_is_looked_at() -> None:
    long = chain("t", "m", chat("i" * 400_000))
    assert len(long.links) <= 32
    assert warm_part(long, long) == pytest.approx(65_536 / 400_000, rel=0.01)


def test_a_backend_that_restarts_is_cold_and_the_others_are_not() -> None:
    prefixes, prompt = PrefixMap(), chain("t", "m", chat("i" * 6000))
    prefixes.note(prompt, "a")
    prefixes.note(prompt, "b")
    prefixes.forget("a")
    prefixes.forget("never seen")
    assert prefixes.warm(prompt).keys() == {"b"}


def test_what_a_cache_cannot_hold_is_not_believed_to_be_warm() -> None:
    prefixes = PrefixMap()
    old, new = chain("t", "m", chat("i" * 6000)), chain("t", "m", chat("j" * 6000))
    prefixes.note(old, "a", kv_tokens=2000)
    prefixes.note(new, "a", kv_tokens=2000)
    assert prefixes.warm(new)["a"] > 0.9
    assert prefixes.warm(old).get("a", 0.0) < 0.4


def test_an_engine_that_lacks_what_it_was_believed_to_have_holds_less_and_with_time_it_may_hold_more() -> None:
    prefixes, loads = PrefixMap(), [chain("t", "m", chat(letter * 6000)) for letter in "abcdefgh"]

    def serve(load: Chain, cached: float) -> None:
        prefixes.learn("a", prefixes.warm(load).get("a", 0.0), cached)
        prefixes.note(load, "a")

    def warm() -> float:
        for load in loads:
            serve(load, 0.9)
        return sum(prefixes.warm(load).get("a", 0.0) for load in loads)

    assert warm() == pytest.approx(8, abs=0.5)
    for _ in range(10):
        serve(loads[-1], 0.1)
    few = warm()
    assert 4 < few < 6
    for _ in range(50):
        for load in [*reversed(loads), *loads]:
            serve(load, 0.9)
    assert warm() > few + 1


def test_an_engine_that_never_tells_what_it_had_cached_teaches_nothing() -> None:
    prefixes, prompt = PrefixMap(), chain("t", "m", chat("i" * 6000))
    prefixes.note(prompt, "a")
    for _ in range(100):
        prefixes.learn("a", 1.0, 0.0)
        prefixes.note(prompt, "a")
    prefixes.learn("never seen", 1.0, 0.0)
    assert prefixes.warm(prompt)["a"] > 0.9


class Naive:
    """Per backend the texts of links, oldest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: dict[str, list[bytes]] = {}

    def note(self, prompt: Chain, backend: str) -> None:
        kept = self.kept.setdefault(backend, [])
        for link in reversed(prompt.links):
            if link.hash in kept:
                kept.remove(link.hash)
            kept.append(link.hash)
        del kept[: max(0, len(kept) - self.most)]

    def warm(self, prompt: Chain) -> dict[str, float]:
        found = {}
        for backend, kept in self.kept.items():
            ends = [link.end for link in prompt.links if link.hash in kept]
            if ends:
                found[backend] = max(ends) / prompt.size
        return found


INSTRUCTIONS = ["a" * 1500, "b" * 3000, "b" * 3000 + "c" * 2000, "d" * 8000]
PROMPTS = [chain("t", "m", chat(head, tail * 40)) for head in INSTRUCTIONS for tail in ("x" * 30, "yy" * 30)]
STEP = st.tuples(st.sampled_from(["note", "note", "note", "forget"]), st.sampled_from("ab"), st.sampled_from(PROMPTS))


@given(st.lists(STEP, max_size=60), st.sampled_from([3, 10, 25, 1000]))
@settings(deadline=None)
def test_it_knows_what_a_map_of_all_texts_knows(steps: list[tuple[str, str, Chain]], most: int) -> None:
    prefixes, naive = PrefixMap(most), Naive(most)
    for what, backend, prompt in steps:
        if what == "note":
            prefixes.note(prompt, backend)
            naive.note(prompt, backend)
        else:
            prefixes.forget(backend)
            naive.kept.pop(backend, None)
        for asked in PROMPTS:
            assert prefixes.warm(asked) == pytest.approx(naive.warm(asked))
