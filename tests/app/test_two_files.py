"""Two files in the worker: onnxruntime makes the quantized one, and NumPy the errors."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, quantize_static

import explorer
from explorer.app.protocol import CompileRequest
from explorer.app.worker.compiler import ModelCompiler
from explorer.app.worker.two_files import two_files_json
from explorer.errors import InputError

MODEL = str(Path(__file__).resolve().parents[2] / "sample_models" / "digits_mlp.onnx")


class Images(CalibrationDataReader):
    """Examples for onnxruntime's calibration."""

    def __init__(self, images: np.ndarray) -> None:
        self._left: Iterator[np.ndarray] = iter(images[:, None])

    def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        image = next(self._left, None)
        return None if image is None else {"image": image}


def test_a_float_model_is_the_reference_of_its_quantized_twin(tmp_path: Path):
    """onnxruntime quantizes the float model; the quantized one is compared with it, whichever
    comes first, on the first example of the data."""
    digits = np.load(Path(MODEL).with_name("digits_test.npz"))["images"][:8]
    small = str(tmp_path / "small.onnx")
    quantize_static(MODEL, small, Images(digits))
    pair = [explorer.load(MODEL), explorer.load(small)]
    data = {"image": digits[:1]}
    found = [
        two_files_json(pair, ["a.onnx", "b.onnx"], [data, None], ["eval.npz", ""], {}),
        two_files_json(pair[::-1], ["b.onnx", "a.onnx"], [None, data], ["", "eval.npz"], {}),
    ]
    assert [side["reference"] for side in found] == [0, 1]
    assert found[0]["outputs"] == found[1]["outputs"]
    runs = [
        np.asarray(onnxruntime.InferenceSession(path).run(None, {"image": digits[:1]})[0])
        for path in (MODEL, small)
    ]
    error = runs[1].astype(np.float64) - runs[0]
    decibels = 10 * np.log10(np.square(runs[0], dtype=np.float64).sum() / np.square(error).sum())
    ((_, sqnr_db, largest),) = found[0]["outputs"]
    assert sqnr_db == pytest.approx(decibels, abs=1e-3)
    assert largest == pytest.approx(np.abs(error).max() / np.abs(runs[0]).max(), rel=1e-3)
    texts = [part["text"] for part in found[0]["view"]["parts"] if part["kind"] == "text"]
    assert any(text.startswith("largest error: ") for text in texts)
    facts = [dict(part["rows"]) for part in found[1]["view"]["parts"] if part["kind"] == "facts"]
    assert "the first run of eval.npz" in facts[0]["B, the reference"]
    assert facts[0]["B, the reference"].startswith("a.onnx, ") and facts[0]["A"].startswith(
        "b.onnx"
    )


def test_a_saved_trace_is_compared_with_nothing():
    pair = CompileRequest("run.nnx", ""), CompileRequest(MODEL, "cpu")
    with pytest.raises(InputError, match="a saved trace holds no model"):
        ModelCompiler().two_files(pair, ["run.nnx", "digits_mlp.onnx"])
