"""Values in some bytes of a buffer: planted faults are refused, pins and addresses follow."""

from dataclasses import replace

import pytest

from explorer.errors import ExplorerError, InputError
from explorer.memory import GreedyPlanner, PinnedPlanner, verify_plan
from explorer.memory.planning import value_offsets
from explorer.results import BufferLifetime, BufferPart, MemoryPlan
from explorer.views.catalog.memory import planned
from explorer.views.renderers.text import text_of

WHOLE = BufferLifetime(
    id="y",
    values=("y", "a", "b", "s"),
    size_bytes=192,
    first=0,
    last=3,
    parts=(
        BufferPart("a", 0, 64, 0, 1),
        BufferPart("b", 64, 128, 1, 2),
        BufferPart("s", 32, 64, 2, 3, is_view=True),
    ),
)
OTHER = BufferLifetime(id="x", values=("x",), size_bytes=64, first=0, last=1)


def plan_of(whole: BufferLifetime) -> MemoryPlan:
    """The plan of the two buffers, with the first one exchanged afterwards."""
    plan = GreedyPlanner()([WHOLE, OTHER])
    placements = [replace(p, buffer=whole) if p.buffer.id == "y" else p for p in plan.placements]
    return replace(plan, placements=tuple(placements))


def test_views_may_overlap_what_they_show():
    verify_plan(plan_of(WHOLE))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (BufferPart("b", 32, 128, 1, 2), r"'a' and 'b' overlap in buffer 'y': byte 32 belongs"),
        (BufferPart("b", 0, 192, 1, 2), r"overlap in buffer 'y': byte 0 belongs to both"),
        (BufferPart("b", 128, 128, 1, 2), r"'b' \[128, 256\) is not inside of buffer 'y' of 192"),
        (BufferPart("b", -64, 64, 1, 2), r"'b' \[-64, 0\) is not inside"),
        (BufferPart("c", 64, 128, 1, 2), r"'c' is a part of buffer 'y', which does not hold it"),
        (BufferPart("b", 64, 128, 1, 4), r"'b' lives in steps \[1, 4\), its buffer 'y' in \[0, 3"),
        (BufferPart("b", 64, 128, 2, 2), r"'b' lives in steps \[2, 2\)"),
    ],
)
def test_parts_that_cannot_be_are_refused(part, message):
    faulty = replace(WHOLE, parts=(WHOLE.parts[0], part))
    with pytest.raises(ExplorerError, match=message):
        verify_plan(plan_of(faulty))


def test_every_value_has_the_address_of_its_part():
    plan = GreedyPlanner()([WHOLE, OTHER])
    start = plan.offsets["y"]
    offsets = value_offsets(plan)
    assert {name: offsets[name] - start for name in "yabs"} == {"y": 0, "a": 0, "b": 64, "s": 32}


def test_pinning_a_part_pins_its_buffer():
    plan = PinnedPlanner((("b", 320), ("a", 256)))([WHOLE, OTHER])
    assert plan.offsets["y"] == 256
    verify_plan(plan)


def test_parts_cannot_be_pinned_apart():
    with pytest.raises(InputError, match="'b' and 'a' lie in the buffer 'y'") as raised:
        PinnedPlanner((("b", 320), ("a", 0)))([WHOLE, OTHER])
    assert raised.value.hint == "a at 256"


def test_a_plan_says_that_values_lie_in_others_buffers():
    assert "3 values lie in some bytes of another one's buffer" in text_of(
        planned(plan_of(WHOLE)), 100
    )
    assert "another one's buffer" not in text_of(planned(GreedyPlanner()([OTHER])), 100)
