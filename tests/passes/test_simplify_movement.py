"""Every rule of movement: what it makes of the smallest program, and why it leaves another."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.passes.simplify.movement.gathers import evenly_spaced
from explorer.passes.simplify.simplify_movement import SimplifyMovement


def body(operations: str, returned: str = "%y", arguments: str = "%x: tensor<4x12xf32>") -> str:
    return f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"


def cut(name: str, value: str, starts, stops, steps, kind: str) -> str:
    return (
        f"{name} = top.slice({value}) {{starts = {starts}, steps = {steps}, stops = {stops}}} "
        f": tensor<{kind}xf32>\n"
    )


def pad(name: str, value: str, low, high, kind: str, number: float = 0.0) -> str:
    interior = [0] * len(low)
    return (
        f"{name} = top.pad({value}) {{low = {low}, high = {high}, interior = {interior}, "
        f"value = {number}}} : tensor<{kind}xf32>\n"
    )


def simplify(check, operations, returned="%y", arrays=None, **more):
    return check(SimplifyMovement(), body(operations, returned, **more), arrays)


# -- slices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "starts", "stops", "steps"),
    [
        (([0, 2], [4, 10], [1, 2]), ([1, 1], [3, 3], [1, 1]), [1, 4], [3, 7], [1, 2]),
        (([0, 11], [4, -1], [1, -1]), ([0, 0], [4, 3], [1, 1]), [0, 11], [4, 8], [1, -1]),
        (([0, 11], [4, -1], [1, -1]), ([0, 2], [4, -1], [1, -1]), [0, 9], [4, 12], [1, 1]),
    ],
)
def test_a_slice_of_a_slice_is_one_slice(check, first, second, starts, stops, steps):
    def shape(given_shape, bounds):
        ranges = [range(*b) for b in zip(*bounds, strict=True)]
        return "x".join(str(len(r)) for r in ranges)

    before = cut("%a", "%x", *first, shape((4, 12), first))
    before += cut("%y", "%a", *second, shape(None, second))
    checked = simplify(check, before)
    text = cut("%slice1", "%x", starts, stops, steps, shape(None, second)).strip()
    assert checked.lines == [text, "top.return(%slice1)"]
    assert checked.fired == ["merge-slices y"]


JOINED = "%j = top.concat(%x, %z, %v) {axis = 1} : tensor<4x14xf32>\n"
THREE = "%x: tensor<4x6xf32>, %z: tensor<4x4xf32>, %v: tensor<4x4xf32>"


def test_a_slice_of_one_input_of_a_concat_reads_that_input(check):
    operations = JOINED + cut("%y", "%j", [0, 7], [4, 9], [1, 1], "4x2")
    assert simplify(check, operations, arguments=THREE).lines == [
        cut("%slice1", "%z", [0, 1], [4, 3], [1, 1], "4x2").strip(),
        "top.return(%slice1)",
    ]


def test_a_slice_of_two_of_three_inputs_joins_only_these(check):
    operations = JOINED + cut("%y", "%j", [0, 12], [4, 7], [1, -2], "4x3")
    checked = simplify(check, operations, arguments=THREE)
    assert checked.lines == [
        "%concat1 = top.concat(%z, %v) {axis = 1} : tensor<4x8xf32>",
        cut("%slice1", "%concat1", [0, 6], [4, 1], [1, -2], "4x3").strip(),
        "top.return(%slice1)",
    ]
    assert checked.fired == ["slice-one-input y"]


def test_a_slice_that_needs_all_inputs_stays(check):
    operations = JOINED + cut("%y", "%j", [0, 1], [4, 12], [1, 1], "4x11")
    assert not simplify(check, operations, arguments=THREE).fired


def test_a_slice_inside_of_a_pad_reads_what_was_padded(check):
    operations = pad("%p", "%x", [1, 2], [0, 3], "5x17") + cut(
        "%y", "%p", [1, 3], [4, 13], [1, 2], "3x5"
    )
    assert simplify(check, operations).lines[0] == (
        cut("%slice1", "%x", [0, 1], [3, 10], [1, 2], "3x5").strip()
    )


def test_a_slice_of_what_a_pad_adds_stays(check):
    operations = pad("%p", "%x", [1, 2], [0, 3], "5x17") + cut(
        "%y", "%p", [0, 3], [4, 13], [1, 2], "4x5"
    )
    assert simplify(check, operations).declined == [
        "slice-before-pad y: y takes some of what p adds"
    ]


def test_a_slice_of_an_expand_repeats_less(check):
    operations = "%e = top.expand(%x) {shape = [5, 4, 12]} : tensor<5x4x12xf32>\n" + cut(
        "%y", "%e", [1, 0, 3], [3, 4, 9], [1, 1, 1], "2x4x6"
    )
    assert simplify(check, operations).lines == [
        cut("%slice1", "%x", [0, 3], [4, 9], [1, 1], "4x6").strip(),
        "%expand1 = top.expand(%slice1) {shape = [2, 4, 6]} : tensor<2x4x6xf32>",
        "top.return(%expand1)",
    ]


# -- concats ---------------------------------------------------------------------------------------


def test_a_concat_in_a_concat_is_joined_at_once(check):
    operations = """
      %j = top.concat(%x, %z) {axis = 1} : tensor<4x10xf32>
      %y = top.concat(%v, %j) {axis = 1} : tensor<4x14xf32>
    """
    assert simplify(check, operations, arguments=THREE).lines == [
        "%concat1 = top.concat(%v, %x, %z) {axis = 1} : tensor<4x14xf32>",
        "top.return(%concat1)",
    ]
    kept = simplify(check, operations, "%y, %j", arguments=THREE)
    assert kept.declined == ["merge-concats y: j is needed elsewhere too"]


def test_an_input_without_elements_is_dropped(check):
    operations = "%y = top.concat(%x, %e, %x) {axis = 1} : tensor<4x12xf32>"
    checked = simplify(check, operations, arguments="%x: tensor<4x6xf32>, %e: tensor<4x0xf32>")
    assert checked.lines[0] == "%concat1 = top.concat(%x, %x) {axis = 1} : tensor<4x12xf32>"


def test_neighbouring_slices_are_one_slice_or_nothing(check):
    operations = (
        cut("%a", "%x", [0, 0], [4, 5], [1, 1], "4x5")
        + cut("%b", "%x", [0, 5], [4, 12], [1, 1], "4x7")
        + "%y = top.concat(%a, %b) {axis = 1} : tensor<4x12xf32>"
    )
    checked = simplify(check, operations)
    assert checked.lines == ["top.return(%x)"]
    assert checked.fired[0] == "join-neighbours y"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (([0, 0], [4, 5], [1, 1]), ([0, 6], [4, 12], [1, 1])),
        (([0, 0], [4, 5], [1, 1]), ([0, 5], [4, 12], [1, 2])),
        (([0, 0], [3, 5], [1, 1]), ([1, 5], [4, 12], [1, 1])),
        (([0, 5], [4, 12], [1, 1]), ([0, 0], [4, 5], [1, 1])),
    ],
    ids=["gap", "step", "other rows", "other order"],
)
def test_slices_that_do_not_continue_one_another_stay_joined(check, first, second):
    def kind(bounds):
        return "x".join(str(len(range(*b))) for b in zip(*bounds, strict=True))

    total = sum(int(kind(b).split("x")[1]) for b in (first, second))
    rows = kind(first).split("x")[0]
    operations = (
        cut("%a", "%x", *first, kind(first))
        + cut("%b", "%x", *second, kind(second))
        + f"%y = top.concat(%a, %b) {{axis = 1}} : tensor<{rows}x{total}xf32>"
    )
    assert not simplify(check, operations).fired


def test_neighbouring_constants_are_joined(check):
    operations = """
      %c = top.weight() {weight = "c"} : tensor<4x1xf32>
      %d = top.weight() {weight = "d"} : tensor<4x2xf32>
      %y = top.concat(%c, %d, %x) {axis = 1} : tensor<4x15xf32>
    """
    checked = simplify(check, operations)
    assert checked.lines[0] == "%concat1 = top.concat(%w1, %x) {axis = 1} : tensor<4x15xf32>"
    assert checked.weight("w1").shape == (4, 3)


# -- pads ------------------------------------------------------------------------------------------

IMAGE = "%x: tensor<1x3x8x8xf32>"
WEIGHT = '%w = top.weight() {weight = "w"} : tensor<4x3x3x3xf32>\n'


def conv(value: str, pads, kind: str) -> str:
    return (
        f"%y = top.conv({value}, %w) {{dilations = [1, 1], group = 1, pads = {pads}, "
        f"strides = [1, 1]}} : tensor<{kind}xf32>"
    )


def pool(value: str, pads, kind: str, which: str, more: str = "") -> str:
    return (
        f'%y = top.pool({value}) {{dilations = [1, 1], {more}kind = "{which}", pads = {pads}, '
        f"strides = [1, 1], window = [3, 3]}} : tensor<{kind}xf32>"
    )


def test_two_pads_of_the_same_number_are_one(check):
    operations = pad("%a", "%x", [1, 0], [0, 2], "5x14") + pad("%y", "%a", [0, 3], [1, 0], "6x17")
    checked = simplify(check, operations)
    assert "low = [1, 3]" in checked.lines[0] and "high = [1, 2]" in checked.lines[0]
    other = pad("%a", "%x", [1, 0], [0, 2], "5x14") + pad(
        "%y", "%a", [0, 3], [1, 0], "6x17", number=1.0
    )
    assert simplify(check, other).declined == ["merge-pads y: a adds 0.0, not 1.0"]


def test_a_convolution_pads_by_itself(check):
    operations = (
        WEIGHT
        + pad("%p", "%x", [0, 0, 1, 0], [0, 0, 0, 2], "1x3x9x10")
        + conv("%p", [1, 1, 1, 1], "1x4x9x10")
    )
    checked = simplify(check, operations, arguments=IMAGE)
    assert checked.fired == ["pad-by-conv y"]
    assert "top.conv(%x, %w)" in checked.lines[0] and "pads = [2, 1, 1, 3]" in checked.lines[0]
    assert checked.sources("conv1") == ("p", "y")


@pytest.mark.parametrize(
    ("low", "number", "reason"),
    [
        ([0, 0, 1, 0], 1.0, "p adds 1.0, a convolution zeros"),
        ([1, 0, 1, 0], 0.0, "p pads batch or channels, too"),
    ],
)
def test_a_convolution_declines_other_pads(check, low, number, reason):
    batch = 1 + low[0]
    operations = (
        WEIGHT
        + pad("%p", "%x", low, [0, 0, 0, 0], f"{batch}x3x9x8", number)
        + conv("%p", [1, 1, 1, 1], f"{batch}x4x9x8")
    )
    checked = simplify(check, operations, arguments=IMAGE)
    assert checked.declined == [f"pad-by-conv y: {reason}"]


QUANTIZED = "!top.quantized<i8, 0.5:-3>"
INTEGER_SUMS = "!top.quantized<i32, 0.125:0>"


@pytest.mark.parametrize(("number", "fires"), [(-3.0, True), (0.0, False)])
def test_a_convolution_of_integers_pads_with_the_zero_point(check, number, fires):
    padded = f"tensor<1x3x9x8x{QUANTIZED}>"
    operations = f"""
      %w = top.weight() {{weight = "w"}} : tensor<4x3x3x3x!top.quantized<i8, 0.25:0>>
      %q = top.bitcast(%x) {{to = {QUANTIZED}}} : tensor<1x3x8x8x{QUANTIZED}>
      %p = top.pad(%q) {{low = [0, 0, 1, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0],
        value = {number}}} : {padded}
      %y = top.conv(%p, %w) {{dilations = [1, 1], group = 1, pads = [1, 1, 1, 1],
        strides = [1, 1]}} : tensor<1x4x9x8x{INTEGER_SUMS}>
      %r = top.bitcast(%y) {{to = i32}} : tensor<1x4x9x8xi32>
      top.return(%r)"""
    filters = np.random.default_rng(0).integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)
    text = f"func.func @main(%x: tensor<1x3x8x8xi8>) {{{operations}\n}}"
    checked = check(SimplifyMovement(), text, {"w": filters})
    assert checked.fired == (["pad-by-conv y"] if fires else [])
    if not fires:
        assert checked.declined == ["pad-by-conv y: p adds 0.0, a convolution -3.0"]


def test_a_convolution_takes_over_a_pad_before_a_transpose(check):
    """As formats have it whose pictures have their channels last."""
    operations = (
        WEIGHT
        + pad("%p", "%x", [0, 1, 2, 0], [0, 3, 0, 0], "1x10x9x3")
        + "%t = top.transpose(%p) {permutation = [0, 3, 1, 2]} : tensor<1x3x10x9xf32>\n"
        + conv("%t", [1, 1, 1, 1], "1x4x10x9")
    )
    checked = simplify(check, operations, arguments="%x: tensor<1x6x7x3xf32>")
    assert checked.fired == ["pad-by-conv y", "erase-unused t", "erase-unused p"]
    assert "top.transpose(%x)" in checked.lines[0]
    assert "pads = [2, 3, 4, 1]" in checked.lines[1]


def test_an_average_counts_the_padding_that_it_takes_over(check):
    operations = pad("%p", "%x", [0, 0, 1, 1], [0, 0, 1, 1], "1x3x10x10") + pool(
        "%p", [0, 0, 0, 0], "1x3x8x8", "average", "includes_padding = false, "
    )
    checked = simplify(check, operations, arguments=IMAGE)
    assert "includes_padding = true" in checked.lines[0]
    assert "pads = [1, 1, 1, 1]" in checked.lines[0]


def test_a_maximum_takes_over_zeros_around_what_is_not_negative(check):
    padded = pad("%p", "%r", [0, 0, 1, 1], [0, 0, 1, 1], "1x3x10x10")
    pooled = pool("%p", [0, 0, 0, 0], "1x3x8x8", "max")
    relu = '%r = top.unary(%x) {kind = "relu"} : tensor<1x3x8x8xf32>\n'
    checked = simplify(check, relu + padded + pooled, arguments=IMAGE)
    assert checked.fired == ["pad-by-pool y"]
    checked = simplify(check, padded.replace("%r", "%x") + pooled, arguments=IMAGE)
    assert checked.declined == ["pad-by-pool y: the 0.0 that p adds may be a maximum"]


# -- gathers and expands ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "kind", "lines"),
    [
        ([4, 6, 8], "3", [cut("%slice1", "%x", [0, 4], [4, 9], [1, 2], "4x3").strip()]),
        ([-1, -2], "2", [cut("%slice1", "%x", [0, 11], [4, 9], [1, -1], "4x2").strip()]),
        (
            [[0, 1], [2, 3]],
            "2x2",
            [
                cut("%slice1", "%x", [0, 0], [4, 4], [1, 1], "4x4").strip(),
                "%reshape1 = top.reshape(%slice1) {shape = [4, 2, 2]} : tensor<4x2x2xf32>",
            ],
        ),
    ],
)
def test_a_gather_at_even_distances_is_a_slice(check, indices, kind, lines):
    operations = f"""
      %i = top.weight() {{weight = "i"}} : tensor<{kind}xi64>
      %y = top.gather(%x, %i) {{axis = 1}} : tensor<4x{kind}xf32>
    """
    checked = simplify(check, operations, arrays={"i": np.array(indices, np.int64)})
    assert checked.lines[:-1] == lines


def test_a_gather_at_uneven_distances_stays(check):
    operations = """
      %i = top.weight() {weight = "i"} : tensor<3xi64>
      %y = top.gather(%x, %i) {axis = 1} : tensor<4x3xf32>
    """
    checked = simplify(check, operations, arrays={"i": np.array([1, 2, 5], np.int64)})
    assert checked.declined == ["slice-instead y: the positions of y are not evenly spaced"]


def test_two_gathers_along_an_axis_are_one(check):
    operations = """
      %i = top.weight() {weight = "i"} : tensor<3xi64>
      %j = top.weight() {weight = "j"} : tensor<4xi64>
      %a = top.gather(%x, %i) {axis = 1} : tensor<4x3xf32>
      %y = top.gather(%a, %j) {axis = 1} : tensor<4x4xf32>
    """
    arrays = {"i": np.array([7, 0, 5]), "j": np.array([2, 0, 0, 1])}
    checked = simplify(check, operations, arrays=arrays)
    assert checked.lines[0] == "%gather1 = top.gather(%x, %w1) {axis = 1} : tensor<4x4xf32>"
    np.testing.assert_array_equal(checked.weight("w1"), [5, 7, 7, 0])


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5), st.integers(1, 9))
def test_evenly_spaced_positions_are_those_positions(positions, size):
    found = evenly_spaced(np.array(positions), size)
    inside = [p + size if p < 0 else p for p in positions]
    if found is not None:
        assert list(found) == inside
        return
    distances = {b - a for a, b in pairwise(inside)}
    assert not all(0 <= p < size for p in inside) or len(distances) > 1 or distances == {0}


def test_an_expanded_operand_is_read_as_it_was(check):
    operations = """
      %e = top.expand(%z) {shape = [4, 12]} : tensor<4x12xf32>
      %f = top.expand(%e) {shape = [2, 4, 12]} : tensor<2x4x12xf32>
      %y = top.select(%c, %f, %x) : tensor<2x4x12xf32>
    """
    arguments = "%x: tensor<2x4x12xf32>, %z: tensor<12xf32>, %c: tensor<4x12xi1>"
    assert simplify(check, operations, arguments=arguments).lines == [
        "%y = top.select(%c, %z, %x) : tensor<2x4x12xf32>",
        "top.return(%y)",
    ]


def test_a_batched_matmul_broadcasts_by_itself(check):
    operations = """
      %e = top.expand(%z) {shape = [2, 12, 5]} : tensor<2x12x5xf32>
      %y = top.matmul(%x, %e) : tensor<2x4x5xf32>
    """
    arguments = "%x: tensor<2x4x12xf32>, %z: tensor<12x5xf32>"
    assert simplify(check, operations, arguments=arguments).lines[0] == (
        "%y = top.matmul(%x, %z) : tensor<2x4x5xf32>"
    )


# -- reductions ------------------------------------------------------------------------------------


def reduce(name: str, value: str, kind: str, axes, keepdims: bool, shape: str) -> str:
    keep = str(keepdims).lower()
    return (
        f'{name} = top.reduce({value}) {{axes = {axes}, keepdims = {keep}, kind = "{kind}"}} '
        f": tensor<{shape}xf32>\n"
    )


CUBE = "%x: tensor<2x3x4xf32>"


def test_a_reduction_over_one_element_is_a_reshape(check):
    operations = reduce("%y", "%x", "mean", [1], False, "4x6")
    checked = simplify(check, operations, arguments="%x: tensor<4x1x6xf32>")
    assert checked.lines[0] == "%reshape1 = top.reshape(%x) {shape = [4, 6]} : tensor<4x6xf32>"
    kept = reduce("%y", "%x", "sum", [1], True, "4x1x6")
    assert simplify(check, kept, arguments="%x: tensor<4x1x6xf32>").lines == ["top.return(%x)"]


@pytest.mark.parametrize("keepdims", [True, False])
def test_two_reductions_in_a_row_are_one(check, keepdims):
    between, behind = ("2x1x4", "2x1x1") if keepdims else ("2x4", "2")
    second = [2] if keepdims else [1]
    operations = reduce("%a", "%x", "sum", [1], keepdims, between) + reduce(
        "%y", "%a", "sum", second, keepdims, behind
    )
    checked = simplify(check, operations, arguments=CUBE)
    assert checked.lines[0] == (reduce("%reduce1", "%x", "sum", [1, 2], keepdims, behind).strip())


def test_reductions_of_different_kinds_stay(check):
    operations = reduce("%a", "%x", "sum", [1], True, "2x1x4") + reduce(
        "%y", "%a", "max", [2], True, "2x1x1"
    )
    assert not simplify(check, operations, arguments=CUBE).fired


def test_a_mean_over_flattened_axes_is_one_over_these_axes(check):
    operations = "%r = top.reshape(%x) {shape = [1, 3, 64]} : tensor<1x3x64xf32>\n" + reduce(
        "%y", "%r", "mean", [2], False, "1x3"
    )
    assert simplify(check, operations, arguments=IMAGE).lines == [
        reduce("%reduce1", "%x", "mean", [2, 3], True, "1x3x1x1").strip(),
        "%reshape1 = top.reshape(%reduce1) {shape = [1, 3]} : tensor<1x3xf32>",
        "top.return(%reshape1)",
    ]


def test_a_reduction_of_a_part_of_an_axis_declines(check):
    operations = "%r = top.reshape(%x) {shape = [2, 3, 2, 2]} : tensor<2x3x2x2xf32>\n" + reduce(
        "%y", "%r", "mean", [2], False, "2x3x2"
    )
    checked = simplify(check, operations, arguments=CUBE)
    assert checked.declined == ["reduce-before-reshape y: y reduces a part of an axis"]


def test_axes_that_are_put_back_are_kept_at_once(check):
    operations = (
        reduce("%a", "%x", "max", [1], False, "2x4")
        + "%y = top.reshape(%a) {shape = [2, 1, 4]} : tensor<2x1x4xf32>"
    )
    assert simplify(check, operations, arguments=CUBE).lines[0] == (
        reduce("%reduce1", "%x", "max", [1], True, "2x1x4").strip()
    )


@pytest.mark.parametrize(
    ("inner", "outer", "kind"),
    [
        ('top.binary(%x, %x) {kind = "mul"}', "sum", "sum_square"),
        ('top.unary(%x) {kind = "abs"}', "sum", "l1"),
    ],
)
def test_sums_of_squares_and_magnitudes_have_a_name(check, inner, outer, kind):
    operations = f"%a = {inner} : tensor<2x3x4xf32>\n" + reduce(
        "%y", "%a", outer, [1], True, "2x1x4"
    )
    checked = simplify(check, operations, arguments=CUBE)
    assert checked.lines[0] == reduce("%reduce1", "%x", kind, [1], True, "2x1x4").strip()


def test_the_root_of_a_sum_of_squares_is_a_norm(check):
    operations = (
        reduce("%a", "%x", "sum_square", [1], True, "2x1x4")
        + '%y = top.unary(%a) {kind = "sqrt"} : tensor<2x1x4xf32>'
    )
    assert 'kind = "l2"' in simplify(check, operations, arguments=CUBE).lines[0]


def test_a_mean_of_squares_is_a_sum_of_squares_over_the_count(check):
    operations = '%a = top.binary(%x, %x) {kind = "mul"} : tensor<2x3x4xf32>\n' + reduce(
        "%y", "%a", "mean", [2], True, "2x3x1"
    )
    checked = simplify(check, operations, arguments=CUBE)
    assert checked.lines[:2] == [
        reduce("%reduce1", "%x", "sum_square", [2], True, "2x3x1").strip(),
        '%mul1 = top.binary(%reduce1, %w1) {kind = "mul"} : tensor<2x3x1xf32>',
    ]
    assert checked.weight("w1") == 0.25


def test_a_sum_over_the_count_is_a_mean(check):
    operations = (
        '%c = top.weight() {weight = "c"} : tensor<f32>\n'
        + reduce("%a", "%x", "sum", [1, 2], False, "2")
        + '%y = top.binary(%a, %c) {kind = "mul"} : tensor<2xf32>'
    )
    checked = simplify(check, operations, arguments=CUBE, arrays={"c": np.float32(1 / 12)})
    assert checked.lines[0] == reduce("%reduce1", "%x", "mean", [1, 2], False, "2").strip()
    other = simplify(check, operations, arguments=CUBE, arrays={"c": np.float32(1 / 11)})
    assert not other.fired


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_chain_of_slices_and_concats_keeps_its_elements(check, data):
    """Slices of random bounds, concats of slices: the numbers stay exactly, copies get fewer."""
    size, lines, values = 12, [], [("%x", 12)]
    for index in range(data.draw(st.integers(2, 6))):
        source, length = data.draw(st.sampled_from(values))
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, length - 1))
            stop = data.draw(st.integers(start + 1, length))
            step = data.draw(st.integers(1, 3))
            size = len(range(start, stop, step))
            lines.append(cut(f"%v{index}", source, [0, start], [4, stop], [1, step], f"4x{size}"))
        else:
            other, more = data.draw(st.sampled_from(values))
            size = length + more
            lines.append(
                f"%v{index} = top.concat({source}, {other}) {{axis = 1}} : tensor<4x{size}xf32>\n"
            )
        values.append((f"%v{index}", size))
    checked = simplify(check, "".join(lines), values[-1][0])
    assert checked.result.after.operation_count <= checked.result.before.operation_count


# -- strided slices that are joined ---------------------------------------------------------------


def every_second(name: str, row: int, column: int) -> str:
    return cut(f"%{name}", "%x", [0, 0, row, column], [1, 3, 4, 6], [1, 1, 2, 2], "1x3x2x3")


CORNERS = {"a": (0, 0), "b": (1, 0), "c": (0, 1), "d": (1, 1)}
PIXELS = "%x: tensor<1x3x4x6xf32>"


def focus(check, order: str, **more):
    operations = "".join(every_second(name, *CORNERS[name]) for name in "abcd")
    joined = ", ".join(f"%{name}" for name in order)
    operations += f"%y = top.concat({joined}) {{axis = 1}} : tensor<1x12x2x3xf32>"
    return simplify(check, operations, arguments=PIXELS, **more)


@pytest.mark.parametrize(
    ("order", "permutation"), [("abcd", [0, 5, 3, 1, 2, 4]), ("acbd", [0, 3, 5, 1, 2, 4])]
)
def test_a_focus_is_one_transpose_between_views(check, order, permutation):
    checked = focus(check, order)
    assert [line.split(" = ", 1)[1].split(" : ")[0] for line in checked.lines[:3]] == [
        "top.reshape(%x) {shape = [1, 3, 2, 2, 3, 2]}",
        f"top.transpose(%reshape1) {{permutation = {permutation}}}",
        "top.reshape(%transpose1) {shape = [1, 12, 2, 3]}",
    ]
    assert checked.result.after.origins["transpose1"].tensor == "y"


def test_a_step_along_one_axis_is_enough(check):
    operations = (
        cut("%a", "%x", [0, 0], [4, 12], [1, 3], "4x4")
        + cut("%b", "%x", [0, 1], [4, 12], [1, 3], "4x4")
        + cut("%c", "%x", [0, 2], [4, 12], [1, 3], "4x4")
        + "%y = top.concat(%a, %b, %c) {axis = 0} : tensor<12x4xf32>"
    )
    checked = simplify(check, operations)
    assert "{permutation = [2, 0, 1]}" in checked.lines[1]


def test_slices_in_no_regular_order_stay(check):
    checked = focus(check, "adbc")
    assert not checked.fired
    assert checked.declined[0].endswith("are not all those of their steps, in a regular order")


def test_slices_that_others_read_are_made_anyway(check):
    checked = focus(check, "abcd", returned="%y, %c")
    assert not checked.fired
    assert checked.declined == ["join-strided-slices y: c is needed elsewhere too"]
