"""Sessions: what is compiled when, why, and that every mode answers alike."""

import threading
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.errors import InputError, UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.runtime.cache import ProgramCache
from explorer.session import MODES, Session, Signature
from explorer.session.specializing import MAX_SPECIALIZED

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))


@pytest.fixture
def digits(sample_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of which nothing is kept yet."""
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    return sample_models / "digits_mlp.onnx"


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(3).random((1, 1, 8, 8), dtype=np.float32)


def scaling_model(*shape: str | int, dtype: int = TensorProto.FLOAT) -> Any:
    """y = x * 2, for an x of a shape with names in it."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["y"], name="scale")],
        "scaling",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        [helper.make_tensor("two", dtype, (), [2])],
    )
    return from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def reshaping_model() -> Any:
    """y = reshape(x, shape), where the shape is an input."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")],
        "reshaping",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (12,)),
            helper.make_tensor_value_info("shape", TensorProto.INT64, (2,)),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def events(session: Session) -> list[str]:
    return [call.event for call in session.calls]


def test_the_same_signature_meets_its_program_and_another_shape_is_compiled_for():
    with ex.Session(scaling_model("n", 3)) as session:
        for count in (2, 2, 5, 2):
            x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
            np.testing.assert_array_equal(session(x)["y"], 2 * x)
        assert events(session) == ["compiled", "hit", "compiled", "hit"]
        assert session.why() == (
            "call 3 (compiled): axis 0 of x is 5, not 2; "
            "another size came: one program for n = 2..8"
        )
        assert [program.calls for program in session.programs] == [1, 3]


def test_other_contents_where_they_decide_a_shape_are_compiled_for():
    x = np.arange(12, dtype=np.float32)
    with Session(reshaping_model()) as session:
        for shape in ([3, 4], [3, 4], [2, 6]):
            y = session({"x": x, "shape": np.array(shape, np.int64)})["y"]
            np.testing.assert_array_equal(y, x.reshape(shape))
        assert events(session) == ["compiled", "hit", "compiled"]
        assert session.why().endswith("shape, which decides a shape, holds [2, 6], not [3, 4]")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("meanwhile", ["onnxruntime", "interpreter"])
def test_all_modes_answer_alike(digits: Path, image: np.ndarray, meanwhile: str):
    answers = {}
    for mode in MODES:
        # Each compiles for itself: what one keeps would answer the next one's first call.
        cache = ProgramCache(None)
        with Session(digits, mode=mode, meanwhile=meanwhile, cache=cache) as session:
            before = session(image)
            session(image)
            session.wait()
            answers[mode] = session(image)
            assert session.calls[-1].answered_by == "program"
            for name, array in answers[mode].items():
                np.testing.assert_allclose(before[name], array, rtol=1e-5, atol=1e-6)
    for mode in MODES:
        for name, array in answers[mode].items():
            np.testing.assert_array_equal(array, answers["strict"][name])


def test_a_lazy_session_compiles_what_is_called_again(digits: Path, image: np.ndarray):
    with Session(digits, mode="lazy", hot_after=3) as session:
        for _ in range(4):
            session(image)
        assert events(session) == ["not hot", "not hot", "compiled", "hit"]
        assert [call.answered_by for call in session.calls][:2] == ["onnxruntime"] * 2


def test_an_asynchronous_session_never_waits(
    digits: Path, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
):
    has_answered = threading.Event()
    compile_program = Session._compile

    def compile_after_the_answers(self: Session, given: Any) -> Any:
        assert has_answered.wait(timeout=60)
        return compile_program(self, given)

    monkeypatch.setattr(Session, "_compile", compile_after_the_answers)
    with Session(digits, mode="asynchronous") as session:
        session(image)
        session(image)
        has_answered.set()
        assert events(session) == ["compiling", "compiling"]
        assert all(call.compile_seconds == 0 for call in session.calls)
        session.wait()
        session(image)
        assert session.calls[-1].event == "hit"
        assert len(session.programs) == 1


def test_a_model_that_changes_shape_all_the_time_is_given_up():
    with Session(scaling_model("n"), most_programs=3, calls_per_program=2, ranges={}) as session:
        for count in range(1, 8):
            x = np.ones(count, np.float32)
            np.testing.assert_array_equal(session(x)["y"], 2 * x)
        assert events(session) == ["compiled"] * 3 + ["cut off"] * 3 + ["compiled"]
        assert session.calls[3].answered_by == "onnxruntime"
        assert len(session.programs) == 3


def test_compilations_of_four_calls_each_are_not_too_many():
    with Session(scaling_model("n"), most_programs=2, ranges={}, isolated=False) as session:
        for count in (1, 2, *[1] * 6, 3, 4):
            session(np.ones(count, np.float32))
        assert events(session) == ["compiled"] * 2 + ["hit"] * 6 + ["compiled", "cut off"]


def test_sizes_that_change_are_opened_without_being_asked():
    with Session(scaling_model("n", "m")) as session:
        for rows, columns in ((3, 4), (5, 4), (8, 4), (2, 4), (9, 4), (2, 7), (16, 8)):
            x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
            np.testing.assert_array_equal(session(x)["y"], 2 * x)
        assert events(session) == [
            "compiled", "compiled", "hit", "hit", "compiled", "compiled", "hit"
        ]  # fmt: skip
        assert [str(program.signature) for program in session.programs] == [
            "x: float32 3×4",
            "x: float32 2..8×4",
            "x: float32 2..16×4",
            "x: float32 2..16×2..8",
        ]
        assert "another size came: one program for m = 2..8" in session.why()


def test_a_size_that_another_input_says_is_opened_with_it():
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        halves (float[1,3,h] x, float[1,3,"h//2"] y) => (float[1,3,"h//2"] z) {
          p = MaxPool <kernel_shape = [2], strides = [2]> (x)
          z = Add (p, y)
        }"""
    )
    with Session(from_proto(model)) as session:
        for size in (9, 5, 8, 2, 16):
            x = np.arange(3 * size, dtype=np.float32).reshape(1, 3, size)
            y = np.ones((1, 3, size // 2), np.float32)
            wanted = x[:, :, : size // 2 * 2].reshape(1, 3, -1, 2).max(3) + y
            np.testing.assert_array_equal(session({"x": x, "y": y})["z"], wanted)
        assert events(session) == ["compiled", "compiled", "hit", "hit", "hit"]
        with pytest.raises(InputError, match="5"):
            session({"x": np.ones((1, 3, 9), np.float32), "y": np.ones((1, 3, 5), np.float32)})


def test_a_size_of_one_is_a_case_of_its_own():
    """The prompt and the step of a decoder do not make one program for all lengths."""
    with Session(scaling_model("n", 2)) as session:
        for rows in (5, 1, 1, 5):
            session(np.ones((rows, 2), np.float32))
        assert events(session) == ["compiled", "compiled", "hit", "hit"]
        assert [p.is_for_ranges for p in session.programs] == [False, False]


def test_a_dimension_that_cannot_be_opened_is_compiled_size_by_size():
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        found (float[n,3] x) => (int64[2,k] y) { r = Relu (x)  y = NonZero (r) }"""
    )
    with Session(from_proto(model)) as session:
        for count in (3, 4, 5, 4):
            x = np.arange(-2, 3 * count - 2, dtype=np.float32).reshape(count, 3)
            np.testing.assert_array_equal(session(x)["y"], np.nonzero(np.maximum(x, 0)))
        assert events(session) == ["compiled", "compiled", "compiled", "hit"]
        assert "nonzero1: what it reads decides how large its result is" in session.why()


def test_an_open_program_that_is_kept_is_started(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        shares (float[b,s,2] x) => (float[b,s,2] y) { y = Softmax <axis = 1> (x) }"""
    )
    onnx.save(model, tmp_path / "shares.onnx")
    for first in ("compiled", "started"):
        with Session(tmp_path / "shares.onnx") as session:
            for length in (3, 6, 8):
                session(np.ones((1, length, 2), np.float32))
            assert events(session) == [first, first, "hit"]


def test_a_bucket_that_the_model_forbids_is_made_smaller():
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        sums (float[n] x) => (float[n] y) <float[11] table = {0,1,2,3,4,5,6,7,8,9,10}> {
          size = Shape (x)
          zero = Constant <value_ints = [0]> ()
          part = Slice (table, zero, size)
          y = Add (x, part)
        }"""
    )
    with Session(from_proto(model)) as session:
        for count in (3, 9, 10, 11):
            x = np.ones(count, np.float32)
            np.testing.assert_array_equal(session(x)["y"], 1 + np.arange(count))
        assert events(session)[:3] == ["compiled", "compiled", "hit"]


def test_a_bucket_is_one_program_for_all_its_sizes():
    ranges = {"n": [(1, 4), (5, 8)]}
    with Session(scaling_model("n", 3), ranges=ranges) as session:
        for count in (3, 1, 4, 6):
            x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
            np.testing.assert_array_equal(session(x)["y"], 2 * x)
        assert events(session) == ["compiled", "hit", "hit", "compiled"]
        assert session.why() == "call 4 (compiled): axis 0 of x is 6, not within 1..4"


def test_buckets_of_two_dimensions_are_one_program_that_is_kept(tmp_path):
    """The second session starts the program of the first one."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        shares (float[b,s,2] x) => (float[b,s,2] y) { y = Softmax <axis = 1> (x) }"""
    )
    onnx.save(model, tmp_path / "shares.onnx")
    for first in ("compiled", "started"):
        with Session(tmp_path / "shares.onnx", ranges={"b": [(1, 3)], "s": [(2, 6)]}) as session:
            for batch, length in ((3, 6), (1, 2), (2, 5)):
                x = np.arange(batch * length * 2, dtype=np.float32).reshape(batch, length, 2) / 4
                power = np.exp(x - x.max(1, keepdims=True))
                expected = power / power.sum(1, keepdims=True)
                np.testing.assert_allclose(session(x)["y"], expected, rtol=1e-6)
            assert events(session) == [first, "hit", "hit"]


def test_a_bucket_that_cannot_be_one_program_is_compiled_size_by_size():
    """The host finds what is not zero among all rows, those that a smaller size lacks included."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        found (float[n,3] x) => (int64[2,k] y) { r = Relu (x)  y = NonZero (r) }"""
    )
    with Session(from_proto(model), ranges={"n": [(1, 4)]}) as session:
        for count in (3, 1, 3):
            x = np.arange(-2, 3 * count - 2, dtype=np.float32).reshape(count, 3)
            np.testing.assert_array_equal(session(x)["y"], np.nonzero(np.maximum(x, 0)))
        assert events(session) == ["compiled", "compiled", "hit"]
        assert "nonzero1: what it reads decides how large its result is" in session.calls[0].reason


@pytest.mark.parametrize("ranges", [[(1, 4), (4, 8)], [(3, 2)], [(0, 2)]])
def test_buckets_that_make_no_sense_are_refused(ranges: list[tuple[int, int]]):
    with pytest.raises(InputError, match="n: "):
        Session(scaling_model("n"), ranges={"n": ranges})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"z": np.ones(3, np.float32)}, "no input 'z'"),
        ({}, "no array for the input 'x'"),
        ({"x": np.ones((1, 3), np.float64)}, "expected float32, got float64"),
        ({"x": np.ones(3, np.float32)}, "expected 2 axes, got 1"),
        ({"x": np.ones((1, 4), np.float32)}, "axis 1 has size 4, expected 3 as the model says"),
    ],
)
def test_inputs_that_the_model_cannot_have_are_refused(inputs: dict, words: str):
    with Session(scaling_model("n", 3)) as session:
        with pytest.raises(InputError, match=words):
            session.run(inputs)
        assert session.calls == []


def test_what_cannot_be_compiled_stays_with_the_fallback(
    monkeypatch: pytest.MonkeyPatch, digits: Path, image: np.ndarray
):
    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedError("not today")

    monkeypatch.setattr("explorer.compilation.compile_model", refuse)
    with Session(digits, mode="lazy", hot_after=1) as session:
        session(image)
        session(image)
        assert events(session) == ["refused", "refused"]
        assert "not today" in session.why()
    with Session(digits) as strict, pytest.raises(UnsupportedError):
        strict(image)


def test_a_model_that_onnxruntime_cannot_load_is_interpreted():
    # It has no kernel that multiplies bfloat16.
    model = scaling_model("n", dtype=TensorProto.BFLOAT16)
    with Session(model, mode="lazy", hot_after=9) as session:
        x = np.array([1.5, -3], ml_dtypes.bfloat16)
        np.testing.assert_array_equal(session(x)["y"], np.array([3, -6], ml_dtypes.bfloat16))
        assert session.calls[0].answered_by == "interpreter"


def test_a_closed_session_says_so(digits: Path, image: np.ndarray):
    session = Session(digits)
    session.close()
    with pytest.raises(InputError, match="closed"):
        session(image)


def test_unknown_modes_and_fallbacks_are_refused(digits: Path):
    with pytest.raises(InputError, match="one of strict, lazy, asynchronous"):
        Session(digits, mode="eager")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="unknown fallback"):
        Session(digits, meanwhile="torch")


def test_signatures_name_every_difference():
    made_for = Signature.of({"x": np.ones((1, 3), np.float32), "k": np.array([7])}, ("k",))
    assert str(made_for) == "x: float32 1×3, k: int64 1, k = [7]"
    assert made_for.differences({"x": np.ones((2, 3)), "k": np.array([8])}) == (
        "x is float64, not float32",
        "axis 0 of x is 2, not 1",
        "k, which decides a shape, holds [8], not [7]",
    )


def test_the_record_says_where_each_program_came_from(
    digits: Path, image: np.ndarray, tmp_path: Path
):
    cache = ProgramCache(tmp_path)
    with Session(digits, cache=cache) as session:
        session(image)
        session(image)
        record = session.record()
    assert [call.event for call in record.calls] == ["compiled", "hit"]
    (program,) = record.programs
    assert (program.calls, program.tier) == (2, "source")
    assert program.reason == "it was not compiled before"
    assert "it was not compiled before" in str(record)


def test_a_compilation_knows_every_lookup_of_its_program(digits: Path, tmp_path: Path):
    cache = ProgramCache(tmp_path)
    compilation = ex.compile(digits)
    assert compilation.lookups == ()
    for _ in range(2):
        compilation.open(cache=cache).close()
    assert [found.tier for found in compilation.lookups] == ["source", "memory"]
    assert dict(compilation.lookups[0].key)["language"] == "c"
    assert compilation.trace().lookups == compilation.lookups


FOUND = """
found (float[4,6] x, int64[1] n) => (float[k] y, float[m,6] z) <int64[1] zero> {
  i = NonZero (x)
  t = Transpose <perm = [1, 0]> (i)
  y = GatherND (x, t)
  z = Slice (x, zero, n)
}
"""


def test_a_program_is_made_for_sizes_and_not_for_data(tmp_path):
    """Data that decide a size are the host's; a number of rows is compiled in, as ever."""
    model = sources.source_model(tmp_path, FOUND, zero=np.zeros(1, np.int64))
    with Session(model) as session:
        for seed, rows, event in ((0, 2, "compiled"), (1, 2, "hit"), (2, 3, "compiled")):
            x = np.random.default_rng(seed).normal(size=(4, 6)).astype(np.float32)
            x[np.abs(x) < 0.5] = 0
            outputs = session({"x": x, "n": np.array([rows], np.int64)})
            np.testing.assert_array_equal(outputs["y"], x[x != 0])
            np.testing.assert_array_equal(outputs["z"], x[:rows])
            assert session.calls[-1].event == event
        names = {n for program in session.programs for n, *_ in program.signature.contents}
        assert names == {"n"}


def test_a_size_that_comes_often_gets_a_program_of_its_own():
    """In the background; the one for all sizes answers until it is there, and other sizes."""
    with Session(scaling_model("n", 3), ranges={"n": [(1, 8)]}, specialize_after=3) as session:
        for count in (5, 2, 5, 5):
            x = np.full((count, 3), count, np.float32)
            np.testing.assert_array_equal(session(x)["y"], 2 * x)
        session.wait()
        for count in (2, 5, 5, 4):
            x = np.full((count, 3), count, np.float32)
            np.testing.assert_array_equal(session(x)["y"], 2 * x)
        assert events(session)[4:] == ["hit", "specialized", "hit", "hit"]
        assert [p.calls for p in session.programs if not p.is_for_ranges] == [2]
        assert session.why() == (
            "call 6 (specialized): x: float32 5×3 came 3 times: a program for these sizes alone "
            "was compiled in the background, and answers instead of the one for all sizes"
        )


def test_sizes_get_no_programs_of_their_own_where_that_is_turned_off():
    with Session(scaling_model("n", 3), ranges={"n": [(1, 8)]}, specialize_after=0) as session:
        for _ in range(4):
            session(np.ones((5, 3), np.float32))
        session.wait()
        assert len(session.programs) == 1
    with pytest.raises(InputError, match="specialize_after is -1"):
        Session(scaling_model("n", 3), specialize_after=-1)


def test_few_sizes_get_programs_of_their_own():
    with Session(scaling_model("n", 3), ranges={"n": [(1, 9)]}, specialize_after=1) as session:
        for count in range(1, 10):
            session(np.ones((count, 3), np.float32))
            session.wait()
        assert len(session.programs) == 1 + MAX_SPECIALIZED
