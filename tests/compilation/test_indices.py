"""Indices that data decide: clamped where nobody asks, found and named where somebody does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.importers.onnx import from_proto

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def model() -> explorer.SourceModel:
    """Rows of a table, and a vector with written elements, at places that the input says.

    The places are computed (floats made integers), and one of both reads them through a view.
    """
    nodes = [
        helper.make_node("Cast", ["raw"], ["ids"], to=TensorProto.INT64, name="cast"),
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="lookup", axis=0),
        helper.make_node("Reshape", ["ids", "shape"], ["flat"], name="flatten"),
        helper.make_node("ScatterElements", ["zeros", "flat", "updates"], ["put"], name="put"),
        helper.make_node("GatherND", ["table", "pairs"], ["picked"], name="pick"),
    ]
    inputs = [("raw", [2, 2], 1), ("updates", [4], 1), ("pairs", [2, 2], 7)]
    weights = {"table": TABLE, "zeros": np.zeros(5, np.float32), "shape": np.array([4])}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape, kind in inputs],
        [helper.make_empty_tensor_value_info(name) for name in ("rows", "put", "picked")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    return from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def arrays(raw: list[list[int]], pairs: list[list[int]]) -> dict[str, np.ndarray]:
    return {
        "raw": np.array(raw, np.float32),
        "updates": np.ones(4, np.float32),
        "pairs": np.array(pairs, np.int64),
    }


INSIDE = arrays([[0, 1], [3, -4]], [[3, 2], [-4, -3]])
OUTSIDE = arrays([[0, 1], [9, -5]], [[3, 2], [0, 3]])


@pytest.fixture(scope="module")
def compilation() -> Iterator[Compilation]:
    compilation = explorer.compile(model(), "cpu")
    yield compilation
    compilation.close()


def test_indices_inside_are_no_finding(compilation: Compilation) -> None:
    assert compilation.outside_indices(INSIDE) == ()
    outputs = compilation.run(INSIDE, check_indices=True)
    np.testing.assert_array_equal(outputs["rows"], TABLE[[[0, 1], [3, -4]]])


def test_each_operation_names_its_first_index_outside(compilation: Compilation) -> None:
    found = compilation.outside_indices(OUTSIDE)
    facts = [(f.tensor, f.nodes, f.element, f.value, f.axis, f.extent, f.count) for f in found]
    assert facts == [
        ("ids", ("lookup",), (1, 0), 9, 0, 4, 2),
        ("flat", ("put",), (2,), 9, 0, 5, 1),
        ("pairs", ("pick",), (1, 1), 3, 1, 3, 1),
    ]


def test_a_checked_run_refuses_what_an_unchecked_one_clamps(compilation: Compilation) -> None:
    with pytest.raises(InputError, match=r"index 9 at \[1, 0\] of 'ids' and 1 more") as caught:
        compilation.run(OUTSIDE, check_indices=True)
    assert "lookup" in caught.value.node
    outputs = compilation.run(OUTSIDE)
    np.testing.assert_array_equal(outputs["rows"], TABLE[[[0, 1], [3, 0]]])
