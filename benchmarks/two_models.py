"""Plants differences in one of two models that agree, and counts those that are found.

    python benchmarks/two_models.py MODELS [--seed 5] [--each 4]

MODELS is the folder with `onnx/`, `tflite/` and `caffe/`. Each pair is compared as it is first.
Then the weight of a convolution or product of the ONNX file is scaled by 1.5, or its first axis is
moved by one, and the first difference has to be a tensor that this weight makes, or one of the
four that follow it.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

import explorer
from explorer.importers import SourceModel

PAIRS = (
    ("onnx/ultraface_rfb320.onnx", "tflite/ultraface_rfb320_tflite.tflite"),
    ("onnx/ultraface_rfb320.onnx", "caffe/ultraface_rfb320.prototxt"),
    ("onnx/oww_embedding.onnx", "tflite/oww_embedding.tflite"),
    ("onnx/basic_pitch.onnx", "tflite/basic_pitch.tflite"),
    ("onnx/resnet8_cifar10_kaijiang.onnx", "tflite/mlperf_ic_fp32.tflite"),
    ("onnx/resnet8_cifar10_kaijiang.onnx", "tflite/mlperf_ic_int8.tflite"),
    ("onnx/dtln_2.onnx", "tflite/dtln_2_quant.tflite"),
)
FOLLOWERS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--each", type=int, default=4, help="differences in each pair")
    arguments = parser.parse_args()
    chosen = random.Random(arguments.seed)
    found = planted = 0
    for first, second in PAIRS:
        other = explorer.load(arguments.models / second)
        plain = explorer.compare_models(arguments.models / first, other)
        print(f"{first} {second}: {'agrees' if plain.agrees else 'DIFFERS'}", flush=True)
        model = onnx.load(arguments.models / first)
        weights = list(weights_of(model))
        for weight in chosen.sample(weights, min(arguments.each, len(weights))):
            kind = chosen.choice(("scaled", "moved"))
            compared = explorer.compare_models(changed(model, weight, kind), other)
            first_difference = compared.first_difference
            at = first_difference.tensor_a if first_difference else ""
            is_found = at in made_by(model, weight)
            planted, found = planted + 1, found + is_found
            print(f"  {'found' if is_found else 'NOT FOUND'}: {kind} {weight} {at}", flush=True)
    print(f"{found} of {planted} differences found")
    return 0 if found == planted else 1


def weights_of(model: ModelProto) -> Iterator[str]:
    """Weights of convolutions and products."""
    held = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("Conv", "MatMul", "Gemm"):
            yield from (name for name in node.input[1:2] if name in held)


def changed(model: ModelProto, weight: str, kind: str) -> SourceModel:
    """The model with another weight."""
    copy = ModelProto()
    copy.CopyFrom(model)
    (held,) = (tensor for tensor in copy.graph.initializer if tensor.name == weight)
    numbers = numpy_helper.to_array(held)
    numbers = numbers * np.float32(1.5) if kind == "scaled" else np.roll(numbers, 1, axis=0)
    held.CopyFrom(numpy_helper.from_array(numbers, weight))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.onnx"
        onnx.save(copy, path)
        return explorer.load(path)


def made_by(model: ModelProto, weight: str) -> set[str]:
    """Tensors of the nodes that read a weight, and of those that follow."""
    found: set[str] = set()
    for node in model.graph.node:
        if weight not in node.input:
            continue
        name = node.output[0]
        found.add(name)
        for _ in range(FOLLOWERS):
            readers = [reader for reader in model.graph.node if name in reader.input]
            if not readers:
                break
            name = readers[0].output[0]
            found.add(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
