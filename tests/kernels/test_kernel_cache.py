"""Schedules and texts of kernels are taken from equal kernels, and from no others."""

import numpy as np
import onnx.parser
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, NameLoc, NoneAttr, StringAttr, f32, f64

import explorer
from explorer.importers.onnx import from_proto
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.structure import walk_inside
from explorer.kernels.kernel_cache import KernelCache, is_same
from explorer.kernels.printing.c import print_c
from explorer.kernels.schedules import Machine, schedule_once

MACHINE = Machine(vector_floats=8, language="c")


def leaky(slope: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[5] x) => (float[5] y) '
        f"{{ y = LeakyRelu<alpha = {slope}>(x) }}"
    )


@pytest.fixture(scope="module")
def kernel():
    compiled = explorer.compile(from_proto(leaky("0.0")), tuned=False)
    ((_, function),) = compiled.passes[-1].before.kernels.items()
    return function


def first(kernel, kind=object):
    return next(op for op in walk_inside(kernel) if isinstance(op, kind) and op.results)


def with_sign(kernel):
    first(kernel, arith.ConstantOp).properties["value"] = FloatAttr(-0.0, f32)


def with_type(kernel):
    result = first(kernel, arith.SelectOp).results[0]
    object.__setattr__(result, "_type", f64)


def with_hint(kernel):
    first(kernel).results[0].name_hint = "another"


def with_name(kernel):
    kernel.properties["sym_name"] = StringAttr("another")


def with_location(kernel):
    first(kernel).location = NameLoc(StringAttr("another"), NoneAttr())


def with_attribute(kernel):
    first(kernel).attributes["another"] = StringAttr("")


def test_a_copy_is_the_same(kernel):
    assert is_same(kernel, copy_operation(kernel))


@pytest.mark.parametrize(
    "change", [with_sign, with_type, with_hint, with_name, with_location, with_attribute]
)
def test_whatever_differs_makes_another_kernel(kernel, change):
    other = copy_operation(kernel)
    change(other)
    assert not is_same(kernel, other) and not is_same(other, kernel)
    cache = KernelCache[str]()
    assert cache.get(kernel, 1, lambda: "first") == "first"
    assert cache.get(other, 1, lambda: "second") == "second"


def test_a_key_of_its_own_is_another_result(kernel):
    cache = KernelCache[str]()
    assert cache.get(kernel, 1, lambda: "first") == "first"
    assert cache.get(kernel, 2, lambda: "second") == "second"
    assert cache.get(copy_operation(kernel), 1, lambda: "again") == "first"


def test_what_was_used_last_stays_within_the_limit(kernel):
    one = sum(1 for _ in walk_inside(kernel))
    cache = KernelCache[int](2 * one)
    for key in (1, 2, 1, 3):
        cache.get(kernel, key, lambda key=key: key)
    assert [cache.get(kernel, key, lambda: 0) for key in (1, 3, 2)] == [1, 3, 0]
    none = KernelCache[int](one - 1)
    assert [none.get(kernel, 1, lambda number=number: number) for number in (5, 6)] == [5, 6]


def test_an_error_is_not_kept(kernel):
    cache = KernelCache[int]()
    with pytest.raises(ZeroDivisionError):
        cache.get(kernel, 1, lambda: 1 // 0)
    assert cache.get(kernel, 1, lambda: 7) == 7


def test_who_changes_a_schedule_changes_no_other(kernel):
    one = schedule_once(kernel, MACHINE, {}, {})
    text = print_c(one.function, "k").lines
    for op in walk_inside(one.function):
        op.attributes["changed"] = StringAttr("")
    two = schedule_once(copy_operation(kernel), MACHINE, {}, {})
    assert two.function is not one.function and two.choices == one.choices
    assert not any("changed" in op.attributes for op in walk_inside(two.function))
    assert print_c(two.function, "k").lines == text


def test_zeros_of_both_signs_are_slopes_of_their_own():
    x = np.array([-1, -0.0, 0.0, 1, -np.inf], np.float32)
    for slope in ("0.0", "-0.0", "0.0"):
        compiled = explorer.compile(from_proto(leaky(slope)), tuned=False)
        with np.errstate(invalid="ignore"):
            wanted = np.where(x < 0, x * np.float32(slope), x)
        found = compiled.run({"x": x})["y"]
        np.testing.assert_array_equal(found, wanted)
        # The C compiler may lose the sign of a zero, so the printed slope is compared.
        ((_, function),) = compiled.passes[-1].before.kernels.items()
        text = "\n".join(print_c(function, "k").lines)
        assert (f"* {slope}f" if slope == "0.0" else "* (-0.0f)") in text


BOTH = """<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y, float[3] z) {
  y = LeakyRelu<alpha = 0.0>(x)
  z = LeakyRelu<alpha = -0.0>(x)
}"""


def test_zeros_of_both_signs_in_one_program_stay_two():
    compiled = explorer.compile(from_proto(onnx.parser.parse_model(BOTH)), tuned=False)
    found = compiled.run({"x": np.array([-1, -0.0, 1], np.float32)})
    assert [bool(s) for s in np.signbit(found["y"])] == [True, True, False]
    assert [bool(s) for s in np.signbit(found["z"])] == [False, True, False]
