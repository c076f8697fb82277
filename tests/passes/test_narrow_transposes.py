"""Shuffles between reshapes: as few axes as have to move, the same elements in the same places."""

from explorer.passes.simplify.narrow_transposes import NarrowTransposes


def body(operations: str, returned: str, argument: str) -> str:
    return f"func.func @main(%x: {argument}) {{\n{operations}\ntop.return({returned})\n}}"


CHANNEL_SHUFFLE = """
  %r = top.reshape(%x) {shape = [1, 2, 3, 4, 4]} : tensor<1x2x3x4x4xf32>
  %t = top.transpose(%r) {permutation = [0, 2, 1, 3, 4]} : tensor<1x3x2x4x4xf32>
  %y = top.reshape(%t) {shape = [1, 6, 4, 4]} : tensor<1x6x4x4xf32>
"""


def test_a_channel_shuffle_swaps_two_axes_before_a_third(check):
    checked = check(NarrowTransposes(), body(CHANNEL_SHUFFLE, "%y", "tensor<1x6x4x4xf32>"))
    assert [line.split(" = ", 1)[-1] for line in checked.lines[:3]] == [
        "top.reshape(%x) {shape = [2, 3, 16]} : tensor<2x3x16xf32>",
        "top.transpose(%reshape3) {permutation = [1, 0, 2]} : tensor<3x2x16xf32>",
        "top.reshape(%transpose1) {shape = [1, 6, 4, 4]} : tensor<1x6x4x4xf32>",
    ]
    (transpose,) = [o for n, o in checked.result.after.origins.items() if n.startswith("transp")]
    assert (transpose.tensor, transpose.steps) == ("t", (("reshape", (3, 2, 16)),))


def test_a_pixel_shuffle_moves_four_axes(check):
    operations = """
      %r = top.reshape(%x) {shape = [1, 3, 2, 2, 4, 5]} : tensor<1x3x2x2x4x5xf32>
      %t = top.transpose(%r) {permutation = [0, 1, 4, 2, 5, 3]} : tensor<1x3x4x2x5x2xf32>
      %y = top.reshape(%t) {shape = [1, 3, 8, 10]} : tensor<1x3x8x10xf32>
    """
    checked = check(NarrowTransposes(), body(operations, "%y", "tensor<1x12x4x5xf32>"))
    assert "{permutation = [0, 3, 1, 4, 2]} : tensor<3x4x2x5x2xf32>" in checked.lines[1]


def test_a_transpose_that_is_read_as_it_is_stays(check):
    text = body(CHANNEL_SHUFFLE, "%y, %t", "tensor<1x6x4x4xf32>")
    assert not check(NarrowTransposes(), text).fired


def test_a_transpose_that_moves_every_axis_stays(check):
    operations = """
      %r = top.reshape(%x) {shape = [2, 3, 4]} : tensor<2x3x4xf32>
      %t = top.transpose(%r) {permutation = [2, 1, 0]} : tensor<4x3x2xf32>
      %y = top.reshape(%t) {shape = [24]} : tensor<24xf32>
    """
    assert not check(NarrowTransposes(), body(operations, "%y", "tensor<24xf32>")).fired
