"""Loop nests: a kernel function whose loops are found by name and whose subscripts are linear.

    affine.for %i = 0 to 8 {                      nest.loops("i")      -> [that loop]
      %a = affine.load %x[2 * %i + 1]             subscripts(load)     -> [2*i + 1]
      affine.store %a, %y[%i]                     nest.accesses("y")   -> [that store]
    }

Every step of a schedule (`explorer.kernels.steps`) is written with what stands here. Subscripts
are kept in one canonical form, linear over the indices of the enclosing loops, so that steps
calculate with numbers instead of rewriting expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeGuard

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IntegerAttr,
    MemRefType,
    NameLoc,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.rewriter import Rewriter

from explorer.errors import ExplorerError
from explorer.ir.compute import make_loop
from explorer.ir.structure import walk_inside
from explorer.ir.types import numpy_dtype

AffineAccess = affine.LoadOp | affine.StoreOp | affine.VectorLoadOp | affine.VectorStoreOp
Access = AffineAccess | memref.LoadOp | memref.StoreOp

# Asking for an operation's class is several times faster than isinstance.
STORES = frozenset({affine.StoreOp, affine.VectorStoreOp, memref.StoreOp})
ACCESSES = STORES | {affine.LoadOp, affine.VectorLoadOp, memref.LoadOp}


class ScheduleError(ExplorerError):
    """A step that would be illegal, or a choice that cannot be scheduled."""

    def __init__(self, step: str, kernel: str, reason: str):
        super().__init__(f"{step} of kernel {kernel!r}: {reason}")
        self.args = (step, kernel, reason)  # what pickling calls the constructor with
        self.step = step
        self.kernel = kernel
        self.reason = reason


@dataclass(frozen=True)
class LinearForm:
    """`sum(coefficient * index) + constant` over loop indices; coefficients are never 0."""

    terms: Mapping[SSAValue, int] = field(default_factory=dict)
    constant: int = 0

    def __add__(self, other: LinearForm) -> LinearForm:
        terms = dict(self.terms)
        for index, coefficient in other.terms.items():
            total = terms.pop(index, 0) + coefficient
            if total:
                terms[index] = total
        return LinearForm(terms, self.constant + other.constant)

    def scaled(self, factor: int) -> LinearForm:
        if factor == 0:
            return LinearForm()
        scaled_terms = {index: c * factor for index, c in self.terms.items()}
        return LinearForm(scaled_terms, self.constant * factor)

    def substitute(self, replacements: Mapping[SSAValue, LinearForm]) -> LinearForm:
        """Every index in `replacements` replaced by its form."""
        if not any(index in replacements for index in self.terms):
            return self
        result = LinearForm({}, self.constant)
        for index, coefficient in self.terms.items():
            replacement = replacements.get(index)
            if replacement is None:
                replacement = LinearForm({index: 1})
            result = result + replacement.scaled(coefficient)
        return result

    def range(self, indices: Iterable[SSAValue] | None = None) -> tuple[int, int] | None:
        """Smallest and largest value while `indices` (all, if None) take all their values.

        The others count as 0; None when the bounds of a loop are not constant.
        """
        chosen = None if indices is None else set(indices)
        low = high = self.constant
        for index, coefficient in self.terms.items():
            if chosen is not None and index not in chosen:
                continue
            bounds = index_range(index)
            if bounds is None:
                return None
            low += min(coefficient * bounds[0], coefficient * bounds[1])
            high += max(coefficient * bounds[0], coefficient * bounds[1])
        return low, high


def index_form(loop: affine.ForOp) -> LinearForm:
    return LinearForm({index_of(loop): 1})


def item_bytes(buffer: SSAValue) -> int:
    """Of one element."""
    assert isinstance(buffer.type, MemRefType)
    return numpy_dtype(buffer.type.element_type).itemsize


def shape_of(buffer: SSAValue) -> tuple[int, ...]:
    """Extents of a memref value."""
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def element_name(buffer: SSAValue) -> str:
    """Element type of a memref value as MLIR writes it: f32, i64 ..."""
    assert isinstance(buffer.type, MemRefType)
    return str(buffer.type.element_type)


# -- loops -----------------------------------------------------------------------------------


def index_of(loop: affine.ForOp) -> SSAValue:
    return _block_of(loop).args[0]


def _block_of(loop: affine.ForOp) -> Block:
    """The block of a loop's body; several times faster than its accessors."""
    block = loop.regions[0].first_block
    assert block is not None
    return block


def bounds_of(loop: affine.ForOp) -> tuple[int, int] | None:
    """[lower, upper) when both are constants and the step is 1, else None."""
    lower, upper = loop.lowerBoundMap.data.results, loop.upperBoundMap.data.results
    step = loop.step.value.data
    if step != 1 or len(lower) != 1 or len(upper) != 1:
        return None
    if isinstance(lower[0], AffineConstantExpr) and isinstance(upper[0], AffineConstantExpr):
        return lower[0].value, upper[0].value
    return None


def extent_of(loop: affine.ForOp) -> int:
    """Number of iterations of a loop with constant bounds."""
    bounds = bounds_of(loop)
    assert bounds is not None, f"loop {name_of(loop)} has no constant bounds"
    return bounds[1] - bounds[0]


def set_upper_bound(loop: affine.ForOp, upper: int) -> None:
    loop.properties["upperBoundMap"] = AffineMapAttr(AffineMap.constant_map(upper))


def index_range(index: SSAValue) -> tuple[int, int] | None:
    """First and last value of a loop index; None when it is no index or its bounds vary."""
    loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
    if not isinstance(loop, affine.ForOp):
        return None
    bounds = bounds_of(loop)
    return None if bounds is None else (bounds[0], bounds[1] - 1)


def name_of(loop: affine.ForOp) -> str:
    name = loop.attributes.get("loop.name")
    return name.data if isinstance(name, StringAttr) else ""


def rename(loop: affine.ForOp, name: str) -> None:
    loop.attributes["loop.name"] = StringAttr(name)
    index_of(loop).name_hint = name


def kind_of(loop: affine.ForOp) -> str:
    """unroll, parallel, or empty for a plain sequential loop."""
    kind = loop.attributes.get("loop.kind")
    return kind.data if isinstance(kind, StringAttr) else ""


def body_of(loop: affine.ForOp) -> list[Operation]:
    """The operations of a loop without its terminator."""
    return [op for op in _block_of(loop).ops if type(op) is not affine.YieldOp]


def append(loop: affine.ForOp, operations: Sequence[Operation]) -> None:
    """Adds detached operations at the end of a loop's body."""
    last = loop.body.block.last_op
    assert last is not None
    loop.body.block.insert_ops_before(list(operations), last)


def new_loop(extent: int, name: str, like: Operation) -> affine.ForOp:
    """An empty loop [0, extent) that belongs to the same statement as `like`."""
    loop = make_loop(0, extent, name)
    loop.location = like.location
    return loop


def nest_loops(loops: Sequence[affine.ForOp], operations: Sequence[Operation]) -> affine.ForOp:
    """Puts empty loops into one another, `operations` in the innermost; returns the outermost."""
    for outer, inner in pairwise(loops):
        append(outer, [inner])
    append(loops[-1], operations)
    return loops[0]


def perfect_chain(top: affine.ForOp) -> list[affine.ForOp]:
    """The loops from `top` inwards as long as a loop holds nothing but the next one."""
    chain = [top]
    while True:
        body = body_of(chain[-1])
        if len(body) != 1 or not isinstance(body[0], affine.ForOp):
            return chain
        chain.append(body[0])


def enclosing_loops(operation: Operation) -> list[affine.ForOp]:
    """All loops around an operation, the outermost first."""
    found: list[affine.ForOp] = []
    parent = operation.parent_op()
    while isinstance(parent, affine.ForOp):
        found.append(parent)
        parent = parent.parent_op()
    return found[::-1]


def precedes(first: Operation, second: Operation) -> bool:
    """Whether `first` stands before `second` in the text of the nest."""
    path = [*enclosing_loops(first), first]
    other = [*enclosing_loops(second), second]
    for a, b in zip(path, other, strict=False):
        if a is not b:
            return a.is_before_in_block(b)
    return len(path) < len(other)


# -- accesses --------------------------------------------------------------------------------


def is_store(operation: Operation) -> bool:
    return type(operation) in STORES


def is_access(operation: Operation) -> TypeGuard[Access]:
    return type(operation) in ACCESSES


def accesses_in(root: Operation) -> list[Access]:
    return [op for op in walk_inside(root) if is_access(op)]


def accesses_of(buffer: SSAValue) -> list[Access]:
    """All accesses of a buffer, in no particular order."""
    users = [use.operation for use in buffer.uses]
    return [op for op in users if is_access(op) and op.memref is buffer]


def access_width(access: Access) -> int:
    """How many consecutive elements of the last dimension an access touches."""
    if isinstance(access, affine.VectorLoadOp):
        touched: Attribute = access.result.type
    elif isinstance(access, affine.VectorStoreOp):
        touched = access.value.type
    else:
        return 1
    assert isinstance(touched, VectorType)
    return touched.get_shape()[0]


def subscripts(access: Access) -> list[LinearForm | None]:
    """One linear form per dimension; None where a subscript is not linear over loop indices."""
    indices = list(access.indices)
    if isinstance(access, memref.LoadOp | memref.StoreOp):
        return [_value_form(index) for index in indices]
    return [_expression_form(e, indices) for e in access.map.data.results]


def linear_subscripts(access: Access) -> list[LinearForm]:
    """Like `subscripts`, for accesses that a step has to understand in full.

    Raises ValueError naming the buffer when a subscript is not linear.
    """
    forms = subscripts(access)
    known = [form for form in forms if form is not None]
    if len(known) != len(forms) or not isinstance(access, AffineAccess):
        raise ValueError(f"a subscript of {access.memref.name_hint} depends on data")
    return known


def linear_map(forms: Sequence[LinearForm]) -> tuple[list[SSAValue], AffineMapAttr]:
    """The operands and the affine map of subscripts."""
    indices: list[SSAValue] = []
    for form in forms:
        indices.extend(index for index in form.terms if index not in indices)
    expressions: list[AffineExpr] = []
    for form in forms:
        expression: AffineExpr | None = None
        for index, coefficient in form.terms.items():
            term = AffineExpr.dimension(indices.index(index)) * coefficient
            expression = term if expression is None else expression + term
        if expression is None:
            expression = AffineExpr.constant(form.constant)
        elif form.constant:
            expression = expression + form.constant
        expressions.append(expression)
    return indices, AffineMapAttr(AffineMap(len(indices), 0, tuple(expressions)))


def set_subscripts(access: AffineAccess, forms: Sequence[LinearForm]) -> None:
    indices, map_attribute = linear_map(forms)
    leading = len(access.operands) - len(access.indices)
    access.operands = [*list(access.operands)[:leading], *indices]
    access.properties["map"] = map_attribute


def redirect(access: AffineAccess, buffer: SSAValue, forms: Sequence[LinearForm]) -> None:
    """Makes an access read or write another buffer."""
    leading = len(access.operands) - len(access.indices)
    access.operands[leading - 1] = buffer
    set_subscripts(access, forms)


def make_load(buffer: SSAValue, forms: Sequence[LinearForm], like: Operation) -> affine.LoadOp:
    indices, map_attribute = linear_map(forms)
    load = affine.LoadOp(buffer, indices, map_attribute)
    load.location = like.location
    load.result.name_hint = buffer.name_hint
    return load


def make_store(
    value: SSAValue, buffer: SSAValue, forms: Sequence[LinearForm], like: Operation
) -> affine.StoreOp:
    indices, map_attribute = linear_map(forms)
    store = affine.StoreOp(value, buffer, indices, map_attribute)
    store.location = like.location
    return store


def substitute_index(index: SSAValue, form: LinearForm) -> None:
    """Replaces a loop index by a linear form in all subscripts that use it.

    Raises ValueError when the index is also used as a number (in a data-dependent nest).
    """
    users = list(dict.fromkeys(use.operation for use in index.uses))
    for user in users:
        if not isinstance(user, AffineAccess):
            raise ValueError(f"index {index.name_hint} is used as a number by {user.name}")
    for user in users:
        assert isinstance(user, AffineAccess)
        forms = subscripts(user)
        known = [f for f in forms if f is not None]
        if len(known) == len(forms):
            set_subscripts(user, [f.substitute({index: form}) for f in known])
        else:
            _substitute_expressions(user, index, form)


def _substitute_expressions(access: AffineAccess, index: SSAValue, form: LinearForm) -> None:
    """The same for quasi-affine subscripts (with floordiv or mod): inside the expressions."""
    old = list(access.indices)
    new = [i for i in old if i is not index]
    new.extend(i for i in form.terms if i not in new)
    replacement: AffineExpr = AffineExpr.constant(form.constant)
    for term_index, coefficient in form.terms.items():
        replacement = AffineExpr.dimension(new.index(term_index)) * coefficient + replacement
    dimensions = [replacement if i is index else AffineExpr.dimension(new.index(i)) for i in old]
    results = [e.replace_dims_and_symbols(dimensions, ()) for e in access.map.data.results]
    leading = len(access.operands) - len(old)
    access.operands = [*list(access.operands)[:leading], *new]
    access.properties["map"] = AffineMapAttr(AffineMap(len(new), 0, tuple(results)))


def _expression_form(expression: AffineExpr, indices: Sequence[SSAValue]) -> LinearForm | None:
    terms: dict[SSAValue, int] = {}
    constant = _add_expression(expression, 1, indices, terms)
    if constant is None:
        return None
    return LinearForm({i: c for i, c in terms.items() if c}, constant)


def _add_expression(
    expression: AffineExpr, factor: int, indices: Sequence[SSAValue], terms: dict[SSAValue, int]
) -> int | None:
    """Adds `factor` times an expression to `terms`; returns its constant, None if not linear."""
    if isinstance(expression, AffineConstantExpr):
        return factor * expression.value
    if isinstance(expression, AffineDimExpr):
        form = _value_form(indices[expression.position])
        if form is None:
            return None
        for index, coefficient in form.terms.items():
            terms[index] = terms.get(index, 0) + factor * coefficient
        return factor * form.constant
    if not isinstance(expression, AffineBinaryOpExpr):
        return None
    left, right = expression.lhs, expression.rhs
    if expression.kind is AffineBinaryOpKind.Mul and isinstance(right, AffineConstantExpr):
        return _add_expression(left, factor * right.value, indices, terms)
    if expression.kind is not AffineBinaryOpKind.Add:
        return None
    first = _add_expression(left, factor, indices, terms)
    second = _add_expression(right, factor, indices, terms)
    return None if first is None or second is None else first + second


def _value_form(value: SSAValue) -> LinearForm | None:
    if isinstance(value, BlockArgument):
        return LinearForm({value: 1})
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return LinearForm({}, value.owner.value.value.data)
    return None


# -- the kernel ------------------------------------------------------------------------------


def stage_of(operation: Operation) -> str:
    """The statement that an operation comes from: "main" for the tag "conv_1/main"."""
    location = operation.location
    if not isinstance(location, NameLoc):
        return ""
    return location.desc.data.rpartition("/")[2]


class LoopNest:
    """A kernel function on its way through a schedule; steps change it in place.

    A name may stand for several loops: the copies that a step made of one loop.
    """

    def __init__(self, function: func.FuncOp):
        self.function = function
        self.kernel = function.sym_name.data
        self.block = function.body.block
        names = _strings(function.attributes.get("kernel.names"))
        roles = _strings(function.attributes.get("kernel.roles"))
        self.buffers: dict[str, SSAValue] = dict(zip(names, self.block.args, strict=True))
        self.roles: dict[str, str] = dict(zip(names, roles, strict=True))
        self._index: dict[str, list[affine.ForOp]] | None = None

    def error(self, step: str, reason: str) -> ScheduleError:
        return ScheduleError(step, self.kernel, reason)

    def changed(self) -> None:
        """To be called after loops were made, moved, renamed or erased."""
        self._index = None

    @property
    def index(self) -> Mapping[str, Sequence[affine.ForOp]]:
        """All loops by name, in program order."""
        if self._index is None:
            self._index = {}
            for op in walk_inside(self.function):
                if isinstance(op, affine.ForOp):
                    self._index.setdefault(name_of(op), []).append(op)
        return self._index

    def has(self, name: str) -> bool:
        return name in self.index

    def loops(self, name: str, step: str = "find") -> list[affine.ForOp]:
        """All loops of that name; raises ScheduleError listing the names that there are."""
        found = self.index.get(name)
        if not found:
            present = ", ".join(self.index) or "none"
            raise self.error(step, f"there is no loop {name!r}; the loops are: {present}")
        return list(found)

    def loop(self, name: str, step: str = "find") -> affine.ForOp:
        """The first loop of that name (copies have the same extent)."""
        return self.loops(name, step)[0]

    def buffer(self, name: str, step: str = "find") -> SSAValue:
        value = self.buffers.get(name)
        if value is None:
            present = ", ".join(self.buffers)
            raise self.error(step, f"there is no buffer {name!r}; the buffers are: {present}")
        return value

    def accesses(self, name: str) -> list[Access]:
        return accesses_of(self.buffers[name])

    def name_of_buffer(self, value: SSAValue) -> str:
        """The argument's name, or a register array's name hint."""
        names = [name for name, buffer in self.buffers.items() if buffer is value]
        return names[0] if names else value.name_hint or "?"

    def statements(self, stage: str | None = None) -> list[affine.ForOp]:
        """The top-level loops, in order; only those of one statement if `stage` is given."""
        tops = [op for op in self.block.ops if isinstance(op, affine.ForOp)]
        return [top for top in tops if stage is None or stage_of(top) == stage]

    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage_of(top) for top in self.statements()))

    def top_of(self, operation: Operation) -> Operation:
        """The top-level operation that holds `operation`."""
        while operation.parent_op() is not self.function:
            parent = operation.parent_op()
            assert parent is not None
            operation = parent
        return operation

    def retype(self, name: str, buffer_type: MemRefType) -> None:
        """Gives an argument another type; its uses must have been rewritten for it."""
        old = self.buffers[name]
        hint = old.name_hint
        new = Rewriter.replace_value_with_new_type(old, buffer_type)
        new.name_hint = hint
        self.buffers[name] = new
        self.function.update_function_type()


def _strings(attribute: Attribute | None) -> list[str]:
    assert isinstance(attribute, ArrayAttr), "the kernel lacks kernel.names or kernel.roles"
    return [a.data for a in attribute.data if isinstance(a, StringAttr)]
