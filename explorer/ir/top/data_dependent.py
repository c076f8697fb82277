"""Nodes of the source model whose form only a run decides: `top.node`.

    %y = top.node(%x, %sizes) {operator = "Resize", meaning = ...} : tensor<?x?x?x?xf32>

Most of what contents decide is a size, which an operation of this dialect can have. Some nodes
become other operations for other contents: taps of a resize, depth of a one-hot. Such a node stays
one operation, and is imported for the very arrays that it is run with. It has no compiled form.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from explorer.ir.operation import TopOperation


class Meaning(Protocol):
    """What a node computes. Whoever imports a model makes it."""

    name: str
    format: str
    """Whose importer reads it again (`explorer.importers.read_meanings`)."""

    @property
    def content(self) -> str:
        """What that importer reads it from."""
        ...

    def __call__(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        """The node's results; ValueError where it does not fit its operands."""
        ...


@dataclass(frozen=True)
class UnreadMeaning:
    """A meaning as it stands in a text: an importer has to read it before the node can be run."""

    name: str
    format: str
    content: str

    def __call__(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        raise ValueError(f"the importer of {self.format} has not read what {self.name} means")


@irdl_attr_definition
class MeaningAttr(Data[Any]):  # a Meaning; xDSL asks for a class
    """A meaning: complete text holds what its importer reads it from, any other one its name."""

    name = "top.meaning"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        with parser.in_angle_brackets():
            words = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_str_literal
            )
        if len(words) != len(fields(UnreadMeaning)):
            parser.raise_error("this text only names what a node means; complete text has it")
        return UnreadMeaning(*words)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data.name)
            if printer.print_debuginfo:  # of complete text
                for word in (self.data.format, self.data.content):
                    printer.print_string(", ")
                    printer.print_string_literal(word)


@irdl_op_definition
class DataDependentNodeOp(TopOperation):
    """A node of the source model, imported for what it reads when that is there."""

    name = "top.node"
    FAMILY: ClassVar[str] = "other"
    SIZED_BY_DATA: ClassVar[bool] = True

    inputs = var_operand_def(TensorType)
    operator = prop_def(StringAttr)
    meaning = prop_def(MeaningAttr)
    outputs = var_result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        """What was declared: contents decide the rest."""
        return [result.type for result in self.results]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.meaning.data(*operands)

    def missing_form(self) -> str:
        return f"{self.operator.data} becomes other operations for other contents of what it reads"

    def define(self, k, inputs, output) -> str:
        raise NotImplementedError(self.missing_form())

    def label(self) -> str:
        return self.operator.data

    def graph_attributes(self) -> tuple[tuple[str, str], ...]:
        return (("operator", self.operator.data),)
