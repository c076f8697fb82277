"""From what launches read and write to buffers with lifetimes."""

import pytest

from explorer.errors import InputError
from explorer.memory import Use, lifetimes, live_bytes
from explorer.memory.places import Containment
from explorer.results import BufferLifetime, BufferPart

CHAIN = [
    Use("conv", reads=("x",), writes=("conv",)),
    Use("relu", reads=("conv",), writes=("relu",)),
    Use("add", reads=("conv", "relu"), writes=("add",)),
]
JOINED = [
    Use("left", (), ("left",)),
    Use("right", (), ("right",)),
    Use("sum", ("whole",), ("sum",)),
]
JOINED_SIZES = {"left": 64, "right": 32, "whole": 96, "sum": 4}
HALVES = (Containment("left", "whole"), Containment("right", "whole", 64))
CHAIN_SIZES = {"x": 64, "conv": 128, "relu": 128, "add": 256}


def summary(buffers: list[BufferLifetime]) -> list[tuple[str, int, int, int]]:
    return [(buffer.id, buffer.size_bytes, buffer.first, buffer.last) for buffer in buffers]


def test_a_value_lives_from_the_launch_that_writes_it_to_its_last_reader():
    buffers = lifetimes(CHAIN, CHAIN_SIZES, inputs=["x"], outputs=["add"])
    assert summary(buffers) == [
        ("x", 64, 0, 1),
        ("conv", 128, 0, 3),
        ("relu", 128, 1, 3),
        ("add", 256, 2, 3),
    ]


def test_live_bytes_are_the_sums_of_what_lives_in_each_step():
    buffers = lifetimes(CHAIN, CHAIN_SIZES, inputs=["x"], outputs=["add"])
    assert live_bytes(buffers, steps=3) == (64 + 128, 128 + 128, 128 + 128 + 256)


def test_an_output_lives_until_the_end_and_a_result_that_nobody_reads_in_its_step():
    buffers = lifetimes(CHAIN, CHAIN_SIZES, inputs=["x"], outputs=["relu"])
    assert summary(buffers)[2:] == [("relu", 128, 1, 3), ("add", 256, 2, 3)]
    assert summary(lifetimes(CHAIN[:2], CHAIN_SIZES, inputs=["x"]))[-1] == ("relu", 128, 1, 2)


def test_an_input_lives_from_the_start_even_if_it_is_read_late_or_never():
    uses = [Use("a", (), ("a",)), Use("b", ("a", "late"), ("b",))]
    sizes = {"a": 64, "b": 64, "late": 64, "unused": 64}
    buffers = lifetimes(uses, sizes, inputs=["late", "unused"], outputs=["b"])
    assert summary(buffers)[:2] == [("late", 64, 0, 2), ("unused", 64, 0, 1)]


def test_a_program_without_launches_holds_its_inputs():
    buffers = lifetimes([], {"x": 64}, inputs=["x"], outputs=["x"])
    assert summary(buffers) == [("x", 64, 0, 1)]


def test_scratch_buffers_live_in_their_step_only():
    uses = [
        Use("sort", ("x",), ("sort",), scratch_bytes=(32, 16)),
        Use("neg", ("sort",), ("neg",)),
    ]
    buffers = lifetimes(uses, {"x": 8, "sort": 8, "neg": 8}, inputs=["x"], outputs=["neg"])
    assert summary(buffers) == [
        ("x", 8, 0, 1),
        ("sort", 8, 0, 2),
        ("sort/scratch_0", 32, 0, 1),
        ("sort/scratch_1", 16, 0, 1),
        ("neg", 8, 1, 2),
    ]


def test_views_and_in_place_results_share_the_buffer_of_their_owner():
    uses = [
        Use("conv", ("x",), ("conv",)),
        Use("relu", ("conv",), ("relu",), aliases=(("relu", "conv"),)),
        Use("matmul", ("flat",), ("matmul",)),
    ]
    sizes = {"x": 64, "conv": 128, "relu": 128, "flat": 128, "matmul": 40}
    buffers = lifetimes(uses, sizes, inputs=["x"], outputs=["matmul"], views={"flat": "relu"})
    assert [(b.id, b.values, b.first, b.last) for b in buffers] == [
        ("x", ("x",), 0, 1),
        ("conv", ("conv", "relu", "flat"), 0, 3),
        ("matmul", ("matmul",), 2, 3),
    ]


def test_a_view_that_is_an_output_keeps_its_owner_alive():
    uses = [Use("a", (), ("a",)), Use("b", ("a",), ("b",))]
    sizes = {"a": 64, "b": 64, "flat": 64}
    buffers = lifetimes(uses, sizes, outputs=["flat", "b"], views={"flat": "a"})
    assert summary(buffers) == [("a", 64, 0, 2), ("b", 64, 1, 2)]


def test_parts_of_a_concatenation_lie_in_the_whole_from_the_first_part_on():
    buffers = lifetimes(JOINED, JOINED_SIZES, outputs=["sum"], parts=HALVES)
    assert [(b.id, b.values, b.size_bytes, b.first, b.last) for b in buffers] == [
        ("whole", ("whole", "left", "right"), 96, 0, 3),
        ("sum", ("sum",), 4, 2, 3),
    ]
    assert buffers[0].parts == (
        BufferPart("left", 0, 64, 0, 1),
        BufferPart("right", 64, 32, 1, 2),
    )


def test_a_concatenation_of_concatenations_is_one_buffer():
    uses = [
        Use("a", (), ("a",)),
        Use("b", ("a",), ("b",)),
        Use("c", ("ab",), ("c",)),
        Use("sum", ("abc",), ("sum",)),
    ]
    parts = [
        Containment("a", "ab"),
        Containment("b", "ab", 64),
        Containment("ab", "abc"),
        Containment("c", "abc", 128),
    ]
    sizes = {"a": 64, "b": 64, "c": 64, "ab": 128, "abc": 192, "sum": 4}
    whole, _ = lifetimes(uses, sizes, outputs=["sum"], parts=parts)
    assert (whole.id, whole.size_bytes, whole.first, whole.last) == ("abc", 192, 0, 4)
    assert [(p.value, p.offset_bytes, p.is_view) for p in whole.parts] == [
        ("a", 0, False),
        ("b", 64, False),
        ("ab", 0, True),
        ("c", 128, False),
    ]


def test_a_value_in_two_concatenations_lies_where_both_have_it():
    uses = [
        Use("a", (), ("a",)),
        Use("b", (), ("b",)),
        Use("c", (), ("c",)),
        Use("sum", ("ab", "bc"), ("sum",)),
    ]
    parts = [
        Containment("a", "ab"),
        Containment("b", "ab", 64),
        Containment("b", "bc"),
        Containment("c", "bc", 64),
    ]
    sizes = {"a": 64, "b": 64, "c": 64, "ab": 128, "bc": 128, "sum": 4}
    buffer, _ = lifetimes(uses, sizes, outputs=["sum"], parts=parts)
    assert (buffer.id, buffer.size_bytes) == ("ab", 192)
    assert {p.value: p.offset_bytes for p in buffer.parts} == {
        "a": 0, "b": 64, "c": 128, "ab": 0, "bc": 64,
    }  # fmt: skip


def test_a_slice_keeps_its_whole_alive_and_lies_in_it():
    uses = [Use("a", (), ("a",)), Use("b", (), ("b",)), Use("c", ("cut",), ("c",))]
    sizes = {"a": 192, "b": 64, "cut": 64, "c": 64}
    buffers = lifetimes(
        uses, sizes, outputs=["c"], views={"cut": "a"}, parts=[Containment("cut", "a", 128)]
    )
    assert summary(buffers)[0] == ("a", 192, 0, 3)
    assert buffers[0].parts == (BufferPart("cut", 128, 64, 2, 3, is_view=True),)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            (Containment("left", "whole"), Containment("right", "whole", 32)),
            "writes 'right' over 'left'",
        ),
        ((Containment("left", "whole"),), "sum reads .whole., of which not all has been written"),
        ((Containment("left", "whole"), Containment("right", "whole", 128)), "from byte 128 on"),
        ((*HALVES, Containment("right", "whole", 0)), "'right' cannot lie at byte 0 of 'whole'"),
    ],
)
def test_places_that_cannot_be_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        lifetimes(JOINED, JOINED_SIZES, outputs=["sum", "right"], parts=parts)


def test_reading_a_whole_before_its_last_part_is_written_is_refused():
    uses = [JOINED[0], JOINED[2], JOINED[1]]
    with pytest.raises(InputError, match="sum reads 'whole', of which not all has been written"):
        lifetimes(uses, JOINED_SIZES, outputs=["sum"], parts=HALVES)


def test_reading_a_slice_of_what_was_overwritten_is_refused():
    uses = [
        Use("a", (), ("a",)),
        Use("relu", ("a",), ("relu",), aliases=(("relu", "a"),)),
        Use("b", ("cut",), ("b",)),
    ]
    sizes = {"a": 128, "relu": 128, "cut": 64, "b": 64}
    with pytest.raises(InputError, match="b reads 'cut' after relu has overwritten it"):
        lifetimes(uses, sizes, views={"cut": "a"}, parts=[Containment("cut", "a", 64)])


def test_reading_what_was_overwritten_in_place_is_refused():
    uses = [
        Use("conv", (), ("conv",)),
        Use("relu", ("conv",), ("relu",), aliases=(("relu", "conv"),)),
        Use("add", ("conv", "relu"), ("add",)),
    ]
    sizes = {"conv": 64, "relu": 64, "add": 64}
    with pytest.raises(InputError, match="add reads 'conv' after relu has overwritten it"):
        lifetimes(uses, sizes, outputs=["add"])


def test_reading_a_view_of_what_was_overwritten_in_place_is_refused():
    uses = [
        Use("conv", (), ("conv",)),
        Use("relu", ("conv",), ("relu",), aliases=(("relu", "conv"),)),
        Use("add", ("flat", "relu"), ("add",)),
    ]
    sizes = {"conv": 64, "relu": 64, "add": 64, "flat": 64}
    with pytest.raises(InputError, match="add reads 'flat' after relu has overwritten it"):
        lifetimes(uses, sizes, outputs=["add"], views={"flat": "conv"})


def test_an_output_that_was_overwritten_in_place_is_refused():
    uses = [
        Use("conv", (), ("conv",)),
        Use("relu", ("conv",), ("relu",), aliases=(("relu", "conv"),)),
    ]
    with pytest.raises(InputError, match="the caller reads 'conv' after relu has overwritten"):
        lifetimes(uses, {"conv": 64, "relu": 64}, outputs=["conv", "relu"])


def test_overwriting_the_whole_of_a_concatenation_is_followed():
    uses = [
        Use("left", (), ("left",)),
        Use("relu", ("whole",), ("relu",), aliases=(("relu", "whole"),)),
        Use("add", ("whole",), ("add",)),
    ]
    sizes = {"left": 64, "whole": 64, "relu": 64, "add": 64}
    with pytest.raises(InputError, match="add reads 'whole' after relu has overwritten it"):
        lifetimes(uses, sizes, outputs=["add"], parts=[Containment("left", "whole")])


@pytest.mark.parametrize(
    ("uses", "views", "message"),
    [
        ([Use("b", ("conv_2",), ("b",))], {}, "b reads 'conv_2', which nothing has written before"),
        ([Use("b", (), ("b",)), Use("c", (), ("b",))], {}, "c writes 'b', which has been written"),
        ([Use("b", (), ("b",))], {"b": "v", "v": "b"}, "'v' is an alias of itself through 'b'"),
        (
            [Use("big", ("x",), ("big",), aliases=(("big", "x"),))],
            {},
            "'big' of 512 bytes lies in the storage of 'x', which has 64",
        ),
        ([Use("c", (), ("c",))], {}, "no size is given for 'c'"),
    ],
)
def test_programs_that_make_no_sense_are_refused(uses, views, message):
    sizes = {"x": 64, "b": 64, "big": 512, "v": 64}
    with pytest.raises(InputError, match=message):
        lifetimes(uses, sizes, inputs=["x"], views=views)


def test_a_misspelt_value_gets_a_near_name():
    with pytest.raises(InputError, match="did you mean 'conv_1'"):
        lifetimes([Use("relu", ("conv1",), ("relu",))], {"conv_1": 4}, inputs=["conv_1"])
