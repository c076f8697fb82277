"""onnxruntime in a child process: what a model does to it is a sentence, and the next one runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

import explorer
from explorer.accuracy.oracle import reference
from explorer.errors import InputError, ModelError
from explorer.importers.building.code_points import SUFFIX, encoded
from explorer.importers.onnx import from_proto
from explorer.references.exchange import Exchange
from explorer.references.onnx_reference import OnnxReference
from explorer.references.onnx_runtime import (
    NAME,
    PROGRAM,
    open_model,
    open_proto,
    own_process,
    shared_process,
)
from explorer.references.process import Limits, ReferenceProcess

X = np.float32([1, -2, 3])
TRAP = """
<ir_version: 8, opset_import: ["" : 13]>
trap (int64[1] x) => (int64[1] y)
<int64[1] a = {-9223372036854775808}, int64[1] b = {-1}> { q = Div(a, b) y = Add(x, q) }
"""
"""INT64_MIN / -1 is no int64: the processor's division traps."""
ENDLESS = """
<ir_version: 8, opset_import: ["" : 13]>
endless (float[3] x) => (float[3] y)
<int64 count = {9223372036854775807}, bool go = {1}> {
  y = Loop(count, go, x) <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] b) {
    d = Identity(c)
    b = Neg(a)
  }>
}
"""
HUGE = """
<ir_version: 8, opset_import: ["" : 13]>
huge (int64[1] x) => (float[n] y) { y = ConstantOfShape(x) }
"""


def model_of(text: str) -> ModelProto:
    return parser.parse_model(text)


def negation() -> ModelProto:
    return model_of(
        '<ir_version: 8, opset_import: ["" : 13]> neg (float[3] x) => (float[3] y) { y = Neg(x) }'
    )


def run(proto: ModelProto, inputs: dict, process: ReferenceProcess | None = None) -> dict:
    with open_proto(proto, proto.graph.name, process=process) as opened:
        return opened.run(inputs)


@pytest.fixture
def process():
    process = own_process(Limits(seconds=1.0, memory_bytes=2 << 30))
    yield process
    process.close()


def test_a_model_that_traps_is_a_sentence_and_the_next_one_runs(process):
    with pytest.raises(ModelError, match=r"onnxruntime was ended by SIGFPE when it .* 'trap'"):
        run(model_of(TRAP), {"x": np.int64([1])}, process)
    assert run(negation(), {"x": X}, process)["y"].tolist() == [-1, 2, -3]


def test_a_model_that_does_not_end_is_a_sentence(process):
    assert run(negation(), {"x": X}, process)["y"].tolist() == [-1, 2, -3]
    with pytest.raises(ModelError, match="did not run the model 'endless' within 1 s"):
        run(model_of(ENDLESS), {"x": X}, process)
    assert run(negation(), {"x": X}, process)["y"].tolist() == [-1, 2, -3]


def test_a_model_that_takes_too_much_memory_is_a_sentence(process):
    with pytest.raises(ModelError, match="onnxruntime cannot run the model"):
        run(model_of(HUGE), {"x": np.int64([1 << 30])}, process)
    assert run(negation(), {"x": X}, process)["y"].tolist() == [-1, 2, -3]


def test_who_asks_an_opened_model_again_hears_what_ended_it(process):
    with open_proto(model_of(ENDLESS), "endless", process=process) as opened:
        for _ in range(2):  # the second answer takes no second
            with pytest.raises(ModelError, match="within 1 s"):
                opened.run({"x": X})
        assert not opened.is_alive


def test_the_error_names_the_file(tmp_path: Path):
    path = tmp_path / "trap.onnx"
    path.write_bytes(model_of(TRAP).SerializeToString())
    with pytest.raises(ModelError, match="SIGFPE") as caught:
        reference(explorer.load(path), {"x": np.int64([1])})
    assert caught.value.file == str(path)
    assert "--golden" in caught.value.hint


def test_seconds_are_counted_in_the_child():
    with open_proto(negation(), "neg") as opened:
        seconds = opened.time({"x": X}, 5, 0.0)
    assert len(seconds) == 5 and all(0 < s < 0.05 for s in seconds)


def test_models_of_this_process_share_a_child():
    process = shared_process()
    for _ in range(2):
        run(negation(), {"x": X})
        child = process._child._process
        assert child is not None
        run(negation(), {"x": X})
        assert process._child._process is child


def test_a_thread_does_not_wait_for_itself():
    with (
        open_proto(negation(), "neg"),
        pytest.raises(AssertionError, match="close the model that is open"),
    ):
        open_proto(negation(), "neg")


def test_threads_take_turns():
    found: list[float] = []

    def work(factor: float) -> None:
        for _ in range(5):
            found.append(float(run(negation(), {"x": X * factor})["y"][0]) + factor)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0.0] * 15


def test_a_child_that_nobody_asks_ends_and_the_next_request_starts_another():
    process = ReferenceProcess(NAME, PROGRAM, idle_seconds=1)
    run(negation(), {"x": X}, process)
    child = process._child._process
    assert child is not None and child.wait(timeout=20) == 0
    assert run(negation(), {"x": X}, process)["y"].tolist() == [-1, 2, -3]
    process.close()


def test_a_child_ends_with_its_parent():
    script = (
        "import os, sys; from explorer.references.onnx_runtime import shared_process as s;"
        "s().start(); print(s()._child._process.pid, flush=True); os._exit(0)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    child = int(found.stdout)
    ended = threading.Event()
    for _ in range(200):
        if not Path(f"/proc/{child}/cmdline").exists() or not is_running(child):
            break
        ended.wait(0.05)
    assert not is_running(child)


def is_running(process_id: int) -> bool:
    try:
        return b"onnx_runtime_process" in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return False


def test_the_working_folder_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file of somebody else's beside the model is not imported."""
    (tmp_path / "onnxruntime.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    process = own_process()
    assert run(negation(), {"x": X}, process)["y"].tolist() == [-1, 2, -3]
    process.close()


@pytest.mark.parametrize(
    "array",
    [
        np.float32(2.5) * np.ones((2, 3), np.float32),
        np.array(True),
        np.zeros((0, 4), np.int64),
        np.arange(6, dtype=">i2").reshape(2, 3).T,
        np.ones(3, ml_dtypes.bfloat16),
        np.array([["a", "Zürich"]], dtype=object),
    ],
    ids=["float32", "scalar", "empty", "big endian, transposed", "bfloat16", "strings"],
)
def test_arrays_come_back_as_they_were_put(array: np.ndarray):
    exchange = Exchange.create()
    values = {"a": array, "b": [array, None, {"c": 0.5}], "d": b"bytes"}
    found = exchange.take(exchange.put(values))
    for taken in (found["a"], found["b"][0]):
        assert taken.shape == array.shape and np.array_equal(taken, array)
        assert taken.dtype == array.dtype.newbyteorder("=")
    assert found["b"][1:] == [None, {"c": 0.5}] and found["d"] == b"bytes"
    exchange.close()


def test_an_empty_array_after_others_comes_back():
    """Its place is aligned, which may be after the end of the file."""
    exchange = Exchange.create()
    found = exchange.take(exchange.put([np.ones(1), np.zeros((2, 0))]))
    assert found[1].shape == (2, 0)
    exchange.close()


@pytest.mark.parametrize(
    "described",
    [
        {"type": "float32", "shape": [1 << 40], "begin": 0},
        {"type": "float32", "shape": [-1], "begin": 0},
        {"type": "float32", "shape": [1], "begin": -4},
        {"type": "object", "shape": [1], "begin": 0},
        {"bytes": 1 << 40, "begin": 0},
    ],
)
def test_what_does_not_lie_in_the_exchange_is_refused(described: dict):
    """The other side has read a stranger's model: its answers are checked."""
    exchange = Exchange.create()
    exchange.put(np.zeros(16))
    with pytest.raises(ValueError, match=r"outside|no shape|no type"):
        exchange.take(described)
    exchange.close()


def test_a_forked_process_has_a_child_of_its_own():
    mine = shared_process()
    run(negation(), {"x": X})
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"other" if shared_process() is not mine else b"same")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 10) == b"other"
    assert run(negation(), {"x": X})["y"].tolist() == [-1, 2, -3]
    for descriptor in (read, write):
        os.close(descriptor)


def test_a_lazy_session_survives_a_model_that_kills_the_reference():
    """As int64 wraps around: INT64_MIN / -1 is INT64_MIN, and 3 more."""
    with explorer.Session(from_proto(model_of(TRAP)), mode="lazy") as session:
        found = session.run({"x": np.int64([3])})
        assert found["y"].tolist() == [np.iinfo(np.int64).min + 3]
        assert [call.answered_by for call in session.calls] == ["interpreter"]


def test_a_session_closes_its_child():
    with explorer.Session(from_proto(negation()), mode="lazy") as session:
        session.run({"x": X})
        assert [call.answered_by for call in session.calls] == ["onnxruntime"]
        child = session._fallback._opened._process._child._process  # type: ignore[union-attr]
        assert child.poll() is None
    assert child.poll() is not None
    with pytest.raises(InputError, match="closed"):
        session.run({"x": X})


def test_no_other_part_of_the_project_opens_a_model_in_onnxruntime():
    package = Path(explorer.__file__).parent
    found = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "InferenceSession(" in path.read_text(encoding="utf-8")
    ]
    assert found == ["references/onnx_runtime_process.py"]


def test_symbolic_sizes_and_a_newer_format(tmp_path: Path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "neg", [x], [y])
    proto = helper.make_model(graph, ir_version=99)
    with open_model(from_proto(proto), sizes={"n": 3}) as opened:
        assert opened.inputs == ("x",) and opened.outputs == {"y": "tensor(float)"}
        assert opened.run({"x": X})["y"].tolist() == [-1, 2, -3]


def test_texts_of_an_output_are_encoded_as_the_program_has_them():
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=[0, 1],
        values_strings=["no", "yes"],
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "labels", [helper.make_tensor_value_info("x", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    model = from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    x = np.array([1, 0], np.int64)
    ((name, found),) = OnnxReference().tensors(model, {"x": x}, ["y"])
    assert name == "y" + SUFFIX
    np.testing.assert_array_equal(found, encoded(np.array(["yes", "no"], dtype=object)))
