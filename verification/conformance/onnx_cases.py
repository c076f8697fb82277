"""onnx's test cases: all of a group, or one by its name.

    load_group("node")                     a list of onnx's TestCase
    find_case("test_relu", "node")         one of them

The cases about operators lie in modules that compute the expected results when they are loaded: all
of them take onnx some ten seconds, for its reference of pooling is slow. One case loads its module.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

NODE = "node"


def load_group(group: str) -> list[TestCase]:
    return load_model_tests(kind=group)


def find_case(name: str, group: str) -> TestCase:
    if group != NODE:
        return _named(name, _kept_group(group))
    written = name.partition("_expanded")[0]  # onnx derives these from the case itself
    for module, text in _modules().items():
        if f'"{written}"' in text:
            importlib.import_module(module)
    try:
        return _named(name, node._NodeTestCases)
    except KeyError:  # a name that its module composes
        return _named(name, load_group(NODE))


def _named(name: str, cases: Sequence[TestCase]) -> TestCase:
    for case in cases:
        if case.name == name:
            return case
    raise KeyError(name)


@cache
def _kept_group(group: str) -> tuple[TestCase, ...]:
    return tuple(load_group(group))


@cache
def _modules() -> dict[str, str]:
    """The text of each module of cases by its name."""
    return {name: path.read_text(encoding="utf-8") for name, path in _files(node)}


def _files(package: ModuleType) -> Iterator[tuple[str, Path]]:
    for folder in map(Path, package.__path__):
        for found in pkgutil.iter_modules([str(folder)]):
            name = f"{package.__name__}.{found.name}"
            if found.ispkg:
                yield from _files(importlib.import_module(name))
            else:
                yield name, folder / f"{found.name}.py"
