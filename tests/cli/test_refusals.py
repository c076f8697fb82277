"""A user's mistake: status 2, one message with file, node and way out, nothing written."""

from __future__ import annotations

import os
import random
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def assert_refused(finished, *parts: str | Path) -> None:
    """One message on stderr that holds the parts and a way out; nothing on stdout."""
    assert finished.status == 2, finished
    assert finished.output == ""
    assert "Traceback" not in finished.errors
    messages = [line for line in finished.errors.split("\n") if line.startswith("explorer: error")]
    assert len(messages) == 1, finished.errors
    for part in (*map(str, parts), "; where: file ", "; try: "):
        assert part in finished.errors, finished.errors


def compile_refused(explorer_command, path: Path, *parts: str) -> None:
    """Compiling is refused with the parts in the message, and neither output appears."""
    trace, dump = path.parent / "trace.nnx", path.parent / "dump"
    before = sorted(path.parent.iterdir())
    finished = explorer_command("compile", path, "--save", trace, "--dump-dir", dump)
    assert_refused(finished, path, *parts)
    assert sorted(path.parent.iterdir()) == before


def matmul() -> onnx.NodeProto:
    return helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")


def test_a_process_ends_with_status_2_and_without_a_traceback(explorer_process, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"this is no model " * 20)

    assert_refused(explorer_process("compile", path), path, "not an ONNX model")


def test_no_such_file(explorer_command, tmp_path):
    assert_refused(explorer_command("compile", tmp_path / "net.onnx"), "no such file")


@pytest.mark.parametrize("kept", [0, 10, 1000, 100_000, -1])
def test_a_file_that_is_cut_off(explorer_command, sample_models, tmp_path, kept):
    path = tmp_path / "net.onnx"
    path.write_bytes((sample_models / "digits_cnn.onnx").read_bytes()[:kept])

    compile_refused(explorer_command, path)


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_an_unknown_operator_is_named_with_its_node(explorer_command, write_model, domain):
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="odd\x1b[2J", domain=domain)
    path = write_model([node], [1, 4])

    finished = explorer_command("compile", path)

    assert_refused(finished, path, "Frobnicate", r"odd\x1b[2J")
    assert "\x1b" not in finished.errors


def test_operands_that_do_not_fit(explorer_command, write_model):
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    path = write_model([matmul()], [1, 5], [weight])

    compile_refused(explorer_command, path, "node dense", "5 columns against 4 rows")


def test_an_input_of_strings(explorer_command, write_model):
    node = helper.make_node("Identity", ["x"], ["y"], name="same")
    path = write_model([node], [1], element_type=TensorProto.STRING)

    compile_refused(explorer_command, path, "'x.codes'", "--dim x.places=16")


def external(location: str, offset: int = 0) -> TensorProto:
    """The 4 x 4 weight `w`, kept in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", "64")):
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("weights.bin", "missing"),
        ("../weights.bin", "outside of the model's folder"),
        ("/etc/passwd", "outside of the model's folder"),
        ("sub/../../weights.bin", "outside of the model's folder"),
    ],
)
def test_external_data_that_is_not_beside_the_model(
    explorer_command, write_model, location, reason
):
    path = write_model([matmul()], [1, 4], [external(location)])

    compile_refused(explorer_command, path, reason, location)


def test_external_data_behind_a_symbolic_link(explorer_command, write_model, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(64))
    folder = tmp_path / "models"
    folder.mkdir()
    os.symlink(secret, folder / "weights.bin")
    path = write_model([matmul()], [1, 4], [external("weights.bin")]).rename(folder / "net.onnx")

    compile_refused(explorer_command, path, "symbolic link")


@pytest.mark.parametrize("offset", [-64, 10**18, 1])
def test_external_data_at_bytes_that_are_not_there(explorer_command, write_model, offset):
    path = write_model([matmul()], [1, 4], [external("weights.bin", offset)])
    path.with_name("weights.bin").write_bytes(bytes(64))

    compile_refused(explorer_command, path, "weights.bin" if offset == 1 else "'w'")


@pytest.mark.parametrize("shape", [[1, 2**40], [2**31, 2**31, 4], [1, 2**62]], ids=str)
def test_absurd_dimensions(explorer_command, write_model, shape):
    path = write_model([helper.make_node("Relu", ["x"], ["y"], name="relu")], shape)

    compile_refused(explorer_command, path, "'x'")


def test_a_node_whose_result_would_be_absurd(explorer_command, write_model):
    shape = numpy_helper.from_array(np.array([2**40, 2**20]), "shape")
    path = write_model(
        [helper.make_node("Expand", ["x", "shape"], ["y"], name="wide")], [1], [shape]
    )

    compile_refused(explorer_command, path, "node wide", "bytes")


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--target", "gpuu"), "there is no target 'gpuu'"),
        (("--disable", "fuse-activaton"), "did you mean 'fuse-activation'?"),
        (("--disable", "lower-to-kernels"), "cannot be disabled"),
        (("--dim", "time=4"), "no dimension 'time'"),
    ],
)
def test_a_wrong_option_is_answered_with_what_there_is(
    explorer_command, sample_models, arguments, reason
):
    path = sample_models / "digits_mlp.onnx"

    assert_refused(explorer_command("compile", path, *arguments), path, reason)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("compile", "net.onnx", "--dim", "batch"), "expected name=size"),
        (("compile", "net.onnx", "--dim", "batch=-1"), "expected name=size with a size of 0"),
        (("compile", "net.onnx", "--dim", "batch=0..4"), "expected name=size with a size of 1"),
        (("compile", "net.onnx", "--fuel", "-1"), "expected a whole number of 0 or more"),
        (("check", "net.onnx", "--tolerance", "nan"), "expected a number of 0 or more"),
        (("bench", "net.onnx", "--repeats", "0"), "expected a whole number of 1 or more"),
        (("show", "net.onnx", "--what", "dreams"), "invalid choice"),
        (("sing",), "invalid choice"),
    ],
)
def test_arguments_that_cannot_be_read(explorer_command, command, reason):
    finished = explorer_command(*command)

    assert finished.status == 2
    assert reason in finished.errors


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"image": np.zeros((1, 1, 8, 9), np.float32)}, ("node image", "(1, 1, 8, 9)")),
        ({"image": np.zeros((8, 8), np.float32)}, ("node image", "(8, 8)")),
        ({"image": np.zeros((1, 1, 8, 8))}, ("node image", "float64", "astype('float32')")),
        ({"imag": np.zeros((1, 1, 8, 8), np.float32)}, ("'imag'", "did you mean 'image'?")),
        ({}, ("node image", "there is no array for the input 'image'")),
        ({"image": np.array([object()])}, ("holds Python objects",)),
    ],
)
def test_inputs_that_do_not_fit(explorer_command, sample_models, tmp_path, arrays, parts):
    inputs = tmp_path / "in.npz"
    np.savez(inputs, **arrays)

    finished = explorer_command(
        "run",
        sample_models / "digits_cnn.onnx",
        "--input",
        inputs,
        "--output",
        tmp_path / "out.npz",
    )

    assert_refused(finished, inputs, *parts)
    assert list(tmp_path.iterdir()) == [inputs]


def test_an_input_file_that_is_cut_off(explorer_command, sample_models, tmp_path):
    inputs = tmp_path / "in.npz"
    np.savez(inputs, image=np.zeros((1, 1, 8, 8), np.float32))
    inputs.write_bytes(inputs.read_bytes()[:-30])

    finished = explorer_command("check", sample_models / "digits_cnn.onnx", "--input", inputs)

    assert_refused(finished, inputs, "not a readable .npz file")


@pytest.mark.parametrize("damage", ["first bytes", "stream", "twice", "name"])
def test_an_input_file_that_is_damaged(explorer_command, sample_models, tmp_path, damage):
    inputs = tmp_path / "in.npz"
    np.savez(inputs, image=np.zeros((1, 1, 8, 8), np.float32))
    content = bytearray(inputs.read_bytes())
    reason = {
        "first bytes": "the .npz file cannot be read: Invalid argument",
        "stream": "not a readable .npz file: Invalid data stream",
        "twice": "two arrays are called 'image'",
        "name": "differ",
    }[damage]
    if damage == "first bytes":
        del content[:40]
    elif damage == "stream":
        for place, size in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            begin = content.index(place) + size
            content[begin : begin + 2] = zipfile.ZIP_BZIP2.to_bytes(2, "little")
    elif damage == "twice":
        with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(inputs, "a") as archive:
            archive.writestr("image.npy", archive.read("image.npy"))
        content = bytearray(inputs.read_bytes())
    else:
        content[content.index(b"image.npy")] = ord("x")
    inputs.write_bytes(content)

    finished = explorer_command("check", sample_models / "digits_cnn.onnx", "--input", inputs)

    assert_refused(finished, inputs, reason)


@pytest.mark.parametrize("option", ["--save", "--dump-dir"])
def test_an_output_in_a_folder_that_is_not_there(explorer_command, sample_models, tmp_path, option):
    path = tmp_path / "nowhere" / "output"

    finished = explorer_command("compile", sample_models / "digits_mlp.onnx", option, path)

    assert_refused(finished, path, "its folder does not exist")
    assert not list(tmp_path.iterdir())


def test_a_failed_run_leaves_the_old_output_as_it_was(explorer_command, sample_models, tmp_path):
    output = tmp_path / "out.npz"
    output.write_bytes(b"what was there before")

    finished = explorer_command(
        "run",
        sample_models / "digits_cnn.onnx",
        "--input",
        tmp_path / "none.npz",
        "--output",
        output,
    )

    assert finished.status == 2
    assert output.read_bytes() == b"what was there before"


def test_a_trace_that_is_none(explorer_command, tmp_path):
    path = tmp_path / "trace.nnx"
    path.write_bytes(b"PK\x03\x04 and no more")

    assert_refused(explorer_command("show", path), path, "not a readable trace")


def test_damaged_traces_are_refused_or_read(explorer_command, sample_models, tmp_path):
    good = tmp_path / "good.nnx"
    assert (
        explorer_command("compile", sample_models / "digits_mlp.onnx", "--save", good).status == 0
    )
    data = good.read_bytes()
    generator = random.Random(0)
    bad = tmp_path / "bad.nnx"
    refused = 0
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(generator.randrange(1, 20)):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        bad.write_bytes(changed[: generator.choice([len(changed), generator.randrange(len(data))])])

        finished = explorer_command("show", bad, "--what", generator.choice(["ir", "kernels"]))

        assert finished.status in (0, 2)
        if finished.status == 2:
            assert_refused(finished, bad)
            refused += 1
    assert refused > 30


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("manifest.json", "[]"),
        ("manifest.json", '{"format": "nn-compiler-explorer trace", "version": 999}'),
        ("manifest.json", '{"format": "nn-compiler-explorer trace", "version": 1, "snapshots": 7}'),
        ("trace.json", "[" * 100_000),
        ("trace.json", '{"version": 1}'),
        ("snapshots/0.json", '{"text": {"language": "mlir", "lines": 5, "owners": []}}'),
        ("weights.json", '["too", "few"]'),
    ],
)
def test_traces_of_another_form_are_refused(
    explorer_command, sample_models, tmp_path, member, content
):
    good, bad = tmp_path / "good.nnx", tmp_path / "bad.nnx"
    assert (
        explorer_command("compile", sample_models / "digits_mlp.onnx", "--save", good).status == 0
    )
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
        assert member in old.namelist()
        for name in old.namelist():
            new.writestr(name, content if name == member else old.read(name))

    assert_refused(explorer_command("show", bad), bad)


def test_an_unknown_pass_is_answered_with_a_near_name(explorer_command, sample_models):
    path = sample_models / "digits_mlp.onnx"

    finished = explorer_command("show", path, "--pass", "fuse-activaton")

    assert_refused(finished, path, "did you mean 'fuse-activation'?")
