"""Sizes that a TFLite file leaves open: given, told by arrays, or asked for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.errors import InputError
from explorer.importers.tflite.file.reading import read
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of, one_operator
from verification.mutation.mutants import Compiled

WEIGHT = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


def dense(signature: tuple[int, ...], element_type: str = "float32") -> bytes:
    """y = x times the transposed weights; hybrid where those are bytes."""
    weight = WEIGHT if element_type == "float32" else np.rint(WEIGHT * 127).astype(np.int8)
    scales = () if element_type == "float32" else (1 / 127,)
    return one_operator(
        "FULLY_CONNECTED",
        [
            TensorOf(name="x", shape=(1, 4), signature=signature),
            TensorOf(name="w", shape=(5, 4), element_type=element_type, scales=scales, data=weight),
        ],
        [TensorOf(name="y", shape=(1, 5), signature=(signature[0], 5))],
        "FullyConnectedOptions",
    )


def softmax_of_rows() -> bytes:
    """A length that is open, beside a batch of one."""
    tensors = [
        TensorOf(name="x", shape=(1, 1, 4), signature=(1, -1, 4)),
        TensorOf(name="y", shape=(1, 1, 4), signature=(1, -1, 4)),
    ]
    softmax = OperatorOf(
        kind="SOFTMAX", inputs=[0], outputs=[1], options="SoftmaxOptions", values={"Beta": 1.0}
    )
    return model_of(tensors, [softmax], [0], [1])


@pytest.mark.parametrize("element_type", ["float32", "int8"])
def test_a_program_is_for_the_size_that_is_given(element_type: str):
    model = read(memoryview(dense((-1, 4), element_type)), "net")

    with closing(ex.compile(model, dimensions={"x.0": 3})) as compilation:
        x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
        y = compilation.run({"x": x})["y"]
        # What hybrid operators import depends on the size: it is noted.
        noted = "imported at x.0 = 3" in compilation.passes[0].description
    assert noted == (element_type == "int8")
    tolerance = 1e-5 if element_type == "float32" else 4 * (2 / 127 + 1 / 127)
    np.testing.assert_allclose(y, x @ WEIGHT.T, atol=tolerance)


def test_a_batch_is_one_and_arrays_tell_another():
    model = read(memoryview(dense((-1, 4))), "net")

    with closing(ex.compile(model)) as compilation:
        assert compilation.run({"x": np.ones((1, 4), np.float32)})["y"].shape == (1, 5)
    found = ex.interpret(model, {"x": np.ones((7, 4), np.float32)})["y"]
    np.testing.assert_allclose(found, np.ones((7, 4), np.float32) @ WEIGHT.T, rtol=1e-5)


def test_another_size_is_asked_for():
    model = read(memoryview(softmax_of_rows()), "net")

    with pytest.raises(InputError, match="axis 1 of input 'x' has no size of its own") as caught:
        ex.compile(model)
    assert "--dim x.1=" in caught.value.hint
    with closing(ex.compile(model, dimensions={"x.1": 6})) as compilation:
        y = compilation.run({"x": np.zeros((1, 6, 4), np.float32)})["y"]
    np.testing.assert_allclose(y, np.full((1, 6, 4), 0.25), rtol=1e-6)


def test_the_reference_runs_in_that_size():
    pytest.importorskip("ai_edge_litert")
    model = read(memoryview(dense((-1, 4), "int8")), "net")

    with closing(ex.compile(model, dimensions={"x.0": 3})) as compilation:
        assert compilation.accuracy().passed


def test_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "net.tflite"
    path.write_bytes(dense((-1, 4)))

    assert main(["show", str(path), "--pass", "bind-dimensions", "--dim", "x.0=3"]) == 0
    assert "3x5xf32" in capsys.readouterr().out
    assert main(["show", str(path), "--dim", "x.1=3"]) == 2
    assert "its symbolic dimensions: 'x.0'" in capsys.readouterr().err


def test_damaged_files_are_imported_for_a_batch_of_one():
    """Hybrid products have no form without that size."""
    Compiled().compile(read(memoryview(dense((-1, 4), "int8")), "net"))
