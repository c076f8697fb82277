"""Answers out of a student's notebook, and what an answer may be.

An answer is Python that computes and gives a value to one name. It is judged by that value alone.
It may import what computes, and the compiler; it may not reach for files, processes, the network,
the interpreter's inside or the graders. Refusals are sentences for the student.
"""

from __future__ import annotations

import ast
from pathlib import Path

from explorer.course.lessons import Lesson, read_lesson
from explorer.errors import InputError

MAX_CHARACTERS = 20_000
IMPORTS = frozenset(
    (
        *("__future__", "abc", "bisect", "collections", "copy", "dataclasses", "decimal", "enum"),
        *("explorer", "fractions", "functools", "heapq", "itertools", "math", "numpy", "onnx"),
        *("operator", "random", "re", "statistics", "string", "torch", "typing"),
    )
)
FORBIDDEN_MODULES = (
    "explorer.cli",
    "explorer.closing",
    "explorer.course",
    "explorer.files",
    "explorer.references",
    "explorer.runtime",
)
FORBIDDEN_NAMES = frozenset(
    (
        *("__builtins__", "__import__", "breakpoint", "compile", "delattr", "eval", "exec", "exit"),
        *("get_ipython", "globals", "help", "input", "locals", "open", "quit", "setattr", "vars"),
    )
)
ALLOWED_SPECIAL = frozenset(
    ("__init__", "__name__", "__doc__", "__len__", "__getitem__", "__class_getitem__")
)


def answers_of(path: Path, lesson: Lesson) -> dict[str, str]:
    """The sources of a student's answers by the names of the exercises; open ones are left out.

    A cell is found by the exercise in its metadata, or by its id where a tool dropped metadata.
    InputError for a file that is no notebook, and where no cell is an answer's.
    """
    ids = {cell.id: cell.exercise for cell in lesson.cells if "answer" in cell.tags}
    known = {exercise.name for exercise in lesson.exercises}
    found: dict[str, str] = {}
    seen = False
    for cell in read_lesson(path).cells:
        is_tagged = "answer" in cell.tags and cell.exercise in known
        exercise = cell.exercise if is_tagged else ids.get(cell.id, "")
        if cell.kind != "code" or not exercise:
            continue
        seen = True
        if exercise not in found and not is_open(cell.source):
            found[exercise] = cell.source
    if not seen and known:
        raise InputError("no cell is tagged as an answer", file=str(path))
    return found


def is_open(source: str) -> bool:
    """Whether nothing is answered: no code, or dots alone."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return False
    return all(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value is ...
        for node in body
    )


def refused(source: str, variable: str) -> str:
    """Why the text cannot be an answer; empty where it can."""
    if len(source) > MAX_CHARACTERS:
        return f"an answer has at most {MAX_CHARACTERS:,} characters"
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        return f"line {line}: {reason}" if line else f"this is not Python: {reason}"
    made = _names_made(tree)
    if variable not in made:
        return f"nothing is assigned to `{variable}`"
    for node in ast.walk(tree):
        if reason := _refused_node(node, made):
            return f"line {getattr(node, 'lineno', 1)}: {reason}"
    return ""


def _names_made(tree: ast.Module) -> set[str]:
    """Names that the answer itself gives values to, at any depth."""
    made = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
    return made


def _refused_node(node: ast.AST, made: set[str]) -> str:
    if isinstance(node, ast.Import):
        return next(filter(None, (_refused_import(alias.name) for alias in node.names)), "")
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return next(filter(None, map(_refused_import, [node.module or "", *names])), "")
    if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
        return f"`{node.id}` is nothing that an answer needs"
    if isinstance(node, ast.Attribute) and _is_special(node.attr):
        return f"`{node.attr}` is nothing that an answer needs"
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
        name = node.args[1] if len(node.args) > 1 else None
        is_plain = isinstance(name, ast.Constant) and isinstance(name.value, str)
        if not is_plain or str(name.value).startswith("_"):  # pyright: ignore
            return "`getattr` takes a plain name, in quotes"
    if isinstance(node, ast.Global | ast.Nonlocal):
        return "an answer has no global names"
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(
        node.ctx, ast.Store | ast.Del
    ):
        root = _root(node)
        if root not in made:
            return f"an answer leaves `{root}` of the lesson as it is"
    return ""


def _refused_import(name: str) -> str:
    if name.split(".")[0] not in IMPORTS:
        return f"`{name}` is nothing that an answer needs"
    if any(name == module or name.startswith(f"{module}.") for module in FORBIDDEN_MODULES):
        return f"`{name}` is out of reach for an answer"
    return ""


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ALLOWED_SPECIAL


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else "it"
