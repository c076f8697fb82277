"""Certifying a float64 run: single nodes against what others compute in float64.

    uncertified(model, inputs, {"score": array})   ->  ""                    they agree
                                                       "node Sigmoid_7: ..." they do not, or nobody
                                                                             else can compute it

Others are what the reference computes of a single node (`Reference.nodes`): for ONNX, onnxruntime's
own kernel for float64 or onnx's reference implementation. Only nodes whose result differs from the
oracle's are asked about.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.accuracy.metrics import tensor_error
from explorer.accuracy.oracle import reference
from explorer.importers.model import SourceModel
from explorer.references.interface import ReferenceNode, reference_of

Values = Mapping[str, np.ndarray]
CERTIFIED = 1e-5
"""Largest `max_relative` between both float64 results. Not smaller: what this compiler computes as
one operation may have an input that the node has in the oracle's float32."""
MAX_NODES = 400
"""Asked of one model; more of them differ only when something is wrong altogether."""


def uncertified(model: SourceModel, inputs: Values, oracle: Values, results: Values) -> str:
    """Why these tensors, each computed in float64 from the oracle's values, cannot be trusted.

    Empty where the reference implementation computes the same of every node. `oracle`: its tensors
    that were the inputs of the results; others are asked for.
    """
    if not results:
        return ""
    makers = reference_of(model).nodes(model)
    if not makers:
        return f"there is no reference implementation for {model.format}"
    nodes = {makers[name].outputs[0]: makers[name] for name in results if name in makers}
    if len(nodes) > MAX_NODES:
        return f"{len(nodes)} nodes differ from the oracle"
    needed = {name for node in nodes.values() for name in node.inputs if name}
    same = {name: _passed_on(name, makers) for name in needed}
    missing = sorted(set(same.values()) - oracle.keys())
    known = {**reference(model, inputs, missing), **oracle}
    given = {name: known[same[name]] for name in needed}
    for node in nodes.values():
        reason = _judge(node, given, results)
        if reason:
            return f"node {node.name} ({node.operator}): {reason}"
    return ""


def _passed_on(name: str, makers: Mapping[str, ReferenceNode]) -> str:
    """The tensor that a node only passes on, as the import drops such nodes.

    In half precision the difference counts: onnxruntime computes in float32 and rounds a tensor
    where it is shown, so that two runs that show other tensors differ by a rounding.
    """
    while name in makers and makers[name].is_passed_on:
        name = makers[name].inputs[0]
    return name


def _judge(node: ReferenceNode, given: Values, results: Values) -> str:
    try:
        arrays = node.evaluate([given[n] if n else None for n in node.inputs])
    # The reference implementation raises whatever its NumPy code meets.
    except Exception as error:
        return f"nobody else computes it in float64: {type(error).__name__}: {error}"[:200]
    for name, array in zip(node.outputs, arrays, strict=False):
        if name in results:
            off = tensor_error("", "", results[name], np.asarray(array)).max_relative
            if not off <= CERTIFIED:
                return f"in float64 it is off by {off:.1e} from what others compute"
    return ""
