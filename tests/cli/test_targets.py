"""`explorer targets`: the list, one target, and what a float model is told."""

import json

from explorer.targets import list_targets


def test_all_targets_are_listed_with_whether_networks_are_compiled(explorer_command):
    finished = explorer_command("targets")
    assert finished.status == 0
    text = finished.output
    words = {line.split()[0]: line.split()[1] for line in text.splitlines()[1:] if line[0] != " "}
    assert list(words) == list_targets()
    assert set(words.values()) == {"compiled"}


def test_a_target_is_explained_down_to_its_instructions(explorer_command):
    text = explorer_command("targets", "vta-16").output
    assert "256 multiply-accumulates in a cycle" in text
    assert "micro-operation: destination:11 source:11 weight:10" in text


def test_the_json_has_what_the_file_says_and_what_follows(explorer_command):
    text = explorer_command("targets", "odd-12x20", "--json").output
    found = json.loads(text)
    assert found["compiles_networks"] is True and found["macs_per_cycle"] == 720
    depths = {entry["content"]: entry["elements"] for entry in found["elements"]}
    assert depths["activations"] == 1700
    text = explorer_command("targets", "--json").output
    assert [target["name"] for target in json.loads(text)["targets"]] == list_targets()


def test_a_file_with_a_contradiction_is_refused(explorer_command, tmp_path):
    file = tmp_path / "chip.toml"
    file.write_text('name = "x"\nlanguages = ["instructions"]\ndata_types = ["int8"]\n'
                    'memories.dram.kind = "dram"\nqueues.all.loads = ["weights"]\n')  # fmt: skip
    finished = explorer_command("targets", str(file))
    assert finished.status == 2
    assert "engines have 0 matrix engines, expected one" in finished.errors


def test_a_float_model_is_refused_and_says_what_to_do(explorer_command):
    finished = explorer_command("compile", "sample_models/digits_cnn.onnx", "--target", "tiny-8")
    assert finished.status == 2
    assert "tiny-8 computes with integers, and nothing in this model is quantized" in (
        finished.errors
    )
    assert "quantize first: explorer calibrate" in finished.errors
