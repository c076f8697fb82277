"""A model's meaning in NumPy, without a compilation.

interpret(model, {"image": x})      {"logits": array}

The imported program is evaluated operation by operation: slow, and what all later passes and the
generated code are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.importers import is_host_value, open_program, program_inputs
from explorer.importers.model import SourceModel, bind_dimensions, sizes_of_inputs
from explorer.ir.evaluation import evaluate_module, outputs_by_name


def interpret(model: SourceModel, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Outputs by name, as a compiled program of the model gives them.

    InputError for inputs that are not the model's; UnsupportedError lists nodes that cannot be
    imported.
    """
    arrays = {k: v if is_host_value(v) else np.asarray(v) for k, v in inputs.items()}
    plain = {k: v for k, v in arrays.items() if not is_host_value(v)}
    sizes = bind_dimensions(model, sizes_of_inputs(model, plain))
    opened = open_program(model, sizes)
    given = program_inputs(model, arrays, sizes)
    values = evaluate_module(opened.module, opened.weights, given)
    return outputs_by_name(opened.module, values)
