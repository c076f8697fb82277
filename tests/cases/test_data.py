"""Data of a model as people have them: arrays, labels, images, folders of classes, cases."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from explorer.cases import data as reading
from explorer.cases.data import read_data_files, read_labels
from explorer.errors import InputError
from explorer.importers.model import SourceModel

Image = pytest.importorskip("PIL.Image")


@dataclass
class Value:
    name: str
    shape: tuple[int | str, ...]
    element_type: str = "float32"


@dataclass
class Model:
    inputs: tuple[Value, ...]
    states: tuple = ()
    name: str = "net"
    path: Path | None = None
    notes: tuple[str, ...] = field(default=())


def model(*inputs: Value) -> SourceModel:
    return Model(inputs)  # pyright: ignore[reportReturnType]  (what is read of a model)


IMAGES = model(Value("image", ("batch", 3, 4, 6)))


def picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (6, 4)) -> Path:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def test_arrays_bring_their_labels_unless_an_input_has_that_name(tmp_path: Path):
    file = tmp_path / "eval.npz"
    np.savez(file, x=np.ones((2, 3)), labels=np.array([1, 0]))
    read = read_data_files([file], model(Value("x", (1, 3))))
    assert (read.name, list(read.arrays)) == ("eval.npz", ["x"])
    assert read.labels is not None
    assert read.labels.tolist() == [1, 0]
    both = read_data_files([file], model(Value("x", (1, 3)), Value("labels", (1,))))
    assert set(both.arrays) == {"x", "labels"}
    assert both.labels is None


@pytest.mark.parametrize("text", ["3\n1\n2\n", "3,1,2", " 3 1\n2"])
def test_labels_are_numbers_of_a_text_or_an_array(tmp_path: Path, text: str):
    (tmp_path / "l.txt").write_text(text)
    np.save(tmp_path / "l.npy", np.array([3, 1, 2]))
    for name in ("l.txt", "l.npy"):
        assert read_labels(tmp_path / name).tolist() == [3, 1, 2]


def test_labels_apart_take_the_place_of_those_in_the_file(tmp_path: Path):
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3)), labels=np.array([0, 0]))
    (tmp_path / "l.txt").write_text("1 2")
    files = [tmp_path / "x.npz", tmp_path / "l.txt"]
    read = read_data_files(files, model(Value("x", (1, 3))))
    assert read.labels is not None
    assert (read.labels.tolist(), read.name) == ([1, 2], "x.npz")


def test_one_array_is_for_the_only_input(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    read = read_data_files([tmp_path / "x.npy"], model(Value("x", (1, 3))))
    assert read.arrays["x"].shape == (2, 3)
    with pytest.raises(InputError, match=r"2 inputs \(a, b\)"):
        read_data_files([tmp_path / "x.npy"], model(Value("a", (1, 3)), Value("b", (1, 3))))


def test_images_are_resized_and_say_how_they_became_numbers(tmp_path: Path):
    files = [picture(tmp_path / "b.png", (255, 0, 0)), picture(tmp_path / "a.png", (0, 51, 0))]
    read = read_data_files(files, IMAGES)
    assert (read.name, read.labels) == ("2 images", None)
    assert read.notes == ("numbers from 0 to 1",)
    found = read.arrays["image"]
    assert (found.shape, found.dtype) == ((2, 3, 4, 6), np.float32)
    assert found[0, :, 0, 0].tolist() == [1, 0, 0]
    assert found[1, 1, 0, 0] == pytest.approx(0.2)
    last = read_data_files(files, model(Value("image", (1, 4, 6, 3))))
    np.testing.assert_array_equal(last.arrays["image"], np.moveaxis(found, 1, -1))
    small = read_data_files(files, model(Value("image", (1, 1, 2, 2))))
    assert small.arrays["image"].shape == (2, 1, 2, 2)
    assert small.notes == ("images resized to 2x2", "images in gray", "numbers from 0 to 1")


@pytest.mark.parametrize(("kind", "ends"), [("uint8", (0, 255)), ("int8", (-128, 127))])
def test_images_of_bytes_have_the_range_of_the_type(tmp_path: Path, kind: str, ends: tuple):
    files = [
        picture(tmp_path / "a.png", (0, 0, 0)), picture(tmp_path / "b.png", (255, 255, 255)),
    ]  # fmt: skip
    read = read_data_files(files, model(Value("image", (1, 3, 4, 6), kind)))
    found = read.arrays["image"]
    assert (found.dtype.name, found.min(), found.max()) == (kind, *ends)


def test_folders_with_numbers_are_classes(tmp_path: Path):
    for place, colour in (("2/x.png", (9, 0, 0)), ("10/y.png", (8, 0, 0)), ("2/a.png", (7, 0, 0))):
        picture(tmp_path / place, colour)
    read = read_data_files([tmp_path], IMAGES)
    assert read.name == f"{tmp_path.name}/"
    assert read.labels is not None
    assert read.labels.tolist() == [10, 2, 2]
    assert (read.arrays["image"][:, 0, 0, 0] * 255).round().tolist() == [8, 7, 9]
    picture(tmp_path / "without.png", (0, 0, 0))
    assert read_data_files([tmp_path], IMAGES).labels is None


def test_folders_with_names_are_classes_in_the_order_of_names(tmp_path: Path):
    for place, colour in (
        ("dog/x.png", (9, 0, 0)),
        ("7/y.png", (8, 0, 0)),
        ("cat/a.png", (7, 0, 0)),
    ):
        picture(tmp_path / place, colour)
    (tmp_path / "empty").mkdir()
    (tmp_path / "readme.md").write_text("about them")
    read = read_data_files([tmp_path], IMAGES)
    assert read.labels is not None
    assert read.labels.tolist() == [0, 1, 2]
    assert (read.arrays["image"][:, 0, 0, 0] * 255).round().tolist() == [8, 7, 9]
    assert read.notes[-1] == "classes 7 = 0, cat = 1, dog = 2"


def test_what_is_no_data_is_refused_at_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (tmp_path / "labels.txt").write_text("1 2")
    (tmp_path / "words.txt").write_text("cat dog")
    (tmp_path / "net.bin").write_bytes(b"")
    for name, words in (
        ("empty", "no image in it"),
        ("broken.png", "image"),
        ("labels.txt", "there are labels, and no array"),
        ("words.txt", "file of labels"),
        ("net.bin", "data are no .bin"),
        ("missing.npz", "no such file"),
    ):
        with pytest.raises(InputError, match=words):
            read_data_files([tmp_path / name], IMAGES)
    picture(tmp_path / "a.png", (0, 0, 0))
    with pytest.raises(InputError, match="takes no images"):
        read_data_files([tmp_path / "a.png"], model(Value("x", (1, 3))))
    picture(tmp_path / "b.png", (0, 0, 0))
    monkeypatch.setattr(reading, "MAX_IMAGES", 1)
    with pytest.raises(InputError, match="more than 1 images"):
        read_data_files([tmp_path], IMAGES)
    monkeypatch.setattr(reading, "MAX_LISTED", 2)
    with pytest.raises(InputError, match="more than 2 files"):
        read_data_files([tmp_path], IMAGES)
