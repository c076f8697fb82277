"""Import and canonicalization of generated transformers: seconds by size, and how they grow.

    python benchmarks/canonicalization.py                 2,000, 5,000 and 10,000 nodes
    python benchmarks/canonicalization.py --nodes 2000 --passes

A generated transformer spells everything out as exporters do: layer norms in nine nodes, GELU in
five, attention with shapes that are computed. Time is processor time of this process, so that what
else the machine does counts little; `growth` is the exponent p of seconds ~ nodes^p between two
sizes (1 for linear; n log n gives about 1.1 here).
"""

from __future__ import annotations

import argparse
import gc
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEQUENCE, WIDTH, HEADS, HIDDEN = 16, 32, 4, 64


class _Graph:
    """Nodes and weights of a model, with fresh names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        # Any: attributes are of whatever type ONNX allows.
        node = helper.make_node(operator, inputs, [name], name, **attributes)  # pyright: ignore
        self.nodes.append(node)
        return name

    def weight(self, *shape: int) -> str:
        name = f"weight_{len(self.weights)}"
        array = self.random.normal(size=shape, scale=0.1).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, value: object, dtype: type = np.float32) -> str:
        """A node, as exporters write it."""
        tensor = numpy_helper.from_array(np.array(value, dtype))
        return self.add("Constant", value=tensor)


def layer_norm(graph: _Graph, x: str) -> str:
    mean = graph.add("ReduceMean", x, axes=[-1], keepdims=1)
    centered = graph.add("Sub", x, mean)
    square = graph.add("Pow", centered, graph.constant(2.0))
    variance = graph.add("ReduceMean", square, axes=[-1], keepdims=1)
    root = graph.add("Sqrt", graph.add("Add", variance, graph.constant(1e-5)))
    normal = graph.add("Div", centered, root)
    return graph.add("Add", graph.add("Mul", normal, graph.weight(WIDTH)), graph.weight(WIDTH))


def linear(graph: _Graph, x: str, inputs: int, outputs: int) -> str:
    product = graph.add("MatMul", x, graph.weight(inputs, outputs))
    return graph.add("Add", graph.weight(outputs), product)


def gelu(graph: _Graph, x: str) -> str:
    error = graph.add("Erf", graph.add("Div", x, graph.constant(math.sqrt(2))))
    gate = graph.add("Add", error, graph.constant(1.0))
    return graph.add("Mul", graph.add("Mul", x, gate), graph.constant(0.5))


def heads(graph: _Graph, x: str, permutation: list[int]) -> str:
    """(batch, sequence, width) to (batch, heads, sequence, size), by a computed shape."""
    shape = graph.add("Shape", x)
    length = graph.add("Gather", shape, graph.constant(1, np.int64), axis=0)
    length = graph.add("Unsqueeze", length, axes=[0])
    parts = [graph.constant([1], np.int64), length]
    parts += [graph.constant([n], np.int64) for n in (HEADS, WIDTH // HEADS)]
    split = graph.add("Reshape", x, graph.add("Concat", *parts, axis=0))
    return graph.add("Transpose", split, perm=permutation)


def block(graph: _Graph, x: str) -> str:
    normal = layer_norm(graph, x)
    query, key, value = (
        heads(graph, linear(graph, normal, WIDTH, WIDTH), permutation)
        for permutation in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = graph.add("MatMul", query, key)
    scores = graph.add("Div", scores, graph.constant(math.sqrt(WIDTH // HEADS)))
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    joined = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
    target = graph.constant([1, SEQUENCE, WIDTH], np.int64)
    attended = linear(graph, graph.add("Reshape", joined, target), WIDTH, WIDTH)
    x = graph.add("Add", x, attended)
    hidden = gelu(graph, linear(graph, layer_norm(graph, x), WIDTH, HIDDEN))
    return graph.add("Add", x, linear(graph, hidden, HIDDEN, WIDTH))


def transformer(nodes: int) -> onnx.ModelProto:
    """A model of at least so many nodes: whole blocks."""
    graph, x = _Graph(), "x"
    while len(graph.nodes) < nodes:
        x = block(graph, x)
    kind = helper.make_tensor_value_info
    shape = [1, SEQUENCE, WIDTH]
    body = helper.make_graph(
        graph.nodes,
        "transformer",
        [kind("x", TensorProto.FLOAT, shape)],
        [kind(x, TensorProto.FLOAT, shape)],
        graph.weights,
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)


def measure(nodes: int, folder: Path) -> tuple[int, int, float, dict[str, float]]:
    """Nodes, operations left, seconds of the import, and of each pass with its snapshot."""
    from explorer.importers import load, open_program
    from explorer.ir.rewriting import Names, RewriteOptions
    from explorer.ir.rewriting.passes import Working, run_pass
    from explorer.passes import top_pipeline

    model = transformer(nodes)
    path = folder / f"transformer_{nodes}.onnx"
    onnx.save(model, path)
    begin = time.process_time()
    # With the model as it is and the rewrites from that to the program, as a compilation has them.
    opened = open_program(load(path))
    module = opened.module
    working = Working(module=module, weights=opened.weights, names=Names.of(module))
    imported = time.process_time() - begin
    seconds: dict[str, float] = {}
    left = 0
    for pass_ in top_pipeline({}):
        begin = time.process_time()
        left = run_pass(pass_, working, RewriteOptions()).after.operation_count
        seconds[pass_.name] = time.process_time() - begin
    return len(model.graph.node), left, imported, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[2000, 5000, 10000])
    parser.add_argument("--passes", action="store_true", help="seconds of each pass")
    arguments = parser.parse_args()
    from explorer.compilation.collection import paused_collection

    print("nodes  operations  import s  passes s  together s  growth")
    with tempfile.TemporaryDirectory() as folder:
        measure(100, Path(folder))  # imports of modules, caches
        previous: tuple[int, float] | None = None
        for nodes in arguments.nodes:
            with paused_collection():  # as in a compilation
                count, left, imported, seconds = measure(nodes, Path(folder))
            gc.collect()
            passes = sum(seconds.values())
            total = imported + passes
            growth = ""
            if previous is not None:
                growth = f"{math.log(total / previous[1]) / math.log(count / previous[0]):.2f}"
            times = f"{imported:>8.2f}  {passes:>8.2f}  {total:>10.2f}"
            print(f"{count:>5}  {left:>10}  {times}  {growth}")
            previous = count, total
            if arguments.passes:
                for name, spent in seconds.items():
                    print(f"    {name:<34} {spent:.2f}")


if __name__ == "__main__":
    main()
