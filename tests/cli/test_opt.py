"""`explorer opt`: IR text that `compile --dump-dir` wrote, changed, and compiled further."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.accuracy.execution import execute_compiled
from explorer.cli import main
from explorer.cli.snapshots import read_snapshot, weights_path
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot


@pytest.fixture(scope="module")
def dump(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opt") / "dump"
    assert main(["compile", str(sample_models / "digits_cnn.onnx"), "--dump-dir", str(folder)]) == 0
    return folder


def file_of(dump: Path, pass_name: str) -> Path:
    (found,) = dump.glob(f"*-{pass_name}.mlir")
    return found


def outputs_of(path: Path, image: np.ndarray) -> np.ndarray:
    """What the program in a text computes, through the operations' NumPy meanings."""
    module, weights = read_snapshot(path)
    values = Snapshot(module, weights).run({"image": image})
    return outputs_by_name(module, values)["logits"]


@pytest.fixture(scope="module")
def image(sample_models: Path) -> np.ndarray:
    with np.load(sample_models / "digits_test.npz") as file:
        return file["images"][:1]


def test_a_dump_has_text_and_weights_of_every_pass_and_the_source(dump, sample_models):
    compilation = explorer.compile(sample_models / "digits_cnn.onnx")

    stems = [f"{i:02d}-{name}" for i, name in enumerate(compilation.names)]
    expected = [f"{s}{suffix}" for s in stems for suffix in (".mlir", ".weights.npz")]
    assert sorted(p.name for p in dump.iterdir()) == sorted([*expected, "program.c"])
    for result, stem in zip(compilation.passes, stems, strict=True):
        assert (dump / f"{stem}.mlir").read_text(encoding="utf-8") == result.after.dump()


def test_dumped_weights_are_plain_npz(dump):
    with np.load(dump / "00-import.weights.npz", allow_pickle=False) as weights:
        assert weights["stage1.conv1.weight"].shape == (16, 1, 3, 3)


def test_passes_run_on_text_as_they_do_in_a_compilation(explorer_command, dump, tmp_path, image):
    before = file_of(dump, "fold-batch-norm")
    output = tmp_path / "after.mlir"

    finished = explorer_command("opt", before, "--passes", "fuse-activation", "-o", output)

    assert finished.status == 0, finished.errors
    assert finished.errors == "note: fuse-activation: 4 rewrites\n"
    text = output.read_text(encoding="utf-8")
    assert text.count('activation = "relu"') == 4
    assert "top.unary" not in text
    # The activations moved into their producers; not one number changed.
    np.testing.assert_array_equal(outputs_of(output, image), outputs_of(before, image))


def test_text_that_nothing_changes_comes_out_as_it_went_in(explorer_command, dump, tmp_path):
    before = file_of(dump, "fuse-activation")
    output = tmp_path / "after.mlir"

    assert explorer_command("opt", before, "--passes", "fuse-activation", "-o", output).status == 0
    assert output.read_bytes() == before.read_bytes()


def test_edited_text_is_compiled_further(explorer_command, dump, tmp_path, image):
    source = file_of(dump, "fuse-activation")
    edited = tmp_path / "edited.mlir"
    text = source.read_text(encoding="utf-8")
    # A person replaces the first convolution's ReLU by a limit at 0.1.
    changed = text.replace('activation = "relu"', 'activation = "clip", alpha = 0.0, beta = 0.1', 1)
    assert changed != text
    edited.write_text(changed, encoding="utf-8")
    weights_path(edited).write_bytes(weights_path(source).read_bytes())
    rest = "legalize,eliminate-dead-code,place-on-device,assign-layouts,lower-to-kernels"

    finished = explorer_command("opt", edited, "--passes", rest, "-o", tmp_path / "end.mlir")

    assert finished.status == 0, finished.errors
    meant = outputs_of(edited, image)
    assert not np.allclose(meant, outputs_of(source, image), atol=0.1)
    module, weights = read_snapshot(tmp_path / "end.mlir")
    compiled = Snapshot(module, weights, "kernels", execute_compiled).run({"image": image})
    # The generated C sums in another order than NumPy.
    (logits,) = [array for name, array in compiled.items() if name.startswith("output:")]
    np.testing.assert_allclose(logits, meant, atol=1e-5 * np.abs(meant).max(), rtol=0)


def test_text_goes_to_stdout_without_an_output_file(explorer_command, dump):
    finished = explorer_command("opt", file_of(dump, "import"), "--passes", "infer-shapes")

    assert finished.status == 0
    assert finished.output == file_of(dump, "infer-shapes").read_text(encoding="utf-8")


def test_a_pass_that_needs_missing_weights_says_which(explorer_command, dump, tmp_path):
    lonely = tmp_path / "lonely.mlir"
    lonely.write_bytes(file_of(dump, "import").read_bytes())

    fused = explorer_command("opt", lonely, "--passes", "infer-shapes")
    folded = explorer_command(
        "opt", lonely, "--passes", "fold-batch-norm", "-o", tmp_path / "o.mlir"
    )

    assert fused.status == 0
    assert folded.status == 2
    assert "pass fold-batch-norm needs the weight 'stage1." in folded.errors
    assert "lonely.weights.npz" in folded.errors
    assert list(tmp_path.iterdir()) == [lonely]


@pytest.mark.parametrize(
    ("text", "passes", "reason"),
    [
        ("builtin.module {", "fuse-activation", "not valid IR"),
        ("hello", "fuse-activation", "not valid IR"),
        ("builtin.module {}", "fuse-activaton", "did you mean 'fuse-activation'?"),
        ('builtin.module { "evil.op"() : () -> () }', "fuse-activation", "not valid IR"),
    ],
)
def test_wrong_text_or_pass_is_refused(explorer_command, tmp_path, text, passes, reason):
    path = tmp_path / "x.mlir"
    path.write_text(text)

    finished = explorer_command("opt", path, "--passes", passes, "-o", tmp_path / "o.mlir")

    assert finished.status == 2
    assert reason in finished.errors
    assert f"file {path}" in finished.errors
    assert list(tmp_path.iterdir()) == [path]


def test_names_that_no_file_could_have_survive_the_round_trip(
    explorer_command, write_model, tmp_path
):
    evil = "../../%41 <script>*/\x00\x1b\n"
    weight = numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4), evil)
    path = write_model(
        [helper.make_node("MatMul", ["x", evil], ["y"], name=evil)], [1, 4], [weight]
    )
    folder = tmp_path / "dump"

    assert explorer_command("compile", path, "--dump-dir", folder).status == 0

    module, weights = read_snapshot(folder / "00-import.mlir")
    np.testing.assert_array_equal(weights[evil], np.arange(16).reshape(4, 4))
    image = np.ones((1, 4), np.float32)
    values = Snapshot(module, weights).run({"x": image})
    np.testing.assert_array_equal(outputs_by_name(module, values)["y"], [[24, 28, 32, 36]])
