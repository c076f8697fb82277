"""Types follow from operands and properties; what is known better is kept."""

import numpy as np
import pytest

from explorer.errors import PassError
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.ir.types import ELEMENT_TYPES, tensor_type
from explorer.passes.sizes.infer_shapes import InferShapes, better_known

F32 = ELEMENT_TYPES["float32"]


def test_types_inside_a_region_reach_the_operation_around_it(check):
    text = """
    func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) {
      %y = top.if(%c) {
        %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
        top.return(%a)
      } {
        top.return(%x)
      } : tensor<?xf32>
      %z = top.unary(%y) {kind = "neg"} : tensor<?xf32>
      top.return(%z)
    }
    """
    inputs = {"c": np.array(True), "x": np.array([-1, 0, 1, 2], np.float32)}
    result = check(InferShapes(), text, inputs=inputs).result
    assert [r.site for r in result.rewrites] == ["y", "z"]
    assert [e.delta.changed[0][2].split(" : ")[1] for e in result.events] == ["4 f32", "4 f32"]


def test_a_misfit_names_operation_and_source(make_program):
    text = """
    func.func @main(%x: tensor<?x3xf32>, %m: tensor<4x5xf32>) {
      %y = top.matmul(%x, %m) : tensor<?x5xf32>
      top.return(%y)
    }
    """
    with pytest.raises(
        PassError, match=r"3 columns against 4 rows.*pass infer-shapes, operation y"
    ):
        run_pass(InferShapes(), make_program(text), RewriteOptions())


@pytest.mark.parametrize(
    ("declared", "inferred", "expected"),
    [
        (("?", 8), (4, "n"), (4, 8)),
        (("n", 2), ("?", 2), ("n", 2)),
        (("n", 2), ("m", 2), ("m", 2)),
        ((3,), (5,), (5,)),
    ],
)
def test_a_number_is_better_than_a_name_and_a_name_than_nothing(declared, inferred, expected):
    assert better_known(tensor_type(F32, declared), tensor_type(F32, inferred)) == tensor_type(
        F32, expected
    )
