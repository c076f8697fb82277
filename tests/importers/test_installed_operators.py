"""Operators that other packages bring by entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.errors import ExplorerError
from explorer.importers.building import installed
from explorer.importers.onnx import converters
from explorer.importers.pytorch.operators import register

CACHES = (
    *(installed.installed_modules, installed.extras_note),
    *(converters._installed, converters.all_converters),
    *(converters.find_converter, converters.missing_reason),
    *(register._installed, register.known),
)
OWN_OPERATOR = """
from explorer.importers.onnx.program.nodes import converts

@converts("Triple", domain="my.domain")
def triple(node, build):
    return node.operand(0) * 3
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    def forget() -> None:
        for cached in CACHES:
            cached.cache_clear()

    forget()
    yield
    forget()


def install(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of one module, as pip leaves it."""
    (folder / "own_operators.py").write_text(source)
    information = folder / "own_operators-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-operators\nVersion: 1\n"
    )
    (information / "entry_points.txt").write_text(f"[{installed.ONNX}]\nown = own_operators\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_operators", raising=False)


def model_of(operator: str, domain: str, path: Path) -> Path:
    node = helper.make_node(operator, ["x"], ["y"], domain=domain, name="the node")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph([node], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def test_an_operator_of_another_package_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, OWN_OPERATOR, monkeypatch)
    compiled = ex.compile(model_of("Triple", "my.domain", tmp_path / "triple.onnx"))
    x = np.array([[0, -0.0, np.inf], [1, -2, 1e-40]], np.float32)
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], 3 * x)


def test_a_package_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "raise RuntimeError('its library is missing')", monkeypatch)
    with pytest.raises(ExplorerError, match=r"own-operators cannot be loaded.*library is missing"):
        ex.compile(model_of("Triple", "my.domain", tmp_path / "triple.onnx"))


def test_the_extras_are_named_where_they_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of("Binarizer", "ai.onnx.ml", tmp_path / "classical.onnx")
    x = np.array([[0, -1, 2], [np.inf, -0.0, 1e-40]], np.float32)
    np.testing.assert_array_equal(ex.compile(model).run({"x": x})["y"], x > 0)
    for cached in CACHES:
        cached.cache_clear()
    monkeypatch.setattr(installed, "entry_points", lambda group: ())
    with pytest.raises(ExplorerError, match=r"Binarizer .*nn-compiler-explorer-extras, which is n"):
        ex.compile(model)


def test_calls_of_complex_numbers_need_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "aten.view_as_complex" in register.known()
    for cached in CACHES:
        cached.cache_clear()
    monkeypatch.setattr(installed, "entry_points", lambda group: ())
    assert "aten.view_as_complex" not in register.known()
    assert "aten.add.Tensor" in register.known()
