"""Resources: what a model remembers comes in inputs of its own, and goes out in outputs.

See `explorer/importers/tflite/file/states.py`, which says what each of these operators reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.node import TfliteNode


def nothing(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """A handle, or what is done once before the first run: the state is an input with these
    contents."""
    return []


def read(node: TfliteNode, build: Build) -> Expr:
    """What the variable holds: its input, or what was assigned before."""
    return node.plain(0)


def assign(node: TfliteNode, build: Build) -> Expr:
    """What the variable holds from now on: its output, if nothing else is assigned."""
    return node.plain(0)


CONVERTERS = {
    "VAR_HANDLE": nothing,
    "CALL_ONCE": nothing,
    "READ_VARIABLE": read,
    "ASSIGN_VARIABLE": assign,
}
