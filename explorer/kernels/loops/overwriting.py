"""Whether a kernel may write its result over an operand, and the kernel that does.

    for %i = 0 to 8 {                       for %i = 0 to 8 {
      %a = load %x[%i]                        %a = load %y[%i]
      %b = exp %a                     =>      %b = exp %a
      store %b, %y[%i]                        store %b, %y[%i]
    }                                       }

    for %i = 0 to 64 { y[i] = x[i] }
    y[place] = new                    =>    y[place] = new

In the first form every element of the operand is read where the element of the result is written
that takes its place, and each is written once. The types of the elements may differ where they have
equally many bytes (i32 over f32): the kernel reads the operand through its own argument then, which
shares its bytes with the result (`kernel.shared`), so that C reads every element as what was stored
there. In the second form the operand is copied before
anything else happens; over itself that copy does nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects import affine, func
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.ir import Operation, SSAValue

from explorer.ir.dialects.kernel import SHARED, kernel_arguments
from explorer.ir.types import numpy_dtype
from explorer.kernels.loops.nest import (
    Access,
    AffineAccess,
    LinearForm,
    access_width,
    accesses_of,
    body_of,
    bounds_of,
    enclosing_loops,
    extent_of,
    index_of,
    is_store,
    redirect,
    shape_of,
    subscripts,
)


class NotInPlace(Exception):
    """Why a kernel cannot write over an operand, for people."""


def written_over(kernel: func.FuncOp, operand: str) -> func.FuncOp:
    """A copy of the kernel that finds the operand in the buffer of its result.

    `operand`: the argument's name. The argument stays. It is read by nothing, or where its elements
    are of another type, marked as shared with the result. Raises NotInPlace.
    """
    copy = kernel.clone()
    source, target = _buffers(copy, operand)
    loads, stores = _accesses(source, target)
    if source.type != target.type:
        _check_elementwise(loads, stores, target)
        _check_last_reads(loads, stores)
        shared = (source, target)
        arguments = zip(kernel_arguments(copy), copy.body.block.args, strict=True)
        names = [argument.name for argument, value in arguments if value in shared]
        copy.attributes[SHARED] = ArrayAttr([StringAttr(name) for name in names])
        return copy
    copies = [
        nest
        for nest in copy.body.block.ops
        if isinstance(nest, affine.ForOp) and _is_copy(nest, source, target)
    ]
    inside = {load for nest in copies for load in loads if _top(load) is nest}
    if not _is_copied_first(copies, inside, loads, target):
        _check_elementwise(loads, stores, target)
    for nest in copies:
        nest.detach()
        nest.erase()
    for load in loads:
        if load not in inside:
            redirect(load, target, _known(load))
    if not any(isinstance(op, affine.ForOp) for op in copy.body.block.ops):
        raise NotInPlace("nothing but a copy")
    return copy


def _buffers(kernel: func.FuncOp, operand: str) -> tuple[SSAValue, SSAValue]:
    arguments = kernel_arguments(kernel)
    outputs = [i for i, argument in enumerate(arguments) if argument.role == "output"]
    if len(outputs) != 1:
        raise NotInPlace("its kernel has several results")
    place = next(i for i, argument in enumerate(arguments) if argument.name == operand)
    source, target = (kernel.body.block.args[i] for i in (place, outputs[0]))
    if not _is_alike(source, target):
        raise NotInPlace("the operand has another shape or wider elements than the result")
    return source, target


def _is_alike(source: SSAValue, target: SSAValue) -> bool:
    """Whether elements of the same place have the same bytes in both buffers."""
    one, other = source.type, target.type
    if not (isinstance(one, MemRefType) and isinstance(other, MemRefType)):
        return one == other
    sizes = {numpy_dtype(kind.element_type).itemsize for kind in (one, other)}
    return one.shape == other.shape and one.layout == other.layout and len(sizes) == 1


def _accesses(source: SSAValue, target: SSAValue) -> tuple[list[AffineAccess], list[Access]]:
    """Reads of the operand and writes of the result."""
    loads = accesses_of(source)
    if len(loads) != len(list(source.uses)):
        raise NotInPlace("its kernel takes the operand in another way than element by element")
    known = [load for load in loads if isinstance(load, AffineAccess) and not is_store(load)]
    if len(known) != len(loads):
        raise NotInPlace("data decide which elements of the operand are read")
    return known, [access for access in accesses_of(target) if is_store(access)]


def _is_copied_first(
    copies: Sequence[affine.ForOp],
    inside: Iterable[AffineAccess],
    loads: Sequence[AffineAccess],
    target: SSAValue,
) -> bool:
    """Whether the kernel copies all of the operand before it does anything else."""
    if not copies or len(set(inside)) != len(loads):
        return False
    firsts = {_top(access) for access in accesses_of(target)} - set(copies)
    if any(first.is_before_in_block(nest) for first in firsts for nest in copies):
        return False
    return sum(_times(load) for load in loads) == prod(shape_of(target))


def _check_elementwise(
    loads: Sequence[AffineAccess], stores: Sequence[Access], target: SSAValue
) -> None:
    for load in loads:
        forms = _known(load)
        if not any(_takes_its_place(store, load, forms) for store in stores):
            raise NotInPlace("elements of the operand are read after others have been written")
    if sum(_times(store) for store in stores) != prod(shape_of(target)):
        raise NotInPlace("elements of the result are written several times")


def _check_last_reads(loads: Sequence[AffineAccess], stores: Sequence[Access]) -> None:
    """Whether nothing that is computed from an element comes after its place is written.

    Compilers and printers take the two buffers for different ones, and may read where a number is
    needed: before the store, which is computed from all that is read there.
    """
    for load in loads:
        forms = _known(load)
        store = next(store for store in stores if _takes_its_place(store, load, forms))
        waiting: list[Operation] = [load]
        reaches = False
        while waiting:
            for use in [use for result in waiting.pop().results for use in result.uses]:
                user = use.operation
                if user is store:
                    reaches = True
                elif user.parent is store.parent and user.is_before_in_block(store):
                    waiting.append(user)
                else:
                    raise NotInPlace("an element is needed after another type is written over it")
        if not reaches:
            raise NotInPlace("an element is not what the one in its place is computed from")


def _takes_its_place(store: Access, load: AffineAccess, forms: Sequence[LinearForm]) -> bool:
    """Whether a store writes the elements that a load before it, in one loop body, has read."""
    return (
        store.parent is load.parent
        and load.is_before_in_block(store)
        and access_width(store) == access_width(load)
        and _forms(store) == forms
    )


def _is_copy(nest: affine.ForOp, source: SSAValue, target: SSAValue) -> bool:
    """Whether a nest copies elements of the operand to their places in the result only."""
    # Of narrow floats a number that nothing reads is widened, too.
    operations = body_of(nest)
    body = [op for op in operations if not op.results or any(r.first_use for r in op.results)]
    loops = [op for op in body if isinstance(op, affine.ForOp)]
    if loops:  # one, or another one for what vectors leave over
        return len(loops) == len(body) and all(_is_copy(loop, source, target) for loop in loops)
    if len(body) != 2:
        return False
    load, store = body
    if not isinstance(load, affine.LoadOp | affine.VectorLoadOp) or load.memref is not source:
        return False
    if not isinstance(store, affine.StoreOp | affine.VectorStoreOp) or store.memref is not target:
        return False
    return store.value is load.results[0] and _forms(store) == _forms(load) is not None


def _known(access: AffineAccess) -> list[LinearForm]:
    forms = _forms(access)
    if forms is None:
        raise NotInPlace("the operand is read at places that are no linear function of loops")
    return forms


def _forms(access: Access) -> list[LinearForm] | None:
    """The subscripts, without the indices of loops that run once; None where one is not linear."""
    fixed = {
        index_of(loop): LinearForm({}, bounds[0])
        for loop in enclosing_loops(access)
        if (bounds := bounds_of(loop)) is not None and bounds[1] - bounds[0] == 1
    }
    forms = []
    for form in subscripts(access):
        if form is None:
            return None
        forms.append(form.substitute(fixed))
    return forms


def _times(access: Access) -> int:
    """How many elements an access touches in all iterations of the loops around it."""
    loops = enclosing_loops(access)
    top = loops[0] if loops else access
    if not isinstance(top.parent_op(), func.FuncOp):
        raise NotInPlace("a condition surrounds an access")
    if any(bounds_of(loop) is None for loop in loops):
        raise NotInPlace("a loop has bounds that are not constant")
    return access_width(access) * prod(extent_of(loop) for loop in loops)


def _top(access: Operation) -> Operation:
    """The operation of the kernel's own block that contains an access."""
    top = access
    while not isinstance(parent := top.parent_op(), func.FuncOp):
        assert parent is not None
        top = parent
    return top
