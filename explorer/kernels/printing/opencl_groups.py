"""OpenCL C of nests with item loops: work-items, local memory, barriers.

    affine.for %r = 0 to 64 {item}             for (int part = item; part < 1024; part += 256) {
      affine.for %c = 0 to 16 {item}               const int r = part / 16;
        x_tile[r, c] = x[...]            ->        const int c = part % 16;
    affine.for %mi = 0 to 16 {item} ...            x_tile[r][c] = x[...];
      acc[mi, ni] += x_tile[mi, k] * ..        }
                                               barrier(CLK_LOCAL_MEM_FENCE);
                                               const int mi = item / 16; ...

The iterations of neighbouring loops are numbered together and dealt out in turn, neighbours to
neighbouring items, so that their accesses meet in the same lines of memory. A barrier stands where
a nest touches what items wrote or read since the last one. Arrays that are subscripted with the
item's own number are private; all others are local memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import affine, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.structure import walk_inside
from explorer.kernels.loops.clipping import Clip
from explorer.kernels.loops.nest import (
    LinearForm,
    accesses_in,
    body_of,
    extent_of,
    index_of,
    is_store,
    kind_of,
)
from explorer.kernels.loops.scalar_types import FLOAT, ScalarType, lane_count, scalar_type
from explorer.kernels.printing.bodies import BodyPrinter
from explorer.kernels.printing.expressions import Expression, ExpressionWriter
from explorer.kernels.printing.identifiers import Names
from explorer.kernels.printing.language import Language, vector_name, vector_requirement
from explorer.kernels.printing.opencl_tensor_cores import WARP_WORDS, MatrixWriter
from explorer.kernels.printing.source_lines import SourceLines, tags_of, tags_within
from explorer.kernels.printing.subscripts import Sum, flat_subscript, static_shape, subscripts
from explorer.kernels.printing.uses import Load, Store, Uses
from explorer.kernels.steps.groups import (
    ITEM,
    LOCAL_ALIGNMENT_BYTES,
    has_items,
    in_rounds,
    item_chain,
    own_dimensions,
)
from explorer.kernels.steps.tensor_cores import WARP, instruction_of, uses_emulation

ARGUMENTS = "arguments"
"""All buffers of the device's memory as one: operations in place make two of them the same."""

WARP_ITEMS = prod(WARP)

Key = SSAValue | str


@dataclass(frozen=True)
class Touched:
    """What was read and written in memory that items share."""

    read: frozenset[Key] = frozenset()
    written: frozenset[Key] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        return Touched(self.read | other.read, self.written | other.written)

    def conflicts(self, later: Touched) -> frozenset[Key]:
        """What must be complete before `later` begins."""
        return (self.written & (later.read | later.written)) | (self.read & later.written)


class GroupBodyPrinter(BodyPrinter):
    """Prints a phase whose tasks are work-groups of `items` work-items."""

    def __init__(
        self,
        language: Language,
        writer: ExpressionWriter,
        uses: Uses,
        names: Names,
        lines: SourceLines,
        buffers: Mapping[SSAValue, str],
        size_text: Callable[[Clip], str],
        items: int,
    ):
        super().__init__(language, writer, uses, names, lines, buffers, size_text)
        self.items = items
        self.shared: set[SSAValue] = set()
        self.dropped: dict[SSAValue, int] = {}
        """Arrays of which every item has its own elements: how many dimensions are its number."""
        self.rounds: set[SSAValue] = set()
        """Those of them of which an item has as many elements as it takes turns."""
        self.turn = "0"
        """Which turn an item is at in a nest that is dealt out in rounds."""
        self.exchange = ""
        """The array through which emulated matrix instructions exchange fragments."""
        self.since = Touched()
        """Since the last barrier."""

    def declare_shared(self, top: Operation, depth: int) -> None:
        """Local memory of the phase's nest; OpenCL C wants it outside of all blocks."""
        for op in walk_inside(top):
            if not isinstance(op, memref.AllocaOp):
                continue
            own = own_dimensions(op)
            if own >= 0:
                self.dropped[op.memref] = own
                if in_rounds(op):
                    self.rounds.add(op.memref)
                continue
            self.shared.add(op.memref)
            name = self.names.claim(op.memref.name_hint or "tile")
            self._remember(op.memref, Expression(name))
            assert isinstance(op.memref.type, MemRefType)
            element = scalar_type(op.memref.type.element_type)
            declared = self.language.declared(element, lane_count(op.memref.type.element_type))
            extents = "".join(f"[{extent}]" for extent in static_shape(op.memref.type)) or "[1]"
            aligned = f" __attribute__((aligned({LOCAL_ALIGNMENT_BYTES})))"
            self.lines.add(depth, f"__local {declared} {name}{extents}{aligned};", tags_of(op))

        if uses_emulation(top):
            self.exchange = self.names.claim("fragments")
            words = self.items // WARP_ITEMS * WARP_WORDS
            self.lines.add(depth, f"__local uint {self.exchange}[{words}];", tags_within(top))

    def operation(self, op: Operation, depth: int) -> None:
        if isinstance(op, affine.ForOp) and kind_of(op) == ITEM:
            self._item_nest(op, depth)
        elif isinstance(op, memref.AllocaOp) and op.memref in self.shared:
            return
        elif isinstance(op, affine.ForOp) and instruction_of(op):
            self._instruction_nest(op, depth)
        elif isinstance(op, affine.ForOp) and has_items(op):
            # What a later iteration does may meet what an earlier one did.
            self.since = self.since | self._touched(op)
            super().operation(op, depth)
        else:
            super().operation(op, depth)

    def _instruction_nest(self, loop: affine.ForOp, depth: int) -> None:
        """A nest that matrix instructions compute."""
        self._name_readers_of({loop_access.memref for loop_access in accesses_in(loop)}, depth)

        def subscript(form: LinearForm) -> str:
            return self._sum(Sum(tuple(form.terms.items()), form.constant)).text

        writer = MatrixWriter(
            names=self.names,
            lines=self.lines,
            index=self.language.index,
            subscript=subscript,
            array=lambda array: self.named[array].text,
            name_index=self.name_index,
            require=self.writer.require,
            exchange=self.exchange,
        )
        writer.write(loop, depth)

    # -- items -----------------------------------------------------------------------------------
    def _item_nest(self, loop: affine.ForOp, depth: int) -> None:
        tags = tags_of(loop) or tags_within(loop)
        chain = item_chain(loop)
        written = {inner.memref for inner in walk_inside(loop) if isinstance(inner, Store)}
        self._name_readers_of(written, depth)
        self._barrier(self._touched(loop), depth, tags)
        total = prod(extent_of(one) for one in chain)
        self.names.open_block()
        index, number = self.language.index, "item"
        closing = ["}"]
        if total > self.items and self._keeps_rounds(loop):
            number, opened = self._open_rounds(total, depth, tags)
            closing *= opened
            depth += opened - 1
        else:
            if total > self.items:
                self._require_shared(loop)
                number = self.names.claim("part")
                step = f"{number} += {self.items}"
                header = f"for ({index} {number} = item; {number} < {total}; {step}) {{"
            else:
                header = f"if (item < {total}) {{" if total < self.items else "{"
            self.lines.add(depth, header, tags)
        inner = total
        for position, one in enumerate(chain):
            inner //= extent_of(one)
            name = self.name_index(one)
            if index_of(one) not in self.uses.counts:
                continue
            text = number if inner == 1 else f"{number} / {inner}"
            if position and extent_of(one) > 1:
                text += f" % {extent_of(one)}"
            if extent_of(one) == 1:
                text = "0"
            self.lines.add(depth + 1, f"const {index} {name} = {text};", tags)
        self.operations(body_of(chain[-1]), depth + 1)
        self.names.close_block()
        self.turn = "0"
        for _ in closing:
            self.lines.add(depth, "}", tags)
            depth -= 1

    def _keeps_rounds(self, loop: affine.ForOp) -> bool:
        """Whether items keep what they load here until a later nest, or take it from there."""
        return any(access.memref in self.rounds for access in accesses_in(loop))

    def _open_rounds(self, total: int, depth: int, tags: tuple[str, ...]) -> tuple[str, int]:
        """Turns with constant numbers, so that they index registers; (part, blocks opened)."""
        index = self.language.index
        turns = -(-total // self.items)
        self.turn, number = self.names.claim("turn"), self.names.claim("part")
        self.lines.add(depth, f"UNROLL({turns})", tags)
        header = f"for ({index} {self.turn} = 0; {self.turn} < {turns}; {self.turn}++) {{"
        self.lines.add(depth, header, tags)
        place = f"item + {self.turn} * {self.items}"
        self.lines.add(depth + 1, f"const {index} {number} = {place};", tags)
        if total % self.items == 0:
            return number, 1
        self.lines.add(depth + 1, f"if ({number} < {total}) {{", tags)
        return number, 2

    def _require_shared(self, loop: affine.ForOp) -> None:
        """A nest that is dealt out in rounds cannot use what an item keeps for itself."""
        for access in accesses_in(loop):
            if self.dropped.get(access.memref, 0) and loop.is_ancestor(access):
                owner = access.memref.owner
                if isinstance(owner, Operation) and not loop.is_ancestor(owner):
                    raise UnsupportedError(
                        f"{access.memref.name_hint} has more elements than a group has items",
                        node=", ".join(tags_within(loop)),
                        hint="a larger group, or fewer iterations of the loops over items",
                    )

    def _barrier(self, here: Touched, depth: int, tags: tuple[str, ...]) -> None:
        met = self.since.conflicts(here)
        if met:
            fences = ["CLK_LOCAL_MEM_FENCE"] if any(key is not ARGUMENTS for key in met) else []
            fences += ["CLK_GLOBAL_MEM_FENCE"] if ARGUMENTS in met else []
            self.lines.add(depth, f"barrier({' | '.join(fences)});", tags)
            self.since = Touched()
        self.since = self.since | here

    def _touched(self, root: Operation) -> Touched:
        read: set[Key] = set()
        written: set[Key] = set()
        for access in accesses_in(root):
            key: Key = access.memref
            if access.memref in self.arguments:
                key = ARGUMENTS
            elif access.memref not in self.shared:
                continue
            (written if is_store(access) else read).add(key)
        return Touched(frozenset(read), frozenset(written))

    # -- memory ----------------------------------------------------------------------------------
    def _register_array(self, op: memref.AllocaOp, depth: int) -> None:
        dropped = self.dropped.get(op.memref, 0)
        if not dropped:
            super()._register_array(op, depth)
            return
        array = op.memref
        assert isinstance(array.type, MemRefType)
        name = self.names.claim(array.name_hint or "registers")
        self._remember(array, Expression(name))
        element = scalar_type(array.type.element_type)
        lanes = lane_count(array.type.element_type)
        self.writer.require(*vector_requirement(element, lanes))
        shape = static_shape(array.type)
        kept = [*self._turns_of(array, shape[:dropped]), *shape[dropped:]]
        extents = "".join(f"[{extent}]" for extent in kept)
        declared = self.language.declared(element, lanes)
        self.lines.add(depth, f"{declared} {name}{extents};", tags_of(op))

    def _turns_of(self, array: SSAValue, items: Sequence[int]) -> list[int]:
        """How many elements an item keeps of an array with one for each of so many."""
        return [-(-prod(items) // self.items)] if array in self.rounds else []

    def _place(self, op: Load | Store) -> Expression:
        dropped = self.dropped.get(op.memref, 0)
        if not dropped:
            return super()._place(op)
        parts = [self._sum(form) for form in subscripts(op)[dropped:]]
        turn = f"[{self.turn}]" if op.memref in self.rounds else ""
        text = self.named[op.memref].text + turn + "".join(f"[{part.text}]" for part in parts)
        is_vector = isinstance(op, affine.VectorLoadOp | affine.VectorStoreOp)
        place = Expression(f"&{text}" if is_vector else text)
        reads = frozenset().union(*(part.reads for part in parts))
        return replace(place, reads=reads, tags=tuple(t for part in parts for t in part.tags))

    def _vector_load(self, op: Load, element: ScalarType, lanes: int, pointer: str) -> str:
        """One load of 16 bytes, where the address is a multiple of that."""
        space = self._space(op, element, lanes)
        if not space:
            return super()._vector_load(op, element, lanes, pointer)
        return f"*({space} const {vector_name(element, lanes)} *)({pointer})"

    def _vector_store(
        self, op: Store, element: ScalarType, lanes: int, value: Expression, target: Expression
    ) -> str:
        space = self._space(op, element, lanes)
        if not space:
            return super()._vector_store(op, element, lanes, value, target)
        return f"*({space} {vector_name(element, lanes)} *)({target.text}) = {value.text}"

    def _space(self, op: Load | Store, element: ScalarType, lanes: int) -> str:
        """The address space of an access that is aligned to its vector; empty for others."""
        if element != FLOAT and element.form != "f16":
            return ""
        if lanes * element.size_bytes > LOCAL_ALIGNMENT_BYTES:
            return ""
        buffer = op.memref
        assert isinstance(buffer.type, MemRefType)
        flat = flat_subscript(subscripts(op), buffer.type)
        numbers = [flat.constant, *(coefficient for _, coefficient in flat.terms)]
        if any(number % lanes for number in numbers):
            return ""
        if buffer in self.arguments:
            return "__global"
        return "__local" if buffer in self.shared else ""
