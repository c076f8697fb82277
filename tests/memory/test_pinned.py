"""Buffers that a person pinned stay where they are, and the others find room around them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import InputError
from explorer.memory import verify_plan
from explorer.memory.pinned import PinnedPlanner
from explorer.results import BufferLifetime


def buffer(name: str, size: int, first: int, last: int) -> BufferLifetime:
    return BufferLifetime(id=name, values=(name,), size_bytes=size, first=first, last=last)


def test_a_pinned_buffer_lies_where_it_was_put():
    buffers = [buffer("a", 64, 0, 2), buffer("b", 64, 1, 3), buffer("c", 64, 2, 3)]
    plan = PinnedPlanner((("b", 128),))(buffers, ["one", "two", "three"])
    assert plan.offsets == {"a": 0, "b": 128, "c": 0}
    assert (plan.peak_bytes, plan.bound_bytes, plan.optimal) == (192, 128, False)
    assert plan.attempts[0].strategy == "around 1 pinned: size / lifetime, first fit"


def test_others_fill_the_room_below_a_pin():
    buffers = [buffer("low", 128, 0, 1), buffer("pinned", 64, 0, 1), buffer("high", 64, 0, 1)]
    plan = PinnedPlanner((("pinned", 128),))(buffers)
    assert plan.offsets == {"low": 0, "pinned": 128, "high": 192}
    assert plan.optimal


@pytest.mark.parametrize(
    ("pins", "what"),
    [
        ((("nothing", 0),), "no buffer 'nothing' can be pinned"),
        ((("a", 32),), "buffer 'a' cannot lie at byte 32: it is aligned to 64; try: 0 or 64"),
        ((("a", -64),), "buffer 'a' cannot lie at byte -64"),
        ((("a", 0), ("b", 0)), "'a' and 'b' live together and cannot lie at bytes 0 and 0"),
    ],
)
def test_a_pin_that_no_plan_can_keep_is_refused(pins: tuple[tuple[str, int], ...], what: str):
    with pytest.raises(InputError, match=what):
        PinnedPlanner(pins)([buffer("a", 64, 0, 2), buffer("b", 64, 1, 3)])


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 8), st.integers(1, 5)),
        min_size=1,
        max_size=16,
    ),
    st.integers(0, 15),
    st.integers(0, 12),
)
@settings(deadline=None, max_examples=60)
def test_plans_around_a_pin_are_sound(sizes: list[tuple[int, int, int]], pinned: int, place: int):
    buffers = [buffer(f"b{i}", s, first, first + n) for i, (s, first, n) in enumerate(sizes)]
    name = f"b{pinned % len(buffers)}"
    plan = PinnedPlanner(((name, 64 * place),))(buffers)
    verify_plan(plan)
    assert plan.offsets[name] == 64 * place
