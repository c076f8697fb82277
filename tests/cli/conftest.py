"""What the tests of the command line share: running it, and small models that are wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from explorer.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRESS = re.compile(r"^\w+ \d+/\d+ .*\d\d:\d\d.*\n", re.MULTILINE)
"""A line that a command prints every five seconds; on a busy machine any command may."""


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    status: int
    output: str
    errors: str


@pytest.fixture
def explorer_command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Runs a command line in this process: fast, and an exception fails the test by itself."""

    def run(*arguments: str | Path) -> Finished:
        capfd.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse
            status = int(end.code or 0)
        output, errors = capfd.readouterr()
        return Finished(status, output, PROGRESS.sub("", errors))

    return run


@pytest.fixture
def explorer_process() -> Callable[..., Finished]:
    """Runs `python -m explorer` as a person does."""

    def run(*arguments: str | Path) -> Finished:
        finished = subprocess.run(
            [sys.executable, "-m", "explorer", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    return run


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """Writes an ONNX model of these nodes; `x` and `y` are its float32 input and output."""

    def write(
        nodes: Sequence[onnx.NodeProto],
        input_shape: Sequence[int | str],
        weights: Sequence[TensorProto] = (),
        output: str = "y",
        element_type: int = TensorProto.FLOAT,
    ) -> Path:
        domains = {node.domain for node in nodes} - {""}
        graph = helper.make_graph(
            list(nodes),
            "graph",
            [helper.make_tensor_value_info("x", element_type, list(input_shape))],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            list(weights),
        )
        opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
        path = tmp_path / "model.onnx"
        # The IR version of opset 17: onnxruntime does not know the newest ones.
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.save(model, str(path))
        return path

    return write
