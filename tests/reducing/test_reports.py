"""The page of a reduction lists all that is left of the model."""

import numpy as np
from onnx import helper

from explorer.reducing import Outcome, reduce
from explorer.reducing.candidate import candidate_of_proto
from explorer.reducing.report import report_text


def test_a_report_lists_inputs_constants_and_operations_with_their_numbers(make_model):
    values = {"x": np.array([1, -2], np.float32)}
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    model = make_model(nodes, values, ["y"], w=np.array([0.5, 3], np.float32))
    found = reduce(candidate_of_proto(model, values), lambda candidate: Outcome("differs"))
    left = found.candidate
    text = report_text(found, "small.onnx", ["explorer check small.onnx"])
    listed = text.split("```")[-2].strip().splitlines()
    (node,) = left.model.graph.node
    names = [*left.inputs, *(tensor.name for tensor in left.model.graph.initializer)]
    assert [line.split(":")[0] for line in listed[: len(names)]] == names
    assert all(": float32 of [" in line and " = [" in line for line in listed[: len(names)])
    assert listed[len(names) :] == [f"{node.output[0]} = Mul({', '.join(node.input)})",
                                    f"return {node.output[0]}"]  # fmt: skip
