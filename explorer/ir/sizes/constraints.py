"""What a model asks of its symbolic dimensions: kept in the IR, checked before anything runs.

    func.func @main(%ids: tensor<?x?xi64, ...>) attributes {
      constraints = [#top.constraint<"at most", "s", "512", "take1", ["embed/Gather"]>]}

    Constraint("at most", "s", "512", ...)       s <= 512: a table of positions has 512 rows
    Constraint("equal", "past+seq", "total")     both meet in one addition
    Constraint("multiple", "s", "4")             a reshape divides s by 4

The attribute stays where it is when dimensions get sizes, so that every snapshot tells it.
`requirements` (explorer/ir/top/requirements.py) finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from explorer.errors import InputError
from explorer.ir.sizes.symbols import parse, relation_holds
from explorer.ir.types import Shape

CONSTRAINTS = "constraints"

KINDS: Mapping[str, str] = {
    "equal": "==",
    "fixed": "==",
    "at least": ">=",
    "at most": "<=",
    "multiple": "%",
    "broadcast": "==",
    "named": "==",
}
"""equal: two expressions; fixed: an expression and a number; broadcast: equal, or one of them 1;
multiple: the left is divisible by the right; named: the right is the file's name for a result's
size, which decides nothing."""


@dataclass(frozen=True)
class Constraint:
    """A relation of two expressions over dimensions, and who asks for it."""

    kind: str
    """One of `KINDS`."""
    left: str
    right: str
    operation: str
    """Identity of the operation that asks for it."""
    nodes: tuple[str, ...] = ()
    """Nodes of the source model that it comes from."""

    @property
    def text(self) -> str:
        """`s <= 512`, `h % 4 == 0`, `a == b, or one of them is 1`."""
        if self.kind == "multiple":
            left = self.left if parse(self.left).is_name else f"({self.left})"
            return f"{left} % {self.right} == 0"
        suffix = ", or one of them is 1" if self.kind == "broadcast" else ""
        return f"{self.left} {KINDS[self.kind]} {self.right}{suffix}"

    @property
    def names(self) -> tuple[str, ...]:
        """Dimensions that it is about."""
        return tuple(dict.fromkeys((*parse(self.left).names, *parse(self.right).names)))

    def holds(self, sizes: Mapping[str, int]) -> bool | None:
        """Whether it is met; None where a size is not known, and where nothing is asked."""
        if self.kind == "named" or any(name not in sizes for name in self.names):
            return None
        left, right = parse(self.left).value(sizes), parse(self.right).value(sizes)
        return relation_holds(self.kind, left, right)

    def hint(self, sizes: Mapping[str, int]) -> str:
        """A way out: other sizes."""
        if len(self.names) == 1 and parse(self.left).is_name and self.right.isdecimal():
            (name,) = self.names
            number = int(self.right)
            if self.kind == "multiple":
                number *= max(1, round(sizes[name] / number))
            limit = {"at least": " or more", "at most": " or less"}.get(self.kind, "")
            return f"--dim {name}={number}{limit}"
        return f"sizes for which {self.text}"


def check_sizes(constraints: Iterable[Constraint], sizes: Mapping[str, int], what: str) -> None:
    """InputError for the first constraint that the sizes do not meet.

    what: who gave the sizes, as the beginning of the message.
    """
    for constraint in constraints:
        if constraint.holds(sizes) is False:
            given = ", ".join(f"{name} = {sizes[name]}" for name in constraint.names)
            raise InputError(
                f"{what} {given}, but the model needs {constraint.text} "
                f"(operation {constraint.operation})",
                node=", ".join(constraint.nodes) or constraint.operation,
                hint=constraint.hint(sizes),
            )


def bind_shapes(
    function: func.FuncOp, shapes: Mapping[str, tuple[Shape, Sequence[int]]]
) -> dict[str, int]:
    """Sizes of the dimensions, from the declared and the actual shape of every input.

    InputError where two inputs disagree, or where a constraint of the function is not met.
    """
    sizes: dict[str, int] = {}
    givers: dict[str, str] = {}
    for name, (declared, actual) in shapes.items():
        for dimension, size in zip(declared, actual, strict=True):
            if not isinstance(dimension, str) or dimension == "?":
                continue
            if sizes.setdefault(dimension, size) != size:
                raise InputError(
                    f"dimension {dimension!r} is {sizes[dimension]} in input "
                    f"{givers[dimension]!r}, but {size} in {name!r}",
                    node=name,
                    hint=f"give inputs in which {dimension} is the same",
                )
            givers.setdefault(dimension, name)
    check_sizes(constraints_of(function), sizes, "the inputs have")
    return sizes


# -- in the IR -------------------------------------------------------------------------------------


@irdl_attr_definition
class ConstraintAttr(ParametrizedAttribute):
    """One constraint: kind, left, right, operation, nodes."""

    name = "top.constraint"

    kind: StringAttr
    left: StringAttr
    right: StringAttr
    operation: StringAttr
    nodes: ArrayAttr[StringAttr]

    @staticmethod
    def get(constraint: Constraint) -> ConstraintAttr:
        return ConstraintAttr(
            StringAttr(constraint.kind),
            StringAttr(constraint.left),
            StringAttr(constraint.right),
            StringAttr(constraint.operation),
            ArrayAttr([StringAttr(node) for node in constraint.nodes]),
        )

    @property
    def constraint(self) -> Constraint:
        return Constraint(
            self.kind.data,
            self.left.data,
            self.right.data,
            self.operation.data,
            tuple(node.data for node in self.nodes.data),
        )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for text in (self.kind, self.left, self.right, self.operation):
                printer.print_string_literal(text.data)
                printer.print_string(", ")
            printer.print_string("[")
            printer.print_list([n.data for n in self.nodes.data], printer.print_string_literal)
            printer.print_string("]")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        texts: list[str] = []
        with parser.in_angle_brackets():
            for _ in range(4):
                texts.append(parser.parse_str_literal())
                parser.parse_punctuation(",")
            nodes = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_str_literal
            )
        if texts[0] not in KINDS:
            parser.raise_error(f"a constraint is one of {', '.join(KINDS)}, not {texts[0]!r}")
        return [*map(StringAttr, texts), ArrayAttr([StringAttr(node) for node in nodes])]


def constraints_of(function: func.FuncOp) -> tuple[Constraint, ...]:
    """What a function asks of the dimensions of its inputs."""
    attribute = function.attributes.get(CONSTRAINTS)
    if not isinstance(attribute, ArrayAttr):
        return ()
    return tuple(a.constraint for a in attribute.data if isinstance(a, ConstraintAttr))


def set_constraints(function: func.FuncOp, constraints: Sequence[Constraint]) -> None:
    """Notes the constraints at a function; no attribute for none."""
    if constraints:
        attributes = [ConstraintAttr.get(c) for c in constraints]
        function.attributes[CONSTRAINTS] = ArrayAttr(attributes)
    else:
        function.attributes.pop(CONSTRAINTS, None)
