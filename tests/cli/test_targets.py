"""`explorer targets`: the list, one target, and what a target without a compiler says."""

import json

from explorer.targets import list_targets


def test_all_targets_are_listed_with_whether_networks_are_compiled(explorer_command):
    finished = explorer_command("targets")
    assert finished.status == 0
    text = finished.output
    words = {line.split()[0]: line.split()[1] for line in text.splitlines()[1:] if line[0] != " "}
    assert list(words) == list_targets()
    assert {name for name, word in words.items() if word == "compiled"} == {
        "cpu", "opencl", "opencl_gpu",
    }  # fmt: skip


def test_a_target_is_explained_down_to_its_instructions(explorer_command):
    text = explorer_command("targets", "vta-16").output
    assert "256 multiply-accumulates in a cycle" in text
    assert "networks are not compiled for the target vta-16 yet" in text
    assert "micro-operation: destination:11 source:11 weight:10" in text


def test_the_json_has_what_the_file_says_and_what_follows(explorer_command):
    text = explorer_command("targets", "odd-12x20", "--json").output
    found = json.loads(text)
    assert found["compiles_networks"] is False and found["macs_per_cycle"] == 720
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


def test_compiling_for_an_npu_is_refused_and_says_what_there_is(explorer_command):
    finished = explorer_command("compile", "sample_models/digits_cnn.onnx", "--target", "tiny-8")
    assert finished.status == 2
    assert "networks are not compiled for the target tiny-8 yet" in finished.errors
    assert "explorer targets" in finished.errors
