"""Layout assignment: which tensors are blocked, which carry a halo, and why not."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.origins import Origin, sources_of
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, run_pass
from explorer.ir.structure import index_operations
from explorer.ir.types import Layout, layout_of
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.place_on_device import PlaceOnDevice

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

INFINITY = float("inf")
BLOCKED = Layout(16)
IMAGE, STEM = "tensor<1x3x8x8xf32>", "tensor<1x24x8x8xf32>"


def conv(name: str, x: str, channels: tuple[int, int], pads=(1, 1, 1, 1), more: str = "") -> str:
    """A 3x3 convolution over 8x8 pixels whose pads keep the size; `more` are operands."""
    inside, outside = channels
    return f"""
      %{name}_w = top.weight() {{weight = "{name}_w"}} : tensor<{outside}x{inside}x3x3xf32>
      %{name} = top.conv(%{x}, %{name}_w{more}) {{strides = [1, 1], pads = {[*pads]},
        dilations = [1, 1], group = 1}} : tensor<1x{outside}x8x8xf32>"""


def main(body: str, returned: str = "%y", types: str = STEM, inputs: str = f"%x : {IMAGE}") -> str:
    return f"func.func @main({inputs}) -> ({types}) {{{body}\n      top.return({returned})\n}}"


class Assigned:
    """The program after the pass, checked to compute what it did before."""

    def __init__(self, text: str, block: int = 16, decisions: dict[str, object] | None = None):
        working = programs.program(text)
        inputs = programs.random_inputs(working.snapshot)
        before = working.snapshot.run(inputs)
        programs.run_passes(working, [PlaceOnDevice("cpu")])
        self.result = run_pass(AssignLayouts(block), working, RewriteOptions(decisions or {}))
        self.snapshot = self.result.after
        after = self.snapshot.run(inputs)
        for name in before:
            if name in after:
                np.testing.assert_array_equal(after[name], before[name], name)

    def layout(self, name: str) -> Layout:
        return layout_of(self.snapshot.operations[name].results[0])

    def read(self, name: str, operand: int = 0) -> Layout:
        return layout_of(self.snapshot.operations[name].operands[operand])

    def reader(self, name: str, operand: int = 0) -> str:
        """The value that an operation reads."""
        return index_operations(self.snapshot.walked)[name].operands[operand]

    @property
    def copies(self) -> list[tuple[str, Layout]]:
        """What is copied into which layout, in order."""
        return [
            (index_operations(self.snapshot.walked)[name].operands[0], self.layout(name))
            for name, op in self.snapshot.operations.items()
            if op.name == "top.convert_layout"
        ]

    @property
    def declined(self) -> dict[str, str]:
        return {r.site: r.reason for r in self.result.rewrites if not r.applied}


# -- blocks ----------------------------------------------------------------------------------------


def test_convolutions_write_blocks_and_the_stem_reads_plain():
    assigned = Assigned(main(conv("a", "x", (3, 24)) + conv("y", "a", (24, 24))))
    assert assigned.read("a") == Layout(0, (1, 1, 1, 1))
    assert assigned.layout("a") == Layout(16, (1, 1, 1, 1))
    assert assigned.layout("y") == BLOCKED
    assert assigned.copies == [("x.device", Layout(0, (1, 1, 1, 1))), ("y", Layout())]


def test_an_input_with_many_channels_is_blocked_first():
    text = main(conv("y", "x", (16, 24)), inputs="%x : tensor<1x16x8x8xf32>")
    assert Assigned(text).read("y") == Layout(16, (1, 1, 1, 1))


def test_block_zero_keeps_everything_plain_but_for_halos():
    assigned = Assigned(main(conv("a", "x", (3, 24)) + conv("y", "a", (24, 24))), block=0)
    assert assigned.layout("a") == Layout(0, (1, 1, 1, 1))
    assert assigned.layout("y") == Layout()
    assert assigned.declined == {"a": "blocking is off", "y": "blocking is off"}


def test_what_is_returned_is_plain():
    assigned = Assigned(main(conv("y", "x", (3, 24))))
    returned = assigned.snapshot.module.body.block.last_op.body.block.last_op.operands[0]
    assert layout_of(returned) == Layout()
    assert assigned.copies[-1] == ("y", Layout())


def test_a_grouped_convolution_is_declined_with_the_reason():
    body = (
        conv("a", "x", (3, 24))
        + """
      %g_w = top.weight() {weight = "g_w"} : tensor<24x12x3x3xf32>
      %y = top.conv(%a, %g_w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1],
        group = 2} : tensor<1x24x8x8xf32>"""
    )
    assigned = Assigned(main(body))
    assert assigned.declined == {"y": "its 2 groups would cut through blocks"}
    assert assigned.layout("y") == Layout()
    assert assigned.read("y") == Layout(0, (1, 1, 1, 1))


def test_groups_of_whole_blocks_stay_in_blocks():
    body = (
        conv("a", "x", (3, 64))
        + """
      %g_w = top.weight() {weight = "g_w"} : tensor<32x32x3x3xf32>
      %y = top.conv(%a, %g_w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1],
        group = 2} : tensor<1x32x8x8xf32>"""
    )
    assigned = Assigned(main(body, types="tensor<1x32x8x8xf32>"))
    assert assigned.layout("y") == BLOCKED
    assert assigned.reader("y") == "a"


@pytest.mark.parametrize(("outputs", "stride", "block"), [(8, 1, 0), (12, 1, 16), (8, 2, 16)])
def test_a_block_that_few_channels_leave_empty_gives_way_to_rows_of_pixels(outputs, stride, block):
    size = 30 // stride
    body = f"""
      %w = top.weight() {{weight = "w"}} : tensor<{outputs}x3x3x3xf32>
      %y = top.conv(%x, %w) {{strides = [1, {stride}], pads = [0, 0, 0, 0], dilations = [1, 1],
        group = 1}} : tensor<1x{outputs}x6x{size}xf32>"""
    types = f"tensor<1x{outputs}x6x{size}xf32>"
    assigned = Assigned(main(body, types=types, inputs="%x : tensor<1x3x8x32xf32>"))
    assert assigned.layout("y") == Layout(block)


@pytest.mark.parametrize(("outputs", "taps", "block"), [(4, 3, 0), (5, 3, 16), (4, 2, 16)])
def test_a_blocked_input_is_copied_for_very_few_channels_of_many_taps(outputs, taps, block):
    types = f"tensor<1x{outputs}x{19 - taps}x{19 - taps}xf32>"
    body = f"""
      %w = top.weight() {{weight = "w"}} : tensor<{outputs}x32x{taps}x{taps}xf32>
      %y = top.conv(%x, %w) {{strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1],
        group = 1}} : {types}"""
    assigned = Assigned(main(body, types=types, inputs="%x : tensor<1x32x18x18xf32>"))
    assert assigned.layout("y") == Layout(block)


def test_zeros_behind_the_channels_are_added_in_blocks():
    types = "tensor<1x40x9x8xf32>"
    body = (
        conv("a", "x", (3, 24))
        + f"""
      %y = top.pad(%a) {{low = [0, 0, 1, 0], high = [0, 16, 0, 0], interior = [0, 0, 0, 0],
        value = 0.0}} : {types}"""
    )
    assigned = Assigned(main(body, types=types))
    assert assigned.layout("y") == BLOCKED
    assert assigned.reader("y") == "a"


def test_a_transpose_reads_blocks_since_it_copies_anyway():
    types = "tensor<1x8x8x24xf32>"
    body = (
        conv("a", "x", (3, 24))
        + f"""
      %y = top.transpose(%a) {{permutation = [0, 2, 3, 1]}} : {types}"""
    )
    assigned = Assigned(main(body, types=types))
    assert assigned.read("y") == BLOCKED
    assert assigned.layout("y") == Layout()


POOL = """
      %y = top.pool(%x) {kind = "max", window = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0],
        dilations = [1, 1]} : """


def test_a_transpose_for_one_reader_writes_blocks_since_it_copies_anyway():
    pictures = "%x : tensor<1x8x8x32xf32>"
    moved = "%t = top.transpose(%x) {permutation = [0, 3, 1, 2]} : tensor<1x32x8x8xf32>" + conv(
        "y", "t", (32, 24)
    )
    one = Assigned(main(moved, inputs=pictures))
    assert one.layout("t") == Layout(16, (1, 1, 1, 1))
    assert one.reader("y") == "t"
    returned = main(moved, "%y, %t", f"{STEM}, tensor<1x32x8x8xf32>", pictures)
    two = Assigned(returned)
    assert two.layout("t") == Layout()
    assert two.reader("y") != "t"


@pytest.mark.parametrize(("channels", "block"), [(16, 16), (15, 0)])
def test_a_pool_of_many_channels_is_worth_a_copy_into_blocks(channels, block):
    kind = f"tensor<1x{channels}x7x7xf32>"
    text = main(POOL + kind, types=kind, inputs=f"%x : tensor<1x{channels}x8x8xf32>")
    assigned = Assigned(text)
    assert assigned.read("y") == assigned.layout("y") == Layout(block)


def test_a_local_response_normalization_stays_in_blocks():
    body = (
        conv("a", "x", (3, 24))
        + """
      %y = top.local_response_norm(%a) {size = 5, alpha = 1.0, beta = 0.75, bias = 1.0}
        : tensor<1x24x8x8xf32>"""
    )
    assert Assigned(main(body)).layout("y") == BLOCKED


def test_a_depthwise_convolution_stays_in_blocks():
    body = (
        conv("a", "x", (3, 24))
        + """
      %d_w = top.weight() {weight = "d_w"} : tensor<24x1x3x3xf32>
      %y = top.conv(%a, %d_w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1],
        group = 24} : tensor<1x24x8x8xf32>"""
    )
    assigned = Assigned(main(body))
    assert assigned.reader("y") == "a"
    assert assigned.layout("y") == BLOCKED


def test_filters_that_are_computed_are_declined():
    body = """
      %y = top.conv(%x, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}
        : tensor<1x24x8x8xf32>"""
    text = main(body, inputs=f"%x : {IMAGE}, %w : tensor<24x3x3x3xf32>")
    assert Assigned(text).declined == {
        "y": "its filters are not constant, so that they cannot be packed"
    }


def test_a_computed_bias_is_declined():
    """It has no zeros for the channels that fill up a block."""
    body = conv("y", "x", (3, 24), more=", bias = %b")
    assigned = Assigned(main(body, inputs=f"%x : {IMAGE}, %b : tensor<24xf32>"))
    assert assigned.declined == {
        "y": "its bias is computed, and has no zeros for the channels that fill up a block"
    }


def test_elementwise_operations_follow_what_they_read():
    body = (
        conv("a", "x", (3, 24))
        + f"""
      %k = top.weight() {{weight = "k"}} : tensor<1x24x1x1xf32>
      %b = top.binary(%a, %k) {{kind = "mul"}} : {STEM}
      %c = top.unary(%b) {{kind = "sigmoid"}} : {STEM}
      %y = top.binary(%c, %a) {{kind = "add"}} : {STEM}"""
    )
    assigned = Assigned(main(body))
    assert [assigned.layout(n) for n in "abcy"] == [BLOCKED] * 4


def test_what_may_make_infinities_of_zeros_reads_plain():
    """exp and its like: log(0) would stand in the padding channels of a blocked result."""
    body = (
        conv("a", "x", (3, 24))
        + f"""
      %e = top.unary(%a) {{kind = "exp"}} : {STEM}"""
        + conv("y", "e", (24, 24))
    )
    assigned = Assigned(main(body))
    assert assigned.read("e") == Layout()
    assert ("a", Layout()) in assigned.copies
    assert assigned.layout("e") == Layout()
    assert assigned.read("y") == Layout(16, (1, 1, 1, 1))


def test_a_residual_is_blocked_like_the_result():
    body = conv("y", "x", (3, 24), more=", residual = %z")
    assigned = Assigned(main(body, inputs=f"%x : {IMAGE}, %z : {STEM}"))
    assert assigned.read("y", 2) == BLOCKED
    body = conv("a", "x", (3, 24)) + conv("y", "a", (24, 24), more=", residual = %a")
    assigned = Assigned(main(body))
    assert assigned.reader("y", 0) == assigned.reader("y", 2) == "a"
    assert len(assigned.copies) == 2  # the input gets its halo, the output becomes plain


def test_a_plain_input_that_is_a_residual_too_is_blocked_for_that_alone():
    body = conv("y", "x", (5, 5), more=", residual = %x")
    few = STEM.replace("24", "5")
    assigned = Assigned(main(body, types=few, inputs=f"%x : {few}"))
    assert assigned.read("y") == Layout(0, (1, 1, 1, 1))
    assert assigned.read("y", 2) == BLOCKED


def test_a_global_average_stays_in_blocks():
    body = (
        conv("a", "x", (3, 24))
        + """
      %y = top.reduce(%a) {kind = "mean", axes = [2, 3], keepdims = true} : tensor<1x24x1x1xf32>"""
    )
    assert Assigned(main(body, types="tensor<1x24x1x1xf32>")).layout("y") == BLOCKED
    body = body.replace("[2, 3]", "[1]").replace("1x24x1x1", "1x1x8x8")
    assigned = Assigned(main(body, types="tensor<1x1x8x8xf32>"))
    assert assigned.layout("y") == Layout()
    assert assigned.read("y") == Layout()


def test_a_view_reads_plain():
    body = (
        conv("a", "x", (3, 24))
        + """
      %y = top.reshape(%a) {shape = [1, 1536]} : tensor<1x1536xf32>"""
    )
    assigned = Assigned(main(body, types="tensor<1x1536xf32>"))
    assert assigned.read("y") == Layout()
    assert assigned.copies[-1] == ("a", Layout())


def test_one_copy_serves_all_readers():
    body = (
        conv("a", "x", (3, 24))
        + f"""
      %b = top.unary(%a) {{kind = "exp"}} : {STEM}
      %c = top.unary(%a) {{kind = "exp"}} : {STEM}
      %y = top.binary(%b, %c) {{kind = "add"}} : {STEM}"""
    )
    assigned = Assigned(main(body))
    assert assigned.reader("b") == assigned.reader("c")
    assert [value for value, _ in assigned.copies] == ["x.device", "a"]


def test_a_copy_has_the_origin_of_what_it_copies():
    assigned = Assigned(main(conv("y", "x", (3, 24))))
    assert assigned.snapshot.origins[
        index_operations(assigned.snapshot.walked)["receive1"].identity
    ] == Origin("y")
    copies = [
        n for n, op in assigned.snapshot.operations.items() if op.name == "top.convert_layout"
    ]
    assert assigned.snapshot.origins[copies[-1]] == Origin("y")


# -- halos -----------------------------------------------------------------------------------------


def test_two_windows_share_the_larger_halo():
    body = (
        conv("a", "x", (3, 24))
        + conv("b", "a", (24, 24), (0, 1, 2, 1))
        + conv("c", "a", (24, 24), (2, 2, 0, 0))
        + f'\n      %y = top.binary(%b, %c) {{kind = "add"}} : {STEM}'
    )
    assigned = Assigned(main(body))
    assert assigned.layout("a") == Layout(16, (2, 2, 2, 1))
    assert assigned.reader("b") == assigned.reader("c") == "a"


def test_a_maximum_beside_a_convolution_gets_a_copy_with_its_own_fill():
    pool = f"""
      %p = top.pool(%a) {{kind = "max", window = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1],
        dilations = [1, 1]}} : {STEM}"""
    join = f'\n      %y = top.binary(%b, %p) {{kind = "add"}} : {STEM}'
    first = Assigned(main(conv("a", "x", (3, 24)) + conv("b", "a", (24, 24)) + pool + join))
    assert first.layout("a") == Layout(16, (1, 1, 1, 1), 0.0)
    assert first.read("p") == Layout(16, (1, 1, 1, 1), -INFINITY)
    second = Assigned(main(conv("a", "x", (3, 24)) + pool + conv("b", "a", (24, 24)) + join))
    assert second.layout("a") == Layout(16, (1, 1, 1, 1), -INFINITY)
    assert second.read("b") == Layout(16, (1, 1, 1, 1), 0.0)


def test_the_fill_of_integers_is_their_smallest_number():
    text = """func.func @main(%x : tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xi8> {
      %y = top.pool(%x) {kind = "max", window = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1],
        dilations = [1, 1]} : tensor<1x3x4x4xi8>
      top.return(%y)
    }"""
    assert Assigned(text).read("y") == Layout(0, (1, 1, 1, 1), -128.0)


def test_arguments_never_carry_a_halo_themselves():
    assigned = Assigned(main(conv("y", "x", (3, 24))))
    function = assigned.snapshot.module.body.block.last_op
    assert layout_of(function.body.block.args[0]) == Layout()


def test_a_window_without_padding_needs_no_halo():
    body = conv("y", "x", (3, 24), (0, 0, 0, 0)).replace("1x24x8x8", "1x24x6x6")
    assert Assigned(main(body, types="tensor<1x24x6x6xf32>")).read("y") == Layout()


# -- weights and overrides -------------------------------------------------------------------------


def test_a_returned_weight_is_copied_into_the_arena():
    body = """
      %k = top.weight() {weight = "k"} : tensor<5xf32>"""
    assigned = Assigned(main(body, returned="%k", types="tensor<5xf32>"))
    assert assigned.copies == [("k", Layout())]


def test_an_override_declines_one_block():
    text = main(conv("a", "x", (3, 24)) + conv("y", "a", (24, 24)))
    assigned = Assigned(text, decisions={"assign-layouts/blocked/a": False})
    assert assigned.declined == {"a": "declined by an override"}
    assert assigned.layout("a") == Layout()
    assert assigned.read("y") == Layout(16, (1, 1, 1, 1))
    assert assigned.layout("y") == BLOCKED


@pytest.mark.parametrize("block", [0, 4, 16])
def test_the_hosts_function_stays_as_it_is(block):
    assigned = Assigned(main(conv("y", "x", (3, 24))), block)
    host = assigned.snapshot.text.lines
    end = host.index("  }")
    assert host[:end] == assigned.result.before.text.lines[:end]


# -- decisions -------------------------------------------------------------------------------------

TWO = main(conv("a", "x", (3, 24)) + conv("y", "a", (24, 24)))


def knobs(assigned: Assigned) -> dict[str, tuple[object, tuple[object, ...]]]:
    found = assigned.result.artifacts[KNOBS]
    assert isinstance(found, tuple)
    return {knob.address: (knob.value, knob.choices) for knob in found}


def test_functions_and_values_are_knobs():
    assert knobs(Assigned(TWO)) == {
        "assign-layouts/block/main_cpu": (16, (0, 4, 8, 16)),
        "assign-layouts/blocked/a": (16, (0, 4, 8, 16)),
        "assign-layouts/blocked/y": (16, (0, 4, 8, 16)),
    }


def test_what_cannot_be_blocked_is_no_knob():
    text = main(
        conv("y", "x", (3, 24))
        + "\n      %z = top.softmax(%y) {axis = 1, logarithm = false} : "
        + STEM,
        "%z",
    )
    assert "assign-layouts/blocked/z" not in knobs(Assigned(text))


@pytest.mark.parametrize("block", [4, 8])
def test_a_function_gets_blocks_of_its_own(block):
    assigned = Assigned(TWO, decisions={"assign-layouts/block/main_cpu": block})
    assert (assigned.layout("a").block, assigned.layout("y").block) == (block, block)
    both = Assigned(TWO, decisions={"assign-layouts/block": block})
    assert both.snapshot.text.lines == assigned.snapshot.text.lines


@pytest.mark.parametrize(("first", "second"), [(4, 16), (16, 4), (0, 8), (8, 0), (True, False)])
def test_values_get_blocks_of_their_own(first, second):
    decisions = {"assign-layouts/blocked/a": first, "assign-layouts/blocked/y": second}
    assigned = Assigned(TWO, decisions=decisions)
    blocks = [16 if b is True else 0 if b is False else b for b in (first, second)]
    assert [assigned.layout("a").block, assigned.layout("y").block] == blocks
    assert {k: v for k, (v, _) in knobs(assigned).items() if "/blocked/" in k} == dict(
        zip(decisions, blocks, strict=True)
    )


def test_a_value_may_be_blocked_in_a_plain_function():
    assigned = Assigned(TWO, 0, {"assign-layouts/blocked/y": 8})
    assert (assigned.layout("a").block, assigned.layout("y").block) == (0, 8)
    assert assigned.declined == {"a": "blocking is off"}


def test_a_plain_value_was_declined_by_an_override():
    assigned = Assigned(TWO, decisions={"assign-layouts/blocked/a": 0})
    assert assigned.declined == {"a": "declined by an override"}


@pytest.mark.parametrize("value", [7, 32, -4, "plain", 4.0])
@pytest.mark.parametrize("address", ["assign-layouts/block/main_cpu", "assign-layouts/blocked/a"])
def test_blocks_that_are_not_legal_are_refused(address, value):
    with pytest.raises(InputError, match=f"{address} cannot be .*one of 0, 4, 8, 16"):
        Assigned(TWO, decisions={address: value})


def test_the_copy_of_an_input_comes_from_the_input():
    assigned = Assigned(main(conv("y", "x", (3, 24))))
    first, last = (
        op for op in assigned.snapshot.operations.values() if op.name == "top.convert_layout"
    )
    assert sources_of(first) == ("x",)
    assert sources_of(last) == sources_of(assigned.snapshot.operations["y"])


def test_a_copy_with_a_halo_is_not_what_is_returned():
    body = (
        conv("a", "x", (3, 24))
        + """
      %g_w = top.weight() {weight = "g_w"} : tensor<24x12x3x3xf32>
      %y = top.conv(%a, %g_w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1],
        group = 2} : tensor<1x24x8x8xf32>"""
    )
    assigned = Assigned(main(body, returned="%a, %y", types=f"{STEM}, {STEM}"))
    assert assigned.read("y") == Layout(0, (1, 1, 1, 1))
    assert [layout for _, layout in assigned.copies].count(Layout()) == 1


def test_a_bitcast_of_the_same_numbers_is_a_view_of_blocks():
    """Only the scale that the integers stand for is another one: nothing is copied."""
    kinds = [
        "!top.quantized<i32, 1.0:0>",
        "!top.quantized<i32, 0.5:0>",
        "!top.quantized<i8, 2.0:0>",
    ]
    a, b, c = (f"tensor<1x24x8x8x{kind}>" for kind in kinds)
    body = (
        conv("conv", "x", (3, 24))
        + f"""
      %q = top.quantize(%conv) {{to = {kinds[0]}}} : {a}
      %v = top.bitcast(%q) {{to = {kinds[1]}}} : {b}
      %y = top.requantize(%v) {{by = #top.requantization<{kinds[2]}, multiplier_shift 32,
        nearest_up>}} : {c}"""
    )
    found = Assigned(main(body, types=c))
    assert found.layout("v") == found.layout("q") == BLOCKED
    operation = found.snapshot.operations["v"]
    assert operation.is_view and found.reader("v") == "q" and found.reader("y") == "v"
