"""A call as people read it: operands, settings, results, its module, and its lines of Python.

relu = aten.relu(conv2d)    # layer1.0.relu (ReLU)          models/resnet.py:95  x = self.relu(x)
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
from explorer.results.source import SourcePlace

LONGEST = 400


def line_of(call: Call) -> str:
    results = ", ".join(filter(None, call.results))
    settings = [
        shown_argument(a) if isinstance(a, Ref) else f"{name}={shown_argument(a)}"
        for name, a in call.arguments.items()
    ]
    text = f"{results} = {call.target}({', '.join(settings)})"
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    module = module_of(call)
    return f"{text}    # {module}" if module else text


def places_of(call: Call) -> tuple[SourcePlace, ...]:
    """The author's lines that were running, from the outermost call to the one that made it."""
    return tuple(SourcePlace(f.file, f.line, f.text) for f in call.provenance.own_frames)


def module_of(call: Call) -> str:
    """`layer1.0.relu (ReLU)`; empty where nothing says it."""
    module, kind = call.provenance.module, call.provenance.module_class
    return f"{module} ({kind})" if module and kind else module


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
    for name, text in (("python", place_of(call)), ("module", module_of(call))):
        if text:
            found[name] = text
    return found


def _is_operand(argument: Argument) -> bool:
    if isinstance(argument, tuple):
        return any(isinstance(part, Ref) for part in argument)
    return isinstance(argument, Ref)
