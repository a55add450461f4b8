"""A RAG load on engines of arithmetic: shared instructions, documents of each request's own, caches that hold a part.

What is compared is arithmetic too, the same on every machine: no clock is read.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from gateway.routing.prefill import PrefillSpeed
from gateway.routing.prefixes import Chain, PrefixMap, chain
from gateway.routing.score import Candidate, choices

NAMES = ("a", "b", "c", "d")
INSTRUCTION_BYTES = 12_000
DOCUMENT_BYTES = 4_000
BYTES_PER_TOKEN = 4
PER_TOKEN = 0.0001  # seconds of prefill
EACH = 0.002  # seconds that one more in the batch adds to the first token
ANSWER_SECONDS = 1.0


@dataclass
class Engine:
    """One prefill after the other; a cache of links that forgets those used longest ago. Its cache is its own truth."""

    cache_links: int
    cache: dict[bytes, None] = field(default_factory=dict)
    free_at: float = 0.0
    running: int = 0
    served: int = 0

    def serve(self, prompt: Chain, now: float) -> tuple[float, int]:
        """When the first token comes, and how many tokens of the prompt were computed already."""
        cached_bytes = 0
        for link in prompt.links:
            if link.hash not in self.cache:
                break
            cached_bytes = link.end
        for link in reversed(prompt.links):
            self.cache.pop(link.hash, None)
            self.cache[link.hash] = None
        while len(self.cache) > self.cache_links:
            del self.cache[next(iter(self.cache))]
        uncached = (prompt.size - cached_bytes) / BYTES_PER_TOKEN
        self.free_at = max(now, self.free_at) + uncached * PER_TOKEN
        first = self.free_at + EACH * (self.running + 1)
        self.running += 1
        self.served += 1
        return first, cached_bytes // BYTES_PER_TOKEN


@dataclass
class Result:
    seconds: float  # mean to the first token
    cached: int  # tokens of all prompts
    served: Counter[str]


class RoundRobin:
    def __init__(self) -> None:
        self.turn = -1

    def choose(self, engines: dict[str, Engine], prompt: Chain) -> str:
        self.turn += 1
        return NAMES[self.turn % len(NAMES)]

    def learn(self, name: str, prompt: Chain, cached: int, running: int, seconds: float) -> None:
        pass


class LeastLoaded(RoundRobin):
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def choose(self, engines: dict[str, Engine], prompt: Chain) -> str:
        return min(NAMES, key=lambda name: (engines[name].running, self.rng.random()))


class InSeconds(LeastLoaded):
    """As the gateway does it: the cost in seconds, and what each one that runs adds, as the queue counts them."""

    def __init__(self, rng: random.Random, kv_tokens: int | None) -> None:
        super().__init__(rng)
        self.kv_tokens = kv_tokens
        self.prefixes = PrefixMap()
        self.speeds = {name: PrefillSpeed() for name in NAMES}

    def choose(self, engines: dict[str, Engine], prompt: Chain) -> str:
        warm = self.prefixes.warm(prompt)
        candidates = {name: Candidate(name, self.speeds[name], warm.get(name, 0.0)) for name in NAMES}
        costs = {
            name: seconds + engines[name].running * candidates[name].each_seconds
            for name, seconds in choices(prompt.size // BYTES_PER_TOKEN, list(candidates.values()))
        }
        return min(NAMES, key=lambda name: (costs[name], self.rng.random()))

    def learn(self, name: str, prompt: Chain, cached: int, running: int, seconds: float) -> None:
        believed = self.prefixes.warm(prompt).get(name, 0.0)
        self.prefixes.learn(name, believed, cached * BYTES_PER_TOKEN / prompt.size)
        self.prefixes.note(prompt, name, self.kv_tokens)
        self.speeds[name].learn(prompt.size / BYTES_PER_TOKEN - cached, running, seconds)


def simulate(policy: RoundRobin, prompts: Sequence[Chain], rate: float, rng: random.Random, cache_links: int) -> Result:
    engines = {name: Engine(cache_links) for name in NAMES}
    events: list[tuple[float, int, Callable[[], None]]] = []
    now, total, cached_tokens = 0.0, 0.0, 0

    def ends(name: str) -> None:
        engines[name].running -= 1

    for index, prompt in enumerate(prompts):
        now += rng.expovariate(rate)
        while events and events[0][0] <= now:
            heapq.heappop(events)[2]()
        name = policy.choose(engines, prompt)
        running = engines[name].running
        first, cached = engines[name].serve(prompt, now)
        total += first - now
        cached_tokens += cached
        learned = (name, prompt, cached, running, first - now)
        heapq.heappush(events, (first, 2 * index, lambda learned=learned: policy.learn(*learned)))  # type: ignore[misc]
        heapq.heappush(events, (first + ANSWER_SECONDS, 2 * index + 1, lambda name=name: ends(name)))  # type: ignore[misc]
    return Result(total / len(prompts), cached_tokens, Counter({name: one.served for name, one in engines.items()}))


def prompts(instructions: int, requests: int, rng: random.Random) -> list[Chain]:
    made = []
    for index in range(requests):
        number = rng.randrange(instructions)
        instruction = f"{number} " * (INSTRUCTION_BYTES // len(f"{number} "))
        document = f"{index} " * (DOCUMENT_BYTES // len(f"{index} "))
        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": document}]
        made.append(chain("t", "m", {"messages": msgspec.Raw(msgspec.json.encode(messages))}))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_eight_instructions_over_four_engines_are_found_warm_and_answered_sooner(seed: int) -> None:
    load = prompts(8, 1000, random.Random(seed))
    # Room for about three instructions and the documents of a few requests.
    kv_tokens = 3 * INSTRUCTION_BYTES // BYTES_PER_TOKEN + 3000
    links = 3 * len(load[0].links) + 10

    def result(policy: RoundRobin) -> Result:
        return simulate(policy, load, 12.0, random.Random(seed), links)

    ours = result(InSeconds(random.Random(seed), kv_tokens))
    of_unknown_size = result(InSeconds(random.Random(seed), None))
    others = [result(RoundRobin()), result(LeastLoaded(random.Random(seed)))]
    print(ours, of_unknown_size, *others, sep="\n")
    for other in others:
        for known in (ours, of_unknown_size):
            assert known.cached > 1.8 * other.cached
            assert known.seconds < 0.6 * other.seconds


@pytest.mark.parametrize("seed", range(3))
def test_one_hot_instruction_alone_does_not_overload_the_engine_that_has_it_warm(seed: int) -> None:
    """What each request computes is its document: 0.1 s. One engine alone could do ten a second; thirty come."""
    load = prompts(1, 1000, random.Random(seed))
    ours = simulate(InSeconds(random.Random(seed), None), load, 30.0, random.Random(seed), 100)
    least = simulate(LeastLoaded(random.Random(seed)), load, 30.0, random.Random(seed), 100)
    print(f"{ours=} {least=}")
    assert max(ours.served.values()) < 0.4 * len(load)
    assert ours.seconds < 1.5 * least.seconds


@pytest.mark.parametrize("seed", range(3))
def test_on_slow_engines_warm_prefixes_are_found_from_the_first_requests_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred times slower than is believed of an engine that is not known, short prompts, a hundred requests."""
    changes = {"PER_TOKEN": 0.01, "EACH": 0.05, "INSTRUCTION_BYTES": 2000, "DOCUMENT_BYTES": 300}
    for name, value in changes.items():
        monkeypatch.setattr(f"{__name__}.{name}", value)
    load = prompts(8, 100, random.Random(seed))
    links = 3 * len(load[0].links) + 10
    ours = simulate(InSeconds(random.Random(seed), 1536), load, 0.4, random.Random(seed), links)
    least = simulate(LeastLoaded(random.Random(seed)), load, 0.4, random.Random(seed), links)
    print(f"{ours=} {least=}")
    assert ours.cached > 1.4 * least.cached
    assert ours.seconds < 0.85 * least.seconds
