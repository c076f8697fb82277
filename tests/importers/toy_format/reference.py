"""Who is right about toy models: their lines, computed one after another in loops of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.importers.model import SourceModel
from explorer.references.interface import OpenedModel, Reference, ReferenceNode
from explorer.references.timing import time_calls


class ToyReference(Reference):
    name = "toys"
    title = "toys, line by line"

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        values = computed(model, inputs)
        return [(name, values[name]) for name in names]

    def open(
        self,
        model: SourceModel,
        *,
        threads: int = 1,
        is_exact: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> OpenedModel:
        return OpenedToy(model)

    def nodes(self, model: SourceModel) -> dict[str, ReferenceNode]:
        return {
            node.outputs[0]: ReferenceNode(
                name=node.name,
                operator=node.operator,
                inputs=node.inputs,
                outputs=node.outputs,
                evaluate=partial(evaluate, node.operator, np.float64),
            )
            for node in model.content[0]
        }


class OpenedToy(OpenedModel):
    name = "toys"
    is_alive = True

    def __init__(self, model: SourceModel) -> None:
        self.model = model

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Any = None) -> dict[str, Any]:
        values = computed(self.model, inputs)
        return {name: values[name] for name in outputs or [v.name for v in self.model.outputs]}

    def time(
        self, inputs: Mapping[str, np.ndarray], least: int, budget_seconds: float
    ) -> list[float]:
        return time_calls(partial(self.run, inputs), least, budget_seconds)

    def close(self) -> None:
        pass


def computed(model: SourceModel, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    values = {**model.constants, **inputs}
    for node in model.content[0]:
        (values[node.outputs[0]],) = evaluate(
            node.operator, np.float32, [values[name] for name in node.inputs]
        )
    return values


def evaluate(operator: str, dtype: Any, operands: Sequence[Any]) -> list[np.ndarray]:
    first, *others = (np.asarray(o, dtype) for o in operands)
    if operator == "relu":
        return [np.where(first > 0, first, dtype(0))]
    if operator == "add":
        return [first + others[0]]
    w, b = others
    result = np.zeros((first.shape[0], w.shape[1]), dtype)
    for row, column in np.ndindex(result.shape):
        total = dtype(0)
        for k in range(first.shape[1]):
            total += first[row, k] * w[k, column]
        result[row, column] = total + b[column]
    return [result]
