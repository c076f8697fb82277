"""The model as it is in its file, in a form that prints, parses and is looked at like any program.

    %model_w = source.constant() {tensor = "w"} : tensor<8x3x3x3xf32>
    %node_conv1 = source.node(%image, %model_w)
        {family = "convolution", operator = "Conv", settings = {pads = ...},
         tensors = ["conv1_out"], version = 13} : tensor<Nx8xHxWxf32>

One operation stands for every node of every format: what the file says is data in it, so that the
import is a pass like any other, from this program to one of `top` operations. Bodies of If, Loop
and Scan are regions. A value whose type no tensor type can hold (strings, sequences, or what the
file does not say) has a `source.value` type with the words for it.

It has no meaning of its own: whoever runs the source model is the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from explorer.ir.operation import TopOperation, from_attribute, to_attribute

SOURCE_LEVEL = "source"
"""Level of the program before the first pass."""


@irdl_attr_definition
class SourceValueType(ParametrizedAttribute, TypeAttribute):
    """The type of a value that no tensor type can hold, in words: `sequence of f32`."""

    name = "source.value"

    words: StringAttr

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.words.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_str_literal())]

    def __str__(self) -> str:
        return self.words.data


@irdl_op_definition
class ConstantOp(TopOperation):
    """A tensor that the file holds. `tensor` is its name there; its data stays where it is."""

    name = "source.constant"
    FAMILY: ClassVar[str] = "weight"

    tensor = prop_def(StringAttr)
    output = result_def()

    def infer_types(self) -> list[Attribute]:
        return [self.output.type]

    def label(self) -> str:
        return f"constant {self.tensor.data}"


@irdl_op_definition
class NodeOp(TopOperation):
    """One node of the file, whatever its operator."""

    name = "source.node"

    inputs = var_operand_def()
    outputs = var_result_def()
    bodies = var_region_def("single_block")

    operator = prop_def(StringAttr)
    domain = opt_prop_def(StringAttr)
    """Of the operator; absent for the format's own."""
    version = prop_def(IntegerAttr)
    """Of the operator set that the file declares for the domain."""
    family = prop_def(StringAttr)
    """Of operators, as `results.GraphNode.family`."""
    tensors = opt_prop_def(ArrayAttr[StringAttr])
    """Names of the results in the file, where there are any; empty for one that is left out."""
    absent = opt_prop_def(DenseArrayBase)
    """Positions of operands that are left out."""
    settings = opt_prop_def(DictionaryAttr)
    """The node's attributes: numbers, texts, lists; tensors in words."""
    body_names = opt_prop_def(ArrayAttr[StringAttr])
    """What the regions are called: `then`, `else`, `body`."""
    problem = opt_prop_def(StringAttr)
    """Why the node cannot be imported; absent where it can."""

    @classmethod
    def make_node(
        cls,
        operands: Sequence[SSAValue | None],
        result_types: Sequence[Attribute],
        tensors: Sequence[str],
        *,
        operator: str,
        domain: str,
        version: int,
        family: str,
        settings: Mapping[str, Attribute],
        bodies: Sequence[tuple[str, Region]] = (),
        problem: str = "",
    ) -> NodeOp:
        """A node; None stands for an operand that is left out."""
        properties: dict[str, Attribute] = {
            "operator": _word(operator),
            "version": _number(version),
            "family": _word(family),
        }
        if domain:
            properties["domain"] = _word(domain)
        if tensors:
            properties["tensors"] = ArrayAttr([StringAttr(name) for name in tensors])
        absent = [index for index, operand in enumerate(operands) if operand is None]
        if absent:
            properties["absent"] = to_attribute(absent)
        if settings:
            properties["settings"] = DictionaryAttr(settings)
        if bodies:
            properties["body_names"] = ArrayAttr([StringAttr(name) for name, _ in bodies])
        if problem:
            properties["problem"] = StringAttr(problem)
        return cls.create(
            operands=[operand for operand in operands if operand is not None],
            result_types=result_types,
            properties=properties,
            regions=[region for _, region in bodies],
        )

    def infer_types(self) -> list[Attribute]:
        return [result.type for result in self.results]

    def verify_(self) -> None:
        super().verify_()
        if len(self.tensor_names()) != len(self.results):
            raise VerifyException(
                f"{self.name}: {len(self.tensor_names())} names for {len(self.results)} results"
            )
        if len(self.region_names()) != len(self.regions):
            raise VerifyException(
                f"{self.name}: {len(self.region_names())} names for {len(self.regions)} regions"
            )

    @property
    def qualified_operator(self) -> str:
        """`com.microsoft.Gelu`; just `Conv` for an operator of the format's own."""
        domain = self.domain_name
        return f"{domain}.{self.operator.data}" if domain else self.operator.data

    @property
    def domain_name(self) -> str:
        """Empty for the format's own operators."""
        return "" if self.domain is None else self.domain.data

    def tensor_names(self) -> tuple[str, ...]:
        """Of the results, in order."""
        return () if self.tensors is None else tuple(name.data for name in self.tensors.data)

    def label(self) -> str:
        return self.operator.data

    def graph_family(self) -> str:
        return self.family.data

    @property
    def is_data(self) -> bool:
        return self.operator.data == "Constant" and self.problem is None

    def graph_problem(self) -> str:
        return "" if self.problem is None else self.problem.data

    def region_names(self) -> tuple[str, ...]:
        names = self.body_names
        return () if names is None else tuple(name.data for name in names.data)

    def graph_attributes(self) -> tuple[tuple[str, str], ...]:
        """The operator set, the node's own attributes, and the names of its results."""
        own = {} if self.settings is None else self.settings.data
        names = [name for name in self.tensor_names() if name]
        return (
            ("operator set", f"{self.domain_name or 'ai.onnx'} {from_attribute(self.version)}"),
            *((name, setting_text(value)) for name, value in own.items()),
            *([("results", ", ".join(names))] if names else []),
        )


@irdl_op_definition
class ReturnOp(TopOperation):
    """Ends a graph of the file with its outputs."""

    name = "source.return"
    FAMILY: ClassVar[str] = "output"

    values = var_operand_def()

    traits = traits_def(IsTerminator())

    def infer_types(self) -> list[Attribute]:
        return []


@lru_cache(maxsize=1024)
def _word(text: str) -> StringAttr:
    """Few words stand at very many nodes: making and checking each once saves time."""
    return StringAttr(text)


@lru_cache(maxsize=64)
def _number(value: int) -> Attribute:
    return to_attribute(value)


def setting_text(value: Attribute) -> str:
    """An attribute of a node as a person reads it: `1, 1, 1, 1`."""
    plain = from_attribute(value)
    return ", ".join(map(str, plain)) if isinstance(plain, tuple) else str(plain)


Source = Dialect("source", [ConstantOp, NodeOp, ReturnOp], [SourceValueType])
