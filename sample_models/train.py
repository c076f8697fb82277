"""Train the sample models and write their ONNX files, test images and accuracies.

    python sample_models/train.py [--only NAME]

It needs the extra `train` (PyTorch, scikit-learn, ONNX, ONNX Runtime) and about a minute. Seeds
are fixed and one thread computes, so that a second run on the same machine writes the same files.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from digits import LabelledImages, load_split
from layers_to_onnx import emit
from networks import CLASS_COUNT, IMAGE_SIZE, SAMPLE_MODELS, SampleModel
from onnx_graph import OnnxGraph
from torch import nn
from torch.nn import functional

FOLDER = Path(__file__).parent
TEST_FILE = FOLDER / "digits_test.npz"
ACCURACIES_FILE = FOLDER / "accuracies.json"

SEED = 0
EPOCHS = 60
BATCH_SIZE = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-2

# PyTorch and ONNX Runtime add the same float32 numbers in different orders. Logits are of the
# order of 10, so this is about a hundred units in the last place.
LARGEST_LOGIT_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Measurement:
    """What `accuracies.json` records for a model."""

    accuracy: float
    test_samples: int
    parameters: int
    bytes: int


def main() -> None:
    names = [model.name for model in SAMPLE_MODELS]
    parser = argparse.ArgumentParser(description="Train the sample models and write their files.")
    parser.add_argument("--only", choices=names, help="make this model alone")
    only = parser.parse_args().only

    torch.set_num_threads(1)
    train_part, test_part = load_split()
    test_part.save(TEST_FILE)
    measurements = json.loads(ACCURACIES_FILE.read_text()) if only else {}
    for model in SAMPLE_MODELS:
        if only in (None, model.name):
            measurement = make_model(model, train_part, test_part)
            measurements[model.name] = asdict(measurement)
            print(f"{model.name}: {measurement}")
    ACCURACIES_FILE.write_text(json.dumps(measurements, indent=2) + "\n")


def make_model(
    model: SampleModel, train_part: LabelledImages, test_part: LabelledImages
) -> Measurement:
    """Train one model, write its ONNX file, and measure that file on the held-out images."""
    torch.manual_seed(SEED)
    network = model.build()
    train(network, train_part)
    path = FOLDER / f"{model.name}.onnx"
    onnx.save(to_onnx(network, model), path)

    logits = run_onnx(path, test_part.images)
    check_same_logits(model.name, network, test_part.images, logits)
    return Measurement(
        accuracy=float(np.mean(logits.argmax(axis=1) == test_part.labels)),
        test_samples=len(test_part.labels),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        bytes=path.stat().st_size,
    )


def train(network: nn.Module, part: LabelledImages) -> None:
    """Fit `network` to the images, then leave it in inference mode.

    The number of epochs is fixed, so that the held-out images never decide when to stop.
    """
    images, labels = torch.from_numpy(part.images), torch.from_numpy(part.labels)
    steps_per_epoch = -(-len(labels) // BATCH_SIZE)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=EPOCHS * steps_per_epoch
    )
    network.train()
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(labels)).split(BATCH_SIZE):
            logits = network(images[chosen])
            loss = functional.cross_entropy(logits, labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval()


def to_onnx(network: nn.Module, model: SampleModel) -> onnx.ModelProto:
    """Write the trained network as an ONNX model, unoptimized."""
    graph = OnnxGraph(network)
    emit(network, graph, "image")
    return graph.to_model(
        model.name,
        model.description,
        input_shape=[model.batch, 1, IMAGE_SIZE, IMAGE_SIZE],
        output_shape=[model.batch, CLASS_COUNT],
    )


def run_onnx(path: Path, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's logits, [N, 10], computed for one image at a time."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = [session.run(["logits"], {"image": image[np.newaxis]}) for image in images]
    return np.concatenate([np.asarray(logits) for (logits,) in outputs])


def check_same_logits(
    name: str, network: nn.Module, images: np.ndarray, onnx_logits: np.ndarray
) -> None:
    """Raise an error unless the ONNX file means what the trained network means."""
    with torch.no_grad():
        expected = network(torch.from_numpy(images)).numpy()
    difference = float(np.abs(expected - onnx_logits).max())
    if difference > LARGEST_LOGIT_DIFFERENCE:
        raise ValueError(
            f"{name}.onnx differs from the PyTorch network by {difference:.2e} in a logit, more "
            f"than {LARGEST_LOGIT_DIFFERENCE:.0e}: a layer's ONNX form is wrong"
        )


if __name__ == "__main__":
    main()
