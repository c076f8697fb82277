"""Plans that are tight where most bytes live, placed again around that step."""

import random

import pytest

from explorer.memory import ExactPlanner, GreedyPlanner, verify_plan
from explorer.memory.bounds import live_bytes
from explorer.memory.exact import planner
from explorer.memory.exact.around_peak import MAX_ROUNDS, placed_around_peak
from explorer.memory.greedy import STRATEGIES
from explorer.memory.planners import make_plan
from explorer.results import BufferLifetime


def buffer(name: str, size: int, first: int, last: int) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=8
    )


def training(layers: int, seed: int) -> list[BufferLifetime]:
    """Results that live until the backward pass has read them, and short ones on both ways."""
    rng = random.Random(seed)
    end, found = 4 * layers, []
    for layer in range(layers):
        step = 2 * layer
        size, last = rng.randrange(8, 64) << 6, end - step - rng.randrange(0, 2)
        found.append(buffer(f"kept_{layer}", size, step, last))
        for way in (step, end - step - 2):
            for number in range(2):
                first, size = way + rng.randrange(0, 2), rng.randrange(0, 64) << 6
                last = min(end, first + rng.randrange(1, 8))
                found.append(buffer(f"short_{way}_{number}", size, first, last))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_a_plan_and_never_larger(seed: int):
    buffers = training(25, seed + 16)
    plan = GreedyPlanner((STRATEGIES[seed],))(buffers)
    offsets = [placed.offset_bytes for placed in plan.placements]
    found, rounds = placed_around_peak(buffers, offsets, plan.live_bytes, plan.bound_bytes)
    better = make_plan(buffers, found, plan.steps, plan.live_bytes, plan.attempts)
    verify_plan(better)
    assert better.peak_bytes <= plan.peak_bytes
    assert better.optimal or (rounds == MAX_ROUNDS and better.peak_bytes > plan.bound_bytes)


def test_what_ended_too_high_comes_first_in_the_next_round():
    """In step 2 `kept` and `full` fill all 96 bytes. `long` is placed first, on `kept`, so that
    `late` finds no 80 bytes below it; then `late` is placed first, at the bottom."""
    buffers = [
        buffer("kept", 64, 0, 5),
        buffer("full", 32, 2, 3),
        buffer("long", 16, 3, 9),
        buffer("short", 16, 3, 4),
        buffer("late", 80, 5, 7),
    ]
    live = live_bytes(buffers, 9)
    assert live.index(max(live)) == 2 and live[2] == 96
    assert placed_around_peak(buffers, [0, 64, 64, 80, 80], live, 160)[1] == 1
    assert placed_around_peak(buffers, [0, 64, 64, 80, 80], live, 96) == ([0, 64, 80, 64, 0], 2)


def test_the_planner_places_large_problems_around_their_peak(monkeypatch: pytest.MonkeyPatch):
    """With so many neighbours that nothing is searched; no greedy order reaches the bound."""
    monkeypatch.setattr(planner, "MAX_PLAIN_PAIRS", 0)
    buffers = training(20, 20)
    found = ExactPlanner()(buffers)
    verify_plan(found)
    assert found.optimal and not GreedyPlanner()(buffers).optimal
    (chosen,) = [attempt.strategy for attempt in found.attempts if attempt.is_chosen]
    assert chosen.startswith("around the fullest step, round ")
