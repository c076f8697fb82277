"""Verification of kernels: thousands of operations, few of which differ in form.

Whether an operation of the arithmetic and loop dialects is valid depends on its class, the types
that it takes and gives, and its properties. These are immutable objects, which a step that splits,
clones or moves loops hands on, so that a form which was valid once is known by the objects:

    affine.for 0 to 56   affine.for 0 to 56   arith.addf f32, f32   ...   two verified, then known

The place of an operation is checked each time: its block, the end of that block, and whether
the kernel defines its operands before it. The attributes of a kernel's function are a form as well.

Forms are kept for all programs of the process: a fork, an edited model and another budget take
most kernels from a cache (`explorer.kernels.kernel_cache`), and copies share types and properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from xdsl.dialects import affine, func
from xdsl.ir import Attribute, Block, Operation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

FORMED = ("affine", "arith", "math", "vector")
"""Dialects whose verifiers read nothing but types, properties and a loop's own arguments."""

Form = tuple[object, ...]

MAX_FORMS = 20_000
"""Forms that are kept, about 10 MB; then all of them are forgotten."""


class KernelVerifier:
    """Verifies kernels, one after the other, and remembers the forms that were valid."""

    def __init__(self) -> None:
        self._valid: dict[Form, tuple[object, ...]] = {}
        """By the identities of the objects in a form: these objects, which keep them in memory."""
        self._is_formed: dict[type[Operation], bool] = {}

    def verify(self, kernel: func.FuncOp) -> None:
        """As `kernel.verify()`: VerifyException or ValueError for the first invalid operation."""
        inside: set[int] = set()
        for region in kernel.regions:
            for block in region.blocks:
                if block.parent is not region:
                    raise ValueError("Parent pointer of block does not refer to containing region")
                self._verify_block(block, inside)
        self._verify_form(kernel, (*_parts_of(kernel), *_named(kernel.attributes)))

    def _verify_block(self, block: Block, inside: set[int]) -> None:
        """`inside` has the identities of the values that the kernel has defined so far."""
        if block.last_op is None:
            block.verify()  # it may be that none has to be there
        inside.update(map(id, block.args))
        for op in block.ops:
            if op.parent is not block:
                raise ValueError("Parent pointer of operation does not refer to containing region")
            for region in op.regions:
                for inner in region.blocks:
                    if inner.parent is not region:
                        raise ValueError(
                            "Parent pointer of block does not refer to containing region"
                        )
                    self._verify_block(inner, inside)
            self._verify_operation(op, is_last=op is block.last_op)
            if not inside.issuperset(map(id, op.operands)):
                op.verify(verify_nested_ops=False)  # it may be that a value was erased
                raise VerifyException(f"{op.name} uses a value that its kernel defines nowhere")
            inside.update(map(id, op.results))

    def _verify_operation(self, op: Operation, is_last: bool) -> None:
        """The operation itself; what it holds is verified already."""
        kind = type(op)
        if kind not in self._is_formed:
            self._is_formed[kind] = _is_formed(kind)
        # The end of a block is a terminator, and nothing else is one.
        if self._is_formed[kind] and is_last == (kind is affine.YieldOp):
            self._verify_form(op, _parts_of(op))
        else:
            op.verify(verify_nested_ops=False)

    def _verify_form(self, op: Operation, parts: Form) -> None:
        form = (type(op), *map(id, parts))
        if form in self._valid:
            return
        op.verify(verify_nested_ops=False)
        if len(self._valid) >= MAX_FORMS:
            self._valid.clear()
        self._valid[form] = parts


def _is_formed(kind: type[Operation]) -> bool:
    if kind.name.split(".")[0] not in FORMED or not issubclass(kind, IRDLOperation):
        return False
    definition = kind.get_irdl_definition()
    has_blocks = bool(definition.regions) and kind is not affine.ForOp
    return not (has_blocks or definition.successors or definition.attributes)


def _parts_of(op: Operation) -> tuple[object, ...]:
    """What its validity depends on, besides its class and place; marks keep the parts apart."""
    parts: list[object] = [operand.type for operand in op.operands]
    parts.append("->")
    parts += [result.type for result in op.results]
    parts += _named(op.properties)
    for region in op.regions:
        parts.append("region")
        for block in region.blocks:
            parts.append("block")
            parts += [argument.type for argument in block.args]
    return tuple(parts)


def _named(attributes: Mapping[str, Attribute]) -> Iterator[object]:
    return chain.from_iterable(attributes.items())
