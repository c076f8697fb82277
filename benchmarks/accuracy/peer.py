"""A peer quantizes a model and runs it, in an environment of its own: it imports nothing of ours.

    python peer.py METHOD MODEL.onnx DATA.npz OUTPUTS.npz

METHOD is a peer's, from the lists below. DATA has arrays `calibration/NAME` and `test/NAME`, whose
first axis counts examples. Written are the test data's outputs, (N, ...) each, in the model's
order. int8 weights per channel, int8 activations per tensor; models are brought to opset 17, which
scales per channel need.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

OPSET = 17


def main(method: str, model: str, data: str, outputs: str) -> None:
    import onnx
    import onnxruntime

    with np.load(data) as file:
        arrays = {name: file[name] for name in file.files}
    with tempfile.TemporaryDirectory() as folder:
        source, quantized = Path(folder) / "source.onnx", Path(folder) / "quantized.onnx"
        onnx.save(converted(model), source)
        if method == "NNCF":
            quantize_with_nncf(source, quantized, examples(arrays, "calibration"))
        else:
            quantize_with_onnxruntime(
                source, quantized, examples(arrays, "calibration"), method.split()[-1]
            )
        # The pairs as they stand: kernels of bytes saturate sums on processors without VNNI.
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            quantized, options, providers=["CPUExecutionProvider"]
        )
    found = [session.run(None, example) for example in examples(arrays, "test")]
    names = [output.name for output in session.get_outputs()]
    stacked = zip(names, zip(*found, strict=True), strict=True)
    np.savez(outputs, **{name: np.stack(array) for name, array in stacked})


def examples(arrays: dict[str, np.ndarray], part: str) -> list[dict[str, np.ndarray]]:
    head = f"{part}/"
    chosen = {n.removeprefix(head): a for n, a in arrays.items() if n.startswith(head)}
    count = min(len(array) for array in chosen.values())
    return [{name: array[k] for name, array in chosen.items()} for k in range(count)]


def converted(path: str):
    """The model at opset 17, with its initializers no inputs, as the tools expect it."""
    import onnx
    from onnx import version_converter

    model = onnx.load(path)
    if all(o.domain not in ("", "ai.onnx") or o.version < OPSET for o in model.opset_import):
        model = version_converter.convert_version(model, OPSET)
    constants = {initializer.name for initializer in model.graph.initializer}
    inputs = [port for port in model.graph.input if port.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 8)
    return model


def quantize_with_onnxruntime(source: Path, quantized: Path, data: list, method: str) -> None:
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(data)

        def get_next(self):
            return next(self._left, None)

    prepared = source.with_name("prepared.onnx")
    quant_pre_process(source, prepared)
    methods = {
        "min-max": quantization.CalibrationMethod.MinMax,
        "percentile": quantization.CalibrationMethod.Percentile,
        "entropy": quantization.CalibrationMethod.Entropy,
    }
    quantization.quantize_static(
        prepared,
        quantized,
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        calibrate_method=methods[method],
    )


def quantize_with_nncf(source: Path, quantized: Path, data: list) -> None:
    import nncf
    import onnx

    made = nncf.quantize(onnx.load(source), nncf.Dataset(data), subset_size=len(data))
    onnx.save(made, quantized)


if __name__ == "__main__":
    main(*sys.argv[1:])
