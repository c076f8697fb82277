"""A table of several models: cases, sources, steps, jobs that continue, and what the table says."""

from __future__ import annotations

import json
import pickle
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.cases.cases import Case, Golden, Source, read_cases
from explorer.cases.labels import read_examples
from explorer.cases.sources import read_source
from explorer.cases.steps import STEPS, run_steps
from explorer.errors import InputError
from verification.checks.examine import PASSED, WRONG, examine, judge
from verification.checks.jobs import Limits, find_models, make_jobs, read_record, run_jobs
from verification.checks.table import Table

X = np.array([[1, -2, 3]], np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model (y = relu(x)) with its inputs, golden outputs and labelled data."""
    save_model(tmp_path / "relu.onnx", "Relu")
    np.savez(tmp_path / "inputs.npz", x=X)
    np.savez(tmp_path / "outputs.npz", y=np.maximum(X, 0))
    (tmp_path / "rows.csv").write_text("2,1,2,3\n0,5,1,1\n1,9,1,1\n")
    return tmp_path


def save_model(path: Path, operator: str, domain: str = "") -> None:
    node = helper.make_node(operator, ["x"], ["y"], domain=domain)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in ("x", "y")]
    graph = helper.make_graph([node], "graph", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


CASES = """
[models.relu]
inputs.x = {file = "inputs.npz"}

[[models.relu.goldens]]
outputs.y = {file = "outputs.npz"}
note = "by hand"

[[models.relu.labels]]
kind = "rows"
file = "rows.csv"
steps = [["reshape", 1, 3]]
"""


@pytest.fixture
def cases(folder: Path) -> Path:
    path = folder / "cases.toml"
    path.write_text(CASES)
    return path


# -- cases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[models.a]\ninput.x = {file = 'f'}",
            r"models.a: unknown fields \['input'\].*did you mean 'inputs'",
        ),
        ("[models.a]\ninputs.x = {}", "models.a.inputs.x: give either a file or a value"),
        ("[models.a]\ninputs.x = {file='f', steps=[['resise', 3]]}", "did you mean 'resize'"),
        (
            "[[models.a.goldens]]\nnote = 'n'",
            r"models.a.goldens\[0\]: .*missing fields \['outputs'\]",
        ),
        ("[models.a]\nreference = 'golden'", "there are no goldens"),
        ("[[models.a.labels]]\nkind = 'movie'\nfile = 'f'", "'movie' is unknown"),
        ("[models.a", "not a readable TOML file"),
        ("models = 3", "not a readable TOML file of cases"),
        ("[models.a]\ninputs = 3", "models.a.inputs: a table expected"),
        ("[models.a]\ninputs.x = {file='f', steps=[[[], 3]]}", r"\[\] is unknown"),
    ],
)
def test_a_mistake_in_the_cases_is_named_with_its_place(tmp_path: Path, text: str, message: str):
    path = tmp_path / "cases.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_cases(path)
    assert str(path) in str(caught.value)


def test_a_case_has_another_digest_when_anything_in_it_changes(folder: Path, cases: Path):
    case = read_cases(cases)["relu"]
    cases.write_text(CASES.replace("by hand", "by me"))
    assert read_cases(cases)["relu"].digest != case.digest != Case().digest


@pytest.mark.parametrize("name", ["a.npy", "b.npz", "c.pb", "d.wav", "e.png"])
def test_data_that_is_damaged_is_one_message(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n and nothing that follows")
    with pytest.raises(InputError) as caught:
        read_source(Source(name), tmp_path)
    assert caught.value.file == str(tmp_path / name)


def test_a_record_whose_lines_are_damaged_keeps_the_others(tmp_path: Path):
    whole = {
        "task": "passes",
        "model": "a",
        "target": "cpu",
        "fingerprint": "f",
        "status": "passed",
    }
    lines = [json.dumps(whole).encode(), b"\xff", b"[]", b'{"task": []}', b"[" * 5000, b"3"]
    path = tmp_path / "record.jsonl"
    path.write_bytes(b"\n".join(lines))
    assert read_record(path) == {("passes", "a", "cpu"): whole}


# -- sources and steps -----------------------------------------------------------------------------


def test_arrays_are_read_from_every_kind_of_file(tmp_path: Path):
    from PIL import Image

    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "b.npz", one=X, two=2 * X)
    (tmp_path / "c.pb").write_bytes(numpy_helper.from_array(X).SerializeToString())
    with wave.open(str(tmp_path / "d.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 2, "NONE", ""))
        file.writeframes(np.array([16384, -32768], "<i2").tobytes())
    image = np.zeros((2, 3, 3), np.uint8)
    image[0, 1] = 255, 0, 7
    Image.fromarray(image).save(tmp_path / "e.png")
    read = lambda name, array="": read_source(Source(name, array), tmp_path)  # noqa: E731
    np.testing.assert_array_equal(read("a.npy"), X)
    np.testing.assert_array_equal(read("b.npz", "two"), 2 * X)
    np.testing.assert_array_equal(read("c.pb"), X)
    np.testing.assert_array_equal(read("d.wav"), np.array([0.5, -1], np.float32))
    np.testing.assert_array_equal(read("e.png"), image)
    with pytest.raises(InputError, match="no array 'three'"):
        read("b.npz", "three")


def test_a_value_stands_in_the_case_itself():
    read = read_source(Source(value=16000, type="int64"), Path())
    assert read.shape == () and read.dtype == np.int64 and int(read) == 16000


def test_pickled_dictionaries_of_arrays_are_read_and_nothing_else_runs(tmp_path: Path):
    np.savez(tmp_path / "good.npz", out=np.array({"note": X}, dtype=object), allow_pickle=True)
    np.testing.assert_array_equal(read_source(Source("good.npz", "out/note"), tmp_path), X)

    class Harmful:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    np.savez(tmp_path / "bad.npz", out=np.array({"note": Harmful()}, dtype=object))
    with pytest.raises(InputError, match="not allowed"):
        read_source(Source("bad.npz", "out/note"), tmp_path)
    assert not (tmp_path / "ran").exists()
    assert pickle.loads(pickle.dumps(X)).shape == X.shape


def test_files_outside_of_the_folder_are_refused(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(InputError, match="outside"):
        read_source(Source("../a.npy"), tmp_path / "inner")


def test_steps_follow_one_another():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    steps = [["center_crop", 2], ["reverse_channels"], ["divide", 2], ["transpose", 2, 0, 1]]
    expected = np.transpose(image[1:3, 1:3, ::-1].astype(np.float32) / 2, (2, 0, 1))
    np.testing.assert_array_equal(run_steps(image, [*steps, ["expand"]]), expected[None])
    assert run_steps(image, [["resize_shorter", 8]]).shape == (8, 8, 3)
    assert run_steps(image, [["letterbox", 2, 6, 114]])[0, 5].tolist() == [114, 114, 114]


def test_a_step_that_does_not_fit_is_named():
    with pytest.raises(InputError, match="step center_crop"):
        run_steps(np.zeros((2, 2, 3), np.uint8), [["center_crop", 5]])


def test_frames_overlap_and_are_joined_again():
    sound = np.arange(10, dtype=np.float32)
    windows = STEPS["frames"](sound, 4, 2, 1)
    np.testing.assert_array_equal(windows[0], [0, 0, 1, 2])
    np.testing.assert_array_equal(windows[1], [1, 2, 3, 4])
    joined = STEPS["join_frames"](windows, 1, 10)
    np.testing.assert_array_equal(joined, sound)


def test_halving_the_rate_keeps_what_is_slow_and_drops_what_is_fast():
    time = np.arange(4000)
    slow, fast = np.sin(2 * np.pi * 0.01 * time), np.sin(2 * np.pi * 0.4 * time)
    halved = STEPS["halve_rate"]((slow + fast).astype(np.float32))
    np.testing.assert_allclose(halved[200:1800], slow[400:3600:2], atol=2e-3)


# -- one model -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "computed", "expected", "passed"),
    [
        ("max_relative", [1, 2], [1, 2.0001], True),
        ("max_relative", [1, 2], [1, 2.001], False),
        ("equal", [1, 2], [1, 2], True),
        ("equal", [1, 2], [1, 2.0000001], False),
        ("argmax", [1, 2, 0], [1], True),
        ("argmax", [1, 2, 0], [5, 1, 0], False),
        ("cosine", [1, 0], [2, 0], True),
        ("cosine", [1, 0], [1, 1], False),
        ("top-5", [9, 8, 7, 6, 5, 0], [5, 6, 7, 8, 9, 0], True),
        ("top-5", [9, 8, 7, 6, 5, 0], [5, 6, 7, 8, 0, 9], False),
    ],
)
def test_every_metric_of_goldens_can_fail(metric: str, computed, expected, passed: bool):
    golden = Golden(outputs={}, metric=metric)
    arrays = np.array(computed, np.float64), np.array(expected, np.float64)
    assert judge(*arrays, golden)[0] is passed


def test_a_model_is_compared_and_reaches_its_golden(folder: Path, cases: Path):
    finding = examine(folder / "relu.onnx", "cpu", read_cases(cases)["relu"], folder)
    assert finding.status == PASSED and finding.reason == ""
    assert finding.inputs == "given" and finding.nodes == 1 and finding.operations == 1
    assert finding.worst == finding.binary == 0.0 and finding.passes > 5
    assert [g["passed"] for g in finding.goldens] == [True]


def test_a_golden_that_is_missed_makes_the_model_wrong(folder: Path, cases: Path):
    np.savez(folder / "outputs.npz", y=X)
    finding = examine(folder / "relu.onnx", "cpu", read_cases(cases)["relu"], folder)
    assert finding.status == WRONG
    assert "output y misses its golden" in finding.reason


def test_golden_tensors_stand_in_for_an_oracle(folder: Path):
    golden = Golden(outputs={"y": Source("outputs.npz")}, inputs={"x": Source("inputs.npz")})
    case = Case(goldens=(golden,), reference="golden")
    assert examine(folder / "relu.onnx", "cpu", case, folder).reference == "golden tensors"
    np.savez(folder / "outputs.npz", y=2 * np.maximum(X, 0))
    wrong = examine(folder / "relu.onnx", "cpu", case, folder)
    assert wrong.status == WRONG and "pass import" in wrong.reason


# -- many ------------------------------------------------------------------------------------------


def test_rows_are_a_label_and_numbers(folder: Path, cases: Path):
    (labels,) = read_cases(cases)["relu"].labels
    examples = list(read_examples(labels, folder))
    assert [label for _, label in examples] == [2, 0, 1]
    np.testing.assert_array_equal(examples[0][0], np.array([1, 2, 3], np.float32))


def test_a_run_continues_where_it_was_and_repeats_what_changed(folder: Path, cases: Path):
    record = folder / "record.jsonl"

    def run() -> list[dict]:
        jobs = make_jobs(find_models([str(folder)]), ["cpu"], read_cases(cases))
        return run_jobs(jobs, record, cases, folder, Limits(120))

    passes, labels = run()
    assert passes["status"] == PASSED
    assert labels["labels"][0]["ours"] == labels["labels"][0]["oracle"] == {"1": 2}
    assert labels["labels"][0]["examples"] == 3 and labels["labels"][0]["differ"] == 0
    kept = record.read_text()
    assert run() == [passes, labels] and record.read_text() == kept
    record.write_text(kept + '{"task": "passes", "mod')  # cut off while it was written
    assert len(read_record(record)) == 2
    record.write_text(kept)
    save_model(folder / "relu.onnx", "Abs")
    changed, _ = run()
    assert changed["status"] == WRONG and "golden" in changed["reason"]


def test_models_of_one_name_are_refused(folder: Path):
    (folder / "more").mkdir()
    save_model(folder / "more" / "relu.onnx", "Relu")
    with pytest.raises(InputError, match="two models are called relu"):
        find_models([str(folder)])


def test_the_command_prints_a_table_and_writes_a_page(
    folder: Path, cases: Path, explorer_command: Callable
):
    save_model(folder / "odd.onnx", "Wobble", "some.where")
    page = folder / "models.md"
    finished = explorer_command("check", folder, "--cases", cases, "--report", page)
    assert finished.status == 1
    assert "relu" in finished.output and "✓ 0" in finished.output
    assert "Wobble" in finished.output and "cpu: 1 passed, 1 refused" in finished.output
    text = page.read_text()
    assert "top-1 2 (2) of 3" in text and "Of 2 models, `cpu`: 1 passed, 1 refused." in text
    assert "| relu | cpu | `y` | max_relative | 0 | yes | by hand |" in text
    assert str(folder) not in text


def test_one_model_can_be_compared_with_golden_tensors(folder: Path, explorer_command: Callable):
    model, inputs = folder / "relu.onnx", folder / "inputs.npz"
    right = explorer_command("check", model, "--input", inputs, "--golden", folder / "outputs.npz")
    assert right.status == 0
    wrong = explorer_command("check", model, "--golden", folder / "outputs.npz", "--json")
    assert wrong.status == 1  # other inputs
    assert json.loads(wrong.output)["passed"] is False
    assert explorer_command("check", model, "--golden", "imported").status == 0


def test_options_of_one_model_are_refused_for_a_table(folder: Path, explorer_command: Callable):
    finished = explorer_command("check", folder, "--golden", folder / "outputs.npz")
    assert finished.status == 2 and "--golden is for one model" in finished.errors


def test_names_of_a_model_are_no_markup_on_the_page():
    finding = {
        "task": "passes",
        "model": "m",
        "target": "cpu",
        "status": WRONG,
        "reason": "tensor <script>`x`\n| y",
    }
    text = Table([finding], ["cpu"]).markdown()
    assert "<script>" not in text and "&lt;script>'x'?| y" in text


def test_a_transform_is_undone_by_its_inverse():
    sound = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    spectrum = STEPS["stft"](sound, 512, 256)
    assert spectrum.shape == (17, 257, 2)
    np.testing.assert_allclose(STEPS["istft"](spectrum, 512, 256), sound, atol=1e-5)


def test_states_are_carried_from_frame_to_frame(tmp_path: Path):
    """y = x + s and next = y: the output is the running sum of the frames."""
    nodes = [
        helper.make_node("Add", ["x", "s"], ["y"]),
        helper.make_node("Identity", ["y"], ["next"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xsy"]
    state = helper.make_tensor_value_info("next", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "graph", ports[:2], [ports[2], state])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, str(tmp_path / "sum.onnx"))
    frames = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.savez(tmp_path / "io.npz", x=frames, y=np.cumsum(frames, axis=0), wrong=frames)
    golden = Golden(
        outputs={"y": Source("io.npz", "y")},
        inputs={"x": Source("io.npz", "x")},
        states={"s": "next"},
    )
    good = examine(tmp_path / "sum.onnx", "cpu", Case(goldens=(golden,)), tmp_path)
    assert good.status == PASSED, good.reason
    missed = Golden(
        outputs={"y": Source("io.npz", "wrong")}, inputs=golden.inputs, states=golden.states
    )
    assert examine(tmp_path / "sum.onnx", "cpu", Case(goldens=(missed,)), tmp_path).status == WRONG


def test_a_table_of_what_is_kept_runs_nothing_and_names_what_was_not_run(
    folder: Path, cases: Path, explorer_command: Callable
):
    record = folder / "record.jsonl"
    options = ("--cases", cases, "--record", record)
    assert explorer_command("check", folder / "relu.onnx", *options).status == 1  # no such paths
    kept = record.read_text()
    finished = explorer_command("check", folder / "relu.onnx", *options, "--kept")
    save_model(folder / "more.onnx", "Abs")
    both = explorer_command("check", folder, *options, "--kept")
    assert "not run" not in finished.output
    assert "cpu: 1 refused, 1 not run" in both.output
    assert record.read_text() == kept
    refused = explorer_command("check", folder, "--kept")
    assert refused.status == 2 and "--record" in refused.errors
