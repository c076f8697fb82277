"""Random valid ONNX models of a few nodes, for comparing implementations with each other.

    generated = generate(seed=7)
    generated.model          onnx.ModelProto, checked and with inferred shapes
    generated.inputs         {"x0": array, ...}

The same seed gives the same model. Each node is drawn from `recipes.RECIPES` into a `Draft`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto, helper

from verification.random_models.draft import ZERO_SHARE, Draft, with_inner
from verification.random_models.recipes import RECIPES

OPSETS = (19, 20, 21, 21, 22, 23, 24, 25, 26)
"""The newest that onnxruntime 1.31 knows, and those for which the recipes are valid."""
SYMBOLIC_SHARE = 0.15
"""Of the models have names in place of sizes."""


@dataclass(frozen=True)
class Generated:
    """A model with inputs that fit it. `precisions`: of every output, the coarsest type before it.

    `sizes`: what the symbolic dimensions of its inputs stand for.
    """

    seed: int
    model: ModelProto
    inputs: dict[str, np.ndarray]
    precisions: dict[str, str]
    sizes: dict[str, int]

    @property
    def is_symbolic(self) -> bool:
        return bool(self.sizes)

    @property
    def operators(self) -> tuple[str, ...]:
        """Of all nodes, those inside others included."""
        return tuple(node.op_type for node in with_inner(self.model.graph.node))

    def types(self) -> set[tuple[str, str]]:
        """(operator, type of an operand) of all nodes outside of others."""
        inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True)
        graph = inferred.graph
        known = {
            v.name: v.type.tensor_type.elem_type
            for v in (*graph.input, *graph.value_info, *graph.output)
        }
        known |= {t.name: t.data_type for t in graph.initializer}
        found: set[tuple[str, str]] = set()
        for node in graph.node:
            names = node.input if node.input else node.output
            for element in {known.get(name, 0) for name in names if name} - {0}:
                found.add((node.op_type, helper.tensor_dtype_to_np_dtype(element).name))
        return found


def generate(
    seed: int, most_nodes: int = 4, least_nodes: int = 1, zero_share: float = ZERO_SHARE
) -> Generated:
    """The model of a seed, of `least_nodes` to `most_nodes` nodes.

    `zero_share`: of the shapes have a dimension without elements.
    """
    random = np.random.default_rng(seed)
    draft = Draft(random, int(random.choice(OPSETS)), RECIPES, zero_share=zero_share)
    draft.grow(most_nodes, least_nodes)
    model, precisions = draft.finished()
    given = {i.name for i in model.graph.input}
    sizes = _name_sizes(model) if random.random() < SYMBOLIC_SHARE else {}
    onnx.checker.check_model(model)
    arrays = {n: a for n, a in draft.inputs.items() if n in given}
    return Generated(seed, model, arrays, precisions, sizes)


def _name_sizes(model: ModelProto) -> dict[str, int]:
    """Equal sizes of inputs above 1 get one name, results say their ranks only; names' sizes."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > 1:
                sizes[f"n{dim.dim_value}"] = dim.dim_value
                dim.dim_param = f"n{dim.dim_value}"
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return sizes
