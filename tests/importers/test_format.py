"""A format is a folder and one line: nothing else knows of the toy, and all works with it."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.app.catalog import offered_files
from explorer.app.protocol import CompileRequest
from explorer.app.worker.compiler import ModelCompiler
from explorer.cli import main
from explorer.compilation import Compilation
from explorer.compilation.saving_programs import interface_of
from explorer.errors import ModelError, UnsupportedError
from explorer.importers import format as formats
from explorer.importers.format import Format, format_of
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.requests import ProgramRequest, request_of
from explorer.session.fallback import Fallback
from explorer.views.trace_payload import encode, trace_payload

TOY = Format(
    name="toy",
    suffixes=(".toy",),
    importer="toy_format.importer:ToyImporter",
    reference="toy_format.reference:ToyReference",
)
NET = """toy
weights net.numbers
input x batch 16
dense h x w1 b1
relu a h
dense z a w2 b2
add y z z
output y
"""
W1, B1 = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32)
W2 = np.random.default_rng(1).standard_normal((16, 4)).astype(np.float32)


def quiet(name: str, index: int, total: int) -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def toy_is_added() -> Iterator[None]:
    """The folder, and the line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent)])
        patch.setattr(formats, "FORMATS", (*formats.FORMATS, TOY))
        yield


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toys")
    arrays = {"w1": W1, "b1": B1[0], "w2": W2, "b2": B1[1, :4]}
    lines = [
        f"{name} {' '.join(map(str, a.shape))}: {' '.join(map(str, a.reshape(-1)))}"
        for name, a in arrays.items()
    ]
    (folder / "net.numbers").write_text("\n".join(lines))
    (folder / "net.toy").write_text(NET)
    return folder / "net.toy"


@pytest.fixture(scope="module")
def compiled(net: Path) -> Iterator[Compilation]:
    compilation = ex.compile(net, dimensions={"batch": 4})
    yield compilation
    compilation.close()


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((4, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def expected(x: np.ndarray) -> np.ndarray:
    return 2 * (np.maximum(x @ W1 + B1[0], 0) @ W2 + B1[1, :4])


def test_it_compiles_and_runs(compiled: Compilation, x: np.ndarray, expected: np.ndarray):
    np.testing.assert_allclose(compiled.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)


def test_every_pass_is_compared_with_its_own_reference(compiled: Compilation):
    accuracy = compiled.accuracy()

    assert accuracy.passed
    assert accuracy.report.oracle == "toys, line by line"
    assert {t.tensor for t in accuracy.report.passes[0].tensors} >= {"h", "z", "y"}


def test_the_import_is_a_rewrite_for_every_line(compiled: Compilation):
    rewrites = compiled["import"].rewrites

    assert [r.address for r in rewrites] == [
        "import/toy.dense/node_line_4",
        "import/toy.relu/node_line_5",
        "import/toy.dense/node_line_6",
        "import/toy.add/node_line_7",
    ]
    assert rewrites[1].explanation == "max(x, 0)"
    assert rewrites[1].made_by.startswith("tests/importers/toy_format/importer.py:")
    assert {o.operator: o.domain for o in compiled.operators} == dict.fromkeys(
        ("dense", "relu", "add"), "toy"
    )
    assert {o.operator: o.explanation for o in compiled.operators}["relu"] == "max(x, 0)"


def test_a_fork_is_another_program_of_equal_numbers(compiled: Compilation, x: np.ndarray):
    fork = compiled.fork(disable=["fuse-activation"])

    assert len(fork.kernels) > len(compiled.kernels)
    np.testing.assert_allclose(fork.run({"x": x})["y"], compiled.run({"x": x})["y"], rtol=1e-5)
    fork.close()


def test_a_saved_trace_opens(compiled: Compilation, tmp_path: Path):
    opened = ex.open(compiled.save(tmp_path / "toy.nnx"))

    assert opened.trace().model.format == "toy"
    assert [o.domain for o in opened.trace().operators] == ["toy", "toy", "toy"]


def test_its_faces_show_it(compiled: Compilation):
    page = encode(trace_payload(compiled.trace()).head)

    assert '"format":"toy"' in page and '"opset":"toy 1"' in page
    assert ("line 5", "relu", "h") in compiled.trace().model.source_nodes
    assert "toy.relu" in compiled["import"]._repr_html_()
    assert "relu" in ex.inspect(compiled.model)._repr_html_()


def test_the_page_compiles_checks_and_measures_it(net: Path):
    compiler, request = ModelCompiler(), CompileRequest(str(net), "cpu")
    trace = compiler.stage(request, "passes", quiet)
    checked = compiler.stage(request, "accuracy", quiet).accuracy

    assert trace.model.format == "toy"
    assert checked is not None and checked.passed
    assert compiler.stage(request, "profile", quiet).profile is not None
    assert [path.name for path in offered_files([net.parent])] == ["net.toy"]


def test_commands_take_it(net: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["check", str(net)]) == 0
    assert "equal to the source model" in capfd.readouterr().out
    assert main(["bench", str(net), "--repeats", "5", "--json"]) == 0
    assert list(json.loads(capfd.readouterr().out)["peers"]) == ["toys"]
    assert main(["bench", str(net), "--against", "onnxruntime"]) == 2
    assert "onnxruntime runs no toy models" in capfd.readouterr().err


def test_a_session_answers_with_the_reference_meanwhile(
    net: Path, x: np.ndarray, expected: np.ndarray
):
    with ex.Session(net, mode="lazy", cache=ProgramCache(None)) as session:
        found = session.run({"x": x})["y"]
        assert session.calls[0].answered_by == "toys"
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    fallback = Fallback(ex.load(net), "onnxruntime")
    np.testing.assert_allclose(fallback.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)
    assert (fallback.name, fallback.reason) == ("interpreter", "onnxruntime runs no toy models")


def test_without_a_reference_it_is_compared_with_what_was_imported(
    net: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    alone = replace(TOY, reference=None)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS[:-1], alone))

    assert main(["check", str(net)]) == 0
    assert "nobody else runs toy models here" in capfd.readouterr().out
    assert main(["bench", str(net)]) == 2
    assert "nobody else runs toy models here" in capfd.readouterr().err


def test_a_kept_program_knows_the_file_of_the_weights(net: Path):
    request = request_of(net, "cpu", {})
    assert isinstance(request, ProgramRequest)
    model = ex.load(net)
    interface = interface_of(model, request)

    assert [name for name, _ in interface.files] == ["net.numbers"]


def test_marks_and_members_count_before_suffixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    marked = Format(name="marked", mark=(2, b"MARK"), importer=TOY.importer)
    packed = Format(name="packed", members=("graph.json",), importer=TOY.importer)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, marked, packed))

    def written(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    def zipped(name: str, member: str) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr(member, "")
        return tmp_path / name

    assert format_of(written("a.toy", b"xxMARK")).name == "marked"
    assert format_of(written("b.TOY", b"toy")).name == "toy"
    assert format_of(written("c.unheard-of", b"toy")).name == "onnx"
    assert format_of(zipped("d.toy", "inside/graph.json")).name == "packed"
    assert format_of(zipped("g.toy", "archive/data.pkl")).name == "pytorch"
    for path, message in (
        (zipped("e.toy", "trace.json"), "a saved trace"),
        (zipped("f.toy", "readme"), "a zip file, not a model"),
        (written("h.h5", b""), "keras models cannot be read yet"),
    ):
        with pytest.raises(ModelError, match=message):
            format_of(path)


def test_what_it_cannot_do_is_told_by_line(net: Path, tmp_path: Path):
    (tmp_path / "net.numbers").write_bytes((net.parent / "net.numbers").read_bytes())
    (tmp_path / "bad.toy").write_text(NET.replace("relu a", "rely a").replace("w2 b2", "b2 b2"))
    with pytest.raises(UnsupportedError, match="unknown operator; did you mean relu") as caught:
        ex.compile(tmp_path / "bad.toy")
    assert caught.value.problems == ("node line 5: rely: unknown operator; did you mean relu?",)
    inspected = ex.inspect(tmp_path / "bad.toy")
    assert set(inspected.problems) == {"line 5"}
    words = {o.operator: o.explanation for o in inspected.operators}
    assert words["rely"] == "" and all(words[o] for o in ("dense", "add"))
    (tmp_path / "lost.toy").write_text(NET.replace("dense z a", "dense z lost"))
    with pytest.raises(ModelError, match="no node makes 'lost', which line 6 needs"):
        ex.compile(tmp_path / "lost.toy")
    (tmp_path / "wide.toy").write_text(NET.replace("dense z a w2", "dense z a b2"))
    with pytest.raises(UnsupportedError, match="a weight of rank 1"):
        ex.compile(tmp_path / "wide.toy")
