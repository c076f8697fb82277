"""What writers of operations work with: nodes under construction, and their names.

    @writes(GatherOp)
    def gather(op: GatherOp, out: Nodes) -> str:
        return out.node("Gather", op.input, op.indices, axis=op.get("axis"))

A writer returns the names of the operation's results as its nodes have them; `Nodes.finish` gives
them the names that they have in the file. Names in between are made of the operation's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype, shape_of

OPSET = 21
"""The first in which QuantizeLinear makes integers of 16 bits, and DequantizeLinear has blocks."""

Value = SSAValue | str
"""A value of the program, or a name that a writer got."""
Write = Callable[[Any, "Nodes"], str | Sequence[str]]


class Unwritable(ValueError):
    """ONNX has nothing that means the operation; the message says what it lacks."""


@dataclass(frozen=True)
class Writer:
    """How one kind of operation is written."""

    kind: type[TopOperation]
    write: Write


def writes(kind: type[TopOperation]) -> Callable[[Write], Writer]:
    """Declares a function as the writer of a kind of operation."""
    return lambda function: Writer(kind, function)


@dataclass
class Names:
    """Names that are taken, in a model and all graphs inside it."""

    taken: set[str] = field(default_factory=set)

    def new(self, wanted: str) -> str:
        """The name, or `name.2`, `name.3` ... where it is taken."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}.{number}"
        self.taken.add(name)
        return name


@dataclass
class Nodes:
    """A graph under construction: its nodes in order, and what all graphs of the model share."""

    names: Names
    node_names: Names
    values: dict[SSAValue, str]
    """Names of what exists already."""
    wanted: dict[SSAValue, str]
    """Names that results get."""
    constants: dict[str, np.ndarray]
    """Of the whole model, by name."""
    stored: Callable[[SSAValue], np.ndarray | None]
    """The array of a constant of the program; None for what is computed."""
    weights: str
    """What bytes with a sign become where they are constant: int8 or uint8."""
    is_exact: bool
    """Whether integers are computed as such, not in pairs of nodes around floats."""
    write_region: Callable[[Any, Nodes, Sequence[str]], onnx.GraphProto]
    """A block of an operation's region as a graph; names that its arguments get in front."""
    reals: set[SSAValue]
    """Sums of integers that are written as the floats that they stand for, of all graphs."""
    made: list[onnx.NodeProto] = field(default_factory=list)
    current: TopOperation | None = None
    _known: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def node(self, operator: str, *inputs: Value | None, **attributes: Any) -> str:
        """Another node with one result, whose name is returned. None: an operand that is absent."""
        return self.nodes(operator, 1, *inputs, **attributes)[0]

    def nodes(
        self, operator: str, results: int, *inputs: Value | None, **attributes: Any
    ) -> list[str]:
        """The same with several results."""
        assert self.current is not None
        identity = identity_of(self.current)
        sources = sources_of(self.current)
        given = ["" if v is None else v if isinstance(v, str) else self.name(v) for v in inputs]
        while given and not given[-1]:
            given.pop()
        names = [self.names.new(f"{identity}.{operator}") for _ in range(results)]
        name = self.node_names.new(sources[0] if len(sources) == 1 else identity)
        chosen = {key: value for key, value in attributes.items() if value is not None}
        self.made.append(helper.make_node(operator, given, names, name, **chosen))
        return names

    def name(self, value: SSAValue) -> str:
        return self.values[value]

    def constant(self, array: np.ndarray | Sequence[int]) -> str:
        """A constant of the writer's own; equal ones are one. Plain numbers are i64."""
        found = np.ascontiguousarray(array) if isinstance(array, np.ndarray) else _i64(array)
        found = found.reshape(np.shape(array))
        key = (found.dtype.name, found.shape, found.tobytes())
        if key not in self._known:
            assert self.current is not None
            name = self.names.new(f"{identity_of(self.current)}.constant")
            self.constants[name], self._known[key] = found, name
        return self._known[key]

    def named(self, name: str, array: np.ndarray) -> str:
        """A constant with a name of its own, shared with nothing."""
        chosen = self.names.new(name)
        self.constants[chosen] = array
        return chosen

    def number(self, number: float, like: SSAValue) -> str:
        """A scalar of the element type of a value."""
        return self.constant(np.asarray(number).astype(dtype_of(like)))

    def finish(self, op: TopOperation, results: str | Sequence[str], first: int) -> None:
        """The results' names in the file, in the nodes that the operation's writer made."""
        named = [results] if isinstance(results, str) else list(results)
        own = self.made[first:]
        for value, name in zip(op.results, named, strict=True):
            wanted = self.wanted[value]
            if any(name in node.output for node in own) and name not in self.values.values():
                for node in own:
                    _rename(node.input, name, wanted)
                    _rename(node.output, name, wanted)
                name = wanted
            self.values[value] = name


def _rename(names: Any, old: str, new: str) -> None:  # protobuf's repeated field has no public type
    for index, name in enumerate(names):
        if name == old:
            names[index] = new


def _i64(numbers: Iterable[int]) -> np.ndarray:
    return np.array(list(numbers), np.int64)


# -- types -----------------------------------------------------------------------------------------


def dtype_of(value: SSAValue | Attribute) -> np.dtype:
    """NumPy's type of what is stored."""
    return numpy_dtype(element_type_of(value))


def onnx_type(element_type: Attribute) -> int:
    """A member of TensorProto.DataType; that of the stored integers of a quantized type."""
    return helper.np_dtype_to_tensor_dtype(numpy_dtype(element_type))


def is_quantized(value: SSAValue) -> bool:
    return isinstance(element_type_of(value), QuantizedType)


def value_info(name: str, value: SSAValue, is_real: bool = False) -> onnx.ValueInfoProto:
    """Element type and shape; sizes that are not known by name, or open. is_real: the floats that
    quantized numbers stand for."""
    assert isinstance(value.type, TensorType)
    shape = [None if size == "?" else size for size in shape_of(value)]
    kind = onnx.TensorProto.FLOAT if is_real else onnx_type(element_type_of(value))
    return helper.make_tensor_value_info(name, kind, shape)


def sizes_of(value: SSAValue) -> tuple[int, ...]:
    """Unwritable where a size is open: what is written has it as a number."""
    shape = shape_of(value)
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) != len(shape):
        raise Unwritable(f"its operand has open sizes: {', '.join(map(str, shape))}")
    return sizes


def rank_of(value: SSAValue) -> int:
    return len(shape_of(value))


def forbid_quantized(op: TopOperation) -> None:
    """Unwritable where it computes with integers that stand for numbers."""
    if any(is_quantized(v) for v in (*op.operands, *op.results)):
        raise Unwritable(
            "it computes in integers already, which ONNX writes as pairs of QuantizeLinear and "
            "DequantizeLinear around floats"
        )
