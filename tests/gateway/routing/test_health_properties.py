"""Random lives of three backends behind two gateways: what holds whatever happens."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from backends.base import Readiness
from backends.errors import Broken, Rejected, TimedOut, Unreachable
from gateway.routing.health import Health, State
from gateway.routing.usable import usable

NAMES = ("a", "b", "c")
ERRORS = st.sampled_from(
    [Unreachable(), TimedOut(), Broken(), Rejected(429), Rejected(429, retry_after="9"), Rejected(500), Rejected(401)]
)
NEVER_ASKED = {State.RATE_LIMITED, State.WARMING, State.MISCONFIGURED}


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.requests = 0
        self.gateways = [{name: Health() for name in NAMES} for _ in range(2)]

    def of(self, where: int, name: str) -> Health:
        return self.gateways[where][name]

    places = st.integers(0, 1)
    names = st.sampled_from(NAMES)

    @rule(where=places, name=names, readiness=st.sampled_from([*Readiness, Readiness.READY, Readiness.READY]))
    def probe(self, where: int, name: str, readiness: Readiness) -> None:
        self.of(where, name).observe_probe(readiness, self.now)
        if readiness is Readiness.READY:
            assert self.of(where, name).state(self.now) not in (State.DOWN, State.WARMING)

    @rule(where=places, name=names, error=ERRORS, times=st.integers(1, 6))
    def failures(self, where: int, name: str, error: Exception, times: int) -> None:
        for _ in range(times):
            self.requests += 1
            self.of(where, name).observe_failure(error, str(self.requests), self.now)  # type: ignore[arg-type]

    @rule(where=places, name=names, seconds=st.floats(0.01, 100))
    def first_token(self, where: int, name: str, seconds: float) -> None:
        health = self.of(where, name)
        on_trial = health.state(self.now) is State.FAILING and health.takes(self.now)
        health.observe_first_token(self.now, seconds, 1.0)
        if on_trial:  # a success closes it: the first, or the second
            health.observe_first_token(self.now, seconds, 1.0)
            assert health.state(self.now) is State.HEALTHY

    @rule(where=places, name=names)
    def tell(self, where: int, name: str) -> None:
        self.of(1 - where, name).hear(self.of(where, name).verdict(self.now))

    @rule(seconds=st.floats(0.001, 45))
    def pass_time(self, seconds: float) -> None:
        before = [health.share(self.now) for health in self.all()]
        states = [health.state(self.now) for health in self.all()]
        self.now += seconds
        for health, share, state in zip(self.all(), before, states, strict=True):
            if state is State.HEALTHY:  # time alone makes nothing worse
                assert health.share(self.now) >= share

    def all(self) -> list[Health]:
        return [health for gateway in self.gateways for health in gateway.values()]

    @invariant()
    def every_figure_is_within_its_bounds(self) -> None:
        for health in self.all():
            assert 0.0 <= health.share(self.now) <= 1.0
            assert 1.0 <= health.slowness(self.now) <= 4.0
            assert (health.verdict(self.now).why == "") == (health.state(self.now) is State.HEALTHY)

    @invariant()
    def whatever_will_be_tried_again_is_within_an_hour_and_a_breaker_within_a_minute(self) -> None:
        for health in self.all():
            verdict = health.verdict(self.now)
            if verdict.until is not None:
                longest = 60 if verdict.state is State.FAILING else 3600
                assert verdict.until - self.now <= longest

    @invariant()
    def the_last_backend_is_not_given_up_for_failing(self) -> None:
        for gateway in self.gateways:
            found = usable(gateway, self.now)
            if not found.shares:
                assert {health.state(self.now) for health in gateway.values()} <= NEVER_ASKED
                assert found.retry_after >= 1
            else:
                assert max(found.shares.values()) == 1.0


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=25, stateful_step_count=50, deadline=None)
