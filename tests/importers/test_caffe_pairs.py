"""Caffe nets of two files: named apart, in a zip file, kept, and what is wrong with a pair."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.compilation import saving_programs
from explorer.errors import ModelError, UnsupportedError
from explorer.files import ModelFiles
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.requests import ProgramRequest, request_of
from verification.conformance.caffe.models import caffemodel, one_layer

pytestmark = pytest.mark.usual_builds

WEIGHT = np.arange(10, dtype=np.float32).reshape(2, 5) / 10
BIAS = np.array([1, -1], np.float32)
NET, WEIGHTS = one_layer(
    "InnerProduct", "inner_product_param { num_output: 2 }", [(3, 5)], [WEIGHT, BIAS]
)
X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


@pytest.fixture
def pair(tmp_path: Path) -> ModelFiles:
    """Both files, under different names in different folders."""
    (tmp_path / "trained").mkdir()
    files = ModelFiles(tmp_path / "deploy.prototxt", tmp_path / "trained" / "iter_10.caffemodel")
    files.path.write_text(NET)
    files.weights.write_bytes(WEIGHTS)
    return files


def test_weights_may_be_named(pair: ModelFiles):
    model = ex.load(pair.path, weights=pair.weights)

    assert (model.name, model.path, model.parameters) == ("deploy", pair.path, 12)
    np.testing.assert_allclose(ex.interpret(pair, {"x0": X})["y"], X @ WEIGHT.T + BIAS, rtol=1e-5)


def test_commands_take_weights(pair: ModelFiles, tmp_path: Path):
    np.savez(tmp_path / "in.npz", x0=X)
    given = [str(pair.path), "--weights", str(pair.weights)]
    output = str(tmp_path / "out.npz")
    ran = main(["run", *given, "--input", str(tmp_path / "in.npz"), "--output", output])

    assert (ran, main(["show", *given, "--what", "operators"])) == (0, 0)
    np.testing.assert_allclose(np.load(output)["y"], X @ WEIGHT.T + BIAS, rtol=1e-5)
    table = str(tmp_path / "net.table")
    np.savez(tmp_path / "data.npz", x0=X[None])
    data = ["--data", str(tmp_path / "data.npz"), "--method", "min-max", "--corrections", "none"]
    assert main(["calibrate", *given, *data, "-o", table]) == 0


def test_kept_programs_are_of_both_files(
    pair: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "kept").mkdir(mode=0o700)
    cache = ProgramCache(tmp_path / "kept")
    other = ModelFiles(pair.path, tmp_path / "other.caffemodel")
    other.weights.write_bytes(caffemodel({"y": [2 * WEIGHT, BIAS]}))
    monkeypatch.setattr(
        saving_programs, "CLOCK_NS", 0
    )  # files are kept as soon as they are written
    outputs = []
    for files in (pair, other, pair):
        with ex.start(files, cache=cache) as started:
            outputs.append((started.is_kept, started.run({"x0": X})["y"]))

    assert [is_kept for is_kept, _ in outputs] == [False, False, True]
    np.testing.assert_allclose(outputs[1][1], X @ (2 * WEIGHT).T + BIAS, rtol=1e-5)
    np.testing.assert_array_equal(outputs[0][1], outputs[2][1])


def test_weights_that_change_are_noticed(pair: ModelFiles):
    request = request_of(pair, "cpu", {})
    assert isinstance(request, ProgramRequest) and not request.has_changed
    pair.weights.write_bytes(caffemodel({"y": [2 * WEIGHT, BIAS]}))
    assert request.has_changed


def test_files_in_the_wrong_order_are_refused(pair: ModelFiles, tmp_path: Path):
    with pytest.raises(ModelError, match="not a prototxt and its weights, in this order"):
        ex.load(pair.weights, weights=pair.path)
    with pytest.raises(ModelError, match="no such file"):
        ex.load(pair.path, weights=tmp_path / "none.caffemodel")


def test_a_model_of_one_file_takes_no_weights(pair: ModelFiles):
    digits = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
    with pytest.raises(ModelError, match="weights of such a model are in its own file"):
        ex.load(digits, weights=pair.weights)


def test_a_net_alone_says_how_its_weights_are_named(pair: ModelFiles):
    with pytest.raises(UnsupportedError) as raised:
        ex.compile(pair.path)

    assert raised.value.problems == ("node y: InnerProduct: its weights are missing (blob 0)",)
    assert "--weights FILE" in raised.value.hint


def test_a_table_of_models_takes_no_weights(pair: ModelFiles, capsys: pytest.CaptureFixture[str]):
    given = ["check", str(pair.path), str(pair.path), "--weights", str(pair.weights)]

    assert main(given) == 2
    assert "zip file" in capsys.readouterr().err


def _zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_names_in_a_zip_file_lead_nowhere(tmp_path: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    members = {"../../leaves.prototxt": NET.encode(), "/tmp/leaves.caffemodel": WEIGHTS}
    before = sorted(tmp_path.rglob("*"))
    model = ex.load(_zip(folder / "net.zip", members))

    assert model.parameters == 12
    assert sorted(tmp_path.rglob("*")) == [*before, folder / "net.zip"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.prototxt": NET.encode(), "b.prototxt": b""}, "two .prototxt files are in it"),
        ({"a.prototxt": b" " * (17 << 20)}, "has more than 16,777,216 bytes"),
        ({"a.prototxt": NET.encode(), "b.caffemodel": bytes(65 << 20)}, "would be 68,157,440"),
    ],
)
def test_a_zip_file_that_is_no_pair_is_refused(
    members: dict[str, bytes], message: str, tmp_path: Path
):
    with pytest.raises(ModelError, match=message):
        ex.load(_zip(tmp_path / "net.zip", members))


def test_a_zip_file_that_lies_about_its_sizes_is_read_no_further(tmp_path: Path):
    content = _zip(tmp_path / "net.zip", {"a.prototxt": b" " * (17 << 20)}).read_bytes()
    claimed = (17 << 20).to_bytes(4, "little")
    (tmp_path / "lie.zip").write_bytes(content.replace(claimed, (100).to_bytes(4, "little")))
    with pytest.raises(ModelError):
        ex.load(tmp_path / "lie.zip")
