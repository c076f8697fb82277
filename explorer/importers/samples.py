"""Small trained models that come with the package, and images to run them with.

sample("digits_cnn")      the path of an ONNX model
sample("digits_test")     images (N, 1, 8, 8) f32 and labels (N,), which no model was trained on

The wheel has them in a folder `samples` of the package, a clone in `sample_models`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from explorer.errors import InputError
from explorer.results.names import near_name

SampleName = Literal[
    "digits_cnn",
    "digits_mlp",
    "digits_mobilenet",
    "digits_resnet",
    "digits_transformer",
    "roundings_int8",
    "digits_test",
]
PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "samples", PACKAGE.parent / "sample_models")
SUFFIXES = (".onnx", ".tflite", ".npz")


def sample(name: SampleName) -> Path:
    """The file of a sample; InputError with the names there are, or where none was installed."""
    if name not in get_args(SampleName):
        raise InputError(f"there is no sample {name!r}", hint=near_name(name, get_args(SampleName)))
    for folder in FOLDERS:
        for suffix in SUFFIXES:
            if (path := folder / f"{name}{suffix}").is_file():
                return path
    raise InputError(
        f"the sample {name} is not installed: {FOLDERS[0]} has no such file",
        hint="install the wheel again, or work in a clone of the repository",
    )
