"""Programs of one session read one block of weights, in one layout where that costs little."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import explorer as ex
from explorer.compilation import Compilation
from explorer.compilation import sharing_weights as sharing
from explorer.results.runs.sessions import WeightsReport

FIRST, SECOND = (24, 256), (256, 384)


def products() -> onnx.ModelProto:
    """Two products: a tile of one row is wider than that of many rows."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      products (float[n, 24] x) => (float[n, 384] y) {
        h = MatMul(x, first)
        a = Relu(h)
        y = MatMul(a, second)
      }""")
    random = np.random.default_rng(4)
    for name, shape in (("first", FIRST), ("second", SECOND)):
        array = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def inputs(rows: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(rows).standard_normal((rows, 24)).astype(np.float32)}


def compilations(session: ex.Session) -> list[Compilation]:
    found = [program.compilation for program in session.programs]
    return [compilation for compilation in found if compilation is not None]


def places(compilation: Compilation) -> set[tuple[int, int]]:
    return {(slot.offset_bytes, slot.size_bytes) for slot in compilation.program.weights}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a file of which nothing is kept yet."""
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    onnx.save(products(), str(tmp_path / "products.onnx"))
    return tmp_path / "products.onnx"


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("rows", [(13, 1), (1, 13)])
def test_programs_for_one_row_and_for_many_read_one_block(
    path: Path, isolated: bool, rows: tuple[int, int]
):
    judge = onnxruntime.InferenceSession(str(path))
    with ex.Session(path, ranges={}, isolated=isolated) as session:
        for count in (*rows, *rows):
            right = np.asarray(judge.run(None, inputs(count))[0])
            found = session.run(inputs(count))["y"]
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)
        first, second = compilations(session)
        size = 4 * (np.prod(FIRST) + np.prod(SECOND))
        assert first.program.weights_bytes == second.program.weights_bytes == size
        assert places(first) == places(second)
        alone = ex.compile(path, dimensions={"n": rows[1]})
        assert alone.schedule != second.schedule  # another layout by itself
        assert ex.compile(path, dimensions={"n": rows[0]}).schedule == first.schedule
        held = [program.weights for program in session.programs]
        assert held == [None, WeightsReport(shared_bytes=int(size))]
        assert "bytes of weights" not in session.why()


def test_the_code_of_the_first_program_is_that_of_a_program_alone(path: Path):
    with ex.Session(path, ranges={}, isolated=False) as session:
        session.run(inputs(13))
        (first,) = compilations(session)
        alone = ex.compile(path, dimensions={"n": 13})
        assert first.program.source.lines == alone.program.source.lines
        np.testing.assert_array_equal(first.built.weights, alone.built.weights)
        assert "bytes of weights" not in session.why()


def test_a_layout_that_costs_much_is_a_copy_with_a_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sharing, "MAX_LOSS", -0.9)
    with ex.Session(path, ranges={}, isolated=False) as session:
        for count in (13, 1):
            session.run(inputs(count))
        first, second = compilations(session)
        assert second.program.weights_bytes > first.program.weights_bytes
        assert "of its time with the layout that is there" in session.why()
        report = session.programs[1].weights
        assert report is not None
        assert f"those of earlier programs, {report.copied_bytes:,} are added" in session.why()


def test_saved_programs_share_a_file_of_weights(path: Path):
    def run() -> tuple[str, WeightsReport | None]:
        with ex.Session(path, ranges={}, isolated=False) as session:
            for count in (13, 1):
                session.run(inputs(count))
            return session.calls[-1].event, session.programs[-1].weights

    shared = WeightsReport(shared_bytes=int(4 * (np.prod(FIRST) + np.prod(SECOND))))
    assert [run(), run()] == [("compiled", shared), ("started", shared)]
