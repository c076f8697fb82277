"""Damaged and hostile programs of torch.export: claims are checked, nothing of a file runs."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.errors import ExplorerError, ModelError
from tests.importers.pytorch_models import WEIGHT, archive, ints, linear_program, ref

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


class Marker:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def changed(tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The program with something else in its two JSON files, and pickles that leave a mark."""
    program, y = linear_program()
    model, config = program.model([y]), program.config()
    change(model, config)
    mark = pickle.dumps(Marker(tmp_path / "marker"))
    members = {
        "models/model.json": json.dumps(model).encode(),
        "data/weights/model_weights_config.json": json.dumps(config).encode(),
        "data/weights/weight_0": WEIGHT.tobytes(),
        "data/weights/pickled": mark,
        "data/sample_inputs/model.pt": mark,
    }
    return archive(tmp_path / "net.pt2", members)


def weight_of(config: dict[str, Any]) -> dict[str, Any]:
    return config["config"]["head.weight"]


CHANGES: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "schema": (lambda m, c: m["schema_version"].update(major=9), "its schema is 9.20; 8 is read"),
    "pickle": (lambda m, c: weight_of(c).update(use_pickle=True, path_name="pickled"), "pickled"),
    "outside": (
        lambda m, c: weight_of(c).update(path_name="../../../etc/passwd"),
        "not in the archive",
    ),
    "beyond": (
        lambda m, c: weight_of(c)["tensor_meta"].update(sizes=[{"as_int": 5}, {"as_int": 5}]),
        "reaches element",
    ),
    "offset": (
        lambda m, c: weight_of(c)["tensor_meta"].update(storage_offset={"as_int": 1}),
        "reaches element 20 of 20",
    ),
    "before": (
        lambda m, c: weight_of(c)["tensor_meta"].update(storage_offset={"as_int": -1}),
        "reaches element",
    ),
    "overlapping": (
        lambda m, c: weight_of(c)["tensor_meta"].update(
            sizes=[{"as_int": 1 << 20}, {"as_int": 4}], strides=[{"as_int": 0}, {"as_int": 1}]
        ),
        "overlap",
    ),
    "call": (
        lambda m, c: m["graph_module"]["graph"]["tensor_values"]["x"]["sizes"].__setitem__(
            0, {"as_expr": {"expr_str": "__import__('pathlib').Path('marker').touch()"}}
        ),
        "no expression of sizes",
    ),
    "sparse": (
        lambda m, c: m["graph_module"]["graph"]["tensor_values"]["x"].update(layout=1),
        "sparse",
    ),
    "element type": (
        lambda m, c: m["graph_module"]["graph"]["tensor_values"]["x"].update(dtype=99),
        "unknown type of elements 99",
    ),
    "operand": (
        lambda m, c: m["graph_module"]["graph"]["nodes"][0]["inputs"][0].update(arg=ref("nobody")),
        "no node makes 'nobody'",
    ),
    "argument": (
        lambda m, c: m["graph_module"]["graph"]["nodes"][0]["inputs"][0].update(
            arg={"as_code": "1"}
        ),
        "unknown kind 'as_code'",
    ),
    "graph": (lambda m, c: m["graph_module"].pop("graph"), "'graph' is missing"),
    "weights": (
        lambda m, c: c.update(config=7),
        "'config' of model_weights_config.json is 7, where an object was expected",
    ),
    "version": (
        lambda m, c: m.update(schema_version=[8]),
        "'schema_version' is a list, where an object was expected",
    ),
    "size": (
        lambda m, c: m["graph_module"]["graph"]["tensor_values"]["x"]["sizes"].__setitem__(
            0, {"as_int": True}
        ),
        "a size of tensor 'x' is true, where an integer was expected",
    ),
    "setting": (
        lambda m, c: m["graph_module"]["graph"]["nodes"][0]["inputs"].append(
            {"name": "dims", "arg": {"as_ints": [1, "2"]}}
        ),
        "as_ints is '2', where an integer was expected; where: file .*net.pt2, node linear",
    ),
    "outputs": (
        lambda m, c: m["graph_module"]["signature"]["output_specs"].clear(),
        "the signature has 0 outputs, and the graph 1",
    ),
    "union": (
        lambda m, c: m["graph_module"]["graph"].update(inputs=[{"as_int": 1, "as_float": 1.0}]),
        "an argument is 2 values, where one was expected",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_file_claims_is_checked_and_nothing_of_it_runs(name: str, tmp_path: Path):
    change, message = CHANGES[name]
    path = changed(tmp_path, change)
    with pytest.raises(ExplorerError, match=message):
        ex.compile(path)
    assert not (tmp_path / "marker").exists() and not Path("marker").exists()


def paths_in(json: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value in it, as keys from the outermost."""
    if path:
        yield path
    keys = range(len(json)) if isinstance(json, list) else json if isinstance(json, dict) else ()
    for key in keys:
        yield from paths_in(json[key], (*path, key))


OF_OTHER_TYPES = (None, True, 3, 0.5, "x", [], {}, [3], [[]], {"as_int": {}}, {"": None})
SHARES = 4


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.sweep) for n in (1, 2, 3))]
)
def test_values_of_another_type_are_refused_where_they_are_read(tmp_path: Path, share: int):
    """By an error of ours, not by what Python raises for them: that would be its cause.

    Each share has some values at every place and every value at some places.
    """
    program, y = linear_program()
    program.call("aten.sum.dim_IntList", {"self": ref(y), "dim": ints(1)}, "float32", [3])
    whole = [program.model([y]), program.config()]
    refusals: list[ExplorerError] = []
    for place_number, path in enumerate(paths_in(whole)):
        for value in OF_OTHER_TYPES[(place_number + share) % SHARES :: SHARES]:
            other = json.loads(json.dumps(whole))
            place = other
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            members = {
                "models/model.json": json.dumps(other[0]).encode(),
                "data/weights/model_weights_config.json": json.dumps(other[1]).encode(),
                "data/weights/weight_0": WEIGHT.tobytes(),
            }
            try:
                ex.load(archive(tmp_path / "net.pt2", members))
            except ExplorerError as error:
                refusals.append(error)
    assert len(refusals) > 500 // SHARES
    assert not [error for error in refusals if error.__cause__ is not None or not error.file]


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("aten.flatten.using_ints", {"start_dim": {"as_float": "Infinity"}}, "start_dim is inf"),
        ("aten.view.default", {"size": {"as_floats": ["NaN"]}}, "size is nan; a size expected"),
        ("aten.split.Tensor", {}, "split_sizes or split_size is missing"),
        ("aten.clone.default", None, "an operand is missing"),
    ],
)
def test_settings_that_are_none_are_named(
    target: str, arguments: dict[str, Any] | None, message: str, tmp_path: Path
):
    program, y = linear_program()
    given = {} if arguments is None else {"self": ref(y), **arguments}
    z = program.call(target, given, "float32", [3, 5])
    with pytest.raises(ModelError, match=f"does not fit its operands: .*{message}"):
        ex.compile(program.write(tmp_path / "net.pt2", [z]))


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "\udcff"])
def test_what_is_no_json_is_refused_by_its_name(text: str, tmp_path: Path):
    content = {"models/model.json": text.encode("utf-8", "surrogateescape")}
    with pytest.raises(ModelError, match=r"models/model\.json is (no JSON|nested too deep)"):
        ex.load(archive(tmp_path / "net.pt2", content))


def test_a_compressed_archive_is_refused(tmp_path: Path):
    program, y = linear_program()
    content = {"models/model.json": json.dumps(program.model([y])).encode()}
    path = archive(tmp_path / "net.pt2", content, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelError, match="compressed"):
        ex.load(path)


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.pt2"])
def test_pickles_are_refused_with_the_lines_that_export_again(name: str, tmp_path: Path):
    path = tmp_path / name
    archive(path, {"data.pkl": pickle.dumps(Marker(tmp_path / "marker"))})
    with pytest.raises(ModelError, match=r"torch\.export\.save\(program, 'net\.pt2'\)"):
        ex.load(path)
    path.write_bytes(pickle.dumps(Marker(tmp_path / "marker")))
    with pytest.raises(ModelError, match=r"torch\.export\.export\(module\.eval\(\)"):
        ex.load(path)
    assert not (tmp_path / "marker").exists()


def test_damaged_files_end_in_one_error(tmp_path: Path):
    program, y = linear_program()
    path = program.write(tmp_path / "net.pt2", [y])
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        content = bytearray(whole)
        for place in generator.integers(0, len(content), 3):
            content[place] = generator.integers(0, 256)
        path.write_bytes(content)
        with suppress(ExplorerError):
            ex.interpret(ex.load(path), {"x": X})
