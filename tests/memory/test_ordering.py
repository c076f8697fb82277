"""Orders of launches with the fewest live bytes, against all orders there are."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory.bounds import live_bytes
from explorer.memory.liveness import lifetimes
from explorer.memory.ordering import Ordering, _beam, best_order
from explorer.memory.places import Containment, places_of
from explorer.memory.uses import Use
from explorer.results.memory import BufferLifetime


def problem_of(uses, sizes, inputs=(), outputs=(), relations=()) -> Ordering:
    return Ordering.of(uses, places_of(list(relations), sizes), inputs, outputs)


def legal_orders(problem: Ordering):
    for order in permutations(range(len(problem.before))):
        done = 0
        for step in order:
            if problem.before[step] & ~done:
                break
            done |= 1 << step
        else:
            yield order


TWO_BRANCHES = (
    [
        Use("a", ("x",), ("a",)),
        Use("d", ("x",), ("d",)),
        Use("b", ("a",), ("b",)),
        Use("e", ("d",), ("e",)),
        Use("c", ("b", "e"), ("c",)),
    ],
    {"x": 1, "a": 100, "d": 100, "b": 10, "e": 10, "c": 1},
)


def test_a_branch_is_finished_before_the_next_begins():
    uses, sizes = TWO_BRANCHES
    problem = problem_of(uses, sizes, ["x"], ["c"])
    assert problem.peak_of(range(5)) == 210
    found = best_order(problem)
    assert found.method == "exact" and found.peak_bytes == 120
    assert found.steps in ((0, 2, 1, 3, 4), (1, 3, 0, 2, 4))


def test_a_given_order_that_needs_no_more_than_its_fullest_launch_stays():
    uses = [Use("a", ("x",), ("a",)), Use("b", ("a",), ("b",))]
    found = best_order(problem_of(uses, {"x": 4, "a": 8, "b": 2}, ["x"], ["b"]))
    assert (found.steps, found.method, found.looked_at) == ((0, 1), "given", 0)


def test_a_program_without_launches_or_bytes_has_its_order():
    assert best_order(problem_of([], {"x": 4}, ["x"], ["x"])).steps == ()
    uses = [Use("a", (), ("a",)), Use("b", (), ("b",))]
    assert best_order(problem_of(uses, {"a": 0, "b": 0}, [], ["a"])).steps == (0, 1)


def test_what_is_overwritten_is_read_before():
    """relu writes over conv, which add reads as well: add stays in front."""
    uses = [
        Use("conv", ("x",), ("conv",)),
        Use("add", ("conv", "x"), ("add",), scratch_bytes=(50,)),
        Use("relu", ("conv",), ("relu",), aliases=(("relu", "conv"),)),
        Use("end", ("relu", "add"), ("end",)),
    ]
    sizes = {"x": 9, "conv": 9, "add": 9, "relu": 9, "end": 1}
    problem = problem_of(uses, sizes, ["x"], ["end"], [Containment("relu", "conv")])
    assert problem.before[2] == 0b011
    assert all(order.index(1) < order.index(2) for order in legal_orders(problem))


@st.composite
def programs(draw: st.DrawFn, most: int = 7):
    count = draw(st.integers(2, most))
    sizes, uses = {"x": draw(st.integers(0, 20))}, []
    for step in range(count):
        names = [*sizes]
        reads = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
        name = f"v{step}"
        sizes[name] = draw(st.integers(0, 20))
        scratch = (draw(st.integers(0, 9)),) if draw(st.booleans()) else ()
        uses.append(Use(name, tuple(reads), (name,), scratch_bytes=scratch))
    outputs = draw(st.lists(st.sampled_from([*sizes]), min_size=1, max_size=2, unique=True))
    return uses, sizes, outputs


@settings(max_examples=120, deadline=None)
@given(programs())
def test_the_exact_search_equals_all_orders(drawn):
    uses, sizes, outputs = drawn
    problem = problem_of(uses, sizes, ["x"], outputs)
    least = min(problem.peak_of(order) for order in legal_orders(problem))
    found = best_order(problem)
    assert found.peak_bytes == least == problem.peak_of(found.steps)
    assert found.steps in set(legal_orders(problem))
    beam = _beam(problem)
    assert beam is not None and least <= beam.peak_bytes == problem.peak_of(beam.steps)
    assert problem.least_peak <= least


def test_ten_launches_equal_all_orders():
    """Two layers of three branches and joins: 10 launches, wide enough to go wrong."""
    sizes = {"x": 3, "j": 7, "y": 2}
    uses = []
    for layer, (source, target) in enumerate((("x", "j"), ("j", "y"))):
        for branch, size in enumerate((50, 30, 40)):
            wide, name = f"w{layer}{branch}", f"b{layer}{branch}"
            if layer == 0:
                sizes[wide] = size + branch
                uses.append(Use(wide, (source,), (wide,)))
            sizes[name] = 9 - branch
            uses.append(Use(name, (wide,) if layer == 0 else (source,), (name,)))
        uses.append(Use(target, tuple(f"b{layer}{b}" for b in range(3)), (target,)))
    uses = sorted(uses[:9], key=lambda use: use.operation[0] != "w") + [uses[9]]
    uses = [use for use in uses if use.operation not in ("b11", "b12")]
    problem = problem_of(uses, sizes, ["x"], [uses[-1].operation])
    assert len(uses) <= 10
    least = min(problem.peak_of(order) for order in legal_orders(problem))
    assert best_order(problem).peak_bytes == least < problem.peak_of(range(len(uses)))


@settings(max_examples=60, deadline=None)
@given(programs(most=9))
def test_live_bytes_of_the_new_order_are_those_of_its_lifetimes(drawn):
    uses, sizes, outputs = drawn
    problem = problem_of(uses, sizes, ["x"], outputs)
    found = best_order(problem)
    ordered = [uses[step] for step in found.steps]
    buffers = lifetimes(ordered, sizes, inputs=["x"], outputs=outputs, alignment_bytes=1)
    if any("x" in use.reads for use in uses):  # else it lives in the first step all the same
        assert max(live_bytes(buffers, len(ordered))) == found.peak_bytes


def test_padding_below_other_buffers_counts_while_they_live():
    """Of 10 bytes each at multiples of 8, two take 26; the topmost needs no padding."""
    buffers = [
        BufferLifetime(id=name, values=(name,), size_bytes=10, first=first, last=last,
                       alignment_bytes=8)
        for name, first, last in (("a", 0, 1), ("b", 0, 2), ("c", 2, 3))
    ]  # fmt: skip
    assert live_bytes(buffers, 4) == (26, 10, 10, 0)


@pytest.mark.parametrize("limit", [0, 3])
def test_beyond_the_limit_a_beam_goes_on_and_says_so(limit: int):
    uses, sizes = TWO_BRANCHES
    found = best_order(problem_of(uses, sizes, ["x"], ["c"]), limit=limit)
    assert found.method == "beam" and found.peak_bytes == 120
