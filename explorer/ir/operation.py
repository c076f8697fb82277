"""What every operation of `top` has: one class per operation holds everything about it.

    class ReluOp(TopOperation):
        input = operand_def(TensorType); output = result_def(TensorType)
        def infer_types(self): ...        shapes, symbolic ones included
        def evaluate(self, x): ...        NumPy meaning: clear, never fast
        def define(self, k, inputs, output): ...   compute definition

Adding an operation touches its file in `ir/top/`, the importer if ONNX's semantics differ, and a
test. In text an operation reads

    %conv3 = top.conv(%relu2, %w3, bias = %b3) {pads = [1, 1, 1, 1], strides = [1, 1]} : tensor<...>
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Data, Operation, OpResult, SSAValue, SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OptionalDef,
    VariadicDef,
    irdl_attr_definition,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from explorer.ir.compute import Buffer, KernelBuilder, Subscript
from explorer.ir.origins import ORIGIN
from explorer.ir.parts import BufferPart
from explorer.ir.types import (
    PLAIN,
    QuantizedType,
    TensorType,
    format_type,
    is_static,
    size_bytes,
    with_layout,
)

IDENTITY = "id"

PropertyValue = bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


@dataclass(frozen=True)
class Access:
    """A tensor as a compute definition sees it: a buffer, its interior and where that begins.

    shape: logical sizes, channels rounded up to whole blocks; shift: the halo before each
    dimension. Subscripts are logical; `at` moves them into the buffer.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    shift: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def at(self, *subscripts: Subscript) -> tuple[Buffer, list[Subscript]]:
        """The buffer and its subscripts for a logical element; rank 0 reads element 0."""
        if not self.shape:
            return self.buffer, [0]
        moved = [s + shift if shift else s for s, shift in zip(subscripts, self.shift, strict=True)]
        return self.buffer, moved

    def broadcast(self, subscripts: Sequence[Subscript]) -> tuple[Buffer, list[Subscript]]:
        """As `at`, for a result's subscripts: aligned at the right, extent 1 reads element 0."""
        own = list(subscripts)[len(subscripts) - len(self.shape) :]
        chosen = [0 if size == 1 else s for size, s in zip(self.shape, own, strict=True)]
        return self.at(*chosen)


class TopOperation(IRDLOperation):
    """Base of all `top` operations. Subclasses define operands, properties, results and meaning."""

    FAMILY: ClassVar[str] = "elementwise"
    """For the views: see `results.GraphNode.family`."""
    KEEPS_FINITE: ClassVar[bool] = False
    READS_ANY_LAYOUT: ClassVar[bool] = False
    """Its kernel reads blocked operands and halos, whatever its result's layout is."""
    REPEATS: ClassVar[bool] = False
    """Its regions may run more than once."""
    SIZED_BY_DATA: ClassVar[bool] = False
    """The size of its results depends on the contents of its operands."""
    LINES: ClassVar[tuple[str, ...]] = ()
    """Properties that are lists of texts of which each stands on a line of its own."""
    TAKES_QUANTIZED: ClassVar[bool] = False
    """It knows what quantized operands mean, or only moves them."""

    @property
    def keeps_finite(self) -> bool:
        """Finite operands give finite results whatever they are, so that what stands in the
        padding channels of a blocked tensor can never become NaN or infinity."""
        return self.KEEPS_FINITE

    # -- meaning, in subclasses ---------------------------------------------------------------
    def infer_types(self) -> list[Attribute]:
        """Result types from operand types and properties; ValueError says what does not fit."""
        raise NotImplementedError(f"{self.name} has no shape inference")

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        """The NumPy meaning; absent optional operands are left out, as in `operands`."""
        raise NotImplementedError(f"{self.name} has no NumPy meaning")

    def evaluate_regions(
        self, run_region: Callable[..., list[np.ndarray]], *operands: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """The meaning of an operation with regions; `run_region(index, *arguments)` runs one."""
        raise NotImplementedError(f"{self.name} has no meaning for its regions")

    def graph_family(self) -> str:
        """Family of this one operation, for its colour and glyph."""
        return self.FAMILY

    @property
    def is_data(self) -> bool:
        """True for what only holds data: the graph shows it with what uses it."""
        return self.FAMILY == "weight"

    def graph_problem(self) -> str:
        """Why nothing can be made of this one operation; empty for what can be compiled."""
        return ""

    def graph_attributes(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of what a person reads about the operation besides operands and types."""
        return tuple(
            (name, _readable(from_attribute(value)))
            for name, value in sorted(self.properties.items())
            if name != "operandSegmentSizes"
        )

    def region_names(self) -> tuple[str, ...]:
        """What its regions are called, for whoever draws them."""
        return ("body",) * len(self.regions)

    def region_operands(self, index: int) -> list[SSAValue | None]:
        """For every argument of a region the operand that it is at first; None for none.

        Where a region takes fewer operands than there are, these are the last ones.
        """
        arguments = len(self.regions[index].block.args)
        last = list(self.operands)[max(0, len(self.operands) - arguments) :]
        return [None] * (arguments - len(last)) + last

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Adds the statements that compute the result to `k`; returns the kernel's kind.

        Raises NotImplementedError where the operation has no compiled form.
        """
        raise NotImplementedError(f"{self.name} has no compute definition")

    def missing_form(self) -> str:
        """Why the operation as it stands has no compiled form, whatever its sizes; empty where it
        has one."""
        return ""

    def check_form(self) -> None:
        """NotImplementedError where there is no compiled form."""
        problem = self.missing_form()
        if problem:
            raise NotImplementedError(problem)

    @property
    def is_sized_by_contents(self) -> bool:
        """Whether sizes of its results follow from what its operands hold, not from their sizes."""
        return self.SIZED_BY_DATA

    def result_bytes(self, *operands: np.ndarray) -> int | None:
        """What `evaluate` would give takes so many bytes; None where only computing it tells."""
        if not all(is_static(result) for result in self.results):
            return None
        return sum(size_bytes(result) for result in self.results)

    def kernel_shapes(
        self,
        operands: list[tuple[int, ...]],
        output: tuple[int, ...],
        kept: Collection[int] = (),
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Shapes under which the kernel sees plain buffers: the same elements, fewer dimensions.

        kept: sizes of axes that may be open; the result's are the first ones of their dimension.
        """
        return operands, output

    def kernel_constants(self) -> list[tuple[str, np.ndarray]]:
        """Tables that the kernel reads behind its operands, by name: they follow from the types
        and properties alone, and become weights when the operation is lowered."""
        return []

    def kernel_parameters(self) -> dict[str, int]:
        """Numbers that a schedule wants to know (strides, groups)."""
        return {}

    def macs(self) -> int:
        """Multiply-accumulates of one execution; 0 where they do not count."""
        return 0

    def label(self) -> str:
        """Short text for a graph node."""
        return self.name.split(".")[-1].replace("_", " ")

    @property
    def is_view(self) -> bool:
        """True where the result is the operand's bytes, or some of them, under another type."""
        return False

    def parts(self) -> tuple[BufferPart, ...]:
        """Which values lie in the buffers of others: of operations that no kernel runs."""
        return (
            (BufferPart(self.results[0], self.operands[0], is_view=True),) if self.is_view else ()
        )

    # -- construction ------------------------------------------------------------------------
    @classmethod
    def make(
        cls,
        operands: Sequence[SSAValue | Sequence[SSAValue] | None],
        result_types: Sequence[Attribute] | None = None,
        **properties: PropertyValue | Attribute | None,
    ):
        """An operation with inferred result types; None stands for an absent optional operand,
        and what is left out at the end is absent, too."""
        groups = [
            [] if o is None else [o] if isinstance(o, SSAValue) else list(o) for o in operands
        ]
        definition = cls.get_irdl_definition()
        groups += [[] for _ in definition.operands[len(groups) :]]
        for group, (name, kind) in zip(groups, definition.operands, strict=True):
            if len(group) != 1 and not isinstance(kind, VariadicDef):
                raise ValueError(f"{cls.name} takes one value as {name}, not {len(group)}")
        attributes = {
            name: to_attribute(value) for name, value in properties.items() if value is not None
        }
        op = cls.create(
            operands=[v for group in groups for v in group],
            result_types=result_types or (),
            properties={**attributes, **_segments(definition, groups)},
        )
        if result_types is None:
            try:
                inferred = op.infer_types()
            except ValueError:
                op.erase()  # or its operands would count it among their users
                raise
            op.results = SSAValues(OpResult(kind, op, index) for index, kind in enumerate(inferred))
        return op

    def altered(self, **changes: PropertyValue | Attribute | SSAValue | Sequence[SSAValue] | None):
        """A new operation like this one with some operands and properties (by name) changed.

        None removes an optional one. Result types are inferred anew.
        """
        names = [name for name, _ in self.get_irdl_definition().operands]
        operands = [changes.pop(name, getattr(self, name)) for name in names]
        kept = {k: v for k, v in self.properties.items() if k != "operandSegmentSizes"}
        return type(self).make(operands, **{**kept, **changes})  # pyright: ignore

    def with_operands(
        self, operands: Sequence[SSAValue], **properties: PropertyValue | Attribute | None
    ):
        """A new operation like this one on other operands, one for each of `self.operands`."""
        given = iter(operands)
        groups: dict[str, SSAValue | list[SSAValue] | None] = {}
        for name, _ in self.get_irdl_definition().operands:
            own = getattr(self, name)
            if own is None or isinstance(own, SSAValue):
                groups[name] = None if own is None else next(given)
            else:
                groups[name] = [next(given) for _ in own]
        return self.altered(**{**groups, **properties})

    def get(self, name: str, default: PropertyValue | None = None) -> Any:
        """A property as a Python value (bool, int, float, str, tuple), or the default.

        The type depends on the property, hence Any.
        """
        attribute = self.properties.get(name)
        return default if attribute is None else from_attribute(attribute)

    def verify_(self) -> None:
        super().verify_()
        if not self.TAKES_QUANTIZED and any(_is_quantized(o.type) for o in self.operands):
            raise VerifyException(
                f"{self.name} {identity_of(self)} takes quantized numbers for plain ones: "
                "dequantize them, or take their bits (top.bitcast)"
            )
        if all(is_static(o) for o in self.operands) and not self.regions:
            expected = self.infer_types()
            actual = [r.type for r in self.results]
            if [_logical(e) for e in expected] != [_logical(a) for a in actual]:
                identity = identity_of(self)
                who = self.name if identity == self.name else f"{self.name} {identity}"
                raise VerifyException(
                    f"{who}: results are {_types(actual)}, but its operands and properties give "
                    f"{_types(expected)}"
                )

    # -- text --------------------------------------------------------------------------------
    def print(self, printer: Printer) -> None:
        print_operation(self, printer)

    @classmethod
    def parse(cls, parser: Parser):
        return parse_operation(cls, parser)


def _readable(value: object) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def _logical(kind: Attribute) -> Attribute:
    return with_layout(kind, PLAIN) if isinstance(kind, TensorType) else kind


def _is_quantized(kind: Attribute) -> bool:
    return isinstance(kind, TensorType) and isinstance(kind.element_type, QuantizedType)


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(format_type(t) for t in types)


def _segments(definition, groups: Sequence[Sequence[SSAValue]]) -> dict[str, Attribute]:
    if not any(isinstance(o, AttrSizedOperandSegments) for o in definition.options):
        return {}
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(g) for g in groups])}


# -- identity ------------------------------------------------------------------------------------


def identity_of(op: Operation) -> str:
    """The operation's stable identity; its printed name where none was given."""
    attribute = op.attributes.get(IDENTITY)
    if isinstance(attribute, StringAttr):
        return attribute.data
    if op.results and op.results[0].name_hint:
        return op.results[0].name_hint
    symbol = op.properties.get("sym_name")
    return symbol.data if isinstance(symbol, StringAttr) else op.name


def set_identity(op: Operation, identity: str) -> None:
    """Sets the identity and names the results after it (`name`, `name.1`, ...)."""
    op.attributes[IDENTITY] = StringAttr(identity)
    for index, result in enumerate(op.results):
        result.name_hint = identity if index == 0 else f"{identity}.{index}"


# -- lines of text with what they mean -------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """Texts, of which each stands on a line of its own, and what they are the text of."""

    texts: tuple[str, ...]
    meant: tuple[Any, ...] = field(compare=False, repr=False)
    """A record for each, of a kind that the IR does not know."""


@irdl_attr_definition
class LinesAttr(Data[Lines]):  # prints as an array of strings, and is parsed as one
    """What is printed, and never read back from the text: a text that is parsed is an array."""

    name = "top.lines"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data.texts, printer.print_string_literal)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Lines:
        parser.raise_error("lines of text are written as an array of strings")


# -- properties as Python values -------------------------------------------------------------------


_BOOLEAN = IntegerType(1)


def to_attribute(value: PropertyValue | Mapping[str, PropertyValue] | Attribute) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool | np.bool_):
        return BoolAttr.from_bool(bool(value))
    if isinstance(value, int | np.integer):
        return IntegerAttr(int(value), i64)
    if isinstance(value, float | np.floating):
        return FloatAttr(float(value), f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, Mapping):
        return DictionaryAttr({name: to_attribute(item) for name, item in value.items()})
    items = list(value)
    if items and isinstance(items[0], str):
        return ArrayAttr([StringAttr(str(i)) for i in items])
    if any(isinstance(i, float | np.floating) for i in items):
        return DenseArrayBase.from_list(f64, [float(i) for i in items])
    return DenseArrayBase.from_list(i64, [int(i) for i in items])


def from_attribute(attribute: Attribute) -> Any:
    """The Python value of a property; other attributes (types) are returned as they are.

    The type depends on the property, hence Any.
    """
    if isinstance(attribute, IntegerAttr):
        if attribute.type == _BOOLEAN:
            return bool(attribute.value.data)
        return attribute.value.data
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, LinesAttr):
        return attribute.data.texts
    if isinstance(attribute, DenseArrayBase):
        if attribute.elt_type == i64:
            content = attribute.data.data
            return struct.unpack(f"<{len(content) // 8}q", content)
        return tuple(attribute.get_values())
    if isinstance(attribute, ArrayAttr):
        return tuple(from_attribute(a) for a in attribute.data)
    if isinstance(attribute, DictionaryAttr):
        return {name: from_attribute(a) for name, a in attribute.data.items()}
    return attribute


# -- text ------------------------------------------------------------------------------------------

_HIDDEN = (IDENTITY, ORIGIN, "operandSegmentSizes")


def print_operation(op: IRDLOperation, printer: Printer) -> None:
    """`(operands) {properties} : types`; identity and origin only in complete text."""
    definition = op.get_irdl_definition()
    printer.print_string("(")
    first = True
    for name, kind in definition.operands:
        value = getattr(op, name)
        if value is None or (isinstance(kind, OptionalDef) and not value):
            continue
        printer.print_string("" if first else ", ")
        first = False
        if isinstance(kind, OptionalDef):
            printer.print_string(f"{name} = ")
            printer.print_ssa_value(value if isinstance(value, SSAValue) else value[0])
        elif isinstance(kind, VariadicDef):
            printer.print_list(value, printer.print_ssa_value)
        else:
            printer.print_ssa_value(value)
    printer.print_string(")")
    entries = [(k, v) for k, v in sorted(op.properties.items()) if k not in _HIDDEN]
    entries += [
        (k, v) for k, v in sorted(op.attributes.items()) if k not in _hidden_attributes(op, printer)
    ]
    if entries:
        # In front of a region the word says that this brace is not the region's.
        printer.print_string(" attributes {" if definition.regions else " {")
        for index, (name, attribute) in enumerate(entries):
            printer.print_string(f"{', ' if index else ''}{name} = ")
            if name in getattr(op, "LINES", ()):
                _print_lines(attribute, printer)
            else:
                _print_value(attribute, printer)
        printer.print_string("}")
    for region in op.regions:
        printer.print_string(" ")
        printer.print_region(region)
    if op.results:
        printer.print_string(" : ")
        printer.print_list([r.type for r in op.results], printer.print_attribute)


def _hidden_attributes(op: Operation, printer: Printer) -> tuple[str, ...]:
    return () if getattr(printer, "shows_everything", False) else _HIDDEN


def _print_lines(attribute: Attribute, printer: Printer) -> None:
    """A list with an item per line: read back like any other."""
    items = from_attribute(attribute)
    printer.print_string("[")
    for index, item in enumerate(items):
        printer.print_string(",\n" if index else "\n")
        printer.print_string("    ")
        printer.print_string_literal(item)
    printer.print_string("]")


def _print_value(attribute: Attribute, printer: Printer) -> None:
    value = from_attribute(attribute)
    if isinstance(value, bool):
        printer.print_string("true" if value else "false")
    elif isinstance(value, int):
        printer.print_string(str(value))
    elif isinstance(attribute, DenseArrayBase):
        assert isinstance(value, tuple)
        floats = attribute.elt_type == f64
        items = ", ".join(_number(v, printer) if floats else str(v) for v in value)
        printer.print_string(f"[{items}]")
    elif isinstance(value, float) and np.isfinite(value):
        printer.print_string(_number(value, printer))
    else:
        printer.print_attribute(attribute)


def _number(value: float, printer: Printer) -> str:
    text = repr(float(value))
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def parse_operation(cls: type[IRDLOperation], parser: Parser):
    """The operation that the text says, verified: an error names the line where it stands."""
    definition = cls.get_irdl_definition()
    begin = parser.pos
    positional: list[SSAValue] = []
    named: dict[str, SSAValue] = {}
    parser.parse_punctuation("(")
    while parser.parse_optional_punctuation(")") is None:
        key = parser.parse_optional_identifier()
        if key is not None:
            parser.parse_punctuation("=")
            named[key] = _parse_defined_operand(parser)
        else:
            positional.append(_parse_defined_operand(parser))
        parser.parse_optional_punctuation(",")
    values: dict[str, Attribute] = {}
    if not definition.regions or parser.parse_optional_keyword("attributes") is not None:
        values = dict(parser.parse_optional_attr_dict())
    regions = []
    while (region := parser.parse_optional_region()) is not None:
        regions.append(region)
    types: list[Attribute] = []
    if parser.parse_optional_punctuation(":") is not None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    groups = _group_operands(definition, positional, named, parser, begin)
    known = [name for name in definition.properties if name != "operandSegmentSizes"]
    properties = {k: _normal(v) for k, v in values.items() if k in known}
    attributes = {k: v for k, v in values.items() if k not in known}
    for name in attributes:
        if name not in (IDENTITY, ORIGIN) and "." not in name:
            listed = ", ".join(known) or "none"
            parser.raise_error(f"{definition.name} has no property {name!r}, only {listed}", begin)
    if not isinstance(attributes.get(IDENTITY, StringAttr("")), StringAttr):
        parser.raise_error(f"{definition.name}: an identity is a string", begin)
    op = cls.create(
        operands=[v for group in groups for v in group],
        result_types=types,
        properties={**properties, **_segments(definition, groups)},
        attributes=attributes,
        regions=regions,
    )
    try:
        op.verify(verify_nested_ops=False)
    except (VerifyException, ValueError) as error:
        parser.raise_error(str(error), begin)
    return op


def _parse_defined_operand(parser: Parser) -> SSAValue:
    """An operand that is defined above it: its type is known, so the text does not repeat it."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error(f"%{operand.operand_name} is not defined above", operand.span)
    return values[operand.index]


def _group_operands(
    definition,
    positional: list[SSAValue],
    named: Mapping[str, SSAValue],
    parser: Parser,
    begin: int,
) -> list[list[SSAValue]]:
    groups: list[list[SSAValue]] = []
    required = sum(not isinstance(d, VariadicDef) for _, d in definition.operands)
    rest = list(positional)
    for name, kind in definition.operands:
        if isinstance(kind, OptionalDef):
            groups.append([named[name]] if name in named else [])
        elif isinstance(kind, VariadicDef):
            count = len(rest) - required
            groups.append([rest.pop(0) for _ in range(count)])
        elif not rest:
            parser.raise_error(f"{definition.name} needs operand {name}", begin)
        else:
            groups.append([rest.pop(0)])
            required -= 1
    unknown = [name for name in named if name not in dict(definition.operands)]
    if rest or unknown:
        listed = ", ".join(name for name, _ in definition.operands) or "none"
        found = f"an operand {unknown[0]!r}" if unknown else f"{len(rest)} operands too many"
        parser.raise_error(f"{definition.name} has {found}; its operands are: {listed}", begin)
    return groups


def _normal(attribute: Attribute) -> Attribute:
    """Properties as `to_attribute` makes them, whichever way the parser read them."""
    value = from_attribute(attribute)
    return attribute if isinstance(value, Attribute) else to_attribute(value)
