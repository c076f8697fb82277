"""Importing graphs that are a list of nodes: what is left to a format is to read it and to convert.

    graph = FlatGraph(nodes, {"Dense": dense, "Relu": relu})
    graph.open_program(model, {"batch": 4})       model as it is, program, one rewrite for each node
    graph.examine(model)                          what cannot be imported, and why

    def relu(node, operands, build):              a converter: its docstring stands in the rewrite
        \"\"\"max(x, 0)\"\"\"
        return operands[0].relu()

Nodes stand in an order in which each follows what it needs. A name that no node makes is an input
or one of `model.constants`.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block

from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.files import damage_of
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.decomposition import decomposition, explained, explanations
from explorer.importers.building.expr import Expr
from explorer.importers.building.limits import MAX_ELEMENTS, check_rank
from explorer.importers.building.program import ProgramBuilder
from explorer.importers.building.source_program import SourceBuilder, end
from explorer.importers.model import (
    ExaminedModel,
    OpenedProgram,
    SourceModel,
    check_dimension_names,
)
from explorer.ir.dialects.source import NodeOp, SourceValueType
from explorer.ir.operation import PropertyValue, to_attribute
from explorer.ir.top.data import weight_type
from explorer.ir.types import (
    ELEMENT_TYPES,
    QuantizedType,
    format_shape,
    is_static,
    tensor_type,
)
from explorer.ir.weights import Weights


@dataclass(frozen=True, kw_only=True)
class FileNode:
    """One node of a file."""

    name: str
    """Unique."""
    operator: str
    inputs: tuple[str, ...]
    """Names of tensors; empty for an operand that is left out."""
    outputs: tuple[str, ...]
    settings: Mapping[str, PropertyValue] = field(default_factory=dict)
    """Its attributes: numbers, texts, lists."""
    family: str = "other"
    """Of operators, as `results.GraphNode.family`."""
    version: int = 1
    """Of the operator."""
    place: str = ""
    """Where it stands in what the model was made of: a line of a program."""


Convert = Callable[[FileNode, Sequence[Expr | None], Build], Expr | Sequence[Expr]]
"""The values of a node's results, in the form that the file says; None stands for an operand that
is left out. Raises `Unsupported` with the reason for what cannot be expressed."""


@dataclass(frozen=True)
class FlatGraph:
    """The nodes of a model, and what converts each operator."""

    nodes: Sequence[FileNode]
    converters: Mapping[str, Convert]
    kinds: Mapping[str, QuantizedType] = field(default_factory=dict)
    """Of constants that hold quantized numbers: in which type operands get them."""
    hint: str = "explorer.inspect(model) shows where they stand"
    """What to do where nodes cannot be imported."""

    def open_program(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> OpenedProgram:
        """As `Importer.open_program`."""
        check_dimension_names(model, dimensions or {})
        found = self._convert(model, dimensions or {}, is_examined=False)
        if found.module is None:
            count = len(found.problems)
            raise UnsupportedError(
                f"{count} node{'s' * (count > 1)} of {model.name} cannot be imported",
                problems=[f"node {name}: {why}" for name, why in found.problems.items()],
                file="" if model.path is None else str(model.path),
                hint=self.hint,
            )
        source = self._source(model, found)
        rewrites = decomposition(source, found.module, found.microseconds, self._explained)
        return OpenedProgram(source, found.module, found.weights, rewrites)

    def examine(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> ExaminedModel:
        """As `Importer.examine`."""
        check_dimension_names(model, dimensions or {})
        found = self._convert(model, dimensions or {}, is_examined=True)
        source = self._source(model, found)
        words = explanations(source, self._explained)
        if found.module is None:
            return ExaminedModel(source, found.problems, explanations=words)
        rewrites = decomposition(source, found.module, found.microseconds, self._explained)
        return ExaminedModel(source, found.problems, rewrites, words)

    def as_read(self, model: SourceModel) -> ModuleOp:
        """As `Importer.as_read`."""
        return self._source(model, _Converted(Weights(), {}))

    def _convert(
        self, model: SourceModel, sizes: Mapping[str, int], is_examined: bool
    ) -> _Converted:
        program = ProgramBuilder(model, sizes)
        found = _Converted(program.weights, program.inputs())
        for node in self.nodes:
            begin = time.perf_counter()
            problem = self._add(node, program, found, model, is_examined)
            if problem:
                found.problems[node.name] = f"{problem} [{node.place}]" if node.place else problem
            found.microseconds[node.name] = (time.perf_counter() - begin) * 1e6
        results = {v.name: self._value(v.name, program, found, model) for v in model.outputs}
        made = {n: program.returned(value) for n, value in results.items() if value is not None}
        if not found.problems:
            missing = [name for name in results if name not in made]
            if missing:
                raise _damaged(f"no node makes the output {missing[0]!r}", model)
            found.module = program.module(made)
        return found

    def _add(
        self,
        node: FileNode,
        program: ProgramBuilder,
        found: _Converted,
        model: SourceModel,
        is_examined: bool,
    ) -> str:
        """Why a node cannot be converted; empty where it was, or lacks what another should make."""
        convert = self.converters.get(node.operator)
        if convert is None:
            return self._unknown(node.operator)
        operands: list[Expr | None] = []
        for name in node.inputs:
            value = self._value(name, program, found, model) if name else None
            if name and value is None and found.problems:
                return ""
            if name and value is None:
                raise _damaged(f"no node makes {name!r}, which {node.name} needs", model, node.name)
            operands.append(value)
        program.begin(node.name)
        try:
            made = convert(node, operands, program.build)
            results = [made] if isinstance(made, Expr) else list(made)
            _check(results, node)
        except Unsupported as unsupported:
            return f"{node.operator}: {unsupported}"
        # What a converter stumbles over is what it was given: nobody foresees all of it.
        except Exception as error:
            words = error.message if isinstance(error, ExplorerError) else damage_of(error)
            if is_examined:
                return words.split("\n")[0]
            # It may be the names of sizes that do not fit: what the node is shows at known ones.
            if not all(is_static(value.type) for value in operands if value is not None):
                first = words.split("\n")[0]
                return f"{node.operator}: {first} (give symbolic dimensions a size)"
            message = f"{node.operator} does not fit its operands: {words}"
            hint = error.hint if isinstance(error, ExplorerError) else ""
            raise _damaged(message, model, node.name, hint) from error
        named = dict(zip(node.outputs, results, strict=False))
        program.finish(node.name, node.operator, named)
        found.values |= named
        return ""

    def _value(
        self, name: str, program: ProgramBuilder, found: _Converted, model: SourceModel
    ) -> Expr | None:
        """A tensor's value; constants become operations when they are first used."""
        if name not in found.values and name in model.constants:
            array = model.constants[name]
            found.values[name] = program.constant(name, array, self.kinds.get(name))
        return found.values.get(name)

    def _unknown(self, operator: str) -> str:
        near = difflib.get_close_matches(operator, self.converters, n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"{operator}: unknown operator{hint}"

    def _explained(self, node: NodeOp) -> tuple[str, str]:
        convert = self.converters.get(node.operator.data)
        return ("", "") if convert is None else explained(convert)

    def _source(self, model: SourceModel, found: _Converted) -> ModuleOp:
        builder, block = SourceBuilder(found.module), Block()
        inputs = [(v.name, _kind(v.name, found, model)) for v in model.inputs]
        arguments = builder.arguments(block, inputs)
        values = dict(zip((v.name for v in model.inputs), arguments, strict=True))
        used = {name for node in self.nodes for name in node.inputs}
        used |= {value.name for value in model.outputs}
        for name, array in model.constants.items():
            if name in used:
                op = builder.constant(name, weight_type(array), found.values.get(name))
                block.add_op(op)
                values[name] = op.output
        for node in self.nodes:
            for name in node.inputs:
                if name and name not in values:
                    message = f"no node makes {name!r}, which {node.name} needs"
                    raise _damaged(message, model, node.name)
            op = NodeOp.make_node(
                [values[name] if name else None for name in node.inputs],
                [_kind(name, found, model) for name in node.outputs],
                node.outputs,
                operator=node.operator,
                domain=model.format,
                version=node.version,
                family=node.family,
                settings={name: to_attribute(value) for name, value in node.settings.items()},
                problem=found.problems.get(node.name, ""),
            )
            builder.name_node(op, node.name, node.operator)
            block.add_op(op)
            values.update(zip(node.outputs, op.results, strict=True))
        for value in model.outputs:
            if value.name not in values:
                raise _damaged(f"no node makes the output {value.name!r}", model)
        results = [values[value.name] for value in model.outputs]
        end(block, results)
        return builder.program(block, results, model)


@dataclass
class _Converted:
    weights: Weights
    values: dict[str, Expr]
    problems: dict[str, str] = field(default_factory=dict)
    microseconds: dict[str, float] = field(default_factory=dict)
    module: ModuleOp | None = None


def _kind(name: str, found: _Converted, model: SourceModel) -> Attribute:
    """A tensor's type: as the import found it, or else as the file says it."""
    value = found.values.get(name)
    if value is not None:
        return value.type
    declared = next((v for v in (*model.inputs, *model.outputs) if v.name == name), None)
    if declared is None or declared.shape is None or declared.element_type not in ELEMENT_TYPES:
        return SourceValueType(StringAttr("unknown"))
    return tensor_type(ELEMENT_TYPES[declared.element_type], declared.shape)


def _check(results: Sequence[Expr], node: FileNode) -> None:
    for value in results:
        check_rank(len(value.shape), f"the result of {node.operator}", node.name)
        if prod(s for s in value.shape if isinstance(s, int) and s) > MAX_ELEMENTS:
            shape = format_shape(value.shape)
            raise ValueError(f"a result of shape {shape}, more than {MAX_ELEMENTS:,} elements")


def _damaged(message: str, model: SourceModel, node: str = "", hint: str = "") -> ModelError:
    file = "" if model.path is None else str(model.path)
    hint = hint or "the file is damaged; or check the sizes given to symbolic dimensions"
    return ModelError(message, file=file, node=node, hint=hint)
