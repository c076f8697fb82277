"""Whether a machine can run the course: one line for each thing that a lesson needs."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import ExplorerError

MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing, and what to do where it is missing."""

    name: str
    is_fine: bool
    found: str
    advice: str = ""
    is_needed: bool = True
    """Whether the course does not run without it."""


def examine() -> list[Finding]:
    """Everything that a lesson needs, what is needed first."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _compiler,
        _lessons,
        _first_lesson,
        _notebooks,
        _disk,
        _opencl,
        _graphviz,
    )
    return [*(check() for check in checks), *_packages()]


def _python() -> Finding:
    is_fine = sys.version_info >= MIN_PYTHON
    return Finding("Python", is_fine, platform.python_version(), "install Python 3.11 or newer")


def _compiler() -> Finding:
    from explorer.runtime.compilers import find_compiler

    try:
        found = find_compiler()
    except ExplorerError as error:
        return Finding("C compiler", False, error.message, error.hint or "install gcc or clang")
    return Finding("C compiler", True, str(getattr(found, "version", found)).splitlines()[0])


def _lessons() -> Finding:
    from explorer.course.lessons import read_lessons

    try:
        lessons = read_lessons()
    except ExplorerError as error:
        return Finding("lessons", False, error.message, error.hint)
    count = sum(len(lesson.exercises) for lesson in lessons)
    return Finding("lessons", True, f"{len(lessons)} with {count} exercises")


def _first_lesson() -> Finding:
    """Compiles the smallest network of all, as a program of it would be."""
    import numpy as np
    from onnx import TensorProto, helper, save

    from explorer.compilation.compilation import compile_model
    from explorer.importers import load

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "doctor", values[:1], values[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "doctor.onnx"
            save(model, path)
            made = compile_model(load(path)).run({"x": np.array([[-1, 0, 2, -3]], np.float32)})["y"]
    except (ExplorerError, OSError) as error:
        return Finding("a first program", False, str(error), "see the C compiler above")
    is_right = np.asarray(made).tolist() == [[0, 0, 2, 0]]
    return Finding("a first program", is_right, "runs" if is_right else f"computes {made}")


def _notebooks() -> Finding:
    is_there = importlib.util.find_spec("jupyterlab") is not None
    found = "JupyterLab" if is_there else "no JupyterLab"
    return Finding("notebooks", is_there, found, "pip install jupyterlab")


def _disk() -> Finding:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    found = f"{free / (1 << 30):.1f} GiB free in {tempfile.gettempdir()}"
    return Finding("disk", free >= MIN_FREE_BYTES, found, "2 GiB are enough", is_needed=False)


def _opencl() -> Finding:
    from explorer.runtime.devices import list_devices

    usable = [device.name for device in list_devices(["opencl"]) if device.usable]
    words = ", ".join(usable) or "no device"
    advice = "Debian: apt install pocl-opencl-icd; target cpu does without"
    return Finding("OpenCL", bool(usable), words, advice, is_needed=False)


def _graphviz() -> Finding:
    found = shutil.which("dot")
    advice = "Debian: apt install graphviz; static pictures are left out"
    return Finding("Graphviz", found is not None, found or "no `dot`", advice, is_needed=False)


def _packages() -> list[Finding]:
    """What single lessons need."""
    from explorer.course.lessons import read_lessons

    try:
        lessons = read_lessons()
    except ExplorerError:
        return []
    needs = {name: lesson.title for lesson in lessons for name in lesson.needs}
    found = []
    for name, title in needs.items():
        is_there = importlib.util.find_spec(name) is not None
        advice = f'without it the lesson "{title}" does not run'
        words = "installed" if is_there else "not installed"
        found.append(Finding(name, is_there, words, advice, is_needed=False))
    return found
