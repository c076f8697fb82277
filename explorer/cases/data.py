"""Data on which a model is judged, read from what a person has.

read_data_files([Path("eval.npz")], model)            arrays by input, and `labels` among them
read_data_files([Path("x.npz"), Path("y.txt")], ...)  labels apart
read_data_files([Path("images/")], model)             images, labelled by folders `0/`, `1/` ...
read_data_files([Path("cases.toml")], model)          the model's case
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from explorer.cases.cases import Case, read_cases
from explorer.cases.labels import read_examples
from explorer.cases.sources import IMAGES, read_all, read_image
from explorer.cases.steps import gray, resize, run_steps
from explorer.errors import InputError
from explorer.files import reading_file
from explorer.importers.arrays import read_arrays
from explorer.importers.model import SourceModel, SourceValue
from explorer.results.names import near_name

LABELS = "labels"
"""The array of labels in a file of arrays."""
TEXTS = (".txt", ".csv")
ARRAYS = ".npz"
ARRAY = ".npy"
CASES = ".toml"
MAX_LABEL_BYTES = 64 * 2**20
MAX_IMAGES = 2000
MAX_LISTED = 20_000
"""Files of a folder that are looked at."""
CHANNELS = (1, 3)


@dataclass(frozen=True)
class LabelledArrays:
    """Arrays by input, the first axis of which counts examples, and labels where they are known."""

    name: str
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    labels: np.ndarray | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    """How files became arrays."""


def read_data_files(
    paths: Sequence[Path], model: SourceModel, folder: Path | None = None, name: str = ""
) -> LabelledArrays:
    """What all files hold together; a later file of labels takes the place of earlier labels.

    folder: where paths in a table of cases start. InputError names the file at fault.
    """
    arrays: dict[str, np.ndarray] = {}
    labels: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    names: list[str] = []
    images = [path for path in paths if path.suffix.lower() in IMAGES and not path.is_dir()]
    for path in paths:
        if path in images[1:]:
            continue
        if path in images:
            shown = path.name if len(images) == 1 else f"{len(images)} images"
            read = _images_of([(image, None) for image in images], shown, model)
        else:
            read = _read(path, model, folder)
        arrays |= read.arrays
        names += [read.name] if read.arrays else []
        notes += read.notes
        labels = labels if read.labels is None else read.labels
    if not arrays:
        raise InputError(
            "there are labels, and no array for an input",
            file=str(paths[0]) if paths else "",
            hint="numpy.savez(file, input=array, labels=labels)",
        )
    return LabelledArrays(name or ", ".join(dict.fromkeys(names)), arrays, labels, notes)


def read_case_arrays(path: Path, model: SourceModel, folder: Path | None = None) -> LabelledArrays:
    """The data of a model's case: its labelled examples, or its inputs as the only example.

    folder: where paths in the table of cases start, by default its own.
    """
    case = _case_of(read_cases(path), model, path)
    root = folder or path.parent
    others = read_all(case.inputs, root)
    if not case.labels:
        if not others:
            raise InputError(
                f"the case of {model.name} has neither inputs nor labels", file=str(path)
            )
        return LabelledArrays(path.name, {name: array[None] for name, array in others.items()})
    labels = case.labels[0]
    name = labels.input or model.inputs[0].name
    read = [(run_steps(array, labels.steps), label) for array, label in read_examples(labels, root)]
    rows = np.stack([array for array, _ in read])
    repeated = {k: np.broadcast_to(v, (len(rows), *v.shape)) for k, v in others.items()}
    found = np.array([label for _, label in read])
    return LabelledArrays(path.name, {**repeated, name: rows}, found)


def read_labels(file: Path) -> np.ndarray:
    """Whole numbers in one row: an array of NumPy's (.npy), or one number a line."""
    hint = "numpy.save(file, labels), or one whole number a line"
    if not file.is_file():
        raise InputError("no such file", file=str(file), hint="check the path")
    if file.stat().st_size > MAX_LABEL_BYTES:
        raise InputError("too many labels", file=str(file), hint="use fewer samples")
    with reading_file(file, "file of labels", hint=hint, kind=InputError):
        if file.suffix.lower() in TEXTS:
            words = file.read_text(encoding="utf-8").replace(",", "\n").split()
            return np.array([int(word) for word in words], np.int64)
        return np.load(file, allow_pickle=False)


def _read(path: Path, model: SourceModel, folder: Path | None) -> LabelledArrays:
    suffix = path.suffix.lower()
    if path.is_dir():
        return read_images(path, model)
    if suffix == ARRAYS:
        arrays = read_arrays(path)
        is_input = any(value.name == LABELS for value in model.inputs)
        labels = None if is_input else arrays.pop(LABELS, None)
        return LabelledArrays(path.name, arrays, labels)
    if suffix == CASES:
        return read_case_arrays(path, model, folder)
    if suffix == ARRAY or suffix in TEXTS:
        found = read_labels(path)
        if suffix == ARRAY and (found.ndim != 1 or found.dtype.kind not in "iu"):
            return LabelledArrays(path.name, {_only_input(model, path).name: found})
        return LabelledArrays(path.name, {}, found)
    raise InputError(
        f"data are no {suffix or 'file without a suffix'}",
        file=str(path),
        hint=f"{ARRAYS}, {ARRAY}, {', '.join(TEXTS)}, {CASES}, an image or a folder of images",
    )


# -- images ----------------------------------------------------------------------------------------


def read_images(folder: Path, model: SourceModel) -> LabelledArrays:
    """The images of a folder in the order of their names. Folders in it hold the images of a class
    each: that of their name where all are whole numbers, else that of their place in the order of
    names.

    Raises:
        InputError: where there is no image, there are more than 2,000, or the model has no input
            for images.
    """
    files: list[tuple[Path, int | None]] = []
    places = sorted(_listed(folder))
    own = {place.name: _images_in(place) for place in places if place.is_dir()}
    classes = _numbered([name for name, images in own.items() if images])
    for place in places:
        if place.name in classes:
            files += [(file, classes[place.name]) for file in own[place.name]]
        elif place.suffix.lower() in IMAGES:
            files.append((place, None))
        if len(files) > MAX_IMAGES:
            raise InputError(
                f"it holds more than {MAX_IMAGES:,} images",
                file=str(folder),
                hint="a folder with a sample of them",
            )
    if not files:
        raise InputError(
            f"there is no image in it: no {', '.join(IMAGES)} file",
            file=str(folder),
            hint="images, or folders 0/, 1/ ... with the images of each class",
        )
    named = [f"{name} = {number}" for name, number in classes.items() if name != str(number)]
    notes = (f"classes {', '.join(named)}",) if named else ()
    return _images_of(files, f"{folder.name}/", model, notes)


def _images_in(folder: Path) -> list[Path]:
    return sorted(file for file in _listed(folder) if file.suffix.lower() in IMAGES)


def _numbered(names: Sequence[str]) -> dict[str, int]:
    """Classes by the names of their folders."""
    if all(name.isascii() and name.isdecimal() for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(names)}


def _listed(folder: Path) -> Iterator[Path]:
    for number, path in enumerate(folder.iterdir()):
        if number >= MAX_LISTED:
            raise InputError(
                f"it holds more than {MAX_LISTED:,} files",
                file=str(folder),
                hint=f"a folder with at most {MAX_IMAGES:,} images",
            )
        yield path


def _images_of(
    files: Sequence[tuple[Path, int | None]],
    name: str,
    model: SourceModel,
    named: tuple[str, ...] = (),
) -> LabelledArrays:
    value = _only_input(model, files[0][0])
    channels_first, (channels, height, width) = _image_shape(value, files[0][0])
    rows, sizes = [], set()
    for file, _ in files:
        with reading_file(
            file, "image", kind=InputError, hint="open it in a viewer, or leave it out"
        ):
            image = read_image(file)
        sizes.add(image.shape[:2])
        image = resize(image, height, width) if image.shape[:2] != (height, width) else image
        image = gray(image) if channels == 1 else image
        rows.append(np.moveaxis(image, -1, 0) if channels_first else image)
    array, scaled = _as_element_type(np.stack(rows), value)
    labels = [label for _, label in files]
    is_labelled = all(label is not None for label in labels)
    resized = sizes != {(height, width)}
    notes = [f"images resized to {height}x{width}"] if resized else []
    notes += ["images in gray"] * (channels == 1) + [scaled]
    found = np.array(labels, np.int64) if is_labelled else None
    return LabelledArrays(name, {value.name: array}, found, (*notes, *named))


def _only_input(model: SourceModel, path: Path) -> SourceValue:
    states = {s.input for s in model.states}
    values = [value for value in model.inputs if value.name not in states]
    if len(values) != 1:
        names = ", ".join(value.name for value in values) or "none"
        raise InputError(
            f"the model has {len(values)} inputs ({names}): one array does not say which it is for",
            file=str(path),
            hint="numpy.savez(file, input=array), named as the model's inputs",
        )
    return values[0]


def _image_shape(value: SourceValue, path: Path) -> tuple[bool, tuple[int, int, int]]:
    """(whether channels are the second axis, (channels, height, width)) of an input."""
    shape = value.shape or ()
    if len(shape) == 4:
        for first, (channels, height, width) in (
            (True, shape[1:]),
            (False, (shape[3], shape[1], shape[2])),
        ):
            if channels in CHANNELS and isinstance(height, int) and isinstance(width, int):
                return first, (int(channels), height, width)
    inside = ", ".join(map(str, shape))
    raise InputError(
        f"input {value.name!r} of shape ({inside}) takes no images: 1 or 3 channels and fixed "
        "height and width are expected",
        file=str(path),
        node=value.name,
        hint="arrays in a .npz file, or a case with steps (docs/checking-models.md)",
    )


def _as_element_type(images: np.ndarray, value: SourceValue) -> tuple[np.ndarray, str]:
    """Numbers from 0 to 255 in the input's element type, and how they were scaled."""
    if value.element_type == "uint8":
        return np.rint(images).astype(np.uint8), "numbers from 0 to 255"
    if value.element_type == "int8":
        return (np.rint(images) - 128).astype(np.int8), "numbers from -128 to 127"
    return (images / np.float32(255)).astype(value.element_type), "numbers from 0 to 1"


def _case_of(cases: Mapping[str, Case], model: SourceModel, path: Path) -> Case:
    name = model.path.stem if model.path is not None else model.name
    if name not in cases:
        near = near_name(name, list(cases))
        raise InputError(f"it has no case of {name}", file=str(path), hint=near)
    return cases[name]
