"""What a model asks for before it is compiled: its inputs, and the sizes that it leaves open.

opening_form("net.onnx")
    -> {"inputs": [["tokens", "batchxsequence i64"]], "outputs": [...],
        "sizes": [{"name": "sequence", "size": 16, "where": "axis 1 of tokens"}],
        "constraints": ["sequence <= 512"]}
"""

from __future__ import annotations

from typing import Any

from explorer.files import ModelPath

Form = dict[str, Any]  # JSON


def opening_form(path: ModelPath) -> Form:
    """ModelError where the file holds no model."""
    from explorer.compilation.settings.sizes import constraints_on_sizes, suggested_sizes
    from explorer.compilation.tracing import model_record
    from explorer.errors import ExplorerError
    from explorer.importers import load_to_examine
    from explorer.importers.model import symbolic_dimensions

    model = load_to_examine(path)
    record = model_record(model)
    names = symbolic_dimensions(model)
    constraints: list[str] = []
    sizes: dict[str, int] = {}
    if names:
        try:
            sizes = suggested_sizes(model)
            constraints = [c.text for c in constraints_on_sizes(model) or ()]
        except ExplorerError:
            sizes = {}  # it cannot be imported at any: the sizes are for the person to say
    places: dict[str, list[str]] = {name: [] for name in names}
    for value in model.inputs:
        for axis, size in enumerate(value.shape or ()):
            if isinstance(size, str) and size in places:
                places[size].append(f"axis {axis} of {value.name}")
    return {
        "inputs": [list(pair) for pair in record.inputs],
        "outputs": [list(pair) for pair in record.outputs],
        "sizes": [
            {"name": name, "size": sizes.get(name), "where": ", ".join(places[name])}
            for name in names
        ],
        "constraints": constraints,
    }
