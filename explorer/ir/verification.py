"""Verification after every pass, of what the pass has made or changed.

An operation is valid or not by what stands in it: its operands, its properties and the types of
its operands and results. A `Verifier` remembers these, so that after a pass that changed 3 of
5,000 operations, 3 are verified:

    verifier = Verifier()
    verifier.verify(module)     everything
    verifier.verify(module)     nothing: every operation is as it was
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.dialects.kernel_verification import KernelVerifier

Form = tuple[tuple[SSAValue, ...], tuple[Attribute, ...], dict[str, Attribute]]
"""Operands, their types and those of the results, properties."""

_KERNELS = KernelVerifier()
"""It remembers what it has seen in any program."""


class Verifier:
    """Verifies one module again and again while passes change it.

    Kernels are replaced by passes and never changed, so that each is verified once.
    """

    def __init__(self) -> None:
        self._forms: dict[Operation, Form] = {}
        self._kernels: set[Operation] = set()

    def verify(self, module: ModuleOp) -> None:
        """Raises VerifyException or ValueError for the first operation that is not valid."""
        module.verify(verify_nested_ops=False)
        # What is gone is forgotten: operations are told apart by their identity in memory.
        forms, kernels = dict(self._forms), self._kernels
        self._forms, self._kernels = {}, set()
        for function in module.ops:
            if not isinstance(function, func.FuncOp):
                function.verify()
            elif "kernel.kind" in function.attributes:
                if function not in kernels:
                    _KERNELS.verify(function)
                self._kernels.add(function)
            else:
                function.verify(verify_nested_ops=False)
                for op in _operations(function):
                    form = _form_of(op)
                    # The last operation must be a terminator, those with regions hold others.
                    if op.next_op is None or op.regions or forms.get(op) != form:
                        op.verify()
                    self._forms[op] = form


def _operations(function: func.FuncOp) -> Iterator[Operation]:
    for block in function.body.blocks:
        for op in block.ops:
            if op.parent is not block:
                raise ValueError(f"{op.name} does not belong to the block in which it stands")
            yield op


def _form_of(op: Operation) -> Form:
    operands = tuple(op.operands)
    types = tuple(value.type for value in (*operands, *op.results))
    return operands, types, dict(op.properties)
