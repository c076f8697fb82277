"""Commands on networks for NPUs: check counts, compile emits, simulate and disassemble read."""

import json

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.quantization.table import write_thresholds


@pytest.fixture(scope="module")
def quantized(sample_models, tmp_path_factory):
    """A small network, its table as a file, and a digit."""
    folder = tmp_path_factory.mktemp("quantized")
    model = sample_models / "digits_mlp.onnx"
    images = np.load(sample_models / "digits_test.npz")["images"]
    table = explorer.calibrate(model, {"image": images[:20]}, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    write_thresholds(folder / "table.json", table)
    np.savez(folder / "x.npz", image=images[200:201])
    return model, folder / "table.json", folder / "x.npz"


def test_check_counts_what_the_machine_did(explorer_command, quantized):
    model, table, x = quantized
    options = ("--target", "odd-12x20", "--quantize", table, "--input", x)
    finished = explorer_command("check", model, *options, "--json")
    assert finished.status == 0, finished.errors
    found = json.loads(finished.output)
    assert found["passed"] and found["bit_exact"]
    assert found["cycles"] == found["predicted_cycles"] > 0
    assert 0 < found["bound_cycles"] <= found["cycles"]
    assert 0 < found["bound_traffic_bytes"] <= found["traffic_bytes"] == found["bytes"]
    grouped = [name for group in found["groups"] for name in group]
    assert len(grouped) == len(found["search"]) > len(found["groups"]) > 0
    assert set(found["search"][0]) == {"layer", "candidates", "seconds", "cycles", "bound", "gap"}
    assert found["bytes"] > found["macs"] > 0 and 0 < found["utilization"] < 1
    beside = found["host_operations"]  # the picture becomes a row before it is quantized
    assert [one["operation"].strip("0123456789") for one in beside] == [
        "reshape",
        "quantize",
        "dequantize",
    ]
    assert {(one["device"], one["reason"]) for one in beside} == {
        ("cpu", "it reads or makes floats")
    }


def test_a_network_of_which_nothing_runs_on_the_machine_is_checked(explorer_command, tmp_path):
    model, data, table = (tmp_path / name for name in ("m.onnx", "x.npz", "table.json"))
    text = """<ir_version: 9, opset_import: ["" : 17]>
    m (float[1,3,2,2] x) => (float[1,3,2,2] y) { y = Relu (x) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    np.savez(data, x=np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 2, 2))
    options = ("--data", data, "--arithmetic", "integer", "-o", table, "--corrections", "none")
    assert explorer_command("calibrate", model, *options).status == 0
    options = ("--target", "tiny-8", "--quantize", table)
    compiled = explorer_command("compile", model, *options)
    assert "nothing of this model runs on tiny-8; 2 operations elsewhere:" in compiled.output
    assert "it reads or makes floats" in compiled.output
    checked = explorer_command("check", model, *options, "--input", data)
    assert checked.status == 0 and "nothing of this model runs on tiny-8" in checked.output
    checked = explorer_command("check", model, *options, "--input", data, "--json")
    found = json.loads(checked.output)
    assert found["passed"] and found["bit_exact"]
    assert found["cycles"] == found["predicted_cycles"] == found["bytes"] == 0
    assert [one["device"] for one in found["host_operations"]] == ["cpu", "cpu"]


def test_what_compile_emits_is_simulated_and_listed(explorer_command, quantized, tmp_path):
    model, table, _ = quantized
    out, y = tmp_path / "out", tmp_path / "y.npz"
    options = ("--target", "odd-12x20", "--quantize", table, "--dump-dir", tmp_path / "dump")
    finished = explorer_command("compile", model, *options, "--emit", out, "--base", "480")
    assert finished.status == 0, finished.errors
    assert (
        "main_cpu runs on cpu (reshape1: it reads or makes floats, and 1 more)" in finished.output
    )
    sources = {"program-main_cpu.c", "program-main_odd_12x20.npu", "program-main_cpu_2.c"}
    assert {path.name for path in (tmp_path / "dump").glob("program*")} == sources
    (entry,) = json.loads((out / "layout.json").read_text())["inputs"]
    given = tmp_path / "integers.npz"
    np.savez(given, **{entry["name"]: np.ones(entry["shape"], entry["type"])})
    finished = explorer_command("simulate", out, "--input", given, "--output", y)
    assert finished.status == 0, finished.errors
    assert "cycles of odd-12x20" in finished.output and y.exists()
    assert "multiply" in explorer_command("disassemble", out).output
    (out / "program.bin").write_bytes(b"")
    finished = explorer_command("simulate", out, "--input", given)
    assert finished.status == 2 and "program.bin: its bytes are not those" in finished.errors


def test_nothing_is_emitted_for_a_processor(explorer_command, quantized, tmp_path):
    finished = explorer_command("compile", quantized[0], "--emit", tmp_path / "out")
    assert finished.status == 2 and "cpu is not driven by instructions" in finished.errors


def test_devices_leave_open_what_a_simulated_machine_has_not(explorer_command):
    finished = explorer_command("devices")
    (line,) = [line for line in finished.output.splitlines() if " tiny-8 " in line]
    assert line.split()[:5] == ["npu", "tiny-8", "512", "–", "–"]


def test_layers_are_shown_with_what_was_predicted(explorer_command, quantized, tmp_path):
    model, table, _ = quantized
    path = tmp_path / "layers.json"
    options = ("--target", "odd-12x20", "--quantize", table, "--view", "layers")
    finished = explorer_command("show", model, *options, "-o", path)
    assert finished.status == 0, finished.errors
    run = json.loads(path.read_text())
    assert [layer["predicted"]["last_cycle"] for layer in run["layers"]] == [
        layer["last_cycle"] for layer in run["layers"]
    ]
    finished = explorer_command("show", model, "--view", "layers")
    assert finished.status == 2 and "of which instructions run a part" in finished.errors
