"""Open sizes of a package: arguments of a run, which checks them, and shapes that follow from them.

    batch 1..4, seq 1..8    int net_run(const struct net *model, int64_t size_batch,
                                        int64_t size_seq);
    x: (batch, seq, 3)      net_input_at(0, 2, 5, &tensor)      shape (2, 5, 3), 120 bytes

The caller writes inputs and reads outputs without gaps. A run moves the inputs to where those of
the largest sizes lie, zeros between them, and the outputs back; where every operation works row
by row (`Program.size`) both places are the same. Numbers and masks of a call are written by the
run, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.ir.sizes.symbols import Expression, Extreme, Name, Quotient, name, number, parse
from explorer.packaging.text import one_line
from explorer.results.program import CallMask, OpenAxis, OpenSizes, Port, Program
from explorer.runtime.sizes import rows_axis

COMPARISONS = {
    "at least": "({0}) < ({1})",
    "at most": "({0}) > ({1})",
    "multiple": "({1}) <= 0 || ({0}) % ({1}) != 0",
    "broadcast": "({0}) != ({1}) && ({0}) != 1 && ({1}) != 1",
}
"""When a relation is not met, in C; what is not here is an equation."""


def open_sizes_of(program: Program) -> OpenSizes | None:
    """What is open, also where it is one dimension of rows."""
    if program.sizes is not None or program.size is None:
        return program.sizes
    size = program.size

    def axes(ports: Sequence[Port]) -> tuple[OpenAxis, ...]:
        return tuple(
            OpenAxis(
                port.name,
                rows_axis(port),
                ((port.rows * size.highest, str(number(port.rows) * name(size.name))),),
            )
            for port in ports
            if port.rows
        )

    return OpenSizes(
        ranges=((size.name, size.lowest, size.highest),),
        numbers=(),
        masks=(),
        inputs=axes(program.inputs),
        outputs=axes(program.outputs),
    )


def caller_ports(program: Program) -> tuple[Port, ...]:
    """The inputs that a caller gives: all but numbers and masks of the call."""
    added = () if program.sizes is None else program.sizes.added
    return tuple(port for port in program.inputs if port.name not in added)


@dataclass(frozen=True)
class SizesInC:
    """What the files of a package say about open sizes."""

    program: Program
    is_stripped: bool

    @cached_property
    def sizes(self) -> OpenSizes:
        found = open_sizes_of(self.program)
        assert found is not None
        return found

    @property
    def memory(self) -> str:
        """The parameter through which functions reach the package's memory."""
        return "memories" if len(self.program.memories) > 1 else "arena"

    @property
    def memory_parameter(self) -> str:
        return f"unsigned char *{'const *' if self.memory == 'memories' else ''}{self.memory}"

    def at(self, place: int | str) -> str:
        """The address of a byte."""
        number = f"{place}u" if isinstance(place, int) else place
        return f"at(memories, {number})" if self.memory == "memories" else f"arena + {number}"

    @cached_property
    def parameters(self) -> dict[str, str]:
        """C's name of every dimension."""
        found: dict[str, str] = {}
        for place, (dimension, _, _) in enumerate(self.sizes.ranges):
            plain = re.sub(r"\W+", "_", dimension, flags=re.ASCII).strip("_").lower()
            text = f"size_{place if self.is_stripped or not plain else plain}"
            found[dimension] = f"{text}_{place}" if text in found.values() else text
        return found

    def declared(self, *others: str) -> str:
        """Parameters of a function, the sizes last but for `others`."""
        return ", ".join([*(f"int64_t {name}" for name in self.parameters.values()), *others])

    @property
    def passed(self) -> str:
        return ", ".join(self.parameters.values())

    @property
    def unused(self) -> list[str]:
        """Statements of a function that has no need of the sizes."""
        return [f"    (void){name};" for name in self.parameters.values()]

    @property
    def macros(self) -> str:
        """Bounds, in the header."""
        lines = ["", "// Sizes that every run gives, in this order."]
        for dimension, low, high in self.sizes.ranges:
            end = self.parameters[dimension].removeprefix("size_").upper()
            shown = "" if self.is_stripped else f"  // {one_line(dimension)}"
            lines.append(f"#define @NAME@_MIN_{end} {low}{shown}")
            lines.append(f"#define @NAME@_MAX_{end} {high}")
        return "\n".join(lines) + "\n"

    def _bound(self, kind: str, dimension: str) -> str:
        return f"@NAME@_{kind}_{self.parameters[dimension].removeprefix('size_').upper()}"

    def text(self, expression: str) -> str:
        """An expression of sizes in C."""
        return _c_text(parse(expression), self.parameters)

    @property
    def relations(self) -> list[str]:
        """Statements that return where a relation is not met."""
        lines: list[str] = []
        for kind, left, right, operation in self.sizes.relations:
            if not {*parse(left).names, *parse(right).names} <= self.parameters.keys():
                continue
            sides = (self.text(left), self.text(right))
            condition = COMPARISONS.get(kind, "({0}) != ({1})").format(*sides)
            if not self.is_stripped:
                needed = f"{operation}: {left} is {kind} {right}"
                lines.append(f"    // {one_line(needed)}")
            lines += [f"    if ({condition})", "        return @NAME@_BAD_RELATION;"]
        return lines

    @property
    def checks(self) -> list[str]:
        """The body of the function that checks the sizes of a call."""
        conditions = [
            f"{own} < {self._bound('MIN', dimension)} || {own} > {self._bound('MAX', dimension)}"
            for dimension, own in self.parameters.items()
        ]
        lines: list[str] = []
        for condition in conditions:
            lines += [f"    if ({condition})", "        return @NAME@_BAD_SIZE;"]
        return [*lines, *self.relations]

    def shapes(self, ports: Sequence[Port], axes: Sequence[OpenAxis]) -> list[str]:
        """Cases by the number of a port that set the axes of its shape which are open."""
        lines: list[str] = []
        for place, port in enumerate(ports):
            own = [axis for axis in axes if axis.name == port.name]
            if not own:
                continue
            lines.append(f"    case {place}:")
            for axis in own:
                product = " * ".join(f"({self.text(text)})" for _, text in axis.factors)
                lines.append(f"        tensor->shape[{axis.axis}] = (int32_t)({product});")
            lines.append("        break;")
        return lines

    def factors(self, ports: Sequence[Port | CallMask], axes: Sequence[OpenAxis]) -> list[str]:
        """Cases that give the lengths of the axes of a port, in memory and in a call."""
        lines: list[str] = []
        for place, port in enumerate(ports):
            own = {axis.axis: axis.factors for axis in axes if axis.name == port.name}
            if not own:
                continue
            lines.append(f"    case {place}:")
            for axis, size in enumerate(port.shape):
                for largest, text in own.get(axis, ((size, str(size)),)):
                    lines.append(f"        whole[count] = {largest};")
                    lines.append(f"        own[count++] = {self.text(text)};")
            lines.append("        break;")
        return lines

    @property
    def most_factors(self) -> int:
        ports = (*self.program.inputs, *self.program.outputs)
        most = max([len(port.shape) for port in ports] + [len(m.shape) for m in self.sizes.masks])
        masked = (axis for mask in self.sizes.masks for axis in mask.axes)
        every = (*self.sizes.inputs, *self.sizes.outputs, *masked)
        return max(most + sum(len(axis.factors) - 1 for axis in every), 1)

    @property
    def numbers(self) -> list[str]:
        """Statements that write the numbers and masks of a call into the arena."""
        if self.program.size is not None:
            place = self.program.size.offset_bytes
            (own,) = self.parameters.values()
            return [f"    *(int64_t *)({self.at(place)}) = {own};"]
        places = {port.name: port.offset_bytes for port in self.program.inputs}
        lines = [
            f"    *(int64_t *)({self.at(places[name])}) = {self.text(text)};"
            for name, text in self.sizes.numbers
        ]
        for number_, mask in enumerate(self.sizes.masks):
            lines += [
                f"    count = mask_axes({number_}, {self.passed}, whole, own);",
                f"    mark({self.at(places[mask.name])}, count, whole, own);",
            ]
        return lines


def _c_text(expression: Expression, names: dict[str, str]) -> str:
    terms: list[str] = []
    for product, coefficient in expression.terms:
        factors = [_c_atom(atom, names) for atom in product]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient) if abs(coefficient) < 2**31 else f"{coefficient}ll")
        terms.append(" * ".join(factors))
    return " + ".join(terms).replace("+ -", "- ") or "0"


def _c_atom(atom: Name | Quotient | Extreme, names: dict[str, str]) -> str:
    if isinstance(atom, Name):
        return names[atom.text]
    if isinstance(atom, Quotient):
        return f"divided({_c_text(atom.dividend, names)}, {atom.divisor})"
    first, second = _c_text(atom.first, names), _c_text(atom.second, names)
    sign = "<" if atom.kind == "min" else ">"
    return f"({first} {sign} {second} ? {first} : {second})"
