"""Programs timed in turns, with a clock that is told how fast it goes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compilation.interleaved_timing import ProfiledSide, time_interleaved, turns_record
from explorer.compilation.measurements import rounds
from explorer.errors import InputError
from explorer.results import ProfileRecord, TimedEvent
from explorer.results.runs.interleaved import InterleavedTiming

SOURCES = [{"conv_1": ("a",)}, {"conv_1": ("b",)}]


@dataclass
class Clock:
    """A machine that gets slower with everything that it does."""

    speed: float = 1.0
    drift: float = 1.0

    def takes(self, nanoseconds: float) -> float:
        self.speed *= self.drift
        return nanoseconds * self.speed


@dataclass
class FakeProgram:
    """Whole inferences of `nanoseconds`, nine tenths of them in one kernel."""

    clock: Clock
    nanoseconds: float

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        whole = self.clock.takes(self.nanoseconds)
        event = TimedEvent("n", "conv1", "conv_1", "cpu", 0, round(0.9 * whole))
        return ProfileRecord(
            device="fake", threads=1, repeats=repeats, milliseconds=whole / 1e6, events=(event,)
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rounds, "PAUSE_SECONDS", 0.0)


def measured(*programs: Any, count: int = 8, **more: Any) -> InterleavedTiming:
    sides = [ProfiledSide(str(n), program, {}) for n, program in enumerate(programs)]
    timings = rounds.run_interleaved(sides, count)
    options = {"sources": SOURCES, "same": [True, False], **more}
    return turns_record(["base", "fork"], sides, timings, **options)


def test_a_machine_that_gets_slower_changes_no_ratio():
    """One after the other, the second would be found 2.6 times as slow; in turns both are alike."""
    clock = Clock(drift=1.06)
    base, fork = measured(FakeProgram(clock, 1e6), FakeProgram(clock, 1e6)).sides
    assert fork.latency.high_ns > 1.5 * base.latency.low_ns
    assert fork.latency.ratio == pytest.approx(1.0, abs=0.07)
    assert not fork.latency.is_different
    assert not dict(fork.kernels)["conv_1"].is_different


def test_a_difference_beyond_the_spread_is_one():
    clock = Clock(drift=1.01)
    base, fork = measured(FakeProgram(clock, 1e6), FakeProgram(clock, 0.8e6)).sides
    assert fork.latency.ratio == pytest.approx(0.8, rel=0.02)
    assert fork.latency.is_different
    assert fork.latency.low_ratio <= fork.latency.ratio <= fork.latency.high_ratio
    assert not base.latency.is_different
    assert base.latency.ratio == 1.0


def test_noise_that_is_larger_than_the_difference_hides_it():
    class Noisy(FakeProgram):
        count = 0

        def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
            self.count += 1
            self.nanoseconds = 1e6 * (0.7 if self.count % 2 else 1.2)
            return super().profile(inputs, repeats)

    fork = measured(FakeProgram(Clock(), 1e6), Noisy(Clock(), 1e6)).sides[1]
    assert fork.latency.ratio != 1.0
    assert not fork.latency.is_different


def test_the_same_code_takes_the_same_time_whatever_is_measured():
    same = [{"conv_1": ("a",)}, {"conv_1": ("a",)}]
    programs = (FakeProgram(Clock(), 1e6), FakeProgram(Clock(), 1.25e6))
    fork = measured(*programs, sources=same, same=[True, True]).sides[1]
    assert fork.latency.ratio == 1.25
    assert not fork.latency.is_different
    assert not dict(fork.kernels)["conv_1"].is_different


def test_a_kernel_that_the_base_lacks_is_compared_with_nothing():
    record = measured(FakeProgram(Clock(), 1e6), FakeProgram(Clock(), 2e6))
    assert record.sides[1].kernels[0][0] == "conv_1"
    assert (record.rounds, record.device, record.threads) == (8, "fake", 1)


def test_compilations_are_timed_in_turns():
    mlp = explorer.compile(Path(__file__).parents[2] / "sample_models" / "digits_mlp.onnx")
    fork = mlp.fork(disable=["fuse-activation"])
    same = mlp.fork(decisions={})
    told: list[int] = []
    record = time_interleaved(
        [mlp, fork, same], rounds=4, progress=lambda name, index, total: told.append(index)
    )
    assert told == [0, 1, 2, 3]
    assert record.sides[0].label == "first"
    assert record.sides[2].latency.is_same_code
    assert not record.sides[1].latency.is_same_code
    assert all(side.latency.median_ns > 0 and side.kernels for side in record.sides)
    assert mlp.time_against(same, rounds=4).sides[1].latency.is_same_code
    with pytest.raises(InputError, match="two compilations"):
        time_interleaved([mlp])
