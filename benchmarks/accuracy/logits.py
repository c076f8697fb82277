"""A model that also returns what its final softmax reads.

    path = with_logits(Path("net.onnx"), folder)    a file in the folder, or None without a softmax

    %p = Softmax(%l)                  %p = Softmax(%l)
    return %p                    =>   return %p, %l

Probabilities near 0 and 1 hide all errors but those of doubtful examples: one of a few can be all
that counts. What the softmax reads weighs every example.
"""

from __future__ import annotations

from pathlib import Path

import onnx

MOVES = {"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Behind a softmax these return its probabilities still."""


def with_logits(path: Path, folder: Path) -> Path | None:
    """The first output that a softmax makes decides; what that reads is the last output.

    None, too, where the model returns it already.
    """
    model = onnx.load(path)
    name = _read_by_softmax(model.graph)
    if name is None or any(output.name == name for output in model.graph.output):
        return None
    inferred = onnx.shape_inference.infer_shapes(model).graph
    model.graph.output.append(next(v for v in inferred.value_info if v.name == name))
    written = folder / path.name
    onnx.save(model, written)
    return written


def _read_by_softmax(graph: onnx.GraphProto) -> str | None:
    makers = {name: node for node in graph.node for name in node.output}
    for output in graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in MOVES:
            node = makers.get(node.input[0])
        if node is not None and node.op_type == "Softmax":
            return node.input[0]
    return None
