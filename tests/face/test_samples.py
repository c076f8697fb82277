"""Sample models: found by their names, in a clone and in the wheel."""

import tomllib
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import explorer as ex
from explorer.errors import InputError
from explorer.importers import samples
from explorer.importers.samples import SampleName

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", get_args(SampleName))
def test_every_sample_is_there_and_goes_into_the_wheel(name):
    path = ex.sample(name)
    assert path.is_file() and path.stem == name
    built = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = built["targets"]["wheel"]["force-include"]
    assert included[f"sample_models/{path.name}"] == f"explorer/samples/{path.name}"


def test_a_sample_runs():
    images = np.load(ex.sample("digits_test"))
    outputs = ex.interpret(ex.sample("digits_mlp"), {"image": images["images"][:1]})
    assert all(np.isfinite(array).all() for array in outputs.values())


def test_another_name_is_refused_with_a_near_one():
    with pytest.raises(InputError, match="did you mean 'digits_cnn'"):
        ex.sample("digit_cnn")  # pyright: ignore[reportArgumentType]


def test_the_wheel_is_looked_at_first_and_its_absence_is_said(tmp_path, monkeypatch):
    (tmp_path / "digits_cnn.onnx").write_bytes(b"")
    monkeypatch.setattr(samples, "FOLDERS", (tmp_path, *samples.FOLDERS))
    assert ex.sample("digits_cnn").parent == tmp_path
    monkeypatch.setattr(samples, "FOLDERS", (tmp_path,))
    with pytest.raises(InputError, match="digits_mlp is not installed"):
        ex.sample("digits_mlp")
