"""Pixels that a stride leaves over are copied together, where whoever knows the core says so."""

from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, run_pass
from explorer.ir.types import Layout, layout_of
from explorer.kernels.cost.gathering import GatheringCosts
from explorer.kernels.cost.machine import CostMachine, cache_levels
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.gather_pixels import GatherPixels, StridedPixels
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.targets.core_families import core_family

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

KEEPS = Layout(8)


@dataclass(frozen=True)
class Always:
    """A judge with one answer, which remembers nothing."""

    answer: bool = True

    def pays(self, pixels):
        return self.answer, f"{pixels.width} pixels, every {pixels.stride}nd"


def text(window=1, stride=2, pads=0, behind=""):
    """A pointwise convolution makes blocks, and one with a stride reads them."""
    size = (8 + 2 * pads - window) // stride + 1
    own = f"tensor<1x16x{size}x{size}xf32>"
    return f"""
func.func @main(%x : tensor<1x8x8x8xf32>) -> ({own}) {{
  %a_w = top.weight() {{weight = "a_w"}} : tensor<8x8x1x1xf32>
  %y_w = top.weight() {{weight = "y_w"}} : tensor<16x8x{window}x{window}xf32>
  %b = top.weight() {{weight = "b"}} : tensor<16xf32>
  %a = top.conv(%x, %a_w) {{strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1],
    group = 1}} : tensor<1x8x8x8xf32>
  %y = top.conv(%a, %y_w, bias = %b) {{strides = [{stride}, {stride}],
    pads = [{pads}, {pads}, {pads}, {pads}], dilations = [1, 1], group = 1,
    activation = "relu"}} : {own}
  {behind or "top.return(%y)"}
}}
"""


class Gathered:
    """A program after the pass, checked to compute the very same numbers as before."""

    def __init__(self, source, judge=Always(), decisions=None):
        working = programs.program(source)
        inputs = programs.random_inputs(working.snapshot)
        before = working.snapshot.run(inputs)
        programs.run_passes(working, [PlaceOnDevice("cpu"), AssignLayouts(8)])
        self.result = run_pass(GatherPixels(judge), working, RewriteOptions(decisions or {}))
        after = self.result.after.run(inputs)
        returned = self.result.after.module.body.block.first_op.body.block.last_op.operands
        name, *_ = (value.name_hint for value in returned)
        np.testing.assert_array_equal(after[name], before["y"])
        self.operations = self.result.after.operations
        self.knobs = self.result.artifacts[KNOBS]

    @property
    def copies(self):
        return [op for op in self.operations.values() if op.name == "top.slice"]

    @property
    def declined(self):
        return {r.site: r.reason for r in self.result.rewrites if not r.applied}


def test_a_convolution_reads_every_second_pixel_from_a_copy():
    found = Gathered(text())
    (copy,) = found.copies
    assert copy.get("steps") == (1, 1, 2, 2)
    assert layout_of(copy.output) == KEEPS
    convolution = copy.output.first_use.operation
    assert convolution.get("strides") == (1, 1)
    assert convolution.input is copy.output
    assert convolution.get("activation") == "relu"
    assert layout_of(convolution.output) == KEEPS


def test_what_does_not_pay_is_declined_with_the_reason():
    found = Gathered(text(), Always(False))
    assert found.copies == []
    assert found.declined == {"y": "4 pixels, every 2nd"}
    (knob,) = found.knobs
    assert (knob.address, knob.value) == ("gather-pixels/gather/y", False)


@pytest.mark.parametrize("answer", [True, False])
def test_a_decision_overrides_the_judge(answer):
    found = Gathered(text(), Always(answer), {"gather-pixels/gather/y": not answer})
    assert len(found.copies) == (not answer)
    assert found.knobs[0].why.startswith(
        f"an override; by itself it would be {str(answer).lower()}"
    )


def test_a_decision_is_true_or_false():
    with pytest.raises(InputError, match="gather-pixels/gather/y cannot be 'twice'"):
        Gathered(text(), decisions={"gather-pixels/gather/y": "twice"})


def test_others_are_no_candidates():
    assert Gathered(text(stride=1)).knobs == ()
    assert Gathered(text(window=3, pads=1)).knobs == ()
    assert Gathered(text(pads=1)).knobs == ()


def test_rows_with_a_halo_are_not_joined_and_stay():
    behind = """%z_w = top.weight() {weight = "z_w"} : tensor<16x16x3x3xf32>
  %z = top.conv(%y, %z_w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1],
    group = 1} : tensor<1x16x4x4xf32>
  top.return(%y, %z)"""
    source = text(behind=behind).replace("-> (", "-> (tensor<1x16x4x4xf32>, ")
    assert Gathered(source).copies == []


# -- the judge -------------------------------------------------------------------------------------


def judged(core, lanes, inputs, outputs, size):
    family = core_family(core)
    machine = CostMachine(lanes, core=family.core, caches=cache_levels(family.caches, {}))
    pixels = StridedPixels(
        input_channels=inputs,
        output_channels=outputs,
        height=size,
        width=size,
        stride=2,
        block=lanes,
        joins_rows=size <= 16,
    )
    return GatheringCosts(machine).pays(pixels)


def test_rows_of_seven_pixels_are_joined_where_registers_are_few():
    """16 registers hold tiles of 2 rows x 7 pixels x 1 vector, or of 5 of 49 pixels x 2 vectors;
    32 hold 7 x 2 and more, of which nothing is left over."""
    pays, why = judged("zen3", 8, 1024, 2048, 7)
    assert pays
    assert why.endswith("of the copy, 25,088 to make it")
    assert not judged("zen4", 16, 1024, 2048, 7)[0]


def test_few_channels_are_not_worth_a_copy():
    assert not judged("zen3", 8, 64, 128, 28)[0]
