"""RNN, GRU and LSTM: directions, layouts, lengths, initial states, activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from verification.random_models.draft import Draft
from verification.random_models.recipes.recipe import family

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
DIRECTIONS = ("forward", "reverse", "bidirectional")
FUNCTIONS = ("Tanh", "Sigmoid", "Relu", "Softsign")
"""Not Softplus, which overflows in onnxruntime where its result is still small."""


def recurrent(operator: str, draft: Draft) -> None:
    dtype = "float32"  # onnxruntime loads float64 and does not run it
    length, batch, width, hidden = (draft.number(1, n) for n in (4, 3, 4, 4))
    direction = draft.one_of(DIRECTIONS)
    ways = 2 if direction == "bidirectional" else 1
    gates = GATES[operator]
    layout = draft.number(0, 1)
    x = draft.input(dtype, (batch, length, width) if layout else (length, batch, width))
    state = (batch, ways, hidden) if layout else (ways, batch, hidden)
    operands = [
        x.name,
        draft.weight(dtype, (ways, gates * hidden, width)),
        draft.weight(dtype, (ways, gates * hidden, hidden)),
        draft.weight(dtype, (ways, 2 * gates * hidden)) if draft.flag() else "",
        _lengths(draft, length, batch) if draft.flag() else "",
        draft.weight(dtype, state) if draft.flag() else "",
    ]
    if operator == "LSTM":
        operands.append(draft.weight(dtype, state) if draft.flag() else "")
        operands.append(draft.weight(dtype, (ways, 3 * hidden)) if draft.flag() else "")
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "layout": layout}
    if operator == "GRU":
        attributes["linear_before_reset"] = draft.number(0, 1)
    if operator == "LSTM" and draft.random.random() < 0.2:
        attributes["input_forget"] = 1
    if draft.flag():
        count = ways * ACTIVATIONS[operator]
        attributes["activations"] = [draft.one_of(FUNCTIONS) for _ in range(count)]
    if draft.random.random() < 0.2:
        attributes["clip"] = 1.5
    while not operands[-1]:
        operands.pop()
    draft.add(operator, operands, 3 if operator == "LSTM" else 2, **attributes)


def _lengths(draft: Draft, length: int, batch: int) -> str:
    return draft.constant(np.asarray(draft.random.integers(1, length + 1, batch), np.int32))


RECIPES = family(recurrent, "RNN", "GRU", "LSTM", "RNN", "GRU", "LSTM")
