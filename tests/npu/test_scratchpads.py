"""Places of buffers in scratchpads: never over each other, and in banks of their own."""

import itertools
import sys
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explorer.npu.tiling.scratchpads import Buffer, place_buffers

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import machine
from npu_machines import machines

CONTENTS = ("activations", "weights", "accumulators")


def buffer(name, elements, group, content="accumulators"):
    return Buffer(name=name, content=content, elements=elements, group=group)


def banks_of(placed, machine):
    """By name: the banks that each of its buffers touches."""
    found = {}
    for name, regions in placed:
        for region in regions:
            space = machine.by_content[region.content]
            memory = machine.scratchpads[space.memory]
            size = memory.size_bytes // memory.banks
            first = region.address * space.element_bytes
            last = (region.address + region.elements) * space.element_bytes - 1
            found.setdefault(name, []).append(set(range(first // size, last // size + 1)))
    return found


def test_with_room_each_buffer_has_banks_of_its_own():
    """Of a scratchpad with lanes, too: a bank is one of all lanes."""
    tiny = machine("tiny-8")  # 16 banks of 960 accumulators
    wanted = [buffer("sums", 1000, 0), buffer("sums", 1000, 1), buffer("constants", 5, 0)]
    one, other, constants = itertools.chain(*banks_of(place_buffers(wanted, tiny), tiny).values())
    assert len(one) == len(other) == 2
    assert not one & other and not constants & (one | other)


def test_with_less_room_what_different_queues_touch_has_banks_of_its_own():
    tiny = machine("tiny-8")
    wanted = [buffer(f"b{n}", 10 + n, n % 3) for n in range(20)]
    found = banks_of(place_buffers(wanted, tiny), tiny)
    groups = [set().union(*(found[f"b{n}"][0] for n in range(g, 20, 3))) for g in range(3)]
    assert all(not a & b for a, b in itertools.combinations(groups, 2))


def test_with_no_room_for_that_buffers_lie_side_by_side():
    tiny = machine("tiny-8")  # 15360 accumulators
    wanted = [buffer("sums", 7500, 0), buffer("sums", 7500, 1), buffer("constants", 360, 0)]
    regions = dict(place_buffers(wanted, tiny))
    assert sorted(r.address for r in (*regions["sums"], *regions["constants"])) == [0, 7500, 15000]


def test_what_does_not_fit_has_no_place():
    tiny = machine("tiny-8")
    assert place_buffers([buffer("sums", 15361, 0)], tiny) is None


@settings(max_examples=60, deadline=None)
@given(machines(), st.lists(st.tuples(st.sampled_from(CONTENTS), st.integers(1, 40),
                                      st.integers(0, 3)), min_size=1, max_size=9))  # fmt: skip
def test_buffers_never_overlap(machine, wanted):
    buffers = [buffer(str(n), size, group, content)
               for n, (content, size, group) in enumerate(wanted)]  # fmt: skip
    placed = place_buffers(buffers, machine)
    assume(placed is not None)
    taken = {}
    for _, (region,) in placed:
        space = machine.by_content[region.content]
        first = region.address * space.element_bytes
        last = first + region.elements * space.element_bytes
        assert first >= 0 and last <= machine.scratchpads[space.memory].size_bytes
        taken.setdefault(space.memory, []).append((first, last))
    for extents in taken.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(extents)))
