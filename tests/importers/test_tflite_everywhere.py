"""A TFLite model takes every way that a model takes: commands, the page's worker, saved traces."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.app.catalog import offered_files, offered_suffixes
from explorer.app.protocol import CompileRequest
from explorer.app.worker.compiler import ModelCompiler
from explorer.cli import main
from explorer.references import lite_rt
from tests.importers.tflite_cases import bias, numbers, weights
from verification.conformance.tflite.models import OperatorOf, model_of


def quiet(name: str, index: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions of bytes."""
    tensors = [
        numbers("x", (1, 8, 8, 4), "int8", 0.05),
        weights(1, (6, 3, 3, 4), "int8", 0),
        bias(2, 6),
        numbers("h", (1, 8, 8, 6), "int8", 0.06),
        replace(weights(3, (5, 1, 1, 6), "int8", 0), name="u"),
        replace(bias(4, 5), name="c"),
        numbers("y", (1, 8, 8, 5), "int8", 0.07),
    ]
    window = {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}
    nodes = [
        OperatorOf(
            kind="CONV_2D",
            inputs=[first, first + 1, first + 2],
            outputs=[first + 3],
            options="Conv2DOptions",
            values=window,
        )
        for first in (0, 3)
    ]
    path = tmp_path_factory.mktemp("nets") / "net.tflite"
    path.write_bytes(model_of(tensors, nodes, [0], [6]))
    return path


def test_check_compares_integers_bit_by_bit(net: Path, capfd: pytest.CaptureFixture[str]):
    pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")
    assert main(["check", str(net), "--json"]) == 0
    report = json.loads(capfd.readouterr().out)

    assert (report["format"], report["passed"]) == ("tflite", True)
    assert report["reference"].startswith("LiteRT ")
    assert set(report["exact"]) == {"h", "y"} and not report["float64"]


def test_without_the_judge_check_says_what_to_install(
    net: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(lite_rt, "find_spec", lambda name: None)
    assert main(["check", str(net)]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "LiteRT is not installed" in said and "nn-compiler-explorer[tflite]" in said
    assert main(["check", str(net), "--golden", "imported"]) == 0
    assert main(["bench", str(net)]) == 2


def test_latency_is_compared_with_the_judge(net: Path, capfd: pytest.CaptureFixture[str]):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is timed here: the extra tflite")
    assert main(["bench", str(net), "--against", "litert", "--repeats", "3", "--json"]) == 0
    peers = json.loads(capfd.readouterr().out)["peers"]
    assert list(peers) == ["LiteRT"] and peers["LiteRT"]["ms"] > 0
    assert main(["bench", str(net), "--against", "onnxruntime"]) == 2
    assert "onnxruntime runs no tflite models" in capfd.readouterr().err


def test_importing_and_compiling_load_no_judge(net: Path):
    program = (
        "import sys, explorer\n"
        f"explorer.compile({str(net)!r}, tuned=False)\n"
        "judges = {'ai_edge_litert', 'tflite_micro', 'cv2', 'onnxruntime'}\n"
        "print(sorted(judges & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stdout == "[]\n", finished.stderr


def test_golden_tensors_judge_instead(net: Path, tmp_path: Path):
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)
    found = ex.interpret(net, {"x": x})
    np.savez(tmp_path / "in.npz", x=x)
    np.savez(tmp_path / "right.npz", y=found["y"])
    np.savez(tmp_path / "wrong.npz", y=found["y"] + np.int8(1))
    given = ["check", str(net), "--input", str(tmp_path / "in.npz"), "--golden"]

    assert main([*given, str(tmp_path / "right.npz")]) == 0
    assert main([*given, str(tmp_path / "wrong.npz")]) == 1


def test_the_page_opens_it_by_path_and_takes_it_as_a_file(net: Path):
    trace = ModelCompiler().stage(CompileRequest(str(net), "cpu"), "passes", quiet)

    assert trace.model.format == "tflite"
    assert trace.model.judge.startswith("LiteRT") and len(trace.model.differences) == 2
    assert ("CONV_2D_0", "CONV_2D") in [node[:2] for node in trace.model.source_nodes]
    assert ".tflite" in offered_suffixes()
    assert [path.name for path in offered_files([net.parent])] == ["net.tflite"]


def test_a_saved_trace_opens(net: Path, tmp_path: Path):
    compilation = ex.compile(net)
    opened = ex.open(compilation.save(tmp_path / "net.nnx"))
    rewrites = compilation["import"].rewrites
    compilation.close()

    assert opened.trace().model.format == "tflite"
    assert [rewrite.address for rewrite in rewrites] == [
        "import/tflite.CONV_2D/node_CONV_2D_0",
        "import/tflite.CONV_2D/node_CONV_2D_1",
    ]


def test_between_convolutions_nothing_is_transposed(net: Path):
    compilation = ex.compile(net)
    last = [result for result in compilation.passes if result.after.level == "top"][-1].after
    names = [op.name for op in last.walked]
    compilation.close()

    assert names.count("top.transpose") == 2
    assert last.origins and {o.tensor for o in last.origins.values()} >= {"h", "y"}
