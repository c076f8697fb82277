"""Operands that decide a shape get the contents that were assumed for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper

from explorer.importers import to_top
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import entry_function, specialized_inputs
from explorer.ir.structure import operations
from explorer.ir.top.data import WeightOp
from explorer.ir.top.movement.slices import SliceOp


def test_bounds_of_a_slice_that_are_inputs_become_constants():
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "starts", "ends"], ["y"])],
        "g",
        [
            info("x", TensorProto.FLOAT, (8,)),
            info("starts", TensorProto.INT64, (1,)),
            info("ends", TensorProto.INT64, (1,)),
        ],
        [info("y", TensorProto.FLOAT, (None,))],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assumed = {"starts": np.array([2]), "ends": np.array([5])}
    module, weights = to_top(replace(from_proto(proto), assumed=assumed))
    assert specialized_inputs(entry_function(module)) == ("ends", "starts")
    (taken,) = [op for op in operations(module) if isinstance(op, SliceOp)]
    bounds = [o.owner for o in (taken.starts_value, taken.stops_value) if o is not None]
    assert [weights[op.weight.data].tolist() for op in bounds if isinstance(op, WeightOp)] == [
        [2],
        [5],
    ]


def test_without_assumed_contents_nothing_changes():
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "starts", "ends"], ["y"])],
        "g",
        [
            info("x", TensorProto.FLOAT, (8,)),
            info("starts", TensorProto.INT64, (1,)),
            info("ends", TensorProto.INT64, (1,)),
        ],
        [info("y", TensorProto.FLOAT, (None,))],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    module, _ = to_top(from_proto(proto))
    assert specialized_inputs(entry_function(module)) == ()
    assert not any(isinstance(op, WeightOp) for op in operations(module))
