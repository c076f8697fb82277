"""Lowering to kernels: launches keep who they are, equal definitions share, weights are padded."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import UnsupportedError
from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.origins import Origin, sources_of
from explorer.ir.structure import kernel_functions
from explorer.ir.top.data import WeightOp
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.lower_to_kernels import LowerToKernels, define_kernel
from explorer.passes.lower.place_on_device import PlaceOnDevice

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

ATTRIBUTES = "{strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}"
CONVOLUTIONS = f"""
func.func @main(%x : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32> {{
  %w1 = top.weight() {{weight = "w1"}} : tensor<5x5x3x3xf32>
  %b1 = top.weight() {{weight = "b1"}} : tensor<5xf32>
  %w2 = top.weight() {{weight = "w2"}} : tensor<5x5x3x3xf32>
  %a = top.conv(%x, %w1, bias = %b1) {ATTRIBUTES} : tensor<1x5x4x4xf32>
  %b = top.conv(%a, %w2, bias = %b1) {ATTRIBUTES} : tensor<1x5x4x4xf32>
  %y = top.conv(%b, %w1, bias = %b1) {ATTRIBUTES} : tensor<1x5x4x4xf32>
  top.return(%y)
}}
"""


def lowered(text: str, lanes: int = 4):
    passes = [PlaceOnDevice("cpu"), AssignLayouts(lanes), LowerToKernels()]
    return programs.run_passes(programs.program(text), passes)[-1]


def launches(result) -> dict[str, LaunchOp]:
    return {k: op for k, op in result.after.operations.items() if isinstance(op, LaunchOp)}


def test_operations_become_launches_with_the_same_identity_origin_and_sources():
    result = lowered(CONVOLUTIONS)
    for name in ("a", "b", "y"):
        launch = launches(result)[name]
        assert launch.get("operation") == "top.conv"
        assert result.after.origins[name] == Origin(name)
        assert sources_of(launch) == (f"node_{name}",)
        assert launch.macs() == result.before.operations[name].macs() == 5 * 5 * 9 * 16
    assert not [op for op in result.after.operations.values() if op.name == "top.conv"]
    assert result.after.level == "kernels"


@pytest.mark.parametrize(("width", "shape"), [(7, (1, 8, 1, 49)), (20, (1, 8, 7, 20))])
def test_short_rows_of_blocks_are_joined_where_a_window_is_one_pixel(width, shape):
    text = f"""
func.func @main(%x : tensor<1x4x7x{width}xf32>) -> tensor<1x8x7x{width}xf32> {{
  %w = top.weight() {{weight = "w"}} : tensor<8x4x1x1xf32>
  %y = top.conv(%x, %w) {{strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}}
    : tensor<1x8x7x{width}xf32>
  top.return(%y)
}}
"""
    kernels = kernel_functions(lowered(text).after.module)
    (kernel,) = [function for name, function in kernels.items() if "conv" in name]
    assert kernel.body.block.args[-1].type.get_shape() == shape


def test_equal_definitions_share_a_kernel():
    """%b reads a blocked tensor with a halo and writes one; so does no other convolution."""
    result = lowered(CONVOLUTIONS)
    kernels = {name: op.get("kernel") for name, op in launches(result).items()}
    assert len({kernels["a"], kernels["b"], kernels["y"]}) == 3
    twice = CONVOLUTIONS.replace("%y = top.conv(%b", "%c = top.conv(%b").replace(
        "top.return(%y)",
        f"%y = top.conv(%c, %w2, bias = %b1) {ATTRIBUTES} : tensor<1x5x4x4xf32>\n  top.return(%y)",
    )
    shared = {name: op.get("kernel") for name, op in launches(lowered(twice)).items()}
    assert shared["b"] == shared["c"]
    assert set(shared.values()) == set(kernel_functions(lowered(twice).after.module))


def test_an_equal_operation_is_not_defined_again_and_an_equal_definition_is_shared(monkeypatch):
    """abs twice on one type; and on a view of other sizes, whose plain elements are the same."""
    defined: list[str] = []

    def counted(op, kept):
        defined.append(op.results[0].name_hint)
        return define_kernel(op, kept)

    monkeypatch.setattr("explorer.passes.lower.lower_to_kernels.define_kernel", counted)
    text = """
func.func @main(%x : tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<3x4xf32>) {
  %a = top.unary(%x) {kind = "abs"} : tensor<2x6xf32>
  %b = top.unary(%a) {kind = "abs"} : tensor<2x6xf32>
  %c = top.unary(%b) {kind = "neg"} : tensor<2x6xf32>
  %v = top.reshape(%b) {shape = [3, 4]} : tensor<3x4xf32>
  %d = top.unary(%v) {kind = "abs"} : tensor<3x4xf32>
  top.return(%c, %d)
}
"""
    kernels = {name: op.get("kernel") for name, op in launches(lowered(text)).items()}
    assert defined == ["a", "c", "d"]
    assert kernels == {"a": "abs_1", "b": "abs_1", "c": "neg_1", "d": "abs_1"}


def test_weights_are_padded_with_zeros_to_whole_blocks():
    result = lowered(CONVOLUTIONS, lanes=4)
    launch = launches(result)["b"]
    owners = [o.owner for o in launch.operands if isinstance(o.owner, WeightOp)]
    filters, bias = (result.after.weights[o.get("weight")] for o in owners)
    original = result.after.weights["w2"]
    assert (filters.shape, bias.shape) == ((8, 8, 3, 3), (8,))
    np.testing.assert_array_equal(filters[:5, :5], original)
    assert not filters[5:].any()
    assert not filters[:, 5:].any()
    assert not bias[5:].any()


def test_a_weight_that_two_kernels_read_in_one_form_is_stored_once():
    result = lowered(CONVOLUTIONS)
    stored = [name for name in result.after.weights if name.startswith("b1")]
    assert stored == ["b1", "b1.rounded"]


def test_a_result_with_a_halo_fills_it():
    result = lowered(CONVOLUTIONS)
    kernel = kernel_functions(result.after.module)[launches(result)["a"].get("kernel")]
    stages = [
        (op.attributes["loop.stage"].data, [d.data for d in op.attributes["loop.dims"].data])
        for op in kernel.body.block.ops
        if "loop.stage" in op.attributes
    ]
    halo = [dims for stage, dims in stages if stage == "halo"]
    assert halo == [
        ["n=1", "o=8", "i=1", "j=6"],
        ["n=1", "o=8", "i=1", "j=6"],
        ["n=1", "o=8", "i=4", "j=1"],
        ["n=1", "o=8", "i=4", "j=1"],
    ]
    assert [stage for stage, _ in stages if stage != "halo"] == [
        "init",
        "main",
        "epilogue",
    ]


def test_statements_are_tagged_with_their_kernel_and_stage():
    result = lowered(CONVOLUTIONS)
    for name, kernel in kernel_functions(result.after.module).items():
        tags = [tag for op in kernel.body.block.ops for tag in sources_of(op)]
        assert tags
        assert len(set(tags)) == len(tags)
        assert all(tag.startswith(f"{name}/") for tag in tags)


def test_names_of_kernels_are_identifiers():
    """They become names in C: letters, digits and underscores, beginning with a letter."""
    names = list(kernel_functions(lowered(CONVOLUTIONS).after.module))
    assert all(name.isidentifier() and name.isascii() for name in names)
    assert len(set(names)) == len(names)


def test_everything_without_a_compiled_form_is_reported_at_once():
    text = """func.func @main(%x : tensor<2x3xf32>) -> (tensor<2xi64>, tensor<1xi64>) {
      %a = top.shape(%x) {} : tensor<2xi64>
      %r = top.unary(%x) {kind = "relu"} : tensor<2x3xf32>
      %b = top.shape(%r) {start = 1} : tensor<1xi64>
      top.return(%a, %b)
    }"""
    with pytest.raises(UnsupportedError, match="2 operations have no compiled form") as raised:
        lowered(text)
    reason = "a shape is no computation: it is folded once it is known"
    assert raised.value.problems == (f"a (from node_a): {reason}", f"b (from node_b): {reason}")
    assert f"{reason} (2 places: a (from node_a), b (from node_b))" in str(raised.value)


def test_views_stay_what_they_are():
    text = """func.func @main(%x : tensor<2x3xf32>) -> tensor<6xf32> {
      %a = top.unary(%x) {kind = "relu"} : tensor<2x3xf32>
      %y = top.reshape(%a) {shape = [6]} : tensor<6xf32>
      top.return(%y)
    }"""
    result = lowered(text)
    assert list(launches(result)) == ["a"]
    assert result.after.operations["y"].name == "top.reshape"
