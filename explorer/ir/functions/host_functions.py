"""Functions of a placed program that the host runs, by the NumPy meaning of their operations.

func @main_host(%x: tensor<8xf32>) {device = "host"} {
    %i = top.nonzero(%x) {host.reason = "what it reads decides how large its result is"}
    return %i
}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from explorer.ir.evaluation import RunRegion, evaluate_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.structure import DEVICE, HOST, SIZED, host_reason_of, read_values, value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import is_static
from explorer.ir.weights import Weights


def has_form(op: TopOperation) -> bool:
    """Whether an operation could be compiled if the sizes of its operands were known."""
    is_open = op.is_sized_by_contents and not all(is_static(result) for result in op.results)
    return not (op.regions or is_open or op.missing_form())


@dataclass(frozen=True, eq=False)
class RegionFunction:
    """A region of an operation as a function of its own: what a loop does once, or a branch."""

    host: HostFunction
    captured: tuple[SSAValue, ...]
    """What it reads from outside; arguments of the function behind those of the region."""


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A function of the host and the weights that it reads."""

    function: func.FuncOp
    weights: Weights

    @property
    def name(self) -> str:
        return self.function.sym_name.data

    @cached_property
    def operations(self) -> tuple[TopOperation, ...]:
        """What it does, in order; neither weights nor the return."""
        return tuple(
            op
            for op in self.function.body.block.ops
            if isinstance(op, TopOperation) and not isinstance(op, WeightOp | ReturnOp)
        )

    @property
    def compiled_for(self) -> str:
        """The device that it can be compiled for when its arguments are there; empty for none."""
        attribute = self.function.attributes.get(SIZED)
        return attribute.data if isinstance(attribute, StringAttr) else ""

    @property
    def reason(self) -> str:
        """Why the host runs it: the reason of what has no compiled form, and how many there are."""
        formless = (op for op in self.operations if not has_form(op))
        first = next(formless, self.operations[0])
        others = len(self.operations) - 1
        rest = f", and {others} more" if others else ""
        return f"{identity_of(first)}: {host_reason_of(first)}{rest}"

    def evaluate(
        self,
        arguments: Sequence[np.ndarray],
        replaced: Mapping[str, np.ndarray] | None = None,
        after: Callable[[Operation], None] | None = None,
        run_region: RunRegion | None = None,
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """As `evaluate_function`."""
        return evaluate_function(
            self.function, self.weights, arguments, replaced, after, run_region
        )

    def region(self, op: TopOperation, index: int) -> RegionFunction:
        """A region of one of its operations, of those in regions too; weights are copied along."""
        block = op.regions[index].block
        read = dict.fromkeys(value for inner in block.ops for value in read_values(inner))
        made = {*block.args, *(result for inner in block.ops for result in inner.results)}
        outside = [value for value in read if value not in made]
        captured = [value for value in outside if not isinstance(value.owner, WeightOp)]
        arguments = [*block.args, *captured]
        body = Block(arg_types=[value.type for value in arguments])
        copies: dict[SSAValue, SSAValue] = dict(zip(arguments, body.args, strict=True))
        for value, argument in zip(arguments, body.args, strict=True):
            argument.name_hint = value_name(value)
        weights = [value.owner for value in outside if isinstance(value.owner, WeightOp)]
        body.add_ops(copy_operation(inner, copies) for inner in (*weights, *block.ops))
        end = body.last_op
        assert end is not None
        name = f"{self.name}.{identity_of(op)}.{op.region_names()[index]}"
        types = [a.type for a in arguments], [value.type for value in end.operands]
        function = func.FuncOp(name, types, Region(body))
        function.attributes[DEVICE] = StringAttr(HOST)
        return RegionFunction(HostFunction(function, self.weights), tuple(captured))
