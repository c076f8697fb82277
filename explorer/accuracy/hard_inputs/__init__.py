"""Inputs that are constructed to break an operation, from what the operation is.

values.py      arrays by element type and role: ends of integers, infinities, offsets, ties
rounding.py    arrays on the rounding ties of quantizations and requantizations
operators.py   families of operators of all formats, and roles of their operands
kinds.py       (operator, operands) -> named inputs
documented.py  differences that docs/numbers.md describes

    for hard in hard_inputs("Softmax", operands):
        hard.kind, hard.arrays              "offset 1e8", {"x": array}

Nothing is compiled or run here: `explorer.compilation.checking_hard` judges, and fuzzers import the
same functions.
"""

from explorer.accuracy.hard_inputs.kinds import (
    KINDS,
    HardInput,
    hard_inputs,
    inputs_of_a_model,
    resized_inputs,
)

__all__ = ["KINDS", "HardInput", "hard_inputs", "inputs_of_a_model", "resized_inputs"]
