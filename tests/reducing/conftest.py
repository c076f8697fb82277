"""Small networks, and conditions that take no compilation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.reducing import Candidate
from explorer.reducing.candidate import candidate_of_proto


def make_model(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: list[str], **constants: Any
) -> onnx.ModelProto:
    """A model; inputs by shape, of float32, or as arrays."""
    given = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, np.shape(a)) for n, a in inputs.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "net", given, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(name="make_model")
def _make_model() -> Callable[..., onnx.ModelProto]:
    return make_model


@pytest.fixture
def tower() -> Candidate:
    """40 convolutions with batch norms, sums and relus, a softmax and a product at the end."""
    random = np.random.default_rng(0)
    nodes, constants, x = [], {}, "x"
    for number in range(40):
        weight = random.normal(size=(4, 4, 3, 3)) / 6
        constants[f"w{number}"] = weight.astype(np.float32)
        nodes.append(helper.make_node("Conv", [x, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Add", [f"c{number}", x], [f"a{number}"]))
        nodes.append(helper.make_node("Relu", [f"a{number}"], [f"r{number}"]))
        x = f"r{number}"
    nodes.insert(60, helper.make_node("Softmax", ["r19"], ["s"], axis=1))
    nodes.append(helper.make_node("Mul", [x, "s"], ["y"]))
    values = {"x": random.normal(size=(1, 4, 6, 6)).astype(np.float32)}
    return candidate_of_proto(make_model(nodes, values, ["y", "r7"], **constants), values)


@pytest.fixture
def has() -> Callable[..., Callable[[Candidate], bool]]:
    """`has("Relu", "Add")`: whether a relu reads what an add computes."""

    def condition_of(*operators: str) -> Callable[[Candidate], bool]:
        def condition(candidate: Candidate) -> bool:
            nodes = candidate.model.graph.node
            makers = {name: node for node in nodes for name in node.output}

            def leads(node: onnx.NodeProto, rest: tuple[str, ...]) -> bool:
                if not rest:
                    return True
                before = [makers[name] for name in node.input if name in makers]
                return any(b.op_type == rest[0] and leads(b, rest[1:]) for b in before)

            return any(n.op_type == operators[0] and leads(n, operators[1:]) for n in nodes)

        return condition

    return condition_of
