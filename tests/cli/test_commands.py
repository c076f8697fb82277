"""The subcommands on sample models: statuses, JSON, files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.cli import main
from explorer.cli.check import summarize
from explorer.passes import TOP_PIPELINE
from explorer.results import AccuracyReport, PassAccuracy, TensorError
from explorer.results.encoding import to_json


@pytest.fixture(scope="module")
def cnn(sample_models: Path) -> Path:
    return sample_models / "digits_cnn.onnx"


@pytest.fixture(scope="module")
def mlp(sample_models: Path) -> Path:
    """The smallest of them, where any model will do."""
    return sample_models / "digits_mlp.onnx"


@pytest.fixture(scope="module")
def cnn_trace(cnn: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "cnn.nnx"
    assert main(["compile", str(cnn), "--save", str(path)]) == 0
    return path


def test_module_and_function_are_one_command(explorer_process, mlp):
    finished = explorer_process("check", mlp, "--json")

    assert finished.status == 0, finished.errors
    assert json.loads(finished.output)["passed"] is True


def test_a_command_looks_for_garbage_rarely():
    """It makes 80,000 objects: 137 times with Python's own thresholds, 10 with those it sets."""
    program = """
import gc
from explorer.__main__ import main
main()
print(gc.get_stats()[0]["collections"])
"""
    command = [sys.executable, "-c", program, "targets"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(finished.stdout.splitlines()[-1]) < 30


def test_compile_lists_passes_with_what_they_did(explorer_command, cnn):
    finished = explorer_command("compile", cnn, "--json")

    assert finished.status == 0
    summary = json.loads(finished.output)
    assert (summary["model"], summary["target"]) == ("digits_cnn", "cpu")
    assert summary["passes"][0]["name"] == "import"
    fused = next(p for p in summary["passes"] if p["name"] == "fuse-activation")
    assert set(fused) == {
        "name",
        "seconds",
        "changed",
        "operations_before",
        "operations_after",
        "macs",
        "peak_bytes",
        "rules",
    }
    assert fused["changed"] is True
    assert fused["rules"] == {"fuse-unary": 4}
    assert fused["operations_before"] - fused["operations_after"] == 4
    assert fused["macs"] == summary["passes"][0]["macs"] > 0
    assert summary["memory"]["peak_bytes"] >= summary["memory"]["bound_bytes"] > 0


def test_a_disabled_pass_does_not_run(explorer_command, cnn):
    finished = explorer_command("compile", cnn, "--disable", "fuse-activation,fuse-bias", "--json")

    names = [p["name"] for p in json.loads(finished.output)["passes"]]
    assert "fold-batch-norm" in names
    assert not {"fuse-activation", "fuse-bias"} & set(names)


def test_decisions_go_by_their_addresses(explorer_command, cnn):
    decided = ("--decide", "fuse-bias=false", "--decide", "plan-memory/planner=no-sharing")
    finished = explorer_command("compile", cnn, *decided, "--json")
    plain = json.loads(explorer_command("compile", cnn, "--json").output)
    found = json.loads(finished.output)
    assert "fuse-bias" not in [p["name"] for p in found["passes"]]
    assert found["memory"]["peak_bytes"] > plain["memory"]["peak_bytes"]
    refused = explorer_command("compile", cnn, "--decide", "fuse-bais=false")
    assert refused.status == 2 and "did you mean 'fuse-bias'?" in refused.errors


def test_every_command_that_compiles_takes_decisions(explorer_command, mlp, tmp_path):
    decided = ("--decide", "fuse-activation=false")
    shown = explorer_command("show", mlp, "--what", "passes", *decided)
    assert shown.status == 0 and "fuse-activation" not in shown.output
    checked = json.loads(explorer_command("check", mlp, *decided, "--json").output)
    assert "fuse-activation" not in [p["name"] for p in checked["passes"]]
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, image=np.ones((1, 1, 8, 8), np.float32))
    refused = ("--decide", "fuse-activatoin=false")
    for command in (
        ("run", mlp, "--input", inputs, "--output", outputs),
        ("bench", mlp),
        ("tune", mlp),
        ("cache", "explain", mlp),
        ("check", mlp),
        ("show", mlp),
    ):
        finished = explorer_command(*command, *refused)
        assert finished.status == 2, command
        assert "did you mean 'fuse-activation'?" in finished.errors


def test_a_run_with_decisions_is_a_program_of_its_own(explorer_command, mlp, tmp_path):
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, image=np.ones((1, 1, 8, 8), np.float32))
    run = ("run", mlp, "--input", inputs, "--output", outputs)

    def is_kept(*decided: str) -> bool:
        return json.loads(explorer_command("cache", "explain", mlp, *decided, "--json").output)[
            "kept"
        ]

    decided = ("--decide", "fuse-activation=false")
    assert explorer_command(*run).status == 0
    assert is_kept() and not is_kept(*decided)
    assert explorer_command(*run, *decided).status == 0
    assert is_kept(*decided)


def test_a_trace_takes_no_decisions(explorer_command, cnn_trace):
    finished = explorer_command("show", cnn_trace, "--decide", "fuse-bias=false")
    assert finished.status == 2 and "is shown as it was decided" in finished.errors


def test_fuel_limits_rewrites_of_optional_passes(explorer_command, cnn):
    def rewrites(*arguments: str) -> int:
        finished = explorer_command("compile", cnn, "--json", *arguments)
        passes = json.loads(finished.output)["passes"]
        optional = [p.name for p in TOP_PIPELINE if not p.is_required]
        return sum(sum(p["rules"].values()) for p in passes if p["name"] in optional)

    assert rewrites("--fuel", "0") == 0
    assert rewrites("--fuel", "3") == 3
    assert rewrites() > 3


def test_a_saved_trace_shows_what_the_model_shows(explorer_command, mlp, tmp_path):
    trace = tmp_path / "mlp.nnx"
    assert explorer_command("compile", mlp, "--save", trace).status == 0
    assert list(tmp_path.iterdir()) == [trace]

    for what in ("ir", "graph", "memory", "kernels"):
        arguments = ("--pass", "fuse-activation", "--what", what)
        live = explorer_command("show", mlp, *arguments)
        saved = explorer_command("show", trace, *arguments)
        assert live.status == saved.status == 0
        assert live.output == saved.output
        assert live.output.strip()


def test_show_diff_has_the_changed_lines(explorer_command, cnn_trace):
    finished = explorer_command("show", cnn_trace, "--pass", "fuse-activation", "--what", "diff")

    removed = [line for line in finished.output.split("\n") if line.startswith("-  ")]
    added = [line for line in finished.output.split("\n") if line.startswith("+  ")]
    assert sum('kind = "relu"' in line for line in removed) == 4
    assert sum('activation = "relu"' in line for line in added) == 4


@pytest.mark.parametrize(
    ("what", "name", "begin"),
    [
        ("graph", "g.svg", "<svg "),
        ("graph", "g.dot", "digraph "),
        ("graph", "g.html", "<!doctype html>"),
        ("memory", "m.html", "<!doctype html>"),
        ("diff", "d.html", "<!doctype html>"),
        ("kernels", "k.c", "// "),
        ("ir", "ir.mlir", "builtin.module {"),
        ("memory", "m.json", "{"),
    ],
)
def test_the_suffix_of_a_file_chooses_its_form(
    explorer_command, cnn_trace, tmp_path, what, name, begin
):
    path = tmp_path / name

    finished = explorer_command(
        "show", cnn_trace, "--pass", "fuse-activation", "--what", what, "-o", path
    )

    assert finished.status == 0, finished.errors
    assert path.read_text(encoding="utf-8").startswith(begin)


def test_a_view_of_text_alone_has_no_picture(explorer_command, mlp, tmp_path):
    finished = explorer_command("show", mlp, "--what", "kernels", "-o", tmp_path / "k.svg")
    assert finished.status == 2
    assert "kernels has no .svg form" in finished.errors and ".csv" in finished.errors
    assert not (tmp_path / "k.svg").exists()


@pytest.mark.parametrize("view", ["memory", "timeline", "passes", "graph"])
def test_pictures_for_a_paper(explorer_command, mlp, tmp_path, view):
    for suffix, begin in ((".svg", b"<svg "), (".png", b"\x89PNG")):
        path = tmp_path / f"{view}{suffix}"
        finished = explorer_command("show", mlp, "--view", view, "-o", path)
        assert finished.status == 0, finished.errors
        assert path.read_bytes().startswith(begin)
    drawn = (tmp_path / f"{view}.svg").read_text()
    assert "<script" not in drawn and "http" not in drawn.replace("http://www.w3.org", "")
    assert view == "graph" or "prefers-color-scheme" not in drawn


def test_tables_are_csv(explorer_command, mlp, tmp_path):
    finished = explorer_command("show", mlp, "--view", "memory", "-o", tmp_path / "m.csv")
    assert finished.status == 0, finished.errors
    (head, *rows) = csv.DictReader((tmp_path / "m.csv").open())
    assert int(head["size"]) % 64 == 0 and rows


def test_check_reports_every_pass_and_output(explorer_command, cnn):
    finished = explorer_command("check", cnn, "--json")

    report = json.loads(finished.output)
    assert finished.status == 0
    compared = {
        "reference",
        "reference_note",
        "rests_on",
        "ties",
        "problem",
        "hard",
        "float64",
        "dimensions",
    }
    assert set(report) == {
        *("model", "format", "target", "passed", "passes", "outputs", "as_exact", "exact"),
        *compared,
    }
    assert (report["format"], report["as_exact"], report["exact"]) == ("onnx", [], [])
    assert report["float64"]
    assert {each["state"] for each in report["hard"]} == {"right"}
    assert report["reference"].startswith("onnxruntime")
    assert (report["rests_on"], report["ties"], report["problem"]) == ("end_to_end", [], "")
    assert report["passes"][0]["name"] == "import"
    assert report["passes"][-1]["name"] == "binary on cpu"
    for accuracy in report["passes"]:
        assert set(accuracy["worst"]) == {"tensor", "max_relative", "cosine", "sqnr_db"}
        assert accuracy["worst"]["max_relative"] <= 1e-4
    (output,) = report["outputs"]
    measures = {"max_absolute", "max_relative", "cosine"}
    assert set(output) == {"name", *measures, "end_to_end", "isolated"}
    assert set(output["end_to_end"]) == set(output["isolated"]) == measures
    assert output["end_to_end"]["max_relative"] == output["max_relative"]
    assert output["name"] == "logits"
    assert output["cosine"] > 1 - 1e-9


def test_check_that_is_not_passed_has_status_1_and_names_the_fault(explorer_command, mlp, tmp_path):
    # No float32 program is equal to other numbers to the last bit: tolerance 0 cannot be met.
    golden = tmp_path / "golden.npz"
    np.savez(golden, logits=np.full((1, 10), 1 / 3, np.float32))
    finished = explorer_command("check", mlp, "--tolerance", "0", "--golden", golden, "--json")

    assert finished.status == 1
    assert json.loads(finished.output)["passed"] is False
    assert "first fault: pass import" in finished.errors


def test_infinities_and_nan_are_strings_in_json(mlp):
    def error(tensor: str, relative: float) -> TensorError:
        return TensorError(
            tensor=tensor,
            operation="op",
            max_absolute=relative,
            max_relative=relative,
            cosine=float("nan"),
            sqnr_db=float("inf"),
        )

    tensors = (error("a", 0.5), error("b", float("nan")), error("c", float("inf")))
    accuracy = PassAccuracy("import", "accumulated", tensors)
    report = AccuracyReport(
        target="cpu",
        oracle="oracle",
        tolerance=1e-4,
        passes=(accuracy,),
        isolated=(),
        outputs=tensors[2:],
        passed=False,
    )

    summary = to_json(summarize(report, explorer.load(mlp)))
    json.dumps(summary, allow_nan=False)
    assert summary["passes"][0]["worst"] == {
        "tensor": "b",
        "max_relative": "nan",
        "cosine": "nan",
        "sqnr_db": "inf",
    }
    assert summary["outputs"][0]["max_absolute"] == "inf"


def test_run_writes_what_onnxruntime_computes(explorer_command, cnn, sample_models, tmp_path):
    images = np.load(sample_models / "digits_test.npz")["images"][:1]
    np.savez(tmp_path / "in.npz", image=images)

    finished = explorer_command(
        "run", cnn, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz"
    )

    assert finished.status == 0, finished.errors
    session = onnxruntime.InferenceSession(str(cnn))
    expected = np.asarray(session.run(["logits"], {"image": images})[0])
    with np.load(tmp_path / "out.npz", allow_pickle=False) as outputs:
        assert outputs.files == ["logits"]
        # Another order of summation: a few units in the last place of the largest logit.
        np.testing.assert_allclose(outputs["logits"], expected, atol=1e-5 * np.abs(expected).max())


def test_what_has_no_compiled_form_runs_on_the_host_is_refused_or_interpreted(
    explorer_command, tmp_path
):
    """A loop that data end after some rows."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 16]>
        agraph (int64 count, float[2] x) => (float[2] last, float[n, 2] rows) {
            last, rows = Loop (count, , x) <body = body
                (int64 i, bool go, float[2] s) => (bool on, float[2] next, float[2] row) {
                    on = Identity (go)
                    next = Add (s, s)
                    row = Identity (s)
                }>
        }"""
    )
    model = tmp_path / "loop.onnx"
    onnx.save(proto, model)
    inputs = {"count": np.array(3), "x": np.array([1, 2], np.float32)}
    np.savez(tmp_path / "in.npz", **inputs)
    files = ("--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")

    for manner in ((), ("--interpret",)):
        finished = explorer_command("run", model, *files, *manner)
        assert finished.status == 0, finished.errors
        with np.load(tmp_path / "out.npz", allow_pickle=False) as outputs:
            np.testing.assert_array_equal(outputs["last"], [8, 16])
            np.testing.assert_array_equal(outputs["rows"], [[1, 2], [2, 4], [4, 8]])
        (tmp_path / "out.npz").unlink()

    refused = explorer_command("run", model, *files, "--no-host")
    assert refused.status == 2
    assert "is control flow that depends on data" in refused.errors
    assert "without --no-host" in refused.errors
    assert "explorer run MODEL --interpret" in refused.errors
    assert explorer_command("show", model, "--no-host").status == 2

    compiled = explorer_command("compile", model)
    words = "main_host runs on the host (loop1: is control flow that depends on data)"
    assert words in compiled.output
    (part,) = json.loads(explorer_command("compile", model, "--json").output)["parts"]
    assert (part["function"], part["device"]) == ("main_host", "host")
    checked = explorer_command("check", model, "--input", tmp_path / "in.npz")
    assert checked.status == 0, checked.errors


def test_run_takes_the_batch_from_the_arrays(explorer_command, sample_models, tmp_path):
    images = np.load(sample_models / "digits_test.npz")["images"][:3]
    np.savez(tmp_path / "in.npz", image=images)

    finished = explorer_command(
        "run",
        sample_models / "digits_mlp.onnx",
        "--input",
        tmp_path / "in.npz",
        "--output",
        tmp_path / "out.npz",
    )

    assert finished.status == 0, finished.errors
    with np.load(tmp_path / "out.npz", allow_pickle=False) as outputs:
        assert outputs["logits"].shape == (3, 10)


def test_dim_gives_a_symbolic_dimension_its_size(explorer_command, mlp):
    macs = [
        json.loads(explorer_command("compile", mlp, "--dim", f"batch={n}", "--json").output)
        for n in (1, 4)
    ]

    assert macs[1]["passes"][-1]["macs"] == 4 * macs[0]["passes"][-1]["macs"] > 0


def test_constant_weights_are_replaced_by_random_ones(explorer_command, write_model):
    def constant_of(name: str, shape: list[int], output: str, value: float):
        fill = helper.make_tensor("value", TensorProto.FLOAT, [1], [value])
        size = numpy_helper.from_array(np.array(shape), name)
        return size, helper.make_node("ConstantOfShape", [name], [output], value=fill)

    size, fill = constant_of("size", [4, 3, 3, 3], "w", 0.5)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")

    finished = explorer_command("check", write_model([fill, conv], [1, 3, 8, 8], [size]))

    assert finished.status == 0, finished.errors
    assert finished.errors == "note: weights are constant; seeded random ones are used\n"

    # Here the constant is an operand like any other, and stays what it is.
    size, fill = constant_of("size", [1, 3, 8, 8], "c", 0.5)
    add = helper.make_node("Add", ["x", "c"], ["y"], name="add")

    finished = explorer_command("check", write_model([fill, add], [1, 3, 8, 8], [size]))

    assert finished.status == 0, finished.errors
    assert finished.errors == ""


def test_devices_lists_the_processor(explorer_command):
    finished = explorer_command("devices", "--json")

    devices = json.loads(finished.output)["devices"]
    assert devices[0]["kind"] == "cpu"
    assert devices[0]["usable"] is True
    assert [d["refusal"] == "" for d in devices] == [d["usable"] for d in devices]
    core = json.loads(finished.output)["core"]
    assert core["family"]["sources"]
    assert core["core"]["vector_registers"] in (16, 32)


def test_serve_refuses_a_model_that_is_not_there(explorer_command, tmp_path):
    finished = explorer_command("serve", tmp_path / "none.onnx", "--no-browser")

    assert finished.status == 2
    assert "none.onnx" in finished.errors


def test_names_from_a_model_cannot_command_the_terminal(explorer_command, write_model):
    evil = "<script>alert(1)</script> */ \x1b[2J\u202e"
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a*/b"], name=evil),
        helper.make_node("Relu", ["a*/b"], [evil], name="second\n*/ int main() {}"),
    ]
    path = write_model(nodes, [1, 4], output=evil)

    for arguments in (
        ("compile", path),
        ("check", path),
        ("show", path, "--pass", "import", "--what", "ir"),
        ("show", path, "--what", "kernels"),
        ("show", path, "--what", "graph"),
    ):
        finished = explorer_command(*arguments)
        assert finished.status == 0, finished.errors
        shown = finished.output + finished.errors
        assert "\x1b" not in shown and "\u202e" not in shown

    html = path.with_name("graph.html")
    assert explorer_command("show", path, "--what", "graph", "-o", html).status == 0
    assert "<script>alert" not in html.read_text(encoding="utf-8")


def test_help_loads_neither_the_compiler_nor_panel():
    program = (
        "import sys, explorer.cli\n"
        "explorer.cli.make_parser().format_help()\n"
        "print(sorted({'numpy', 'onnx', 'onnxruntime', 'panel', 'xdsl'} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.stdout == "[]\n", finished.stderr


def test_show_lists_the_operators_of_a_model(explorer_command, cnn):
    finished = explorer_command("show", cnn, "--view", "operators")

    assert finished.status == 0
    assert finished.output.splitlines()[0] == "digits_cnn: 17 nodes, 32 k parameters"
    assert any("Gemm" in line and "2 matmul" in line for line in finished.output.splitlines())


def test_show_lists_the_operators_of_a_model_that_cannot_be_compiled(explorer_command, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Wobble", ["x"], ["y"], "wobble")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    path = tmp_path / "refused.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    output = tmp_path / "operators.json"
    finished = explorer_command("show", path, "--what", "operators", "-o", output)

    assert finished.status == 0
    found = json.loads(output.read_text())
    assert [record["operator"] for record in found["operators"]] == ["Wobble"]
    assert found["problems"][0]["name"] == "wobble"
