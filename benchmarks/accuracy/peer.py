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
    with np.load(data) as file:
        arrays = {name: file[name] for name in file.files}
    calibration = examples(arrays, "calibration")
    with tempfile.TemporaryDirectory() as folder:
        if method.startswith("AIMET"):
            # The session's operators point into the simulation, which has to live as long.
            simulation = simulated_by_aimet(model, calibration, method.endswith("+adaround"))
            session = simulation.session
        else:
            session = quantized(model, method, calibration, Path(folder))
    found = [session.run(None, example) for example in examples(arrays, "test")]
    names = [output.name for output in session.get_outputs()]
    stacked = zip(names, zip(*found, strict=True), strict=True)
    np.savez(outputs, **{name: np.stack(array) for name, array in stacked})


def quantized(model: str, method: str, data: list, folder: Path):
    """A session of the pairs that onnxruntime's quantizer or NNCF writes."""
    import onnx
    import onnxruntime

    source, written = folder / "source.onnx", folder / "quantized.onnx"
    onnx.save(converted(model), source)
    if method == "NNCF":
        quantize_with_nncf(source, written, data)
    else:
        quantize_with_onnxruntime(source, written, data, method.split()[-1])
    # The pairs as they stand: kernels of bytes saturate sums on processors without VNNI.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])


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
    try:
        quant_pre_process(source, prepared)
    except Exception:  # what symbolic shapes cannot be inferred of is not known by a type
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
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


def simulated_by_aimet(model: str, data: list, is_rounded: bool):
    """AIMET's simulation, whose session's operators quantize: activations are bytes with an offset,
    weights signed bytes per channel, thresholds by its default (min-max)."""
    import aimet_onnx
    from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight
    from aimet_onnx.common import quantsim_config
    from aimet_onnx.utils import duplicate_shared_initializers

    folded = converted(model)
    duplicate_shared_initializers(folded.graph)
    fold_all_batch_norms_to_weight(folded)
    per_channel = Path(quantsim_config.__file__).with_name("default_config_per_channel.json")
    simulation = aimet_onnx.QuantizationSimModel(
        folded, param_type="int8", activation_type="int8", config_file=str(per_channel)
    )
    if is_rounded:
        aimet_onnx.apply_adaround(simulation, data)
    simulation.compute_encodings(data)
    return simulation


if __name__ == "__main__":
    main(*sys.argv[1:])
