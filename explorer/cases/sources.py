"""Arrays from files: `.npz`, `.npy`, ONNX tensors (`.pb`), sounds (`.wav`) and images.

    read_source(Source(file="data/dog.jpg", steps=[["resize", 416, 416], ["expand"]]), folder)

Files come from others: they are read within bounds, and nothing in them is executed. A `.npz` file
whose array is a pickled dictionary of arrays is read by an unpickler that makes only these.
"""

from __future__ import annotations

import io
import pickle
import wave
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from explorer.cases.cases import Source
from explorer.cases.steps import pillow_image, run_steps
from explorer.errors import InputError
from explorer.files import reading_file
from explorer.importers.arrays import read_arrays

MAX_BYTES = 1 << 30
"""Of a file."""
IMAGES = (".png", ".jpg", ".jpeg", ".bmp")
_PICKLED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}


def read_source(source: Source, folder: Path) -> np.ndarray:
    """The array after its steps. InputError names the file where it cannot be read."""
    if not source.file:
        return run_steps(np.asarray(source.value, source.type or None), source.steps)
    path = file_in(folder, source.file)
    with reading_file(
        path, f"{path.suffix} file", kind=InputError, hint="compare it with its original"
    ):
        return run_steps(_read(path, source.array), source.steps)


def read_all(sources: Mapping[str, Source], folder: Path) -> dict[str, np.ndarray]:
    return {name: read_source(source, folder) for name, source in sources.items()}


def file_in(folder: Path, name: str) -> Path:
    """A file of the folder by its relative path."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError("it lies outside of the models' folder", file=str(path))
    if not path.is_file():
        raise InputError("no such file", file=str(path), hint="check the path")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"it is larger than {MAX_BYTES:,} bytes", file=str(path))
    return path


def _read(path: Path, array: str) -> np.ndarray:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if suffix == ".npz":
        return _read_named(path, array)
    if suffix == ".pb":
        return _read_tensor(path)
    if suffix == ".wav":
        return read_sound(path)
    if suffix in IMAGES:
        return read_image(path)
    raise InputError(f"unknown kind of file {suffix!r}", hint=".npz, .npy, .pb, .wav or an image")


def _read_named(path: Path, name: str) -> np.ndarray:
    """`name`, or `name/key` for an array of a pickled dictionary."""
    name, _, key = name.partition("/") if "/" in name else (name, "", "")
    if key:
        return _read_pickled(path, name)[key]
    arrays = read_arrays(path)
    if not name and len(arrays) == 1:
        return next(iter(arrays.values()))
    if name not in arrays:
        listed = ", ".join(sorted(arrays)[:8])
        raise InputError(f"there is no array {name!r}", hint=f"there are {listed}")
    return arrays[name]


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _PICKLED:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not allowed in a file")
        return super().find_class(module_name, global_name)


def _read_pickled(path: Path, name: str) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(f"{name}.npy").file_size > MAX_BYTES:
            raise InputError(f"array {name!r} is larger than {MAX_BYTES:,} bytes")
        content = io.BytesIO(archive.read(f"{name}.npy"))
    np.lib.format.read_magic(content)
    np.lib.format.read_array_header_1_0(content)
    held = _ArrayUnpickler(content).load()
    item = held.item() if isinstance(held, np.ndarray) else held
    if not isinstance(item, dict):
        raise InputError(f"array {name!r} holds no dictionary")
    return {str(key): np.asarray(value) for key, value in item.items()}


def _read_tensor(path: Path) -> np.ndarray:
    import onnx
    from onnx import numpy_helper

    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def read_sound(path: Path) -> np.ndarray:
    """The first channel as float32 between -1 and 1; 16 bits a sample."""
    with wave.open(str(path), "rb") as file:
        if file.getsampwidth() != 2:
            raise InputError(f"{8 * file.getsampwidth()} bits a sample; 16 expected")
        data = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return data.reshape(-1, file.getnchannels())[:, 0].astype(np.float32) / 32768


def read_image(path: Path) -> np.ndarray:
    """uint8, height x width x 3, RGB."""
    with pillow_image().open(path) as image:
        return np.asarray(image.convert("RGB"))
