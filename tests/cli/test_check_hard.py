"""`explorer check --inputs`: the table, JSON, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import parser

from explorer.compilation import Compilation, checking_hard
from explorer.results.hard import HardVerdict
from tests.cli.json_page import documented

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'
NET = f"{HEAD} net (float[4,8] x) => (float[4,8] y) {{ a = Relu(x) y = Sigmoid(a) }}"


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(parser.parse_model(NET).SerializeToString())
    return path


def without_nan(self, inputs, check_indices=False):
    del check_indices
    found = self.executable.run(inputs)
    return {name: np.nan_to_num(array, nan=0.0) for name, array in found.items()}


def test_nothing_is_broken(explorer_command, net):
    found = explorer_command("check", net, "--inputs", "hard")
    assert found.status == 0
    assert "nothing is broken on cpu: 0 broken" in found.output
    assert "judged by onnxruntime" in found.output


def test_json_has_the_documented_fields(explorer_command, net):
    found = explorer_command("check", net, "--inputs", "hard", "--json")
    made = json.loads(found.output)
    assert found.status == 0 and made["passed"]
    assert set(made["hard"][0]) == set(documented("check"))
    assert {"signed zeros", "NaN", "size 0"} <= {each["kind"] for each in made["hard"]}


def test_what_is_broken_comes_first(explorer_command, net, monkeypatch):
    monkeypatch.setattr(Compilation, "run", without_nan)
    found = explorer_command("check", net, "--inputs", "hard")
    assert found.status == 1
    states = [line.split("  ")[0] for line in found.output.splitlines()[1:-2]]
    assert states[0] == "broken" and states == sorted(states)
    assert any(line.split()[1:3] == ["NaN", "Relu"] for line in found.output.splitlines())
    assert "NOT passed" in found.output


def test_a_plain_check_has_some_hard_inputs(explorer_command, net, monkeypatch):
    found = explorer_command("check", net, "--json")
    assert [each["kind"] for each in json.loads(found.output)["hard"]] == [
        "zeros",
        "infinities",
        "NaN",
    ]
    wrong = HardVerdict(
        kind="NaN", operator="Relu", node="Relu_0", alike=1, state="broken", reason="0 found"
    )  # fmt: skip
    monkeypatch.setattr(checking_hard, "push", lambda *_: [wrong])
    found = explorer_command("check", net)
    assert found.status == 1
    assert "inputs of the kind 'NaN' break Relu Relu_0:" in found.errors


def test_an_unknown_kind_is_refused_with_a_near_name(explorer_command, net):
    found = explorer_command("check", net, "--inputs", "hrad")
    assert found.status == 2
    assert "there is no kind of inputs 'hrad'" in found.errors and "'hard'" in found.errors


@pytest.mark.parametrize("more", [("--golden", "imported"), ("--targets", "cpu")])
def test_what_does_not_fit_is_refused(explorer_command, net, more):
    found = explorer_command("check", net, "--inputs", "hard", *more)
    assert found.status == 2
    assert "--inputs hard" in found.errors
