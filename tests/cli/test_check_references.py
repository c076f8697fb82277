"""`check` and `bench` of models that kill the reference, or have sizes that nobody gave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import parser

HEAD = '<ir_version: 8, opset_import: ["" : 16]>'
TRAP = f"""{HEAD} trap (int64[1] x) => (int64[1] y)
<int64[1] a = {{-9223372036854775808}}, int64[1] b = {{-1}}> {{ q = Div(a, b) y = Add(x, q) }}"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "net.onnx"
        path.write_bytes(parser.parse_model(text).SerializeToString())
        return path

    return write


def test_check_says_what_it_compared_with(explorer_command, write):
    found = explorer_command("check", write(TRAP))
    assert found.status == 0
    assert "equal to the imported program" in found.output
    assert "onnxruntime was ended by SIGFPE" in found.output
    assert "--golden FILE.npz" in found.output


def test_bench_ends_with_a_sentence(explorer_command, write):
    found = explorer_command("bench", write(TRAP), "--against", "onnxruntime")
    assert found.status == 2
    assert found.errors.count("\n") == 1
    assert "onnxruntime was ended by SIGFPE when it" in found.errors


JOINED = f"""{HEAD} joined (float[n,seen] past, float[n,length] now, float[n,total] mask)
=> (float[n,total] y) {{ all = Concat<axis = 1>(past, now) y = Add(all, mask) }}"""


def test_check_takes_sizes_that_fit_and_says_which(explorer_command, write):
    found = explorer_command("check", write(JOINED), "--dim", "seen=3", "--json")
    assert found.status == 0
    assert json.loads(found.output)["dimensions"] == {
        "n": 1,
        "seen": 3,
        "length": 16,
        "total": 19,
    }
    assert "sizes that the model does not say: " in found.errors
    assert "length=16" in found.errors and "--dim " in found.errors
    assert "seen=" not in found.errors


def test_a_model_whose_sizes_are_known_gets_no_note(explorer_command, write):
    options = ("--dim", "seen=3", "--dim", "length=2")
    found = explorer_command("check", write(JOINED), *options, "--json")
    assert found.status == 0 and "sizes that" not in found.errors
    assert json.loads(found.output)["dimensions"]["total"] == 5


def test_other_commands_propose_sizes_that_fit(explorer_command, write):
    found = explorer_command("compile", write(JOINED), "--dim", "seen=3")
    assert found.status == 2
    assert "--dim length=16" in found.errors and "--dim total" not in found.errors
