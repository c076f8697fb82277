"""Bodies of loop nests: loops, stores and named values, with expressions put into their users.

    %a = affine.load %x[%i]                   for (long i = 0; i < 8; i++) {
    %b = affine.load %y[%i]                       y[i] += x[i];
    %c = arith.addf %b, %a              ->    }
    affine.store %c, %y[%i]

A value that is used once in its block becomes part of its user's expression, unless a store
stands between; one that is used more often, or in an inner block, gets a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import affine, arith, math, memref, vector
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.structure import walk_inside
from explorer.kernels.loops.beginning import begin_of, begin_text
from explorer.kernels.loops.clipping import Clip, clip_of, clip_text, end_text, whole_text
from explorer.kernels.loops.nest import LinearForm, extent_of, index_of, kind_of, name_of
from explorer.kernels.loops.scalar_types import (
    BOOLEAN,
    SIGNED,
    UNSIGNED,
    ScalarType,
    lane_count,
    scalar_type,
)
from explorer.kernels.loops.tails import (
    Tail,
    bodies_of,
    has_extents,
    segments_of,
    tails_of_block,
    tiles_of_loop,
)
from explorer.kernels.printing.expressions import Expression, ExpressionWriter
from explorer.kernels.printing.identifiers import Names, comment_text
from explorer.kernels.printing.language import Language, Requirement, vector_requirement
from explorer.kernels.printing.operators import ADDITIVE, EQUALITY, MULTIPLICATIVE, PRIMARY, UNARY
from explorer.kernels.printing.source_lines import INDENT, WIDTH, SourceLines, tags_of, tags_within
from explorer.kernels.printing.subscripts import (
    Sum,
    flat_subscript,
    is_index_arithmetic,
    static_shape,
    subscripts,
    sum_of,
    sum_text,
    written_out_apart,
)
from explorer.kernels.printing.uses import Load, Store, Uses, is_constant, loop_bounds
from explorer.kernels.steps.matrix_tiles import (
    MATRIX,
    MAX_OUTER_LOOPS,
    is_matrix_tile,
    matrix_tile,
)
from explorer.kernels.steps.prefetch import touches_of
from explorer.kernels.steps.registers import is_held

# An index longer than this gets a name instead of standing inside a subscript.
LONGEST_INLINE_INDEX = 30
# Room that a statement needs beside its expression, and what an expression may always take.
STATEMENT_ROOM = 16
SHORTEST_ROOM = 60
# What makes unsigned bytes of four signed ones: 128 is added to each.
FLIPS = "(int32_t)0x80808080"
# Operands shorter than this are not worth a name when a line gets too long.
SHORTEST_NAMED = 16
DEFAULT_NAMES: dict[type[Operation], str] = {
    arith.AddfOp: "sum",
    arith.AddiOp: "sum",
    arith.SubfOp: "difference",
    arith.SubiOp: "difference",
    arith.MulfOp: "product",
    arith.MuliOp: "product",
    arith.DivfOp: "quotient",
    arith.DivSIOp: "quotient",
    arith.RemSIOp: "remainder",
    arith.MaximumfOp: "largest",
    arith.MinimumfOp: "smallest",
    arith.CmpfOp: "condition",
    arith.CmpiOp: "condition",
    arith.SelectOp: "chosen",
    arith.IndexCastOp: "position",
    math.ExpOp: "exponential",
    math.SqrtOp: "root",
    vector.BroadcastOp: "repeated",
    vector.ReductionOp: "reduced",
}


class BodyPrinter:
    """Prints operations of one function into `lines`.

    `buffers` names the function's arguments; register arrays are added where they are declared.
    `size` is the argument that loops over rows end with.
    """

    def __init__(
        self,
        language: Language,
        writer: ExpressionWriter,
        uses: Uses,
        names: Names,
        lines: SourceLines,
        buffers: Mapping[SSAValue, str],
        size_text: Callable[[Clip], str],
    ):
        self.language = language
        self.writer = writer
        self.uses = uses
        self.names = names
        self.lines = lines
        self.size_text = size_text
        self.arguments = frozenset(buffers)
        self.named: dict[SSAValue, Expression] = {b: Expression(n) for b, n in buffers.items()}
        self.pending: dict[SSAValue, Expression] = {}
        self.ranks: dict[SSAValue, int] = {}
        self.iterations: dict[affine.ForOp, int] = {}
        """Of loops that end earlier in the body that is printed."""
        self.filled: dict[SSAValue, bool] = {}
        """By the index of a loop over tiles that is printed twice, whether its tiles are whole."""

    def operations(self, operations: Iterable[Operation], depth: int) -> None:
        """All operations of a block, in order; several times where a call fills tiles in part."""
        block = list(operations)
        with_tails = self.language.has_tails and not self.iterations
        segments = segments_of(block) if with_tails and has_extents(block) else ()
        found = [(segment, tails_of_block(segment)) for segment in segments]
        if not any(tails for _, tails in found):
            self._block(block, depth)
            return
        for segment, tails in found:
            if tails:
                self._tails(segment, tails, depth)
            else:
                self._block(segment, depth)

    def _tails(self, block: Sequence[Operation], tails: Sequence[Tail], depth: int) -> None:
        tags = tuple(tag for op in block for tag in tags_within(op))
        names: list[str] = []
        for tail in tails:
            if tail.tiles is not None and self.filled.get(tail.tiles):
                names.append("")
                continue
            names.append(self.names.claim(f"{name_of(tail.loops[0])}_left"))
            own = tail.extent
            clip = Clip(own.times, own.minus, own.per, own.argument)
            text = clip_text(clip, self.size_text(clip))
            if tail.base != LinearForm():
                base = self._sum(Sum(tuple(tail.base.terms.items()), tail.base.constant))
                text += f" - {base.within(MULTIPLICATIVE)}"
            declared = f"const {self.language.index} {names[-1]} = {text};"
            self.lines.add_wrapped(depth, declared, tags)
        empty = [
            name for name, tail in zip(names, tails, strict=True) if name and tail.may_be_empty
        ]
        opening = ""
        if empty:
            test = " || ".join(f"{name} <= 0" for name in empty)
            self.lines.add(depth, f"if ({test}) {{", tags)
            opening = "} else "
        for body in bodies_of(tails, self.filled):
            conditions = [
                f"{name} <= {limit}"
                for name, limit in zip(names, body.limits, strict=True)
                if limit is not None
            ]
            test = f"if ({' && '.join(conditions)}) {{" if conditions else "{"
            self.lines.add(depth, f"{opening}{test}", tags)
            opening = "} else "
            self.names.open_block()
            known = dict(self.named), dict(self.pending), dict(self.ranks)
            self.iterations = dict(body.iterations)
            self._block(block, depth + 1)
            self.iterations = {}
            self.named, self.pending, self.ranks = known
            self.names.close_block()
        self.lines.add(depth, "}", tags)

    def _block(self, operations: Sequence[Operation], depth: int) -> None:
        present = [op for op in operations if op in self.uses.live]
        loops = [op for op in present if isinstance(op, affine.ForOp)]
        stages = {tags_within(loop) for loop in loops}
        commented: tuple[str, ...] = ()
        for op in present:
            if isinstance(op, affine.ForOp) and len(stages) > 1 and tags_within(op) != commented:
                commented = tags_within(op)
                self.comment(op, depth)
            self.operation(op, depth)

    def comment(self, operation: Operation, depth: int) -> None:
        """Says which statements a nest comes from: `// conv_1/main`."""
        if tags := tags_within(operation):
            self.lines.add(depth, f"// {comment_text(', '.join(tags))}", tags)

    def operation(self, op: Operation, depth: int) -> None:
        match op:
            case affine.ForOp():
                self._loop(op, depth)
            case memref.AllocaOp():
                self._register_array(op, depth)
            case affine.StoreOp() | memref.StoreOp() | affine.VectorStoreOp():
                self._store(op, depth)
            case memref.AllocOp():
                raise UnsupportedError(
                    f"buffer {op.memref.name_hint or ''} is allocated inside the kernel",
                    node=", ".join(tags_of(op)),
                    hint="make it an argument with the role scratch, or contract it",
                )
            case _ if is_constant(op) or is_index_arithmetic(op):
                return  # written where it is used
            case _ if len(op.results) == 1 and not op.regions:
                self._define(op, depth)
            case _:
                raise UnsupportedError(
                    f"{op.name} has no form in generated {self.language.name}",
                    node=", ".join(tags_of(op)),
                    hint="lower the kernel to loops first (lower_to_loops)",
                )

    def name_index(self, loop: affine.ForOp) -> str:
        """A name for a loop's index, visible until the block closes."""
        index = index_of(loop)
        name = self.names.claim(name_of(loop) or index.name_hint or "i")
        self._remember(index, Expression(name))
        return name

    # -- statements ----------------------------------------------------------------------------
    def _loop(self, loop: affine.ForOp, depth: int) -> None:
        if loop.results:
            raise UnsupportedError(
                f"loop {name_of(loop)} carries values from one iteration to the next",
                node=", ".join(tags_of(loop)),
                hint="keep them in a register array (memref.alloca)",
            )
        tags = tags_of(loop) or tags_within(loop)
        written = {inner.memref for inner in walk_inside(loop) if isinstance(inner, Store)}
        self._name_readers_of(written, depth)
        if is_matrix_tile(loop):
            self._matrix_tile(loop, depth, tags)
            return
        lower, upper = (self._sum(bound) for bound in loop_bounds(loop))
        count = self.iterations.get(loop, 0)
        end = str(count) if count else upper.within(ADDITIVE)
        clip = clip_of(loop)
        if clip is not None:
            last = self.names.claim(f"{name_of(loop)}_end")
            text = end_text(clip, self.size_text(clip), end)
            self.lines.add_wrapped(depth, f"const {self.language.index} {last} = {text};", tags)
            end = last
        first, begin = lower.text, begin_of(loop)
        if begin is not None:
            first = self.names.claim(f"{name_of(loop)}_begin")
            text = begin_text(begin, self.size_of_argument, self.form_text, end)
            self.lines.add_wrapped(depth, f"const {self.language.index} {first} = {text};", tags)
        for whole, own_first, own_end in self._parts(loop, first, end, depth, tags):
            known = dict(self.named), dict(self.pending), dict(self.ranks)
            if whole is not None:
                self.filled[index_of(loop)] = whole
            self._iterations(loop, own_first, own_end, depth, tags)
            self.filled.pop(index_of(loop), None)
            if whole:
                self.named, self.pending, self.ranks = known

    def _parts(
        self, loop: affine.ForOp, first: str, end: str, depth: int, tags: Sequence[str]
    ) -> list[tuple[bool | None, str, str]]:
        """Whether tiles are whole, first iteration and end of the parts in which a loop runs."""
        clip, tail = clip_of(loop), None
        if clip is not None and self.language.has_tails and not self.iterations:
            tail = tiles_of_loop(loop) if begin_of(loop) is None and first == "0" else None
        if clip is None or tail is None:
            return [(None, first, end)]
        whole = self.names.claim(f"{name_of(loop)}_whole")
        clip = replace(clip, minus=clip.minus - tail.extent.per + 1)
        text = whole_text(clip, self.size_text(clip), end)
        self.lines.add_wrapped(depth, f"const {self.language.index} {whole} = {text};", tags)
        return [(True, first, whole), (False, whole, end)]

    def _iterations(
        self, loop: affine.ForOp, first: str, end: str, depth: int, tags: Sequence[str]
    ) -> None:
        count = self.iterations.get(loop, 0)
        self.names.open_block()
        index = self.name_index(loop)
        if kind_of(loop) == "unroll":
            self.lines.add(depth, f"UNROLL({count or extent_of(loop)})", tags)
        step = loop.step.value.data
        advance = f"{index}++" if step == 1 else f"{index} += {step}"
        declared = f"{self.language.index} {index} = {first}"
        header = f"for ({declared}; {index} < {end}; {advance}) {{"
        self.lines.add(depth, header, tags)
        if self.language.has_prefetch:
            self._prefetch(loop, depth + 1, tags)
        self.operations(loop.body.block.ops, depth + 1)
        self.names.close_block()
        self.lines.add(depth, "}", tags)

    def size_of_argument(self, argument: int) -> str:
        """The size of a call that an argument holds."""
        return self.size_text(Clip(1, 0, 1, argument))

    def form_text(self, form: LinearForm) -> str:
        return self._sum(Sum(tuple(form.terms.items()), form.constant)).within(ADDITIVE)

    def _prefetch(self, loop: affine.ForOp, depth: int, tags: Sequence[str]) -> None:
        """`prefetch(x + cb * 25088 + 25088);` for every line that a marked loop touches."""
        for touch in touches_of(loop):
            self.writer.require(Requirement("prefetch"))
            place, line = (
                self._sum(Sum(tuple(form.terms.items()), form.constant)).text
                for form in (touch.place, touch.line or LinearForm())
            )
            pointer = f"{self.named[touch.buffer].text} + {place}"
            call = f"prefetch({pointer});"
            if touch.line is not None:
                call = f"prefetch_line({pointer}, {line}, {touch.last});"
            self.lines.add_wrapped(depth, call, tags)

    def _matrix_tile(self, loop: affine.ForOp, depth: int, tags: Sequence[str]) -> None:
        """`matrix_int16(&tile_rows, &acc[0][0], 32, 2, x, 512, w, 8192, 128, 0);`: a whole nest.

        Of rows in pieces `matrix_pieces_int16`, with the loops over them behind the other numbers.
        """
        tile = matrix_tile(loop)
        own = {index_of(inner) for inner in (*tile.around, tile.groups, tile.rows, tile.vectors)}
        operands = []
        for load, stride in ((tile.few, tile.row_stride), (tile.filters, tile.vector_stride)):
            assert isinstance(load.memref.type, MemRefType)
            flat = flat_subscript(subscripts(load), load.memref.type)
            start = self._sum(Sum(tuple(t for t in flat.terms if t[0] not in own), flat.constant))
            name = self.named[load.memref].text
            operands += [name if start.text == "0" else f"{name} + {start.text}", str(stride)]
        element, lanes = scalar_type(tile.dot.result.type), lane_count(tile.dot.result.type)
        self.writer.require(*vector_requirement(element, lanes))
        form = f"{MATRIX}_pieces" if tile.around else MATRIX
        self.writer.require(Requirement(form, element.name, lanes))
        is_signed = scalar_type(tile.few.result.type).kind == "signed"
        numbers = [extent_of(inner) for inner in (tile.rows, tile.vectors, tile.groups)]
        sums = f"&{self.named[tile.sums.memref].text}[0][0]"
        given = ["&tile_rows", sums, *map(str, numbers[:2]), *operands, str(numbers[2])]
        given.append(FLIPS if is_signed else "0")
        if tile.around:
            once = [(1, 0)] * (MAX_OUTER_LOOPS - len(tile.around))
            given += [str(number) for loop in (*once, *tile.pieces) for number in loop]
        name = f"{form}_{self.language.suffix_name(element, lanes)}"
        call = f"{name}({', '.join(given)});"
        self.lines.add_wrapped(depth, call, tags)

    def _register_array(self, op: memref.AllocaOp, depth: int) -> None:
        array = op.memref
        assert isinstance(array.type, MemRefType)
        name = self.names.claim(array.name_hint or "registers")
        self._remember(array, Expression(name))
        element = scalar_type(array.type.element_type)
        lanes = lane_count(array.type.element_type)
        self.writer.require(*vector_requirement(element, lanes))
        extents = "".join(f"[{extent}]" for extent in static_shape(array.type))
        declared = self.language.declared(element, lanes)
        if element == BOOLEAN:
            declared = self.language.memory_name(element)
        aligned = ""
        if op.alignment is not None and extents and not lanes:
            aligned = f" __attribute__((aligned({op.alignment.value.data})))"
        self.lines.add(depth, f"{declared} {name}{extents}{aligned};", tags_of(op))

    def _store(self, op: Store, depth: int) -> None:
        buffer = op.memref
        element, lanes = scalar_type(op.value.type), lane_count(op.value.type)
        value = self._operand(op.value)
        target = self._place(op)
        self._name_readers_of({buffer}, depth)
        tags = [*tags_of(op), *value.tags, *target.tags]
        if isinstance(op, affine.VectorStoreOp):
            text = self._vector_store(op, element, lanes, value, target)
            if len(INDENT) * depth + len(text) >= WIDTH and self._is_nameable(op.value):
                self._name_value(op.value, value, depth)
                text = self._vector_store(op, element, lanes, self.named[op.value], target)
            self.lines.add_wrapped(depth, f"{text};", tags)
            return
        if lanes and is_held(buffer):
            call = self.language.keep(element, lanes, value.text)
            self.writer.require(*call.needs)
            self._assign(depth, f"{target.text} =", call.name, tags)
            return
        if value.parts is not None and value.parts[0] == target.text:
            _, operator, operand = value.parts
            self._assign(depth, f"{target.text} {operator}=", operand, tags)
            return
        self._assign(depth, f"{target.text} =", value.text, tags)

    def _assign(self, depth: int, left: str, right: str, tags: Sequence[str]) -> None:
        """`left right;` on one line, or on two where it would be too long."""
        if len(INDENT) * depth + len(left) + len(right) + 2 <= WIDTH:
            self.lines.add(depth, f"{left} {right};", tags)
            return
        self.lines.add_wrapped(depth, left, tags)
        self.lines.add_wrapped(depth + 1, f"{right};", tags)

    def _vector_load(self, op: Load, element: ScalarType, lanes: int, pointer: str) -> str:
        return self.language.load_vector(element, lanes, pointer)

    def _vector_store(
        self, op: Store, element: ScalarType, lanes: int, value: Expression, target: Expression
    ) -> str:
        if element == BOOLEAN:
            # A mask's ones become the bytes 1 that stand for true in memory.
            element = UNSIGNED[8]
            mask = self.writer.mask(value, 8, lanes)
            self.writer.require(*vector_requirement(SIGNED[8], lanes))
            one = self.language.splat(SIGNED[8], lanes, "1")
            text = self.language.reinterpret(element, lanes, f"({mask.within(UNARY)} & {one})")
            value = Expression(text)
        self.writer.require(*vector_requirement(element, lanes))
        return self.language.store_vector(element, lanes, value.text, target.text)

    def _define(self, op: Operation, depth: int) -> None:
        """A value: kept for its only user, or named at once."""
        expression = self._load(op) if isinstance(op, Load) else self._compute(op, depth)
        result = op.results[0]
        is_single = self.uses.counts[result] == 1 and self.uses.blocks[result] is op.parent
        is_long_index = (
            isinstance(result.type, IndexType) and len(expression.text) > LONGEST_INLINE_INDEX
        )
        if is_single and not is_long_index:
            self.pending[result] = expression
        else:
            self._name_value(result, expression, depth)

    def _name_value(self, value: SSAValue, expression: Expression, depth: int) -> None:
        """Declares a constant of the value; the expression is evaluated here."""
        owner = value.owner
        assert isinstance(owner, Operation)
        element, lanes = scalar_type(value.type), lane_count(value.type)
        if lanes and element == BOOLEAN:
            element = SIGNED[expression.mask_bits]
        hint = value.name_hint or DEFAULT_NAMES.get(type(owner), "value")
        if isinstance(owner, Load) and hint == owner.memref.name_hint:
            hint = f"{hint}_value"
        name = self.names.claim(hint)
        declared = self.language.declared(element, lanes)
        self._assign(depth, f"const {declared} {name} =", expression.text, expression.tags)
        self.pending.pop(value, None)
        self._remember(value, Expression(name, mask_bits=expression.mask_bits))

    def _is_nameable(self, value: SSAValue) -> bool:
        """Whether a value is an expression that a name would shorten."""
        owner = value.owner
        if not isinstance(owner, Operation) or value in self.named:
            return False
        return not is_constant(owner) and not is_index_arithmetic(owner)

    def _name_readers_of(self, written: set[SSAValue], depth: int) -> None:
        """Evaluates pending expressions before a buffer that they read is written.

        Arguments may share memory (operations in place), so that a store to one counts for all.
        """
        touched = set(written)
        if not self.arguments.isdisjoint(written):
            touched |= self.arguments
        for value, expression in list(self.pending.items()):
            if not expression.reads.isdisjoint(touched):
                self._name_value(value, expression, depth)

    def _remember(self, value: SSAValue, expression: Expression) -> None:
        self.named[value] = expression
        self.ranks[value] = len(self.ranks)

    # -- expressions ---------------------------------------------------------------------------
    def _compute(self, op: Operation, depth: int) -> Expression:
        operands = [self._operand(v) for v in op.operands]
        if isinstance(op, arith.SelectOp) and not lane_count(op.cond.type):
            self._name_what_arms_read(op, operands, depth)
        expression = self.writer.write(op, operands)
        room = max(WIDTH - STATEMENT_ROOM - len(INDENT) * depth, SHORTEST_ROOM)
        while self._printed_length(op, expression) > room:
            longest = max(range(len(operands)), key=lambda i: len(operands[i].text))
            value = op.operands[longest]
            if len(operands[longest].text) < SHORTEST_NAMED or not self._is_nameable(value):
                break
            self._name_value(value, operands[longest], depth)
            operands[longest] = self.named[value]
            expression = self.writer.write(op, operands)
        reads = frozenset().union(*(e.reads for e in operands))
        tags = [tag for e in operands for tag in e.tags]
        return replace(expression, reads=reads, tags=(*tags_of(op), *tags))

    def _name_what_arms_read(
        self, op: arith.SelectOp, operands: list[Expression], depth: int
    ) -> None:
        """Both arms are values: loads inside of `?:` would be jumps, which are not vectorized."""
        for index in (1, 2):
            value = op.operands[index]
            if operands[index].reads and self._is_nameable(value):
                self._name_value(value, operands[index], depth)
                operands[index] = self.named[value]

    def _printed_length(self, op: Operation, expression: Expression) -> int:
        """Characters that an expression will take; the left side of an update is not repeated."""
        result = op.results[0]
        use = result.first_use
        is_update = (
            expression.parts is not None
            and use is not None
            and isinstance(use.operation, affine.StoreOp | memref.StoreOp)
            and self.uses.counts[result] == 1
        )
        if is_update and expression.parts is not None:
            return len(expression.parts[2])
        return len(expression.text)

    def _load(self, op: Load) -> Expression:
        result = op.results[0]
        element, lanes = scalar_type(result.type), lane_count(result.type)
        place = self._place(op)
        mask_bits = 0
        precedence = PRIMARY
        if isinstance(op, affine.VectorLoadOp):
            in_memory = UNSIGNED[8] if element == BOOLEAN else element
            self.writer.require(*vector_requirement(in_memory, lanes))
            text = self._vector_load(op, in_memory, lanes, place.text)
            if element == BOOLEAN:
                self.writer.require(*vector_requirement(SIGNED[8], lanes))
                text = f"{text} != {self.language.splat(in_memory, lanes, '0')}"
                mask_bits, precedence = 8, EQUALITY
        elif element == BOOLEAN:
            text, precedence = f"{place.text} != 0", EQUALITY
        else:
            text = place.text
        reads = frozenset({op.memref}) | place.reads
        return Expression(text, precedence, reads, (*tags_of(op), *place.tags), mask_bits)

    def _place(self, op: Load | Store) -> Expression:
        """The element that is accessed, `x[i * 8 + j]`, or its address for a vector: `x + i`.

        What loops that are written out add to a subscript stands apart, `(x + i * 8)[j]`, where the
        language says so.
        """
        buffer = op.memref
        assert isinstance(buffer.type, MemRefType)
        name = self.named[buffer].text
        is_vector = isinstance(op, affine.VectorLoadOp | affine.VectorStoreOp)
        forms = subscripts(op)
        if buffer not in self.arguments:
            parts = [self._sum(form) for form in forms]
            text = name + "".join(f"[{part.text}]" for part in parts)
            text = f"&{text}" if is_vector else text
        else:
            around, inside = Sum(), flat_subscript(forms, buffer.type)
            if self.language.splits_subscripts and not is_vector:
                around, inside = written_out_apart(inside)
            parts = [self._sum(form) for form in ((around, inside) if around.terms else (inside,))]
            text = f"({name} + {parts[0].text})" if around.terms else name
            text = f"{text}[{parts[-1].text}]"
            if is_vector:
                text = name if parts[0].text == "0" else f"{name} + {parts[0].text}"
        reads = frozenset().union(*(part.reads for part in parts))
        return Expression(text, reads=reads, tags=tuple(t for part in parts for t in part.tags))

    def _operand(self, value: SSAValue) -> Expression:
        if isinstance(value.type, IndexType):
            return self._sum(sum_of(value))
        return self._value(value)

    def _value(self, value: SSAValue) -> Expression:
        """The text of a value: its name, or the expression that waited for this user."""
        if value in self.named:
            return self.named[value]
        if value in self.pending:
            return self.pending.pop(value)
        owner = value.owner
        assert isinstance(owner, Operation) and is_constant(owner), f"{value} is not yet printed"
        return self.writer.write(owner, [self._value(operand) for operand in owner.operands])

    def _sum(self, form: Sum) -> Expression:
        used: list[Expression] = []

        def text_of(value: SSAValue) -> str:
            used.append(self._value(value))
            return used[-1].within(UNARY)

        def rank_of(value: SSAValue) -> int:
            return self.ranks.get(value, len(self.ranks))

        text = sum_text(form, text_of, rank_of)
        summands = len(form.terms) + bool(form.constant)
        if summands > 1 or text.startswith("-"):
            precedence = ADDITIVE
        elif form.terms and form.terms[0][1] != 1:
            precedence = MULTIPLICATIVE
        else:
            precedence = used[0].precedence if used and len(used) == 1 else PRIMARY
            precedence = min(precedence, UNARY)
        reads = frozenset().union(*(e.reads for e in used))
        return Expression(text, precedence, reads, tuple(t for e in used for t in e.tags))
