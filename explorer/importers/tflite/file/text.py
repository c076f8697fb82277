"""One readable line per TFLite operator, for the source pane.

conv = CONV_2D(x, w, b) {padding = SAME, stride_w = 2}
"""

from __future__ import annotations

from explorer.importers.tflite.file.contents import Operator
from explorer.ir.operation import PropertyValue

_LONGEST_LIST = 12
_LONGEST_STRING = 60


def operator_text(operator: Operator) -> str:
    """The operator in one line; long lists and strings are cut."""
    results = ", ".join(tensor.name for tensor in operator.outputs)
    operands = ", ".join("_" if tensor is None else tensor.name for tensor in operator.inputs)
    options = ", ".join(f"{k} = {_text(v)}" for k, v in operator.options.items())
    if operator.custom_options:
        shown = f"{len(operator.custom_options)} bytes"
        options = ", ".join(filter(None, (options, f"custom_options = <{shown}>")))
    suffix = f" {{{options}}}" if options else ""
    return f"{results or '_'} = {operator.kind}({operands}){suffix}"


def _text(value: PropertyValue) -> str:
    if isinstance(value, list | tuple):
        items = [_text(item) for item in value[:_LONGEST_LIST]]
        rest = [f"... {len(value)} in all"] if len(value) > _LONGEST_LIST else []
        return f"[{', '.join([*items, *rest])}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)[:_LONGEST_STRING]
