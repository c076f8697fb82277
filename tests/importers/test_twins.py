"""One network in files of several formats gives one answer: trained models of others, as C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex

CHANNELS_LAST = (0, 2, 3, 1)


def outputs(path: Path, image: np.ndarray) -> dict[str, np.ndarray]:
    """Of an image with channels first; TFLite has them last."""
    model = ex.load(path)
    given = image.transpose(CHANNELS_LAST) if model.format == "tflite" else image
    compilation = ex.compile(model, tuned=False)
    found = compilation.run({model.inputs[0].name: np.ascontiguousarray(given)})
    compilation.close()
    return found


@pytest.mark.sweep
def test_faces_are_the_same_in_three_formats(models_folder: Path):
    """Scores in all of them; boxes before they are decoded, which the ONNX file does itself. The
    TFLite file was trained weights rounded anew: its own reference is as far from the others."""
    image = np.random.default_rng(0).normal(size=(1, 3, 240, 320)).astype(np.float32)
    caffe = outputs(models_folder / "caffe" / "ultraface_rfb320.prototxt", image)
    onnx = outputs(models_folder / "onnx" / "ultraface_rfb320.onnx", image)
    tflite = outputs(models_folder / "tflite" / "ultraface_rfb320_tflite.tflite", image)

    np.testing.assert_allclose(caffe["scores"], onnx["scores"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(tflite["Identity_1"], caffe["scores"], rtol=0, atol=5e-4)
    largest = float(np.abs(caffe["boxes"]).max())
    np.testing.assert_allclose(tflite["Identity"], caffe["boxes"], rtol=0, atol=1e-4 * largest)
