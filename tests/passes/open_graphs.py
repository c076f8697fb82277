"""Random ONNX graphs over x (b, s, 4) and z (b, p, 4): every operation may meet open axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Size = int | str
REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp")


class Graph:
    """Adds operations at random; values are known with their shapes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.values: list[tuple[str, list[Size]]] = [("x", ["b", "s", 4]), ("z", ["b", "p", 4])]
        for _ in range(self.number(2, 7)):
            self.add()

    def number(self, lowest: int, end: int) -> int:
        return int(self.random.integers(lowest, end))

    def model(self) -> onnx.ModelProto:
        """The last value is the output y."""
        self.nodes.append(helper.make_node("Identity", [self.values[-1][0]], ["y"]))
        inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in self.values[:2]]
        output = helper.make_tensor_value_info("y", 1, None)
        graph = helper.make_graph(self.nodes, "open", inputs, [output], self.weights)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)

    def const(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def add(self) -> None:
        value, shape = self.values[self.number(max(0, len(self.values) - 3), len(self.values))]
        rank = len(shape)
        if not rank:
            return
        kinds = [name for name in dir(self) if name.startswith("make_")]
        make = getattr(self, kinds[self.number(0, len(kinds))])
        made = make(value, shape, rank, self.number(0, rank))
        if made is not None:
            self.values.append(made)

    # -- operations: the value, its shape, rank and an axis ----------------------------------------
    def make_softmax(self, x: str, shape: list[Size], rank: int, axis: int):
        return self.op(("Softmax", "LogSoftmax")[self.number(0, 2)], [x], axis=axis), shape

    def make_reduction(self, x: str, shape: list[Size], rank: int, axis: int):
        axes = sorted({self.number(0, rank) for _ in range(self.number(1, rank + 1))})
        keeps = self.number(0, 2)
        kind = REDUCTIONS[self.number(0, len(REDUCTIONS))]
        made = self.op(kind, [self.op("Tanh", [x])], axes=axes, keepdims=keeps)
        kept = [1 if a in axes else d for a, d in enumerate(shape) if keeps or a not in axes]
        return made, kept

    def make_transpose(self, x: str, shape: list[Size], rank: int, axis: int):
        order = [int(a) for a in self.random.permutation(rank)]
        return self.op("Transpose", [x], perm=order), [shape[a] for a in order]

    def make_product_with_itself(self, x: str, shape: list[Size], rank: int, axis: int):
        if rank < 2:
            return None
        order = [*range(rank - 2), rank - 1, rank - 2]
        made = self.op("MatMul", [x, self.op("Transpose", [x], perm=order)])
        return self.op("Tanh", [made]), [*shape[:-1], shape[-2]]

    def make_product_with_a_weight(self, x: str, shape: list[Size], rank: int, axis: int):
        if not isinstance(shape[-1], int):
            return None
        weight = self.random.standard_normal((shape[-1], 3)).astype(np.float32)
        return self.op("MatMul", [x, self.const(weight)]), [*shape[:-1], 3]

    def make_joined_axes(self, x: str, shape: list[Size], rank: int, axis: int):
        if axis + 1 >= rank:
            return None
        sizes = self.op("Shape", [x])
        before = self.op("Slice", [sizes, self.const([0]), self.const([axis])])
        after = self.op("Slice", [sizes, self.const([axis + 2]), self.const([rank])])
        target = self.op("Concat", [before, self.const(np.array([-1])), after], axis=0)
        one, other = shape[axis : axis + 2]
        both = one * other if isinstance(one, int) and isinstance(other, int) else f"{one}*{other}"
        return self.op("Reshape", [x, target]), [*shape[:axis], both, *shape[axis + 2 :]]

    def make_concatenation(self, x: str, shape: list[Size], rank: int, axis: int):
        size = shape[axis]
        twice = 2 * size if isinstance(size, int) else f"2{size}"
        return self.op("Concat", [x, x], axis=axis), [*shape[:axis], twice, *shape[axis + 1 :]]

    def make_rows_of_both(self, x: str, shape: list[Size], rank: int, axis: int):
        return self.op("Concat", ["x", "z"], axis=1), ["b", "s+p", 4]

    def make_last_element(self, x: str, shape: list[Size], rank: int, axis: int):
        made = self.op("Gather", [x, self.const(np.array(-1))], axis=axis)
        return made, shape[:axis] + shape[axis + 1 :]

    def make_slice(self, x: str, shape: list[Size], rank: int, axis: int):
        start, end = ((0, 1), (-1, 1000), (0, 1000))[self.number(0, 3)]
        bounds = [self.const(np.array([n])) for n in (start, end, axis)]
        kept = shape[axis] if (start, end) == (0, 1000) else 1
        return self.op("Slice", [x, *bounds]), [*shape[:axis], kept, *shape[axis + 1 :]]

    def make_padding(self, x: str, shape: list[Size], rank: int, axis: int):
        amounts = np.zeros(2 * rank, np.int64)
        amounts[[axis, rank + axis]] = self.number(0, 2), self.number(0, 3)
        size, more = shape[axis], int(amounts.sum())
        longer = size + more if isinstance(size, int) else f"{size}+{more}"
        made = self.op("Pad", [x, self.const(amounts), self.const(np.float32(0.5))])
        return made, [*shape[:axis], longer, *shape[axis + 1 :]]

    def make_running_sum(self, x: str, shape: list[Size], rank: int, axis: int):
        how = {"reverse": self.number(0, 2), "exclusive": self.number(0, 2)}
        return self.op("CumSum", [x, self.const(np.array(axis))], **how), shape

    def make_sum_with_its_maximum(self, x: str, shape: list[Size], rank: int, axis: int):
        return self.op("Sub", [x, self.op("ReduceMax", [x], axes=[axis])]), shape

    def make_place(self, x: str, shape: list[Size], rank: int, axis: int):
        made = self.op(("ArgMax", "ArgMin")[self.number(0, 2)], [x], axis=axis)
        return self.op("Cast", [made], to=1), [*shape[:axis], 1, *shape[axis + 1 :]]

    def make_quotient_by_a_size(self, x: str, shape: list[Size], rank: int, axis: int):
        size = self.op("Gather", [self.op("Shape", [x]), self.const(np.array(axis))])
        return self.op("Div", [x, self.op("Cast", [size], to=1)]), shape

    def make_positions(self, x: str, shape: list[Size], rank: int, axis: int):
        size = self.op("Gather", [self.op("Shape", [x]), self.const(np.array(axis))])
        places = self.op("Range", [self.const(np.array(0)), size, self.const(np.array(1))])
        along = self.const(np.array([-1] + [1] * (rank - 1 - axis)))
        return self.op(
            "Add", [x, self.op("Reshape", [self.op("Cast", [places], to=1), along])]
        ), shape
