"""What a run writes into its arena: the planned peak, and no byte of another buffer."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.cli import main
from explorer.compilation import Compilation
from explorer.compilation.arena_check import check_arena, live_ranges
from explorer.errors import InputError, UnsupportedError
from explorer.runtime.native.watching import WatchedProgram, runs_of


@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp", "digits_transformer"])
def test_the_highest_byte_written_is_the_planned_peak(name: str, sample_models: Path):
    c = explorer.compile(sample_models / f"{name}.onnx")
    (record,) = check_arena(c)
    assert record.passed and not record.strays
    assert record.written_bytes == record.planned_bytes == c.memory.peak_bytes
    assert record.launches == len(c.program.launches)


def test_a_plan_in_which_nothing_shares_is_kept_too(sample_models: Path):
    c = explorer.compile(sample_models / "digits_cnn.onnx", planner="no-sharing")
    (record,) = check_arena(c)
    assert record.passed and record.planned_bytes == c.memory.peak_bytes


def watched(c: Compilation, live, planned: int) -> WatchedProgram:
    return WatchedProgram(c.built.program, c.built.weights, live, planned, "main_cpu")


def test_a_write_where_no_buffer_lives_is_found_with_its_launch(sample_models: Path):
    """The plan is changed after the program was made: a buffer is missing from it."""
    c = explorer.compile(sample_models / "digits_mlp.onnx")
    lost = c.memory.placements[-1]
    plan = replace(c.memory, placements=c.memory.placements[:-1])
    with watched(c, live_ranges(plan), plan.peak_bytes) as program:
        program.run({"image": np.ones((1, 1, 8, 8), np.float32)})
        (record,) = program.records
    assert not record.passed and record.strays
    assert {s.operation for s in record.strays} <= set(lost.buffer.values)
    end = lost.offset_bytes + lost.buffer.size_bytes
    assert all(lost.offset_bytes <= s.first < s.end <= end for s in record.strays)


def test_bytes_that_are_read_after_their_buffer_died_change_the_outputs(sample_models: Path):
    """The buffer that the second launch reads is said to be dead by then."""
    c = explorer.compile(sample_models / "digits_mlp.onnx", planner="no-sharing")
    live = [list(ranges) for ranges in live_ranges(c.memory)]
    later = next(p for p in c.memory.placements if p.buffer.first == 0 and p.buffer.last == 2)
    place = (later.offset_bytes, later.offset_bytes + later.buffer.size_bytes)
    live[1] = [ranges for ranges in live[1] if ranges != place]
    with watched(c, live, c.memory.peak_bytes) as program:
        program.run({"image": np.ones((1, 1, 8, 8), np.float32)})
        (record,) = program.records
    assert record.depends_on_pattern and not record.passed


def test_neighbouring_places_are_one_run():
    assert runs_of(np.array([], int)) == []
    assert runs_of(np.array([3, 4, 5, 9])) == [(3, 6), (9, 10)]


def test_targets_without_c_are_refused(sample_models: Path):
    c = explorer.compile(sample_models / "digits_mlp.onnx", "opencl")
    with pytest.raises(InputError, match="is not in this process"):
        check_arena(c)


def test_check_reports_the_arena(sample_models: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(sample_models / "digits_mlp.onnx"), "--arena", "--json"]) == 0
    (arena,) = json.loads(capsys.readouterr().out)["arena"]
    assert arena["passed"] and arena["written_bytes"] == arena["planned_bytes"]


def nonzero(folder: Path) -> Path:
    """As many outputs as the data say, and a sum of them on the device."""
    nodes = [
        helper.make_node("Abs", ["x"], ["y"]),
        helper.make_node("NonZero", ["y"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("z", TensorProto.INT64, [1, None])],
    )
    path = folder / "nonzero.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_no_buffer_of_an_arena_has_a_size_that_data_decide(tmp_path: Path):
    """What has such a size belongs to the host, or is refused without one."""
    path = nonzero(tmp_path)
    c = explorer.compile(path)
    for plan in c.plans.values():
        assert all(p.buffer.size_bytes == 16 for p in plan.placements)
    assert all(record.passed for record in check_arena(c, {"x": np.array([1, 0, 2, 0], "f4")}))
    found = c.run({"x": np.array([1, 0, 2, 0], np.float32)})["z"]
    np.testing.assert_array_equal(found, [[0, 2]])
    with pytest.raises(UnsupportedError):
        explorer.compile(path, host=False)


def data_decide(folder: Path, kind: str) -> Path:
    """An operator with as many results as the data say, after one on the device."""
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, [1, 1, 4])]
    constants = []
    nodes = [helper.make_node("Abs", ["x"], ["y"])]
    output = value("z", TensorProto.INT64, [None, 3])
    if kind == "Compress":
        nodes += [
            helper.make_node("Greater", ["y", "one"], ["m"]),
            helper.make_node("Reshape", ["m", "flat"], ["f"]),
            helper.make_node("Compress", ["y", "f"], ["z"]),
        ]
        constants = [("one", np.array(1.0, np.float32)), ("flat", np.array([4]))]
        output = value("z", TensorProto.FLOAT, [None])
    elif kind == "Unique":
        nodes.append(helper.make_node("Unique", ["y"], ["z"]))
        output = value("z", TensorProto.FLOAT, [None])
    else:
        inputs.append(value("boxes", TensorProto.FLOAT, [1, 4, 4]))
        nodes.append(helper.make_node("NonMaxSuppression", ["boxes", "y", "most"], ["z"]))
        constants = [("most", np.array([4]))]
    graph = helper.make_graph(
        nodes, "g", inputs, [output], [numpy_helper.from_array(a, n) for n, a in constants]
    )
    path = folder / "sized.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.mark.parametrize("kind", ["NonMaxSuppression", "Compress", "Unique"])
def test_what_the_data_size_is_the_hosts_or_refused(kind: str, tmp_path: Path):
    path = data_decide(tmp_path, kind)
    c = explorer.compile(path)
    sizes = [p.buffer.size_bytes for plan in c.plans.values() for p in plan.placements]
    assert all(size <= 64 for size in sizes)  # of four floats, or four boxes
    for size in (0, 3):
        x = np.zeros((1, 1, 4), np.float32)
        x[..., :size] = [2, 3, 4][:size]
        boxes = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
        given = {"x": x, "boxes": boxes} if kind == "NonMaxSuppression" else {"x": x}
        found = c.run(given)["z"]
        assert found.ndim == (2 if kind == "NonMaxSuppression" else 1)
    assert all(record.passed for record in check_arena(c))
    with pytest.raises(UnsupportedError):
        explorer.compile(path, host=False)
