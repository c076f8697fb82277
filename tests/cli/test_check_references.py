"""`check` and `bench` of models that kill the reference, or have sizes that nobody gave."""

from __future__ import annotations

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
