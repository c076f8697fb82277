"""Where a rule is written, and its text: in a file of the package, or in a cell of a notebook.

    place_of(FuseUnary)     "explorer/passes/fuse/fuse_activation.py:24"
    place_of(MyRule)        "In[5]:3"            third line of the notebook's fifth cell
    text_of(MyRule)         SourceText(language="python", lines=("class MyRule(Rule):", ...))

Python itself finds the source of a class only through its module's file, and a notebook's module
has none. The code object of `rewrite` knows where its text lies, and IPython keeps that text.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from explorer.ir.rewriting import Rule
from explorer.results import SourceText


@dataclass(frozen=True)
class _Place:
    file: str
    """As Python names it: a path, or IPython's name for a cell."""
    first_line: int
    """Of the class, from 1."""
    lines: tuple[str, ...]


def place_of(rule: type[Rule]) -> str:
    """`path:line` inside the package, `In[5]:3` in a notebook; the name where nothing is known."""
    place = _find(rule)
    if place is None:
        return rule.__name__
    return f"{_shown_file(place.file)}:{place.first_line}"


def text_of(rule: type[Rule]) -> SourceText:
    """The Python text of a rule; a comment says so where there is none (a rule typed at `>>>`)."""
    place = _find(rule)
    lines = place.lines if place else (f"# the text of {rule.__name__} is not kept anywhere",)
    return SourceText("python", lines, ((),) * len(lines))


def _find(rule: type[Rule]) -> _Place | None:
    written: Callable[..., object] = inspect.unwrap(rule.rewrite)
    code = getattr(written, "__code__", None)
    if code is None:
        return None
    lines = linecache.getlines(code.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # a cell with IPython's own syntax (%time, !ls) in it
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name != rule.__name__:
            continue
        last = node.end_lineno or node.lineno
        if node.lineno <= code.co_firstlineno <= last:
            text = tuple(line.rstrip("\n") for line in lines[node.lineno - 1 : last])
            return _Place(code.co_filename, node.lineno, text)
    return None


def _shown_file(file: str) -> str:
    """A path inside the package, the last part of another one, `In[5]` for a cell."""
    interpreter = sys.modules.get("IPython")  # not imported here: outside of it there are no cells
    shell = interpreter.get_ipython() if interpreter else None
    cell = shell.compile.format_code_name(file) if shell else None
    if cell is not None:
        return str(cell[1])
    path, package = Path(file), Path(__file__).parents[3]
    return str(path.relative_to(package)) if path.is_relative_to(package) else path.name
