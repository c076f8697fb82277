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
from xdsl.ir import Operation

from explorer.ir.evaluation import evaluate_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import SIZED, host_reason_of
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import is_static
from explorer.ir.weights import Weights


def has_form(op: TopOperation) -> bool:
    """Whether an operation could be compiled if the sizes of its operands were known."""
    is_open = op.is_sized_by_contents and not all(is_static(result) for result in op.results)
    return not (op.regions or is_open or op.missing_form())


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
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """As `evaluate_function`."""
        return evaluate_function(self.function, self.weights, arguments, replaced, after)
