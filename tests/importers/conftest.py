"""Models of one node, and the comparison of an imported model with onnxruntime."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from explorer.accuracy.metrics import tensor_error
from explorer.accuracy.oracle import reference
from explorer.importers import SourceModel
from explorer.importers.onnx import from_proto, to_top
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot

Operands = Mapping[str, np.ndarray]


def value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, data_type, array.shape)


def build_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Operands,
    weights: Operands,
    opset: int,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model whose outputs are all results that no node uses."""
    used = {name for node in nodes for name in node.input}
    results = [name for node in nodes for name in node.output if name and name not in used]
    graph = helper.make_graph(
        nodes,
        "graph",
        [value_info(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def snapshot_of(model: SourceModel, dimensions: Mapping[str, int] | None = None) -> Snapshot:
    module, weights = to_top(model, dimensions)
    return Snapshot(module, weights)


def worst_error(
    model: SourceModel, inputs: Operands, dimensions: Mapping[str, int] | None = None
) -> float:
    """The largest error of any output of the imported model against onnxruntime's."""
    snapshot = snapshot_of(model, dimensions)
    outputs = outputs_by_name(snapshot.module, snapshot.run(inputs))
    expected = reference(model, inputs, list(outputs))
    errors = []
    for name, array in outputs.items():
        assert array.dtype == expected[name].dtype, name
        errors.append(tensor_error(name, "", array, expected[name]).max_relative)
    return max(errors)


@pytest.fixture(scope="session")
def make_model() -> Callable[..., onnx.ModelProto]:
    return build_model


@pytest.fixture(scope="session")
def compare() -> Callable[..., float]:
    return worst_error


@pytest.fixture(scope="session")
def snapshot() -> Callable[..., Snapshot]:
    return snapshot_of


@pytest.fixture
def save(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes bytes into a file `model.onnx` of its own folder."""

    def write(data: bytes) -> Path:
        path = tmp_path / "model.onnx"
        path.write_bytes(data)
        return path

    return write


@pytest.fixture(scope="session")
def load_proto() -> Callable[[onnx.ModelProto], SourceModel]:
    return from_proto
