"""Reading the toy format, and what its operators become."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from explorer.errors import ModelError
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.flat import FileNode, FlatGraph
from explorer.importers.building.flat_importer import FlatImporter
from explorer.importers.model import SourceModel, SourceNode, SourceValue

Operands = Sequence[Expr | None]
FAMILIES = {"dense": "convolution", "relu": "elementwise", "add": "elementwise"}


def dense(node: FileNode, operands: Operands, build: Build) -> Expr:
    """x·w + b"""
    x, w, b = operands
    assert x is not None and w is not None
    if w.rank != 2:
        raise Unsupported(f"a weight of rank {w.rank}")
    return build.matmul(x, w, b)


def relu(node: FileNode, operands: Operands, build: Build) -> Expr:
    """max(x, 0)"""
    (x,) = operands
    assert x is not None
    return x.relu()


def add(node: FileNode, operands: Operands, build: Build) -> Expr:
    """The sum of both operands."""
    left, right = operands
    assert left is not None and right is not None
    return left + right


CONVERTERS = {"dense": dense, "relu": relu, "add": add}


class ToyImporter(FlatImporter):
    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        lines = [line.split() for line in path.read_text().splitlines()]
        if not lines or lines[0] != ["toy"]:
            raise ModelError("not a toy model: it does not begin with `toy`", file=str(path))
        nodes, inputs, outputs, files = [], [], [], []
        for number, words in enumerate(lines[1:], 2):
            match words:
                case []:
                    pass
                case ["weights", name]:
                    files.append(name)
                case ["input", name, *sizes]:
                    shape = tuple(int(s) if s.isdecimal() else s for s in sizes)
                    inputs.append(SourceValue(name, "float32", shape))
                case ["output", name]:
                    outputs.append(SourceValue(name, "float32", None))
                case [operator, result, *operands]:
                    nodes.append(
                        FileNode(
                            name=f"line {number}",
                            operator=operator,
                            inputs=tuple(operands),
                            outputs=(result,),
                            family=FAMILIES.get(operator, "other"),
                        )
                    )
                case _:
                    raise ModelError(f"line {number} says nothing", file=str(path))
        constants = {k: a for name in files for k, a in read_weights(path.parent / name).items()}
        return SourceModel(
            name=path.stem,
            format="toy",
            path=path,
            producer="",
            opset="toy 1",
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            nodes=tuple(SourceNode(n.name, n.operator, " ".join(n.inputs)) for n in nodes),
            parameters=sum(array.size for array in constants.values()),
            content=(tuple(nodes), tuple(files)),
            tensors=tuple(name for node in nodes for name in node.outputs),
            constants=constants,
        )

    def graph(self, model: SourceModel) -> FlatGraph:
        return FlatGraph(nodes_of(model), CONVERTERS)

    def files_of(self, model: SourceModel) -> tuple[str, ...]:
        return model.content[1]


def nodes_of(model: SourceModel) -> tuple[FileNode, ...]:
    return model.content[0]


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Lines of a name, sizes, a colon, and numbers."""
    if not path.is_file():
        raise ModelError("the weights are not there", file=str(path))
    arrays = {}
    for line in path.read_text().splitlines():
        head, _, numbers = line.partition(":")
        name, *sizes = head.split()
        array = np.array([float(n) for n in numbers.split()], np.float32)
        arrays[name] = array.reshape([int(size) for size in sizes])
    return arrays
