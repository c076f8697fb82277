"""A call as people read it: operands, settings, results, and the line of Python that made it.

relu = aten.relu(conv2d)    # models/resnet.py:95  x = self.relu(x)
"""

from __future__ import annotations

from explorer.importers.pytorch.file.program import (
    Argument,
    Call,
    ElementType,
    Graph,
    Ref,
    Word,
)
from explorer.ir.operation import PropertyValue

LONGEST = 400


def line_of(call: Call) -> str:
    results = ", ".join(filter(None, call.results))
    settings = [
        shown_argument(a) if isinstance(a, Ref) else f"{name}={shown_argument(a)}"
        for name, a in call.arguments.items()
    ]
    text = f"{results} = {call.target}({', '.join(settings)})"
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    place = place_of(call)
    return f"{text}    # {place}" if place else text


def place_of(call: Call) -> str:
    """`models/resnet.py:95  x = self.relu(x)`; empty where nothing says it."""
    frame = call.provenance.frame
    if frame is None:
        return ""
    return f"{frame.file}:{frame.line}  {frame.text}".rstrip()


def shown_argument(argument: Argument) -> str:
    if isinstance(argument, Ref | ElementType):
        return argument.name
    if isinstance(argument, Word):
        return argument.text
    if isinstance(argument, Graph):
        return f"{{{len(argument.calls)} nodes}}"
    if isinstance(argument, tuple):
        return f"[{', '.join(shown_argument(part) for part in argument)}]"
    return repr(argument)


def settings_of(call: Call) -> dict[str, PropertyValue]:
    """What a node of the shown model says beside its operands."""
    found: dict[str, PropertyValue] = {
        name: shown_argument(a)
        for name, a in call.arguments.items()
        if not _is_operand(a) and not isinstance(a, Graph)
    }
    frame, module = call.provenance.frame, call.provenance.module
    if frame is not None:
        found["python"] = place_of(call)
    if module:
        found["module"] = f"{module} ({call.provenance.module_class})"
    return found


def _is_operand(argument: Argument) -> bool:
    if isinstance(argument, tuple):
        return any(isinstance(part, Ref) for part in argument)
    return isinstance(argument, Ref)
