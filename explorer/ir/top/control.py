"""Control flow: operations whose regions hold what may or may not run.

    %y = top.if(%condition) {
      %a = top.unary(%x) {kind = "relu"} : tensor<8xf32>
      top.return(%a)
    } {
      top.return(%x)
    } : tensor<8xf32>

    %last, %all = top.loop(%start) attributes {scans = 1, trip_count = 5} {
    ^0(%i : tensor<i64>, %state : tensor<8xf32>):
      %next = top.binary(%state, %x) {kind = "add"} : tensor<8xf32>
      top.return(%next, %next)
    } : tensor<8xf32>, tensor<5x8xf32>

Regions use values from outside as they are, and end with `top.return`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i1, i32
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from explorer.ir.operation import TopOperation, identity_of, to_attribute
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.support.operands import may_be_same_shape, require_integers
from explorer.ir.types import (
    Dim,
    Shape,
    element_type_of,
    format_type,
    numpy_dtype,
    shape_of,
    tensor_type,
)

LONGEST_LOOP = 1_000_000
"""Iterations after which an interpreted loop is given up."""


@irdl_op_definition
class IfOp(TopOperation):
    """Runs one of two regions: the first where the condition (one boolean) holds."""

    name = "top.if"
    FAMILY: ClassVar[str] = "control"

    condition = operand_def(TensorType)
    results_ = var_result_def(TensorType)
    then_region = region_def("single_block")
    else_region = region_def("single_block")

    @classmethod
    def make_with_regions(cls, condition: SSAValue, then_region: Region, else_region: Region):
        """An `if` whose result types follow from what its regions return."""
        result_types = merged_types(returned_types(then_region), returned_types(else_region))
        return cls.create(
            operands=[condition],
            result_types=result_types,
            regions=[then_region, else_region],
        )

    def infer_types(self) -> list[Attribute]:
        return merged_types(*[returned_types(region) for region in self.regions])

    def evaluate_regions(
        self, run_region: Callable[..., list[np.ndarray]], *operands: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        (condition,) = operands
        return tuple(run_region(0 if condition.item() else 1))

    def verify_(self) -> None:
        super().verify_()
        if element_type_of(self.condition) != i1 or not _is_one(self.condition):
            raise VerifyException(
                f"top.if {identity_of(self)}: the condition is {format_type(self.condition.type)}, "
                "a boolean is expected"
            )
        try:
            expected = self.infer_types()
        except ValueError as error:
            raise VerifyException(f"top.if {identity_of(self)}: {error}") from error
        if len(expected) != len(self.results):
            raise VerifyException(
                f"top.if {identity_of(self)} has {len(self.results)} results, but its regions "
                f"return {len(expected)}"
            )

    def define(self, k, inputs, output) -> str:
        raise NotImplementedError("control flow is no kernel: its regions hold kernels")

    def region_names(self) -> tuple[str, ...]:
        return ("then", "else")


@irdl_op_definition
class LoopOp(TopOperation):
    """Runs its region again and again, as ONNX's Loop: states go round, rows are collected.

    The region takes the number of the iteration (an i64 scalar), with `condition` whether to go on
    (a boolean scalar), and the states. It returns whether to go on (with `condition` only), the
    next states, and `scans` rows. Results: the last states, then for each row all of them, joined
    along a new first axis. Iterations end after `trip_count` (a property where it is known, or
    the operand `count`), or as soon as the condition is false; at least one of them is given.
    """

    name = "top.loop"
    FAMILY: ClassVar[str] = "control"
    REPEATS: ClassVar[bool] = True

    states = var_operand_def(TensorType)
    count = opt_operand_def(TensorType)
    condition = opt_operand_def(TensorType)
    trip_count = opt_prop_def(IntegerAttr)
    scans = prop_def(IntegerAttr)
    results_ = var_result_def(TensorType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def make_with_body(
        cls,
        body: Region,
        states: Sequence[SSAValue],
        scans: int,
        *,
        trip_count: int | None = None,
        count: SSAValue | None = None,
        condition: SSAValue | None = None,
        length: Dim | None = None,
    ):
        """A loop with result types that follow from its states and from what its body returns.

        length: the number of iterations where only its name is known.
        """
        optional = [value for value in (count, condition) if value is not None]
        sizes = [len(states), int(count is not None), int(condition is not None)]
        properties = {
            "scans": to_attribute(scans),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, sizes),
        }
        if trip_count is not None:
            properties["trip_count"] = to_attribute(trip_count)
        first = [value.type for value in states]
        trips = length if trip_count is None else trip_count
        types = loop_types(first, returned_types(body), scans, trips, condition is not None)
        return cls.create(
            operands=[*states, *optional],
            result_types=types,
            properties=properties,
            regions=[body],
        )

    @property
    def leading(self) -> int:
        """Arguments of the body in front of the states."""
        return 1 if self.condition is None else 2

    def region_operands(self, index: int) -> list[SSAValue | None]:
        return [None, *([] if self.condition is None else [self.condition]), *self.states]

    def infer_types(self) -> list[Attribute]:
        first = [value.type for value in self.states]
        has_condition = self.condition is not None
        returned = returned_types(self.body)
        trips: Dim | None = self.get("trip_count")
        rows = self.results[len(first) :]
        if trips is None and rows:
            trips = shape_of(rows[0])[0]  # the importer may know it by name
        return loop_types(first, returned, self.get("scans"), trips, has_condition)

    def evaluate_regions(
        self, run_region: Callable[..., list[np.ndarray]], *operands: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        states = list(operands[: len(self.states)])
        optional = list(operands[len(self.states) :])
        limit = self.get("trip_count") if self.count is None else int(optional.pop(0).item())
        go_on = [] if self.condition is None else [optional.pop()]
        rows: list[list[np.ndarray]] = [[] for _ in range(self.get("scans"))]
        number = 0
        while (limit is None or number < limit) and all(flag.item() for flag in go_on):
            if number == LONGEST_LOOP:
                raise ValueError(f"a loop still runs after {LONGEST_LOOP:,} iterations")
            results = run_region(0, np.array(number, np.int64), *go_on, *states)
            go_on = results[: len(go_on)]
            states = results[len(go_on) : len(go_on) + len(states)]
            for row, found in zip(rows, results[len(go_on) + len(states) :], strict=True):
                row.append(found)
            number += 1
        joined = zip(rows, self.results[len(states) :], strict=True)
        return (*states, *(_joined(row, result) for row, result in joined))

    def verify_(self) -> None:
        super().verify_()
        who = f"top.loop {identity_of(self)}"
        if self.count is None and self.condition is None and "trip_count" not in self.properties:
            raise VerifyException(f"{who} has no end: a trip count or a condition expected")
        try:
            expected = self.infer_types()
            self._check_operands()
        except ValueError as error:
            raise VerifyException(f"{who}: {error}") from error
        arguments = self.body.block.args
        if len(expected) != len(self.results) or len(arguments) != self.leading + len(self.states):
            raise VerifyException(
                f"{who}: {len(self.results)} results and {len(arguments)} arguments of the body do "
                f"not fit {len(self.states)} states and {self.get('scans')} rows"
            )
        for state, argument in zip(self.states, arguments[self.leading :], strict=True):
            same_type = element_type_of(state) == element_type_of(argument)
            if not same_type or not may_be_same_shape(shape_of(state), shape_of(argument)):
                raise VerifyException(
                    f"{who}: a state is {format_type(state.type)}, but the body takes "
                    f"{format_type(argument.type)}"
                )

    def _check_operands(self) -> None:
        """ValueError where the count or the condition is not one number, one boolean."""
        require_integers("the number of iterations", self.count)
        for role, operand in (("number of iterations", self.count), ("condition", self.condition)):
            if operand is not None and not _is_one(operand):
                raise ValueError(f"the {role} is {format_type(operand.type)}; one element expected")
        if self.condition is not None and element_type_of(self.condition) != i1:
            raise ValueError(f"the condition is {format_type(self.condition.type)}, no boolean")

    def define(self, k, inputs, output) -> str:
        raise NotImplementedError(
            "a loop is no kernel, and the number of its iterations is not known"
            if "trip_count" not in self.properties
            else "a loop is no kernel: its region holds kernels"
        )

    def label(self) -> str:
        trips = self.get("trip_count")
        return "loop" if trips is None else f"loop {trips} times"


def _is_one(value: SSAValue) -> bool:
    """Whether a value can be one element, as far as its sizes are known."""
    return all(size == 1 for size in shape_of(value) if isinstance(size, int))


def loop_types(
    states: Sequence[Attribute],
    returned: Sequence[Attribute],
    scans: int,
    trip_count: Dim | None,
    has_condition: bool,
) -> list[Attribute]:
    """Types of a loop's results; sizes that change from one iteration to the next are unknown."""
    returned = returned[1:] if has_condition else returned
    if len(returned) != len(states) + scans:
        raise ValueError(
            f"the body returns {len(returned)} values for {len(states)} states and {scans} rows"
        )
    last = merged_types(states, returned[: len(states)])
    trips: Dim = UNKNOWN if trip_count is None or has_condition else trip_count
    rows = returned[len(states) :]
    return [*last, *(tensor_type(element_type_of(r), (trips, *shape_of(r))) for r in rows)]


def _joined(rows: Sequence[np.ndarray], result: SSAValue) -> np.ndarray:
    """All rows along a new first axis; without a row the axis is empty."""
    if rows:
        return np.stack(rows)
    sizes = [0 if isinstance(size, str) else size for size in shape_of(result)[1:]]
    return np.zeros((0, *sizes), numpy_dtype(element_type_of(result)))


def returned_types(region: Region) -> list[Attribute]:
    """Types of what a region's `top.return` returns; ValueError where it does not end with one."""
    last = region.block.last_op
    if not isinstance(last, ReturnOp):
        raise ValueError(f"a region ends with {last.name if last else 'nothing'}, not top.return")
    return [value.type for value in last.operands]


def merged_types(first: Sequence[Attribute], second: Sequence[Attribute]) -> list[Attribute]:
    """Types that hold what either region returns: sizes that differ are unknown."""
    if len(first) != len(second):
        raise ValueError(f"one region returns {len(first)} values, the other {len(second)}")
    return [_merged(a, b) for a, b in zip(first, second, strict=True)]


def _merged(first: Attribute, second: Attribute) -> Attribute:
    a, b = shape_of(first), shape_of(second)
    if element_type_of(first) != element_type_of(second) or len(a) != len(b):
        raise ValueError(
            f"one region returns {format_type(first)} where the other returns {format_type(second)}"
        )
    shape: Shape = tuple(x if x == y else UNKNOWN for x, y in zip(a, b, strict=True))
    return tensor_type(element_type_of(first), shape)
