"""Reading Caffe nets: forms, phases, pairs of files, and what damage is said to be."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.importers.caffe.file.prototxt import Text, parse
from explorer.importers.caffe.file.reading import read
from explorer.importers.caffe.file.weights import blobs_of
from verification.conformance.caffe.models import blob, caffemodel, number_of, one_layer, part

WEIGHT = np.arange(10, dtype=np.float32).reshape(2, 5) / 10
BIAS = np.array([1, -1], np.float32)
NET, WEIGHTS = one_layer(
    "InnerProduct", "inner_product_param { num_output: 2 }", [(3, 5)], [WEIGHT, BIAS]
)
X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)

TRAINING = """
layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TRAIN } }
layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TEST } }
layer { name: "noise" type: "Power" bottom: "data" top: "data" include { phase: TRAIN } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 2 } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" exclude { phase: TRAIN } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
FORMS = {
    "V2": (NET, WEIGHTS),
    "V1": (
        """input: "x0" input_dim: 3 input_dim: 5 input_dim: 1 input_dim: 1
        layers { name: "y" type: INNER_PRODUCT bottom: "x0" top: "t0" blobs_lr: 1
                 inner_product_param { num_output: 2 } }""",
        part(2, part(4, b"y") + part(6, blob(WEIGHT)) + part(6, blob(BIAS))),
    ),
    "V0": (
        """input: "x0" input_dim: 3 input_dim: 5 input_dim: 1 input_dim: 1
        layers { layer { name: "y" type: "innerproduct" num_output: 2 } bottom: "x0" top: "t0" }""",
        part(2, part(1, part(1, b"y") + part(50, blob(WEIGHT)) + part(50, blob(BIAS)))),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_the_same_net(form: str):
    text, weights = FORMS[form]
    model = read(text, memoryview(weights), "net")
    (node,) = model.nodes
    inputs = {"x0": X if form == "V2" else X.reshape(3, 5, 1, 1)}

    assert (node.name, node.operator, model.parameters) == ("y", "InnerProduct", 12)
    np.testing.assert_allclose(ex.interpret(model, inputs)["y"], X @ WEIGHT.T + BIAS, rtol=1e-5)


def test_of_a_net_for_training_the_layers_of_its_use_remain():
    model = read(TRAINING, memoryview(caffemodel({"ip": [WEIGHT, BIAS]})), "net")

    assert [node.name for node in model.nodes] == ["ip", "relu"]
    assert [value.name for value in model.inputs] == ["data"]
    assert [value.name for value in model.outputs] == ["relu"]
    assert model.inputs[0].shape == ("batch", "data_channels", "data_height", "data_width")


def test_old_and_narrow_blobs_are_read():
    array = np.arange(6, dtype=np.float32)
    sizes = b"".join(number_of(i, n) for i, n in enumerate((1, 1, 2, 3), 1))
    halves = part(7, part(1, b"\x02\x03")) + number_of(10, 2)
    stored = {
        "old": sizes + part(5, array.tobytes()),
        "double": sizes + part(8, array.astype(np.float64).tobytes()),
        "half": halves + part(12, array.astype(np.float16).tobytes()),
    }
    content = b"".join(
        part(100, part(1, name.encode()) + part(7, content)) for name, content in stored.items()
    )
    found = blobs_of(memoryview(content))

    assert {name: blobs[0].shape for name, blobs in found.items()} == {
        "old": (1, 1, 2, 3), "double": (1, 1, 2, 3), "half": (2, 3)}  # fmt: skip
    for (given,) in found.values():
        assert given.dtype == np.float32
        np.testing.assert_array_equal(given.reshape(-1), array)


def test_the_text_form_is_parsed_without_a_schema():
    parsed = parse("""# a comment
        name: 'a' "b\\n" list: [1, -2, 3e1], inner: < flag: TRUE; word: MAX > inner { word: AVE }
    """)

    assert parsed.word("name") == "ab\n" and isinstance(parsed.fields[0][1], Text)
    assert parsed.numbers("list") == [1, -2, 30]
    assert parsed.message("inner").is_set("flag", False)
    assert parsed.message("inner").words("word") == ["MAX", "AVE"]
    assert parse(parsed.text()) == parsed


@pytest.mark.parametrize("given", ["net.prototxt", "net.caffemodel", "both.zip"])
def test_either_file_opens_the_net(given: str, tmp_path: Path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(WEIGHTS)
    with zipfile.ZipFile(tmp_path / "both.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/deploy.prototxt", NET)
        archive.writestr("a/weights.caffemodel", WEIGHTS)
    model = ex.load(tmp_path / given)

    assert (model.format, model.parameters) == ("caffe", 12)


def test_opencv_judges_what_is_left_of_a_net_for_training(tmp_path: Path):
    pytest.importorskip("cv2", reason="OpenCV judges here: the extra caffe")
    (tmp_path / "net.prototxt").write_text(TRAINING)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel({"ip": [WEIGHT, BIAS]}))
    sizes = {"data_channels": 5, "data_height": 1, "data_width": 1}
    compilation = ex.compile(tmp_path / "net.prototxt", dimensions=sizes)
    passed = compilation.accuracy().passed
    compilation.close()

    assert passed


def test_all_that_cannot_be_imported_is_said_at_once():
    text = (
        NET
        + """
        layer { name: "a" type: "Python" bottom: "t0" top: "a" }
        layer { name: "b" type: "InnerProduct" bottom: "t0" top: "b"
                inner_product_param { num_output: 2 } }
        layer { name: "c" type: "Poolin" bottom: "t0" top: "c" }"""
    )
    with pytest.raises(UnsupportedError) as raised:
        ex.interpret(read(text, memoryview(WEIGHTS), "net"), {"x0": X})

    problems = "\n".join(raised.value.problems)
    assert "node a: Python: unknown operator" in problems
    assert "node b: InnerProduct: its weights are missing" in problems
    assert "did you mean Pooling?" in problems


@pytest.mark.parametrize(
    ("text", "weights", "message"),
    [
        ("layer {" * 40, b"", "more than 32 messages"),
        ("layer {\n name: }", b"", "line 2"),
        ("net: 3", b"", "no layer computes anything"),
        ('layer { name: "y" type: "ReLU" bottom: "x" top: "y" }', b"", "no layer makes 'x'"),
        (NET, b"\xff" * 20, "more than 64 bits"),
        (NET, WEIGHTS[:-3], "ends behind the file"),
        (NET, caffemodel({"y": [WEIGHT[:1], BIAS]}), "blob 0 has shape 1x5; 2x5 expected"),
    ],
)
def test_damage_is_one_error_of_ours(text: str, weights: bytes, message: str, tmp_path: Path):
    (tmp_path / "net.prototxt").write_text(text)
    (tmp_path / "net.caffemodel").write_bytes(weights)
    with pytest.raises(ModelError, match=message):
        ex.interpret(ex.load(tmp_path / "net.prototxt"), {"x0": X})


def test_weights_of_another_net_are_asked_about(tmp_path: Path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel({"y": [WEIGHT[:1], BIAS]}))
    with pytest.raises(ModelError) as raised:
        ex.interpret(ex.load(tmp_path / "net.prototxt"), {"x0": X})
    assert raised.value.hint == "is this the net's own caffemodel? --weights FILE names another one"


def test_weights_alone_say_what_is_missing(tmp_path: Path):
    (tmp_path / "net.caffemodel").write_bytes(WEIGHTS)
    with pytest.raises(ModelError, match="put the prototxt there under the name"):
        ex.load(tmp_path / "net.caffemodel")


def test_a_text_of_any_size_is_refused_in_no_time(tmp_path: Path):
    with (tmp_path / "net.prototxt").open("wb") as file:
        file.truncate(1 << 30)  # a hole: no bytes are written
    with pytest.raises(ModelError, match="has more than 16,777,216 bytes"):
        ex.load(tmp_path / "net.prototxt")


def test_nothing_in_a_file_is_run(tmp_path: Path):
    """A marker stands wherever a reader might evaluate a text."""
    marker = tmp_path / "ran"
    call = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    quoted = call.replace("\\", "\\\\").replace('"', '\\"')
    text = (
        NET
        + f"""
        name: "{quoted}"
        layer {{ name: "{quoted}" type: "Python" bottom: "t0" top: "a"
                python_param {{ module: "{quoted}" layer: "{quoted}" param_str: "{quoted}" }} }}
        layer {{ name: "f" type: "ReLU" bottom: "t0" top: "b" relu_param {{
                negative_slope: {"".join(c for c in call if c.isalnum())} }} }}"""
    )
    blobs = {quoted: [WEIGHT], "y": [WEIGHT, BIAS]}
    (tmp_path / "net.prototxt").write_text(text)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(blobs))
    with pytest.raises(ExplorerError):
        ex.compile(tmp_path / "net.prototxt")
    ex.inspect(tmp_path / "net.prototxt")

    assert not marker.exists()


DEEP = "layer " + "{ a " * 5000
BAD = {
    "deep": (DEEP, WEIGHTS, "more than 32 messages in one another"),
    "no weights": (NET, b"", "1 node of net cannot be imported"),
    "other sizes": (NET, caffemodel({"y": [WEIGHT[:1], BIAS]}), "1x5; 2x5 expected"),
    "no numbers": (NET, WEIGHTS[: len(WEIGHTS) // 2], "ends behind the file"),
    "huge blob": (
        NET,
        part(100, part(1, b"y") + part(7, part(7, part(1, b"\xff\xff\xff\xff\x07" * 2)))),
        "blob 0 of 'y' of shape 2147483647x2147483647 has 0 elements",
    ),
    "huge result": (
        NET.replace("num_output: 2", "num_output: 2147483647"),
        WEIGHTS,
        "2147483647x5 expected",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_ends_with_one_message_and_status_2(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    text, weights, message = BAD[what]
    (tmp_path / "net.prototxt").write_text(text)
    (tmp_path / "net.caffemodel").write_bytes(weights)
    status = main(["compile", str(tmp_path / "net.prototxt")])
    errors = capfd.readouterr().err

    assert status == 2
    assert errors.count("explorer: error") == 1
    assert message in errors
    assert "net.prototxt" in errors
    assert "Traceback" not in errors


def test_mutants_are_read_or_refused(tmp_path: Path):
    random = np.random.default_rng(1)
    for _ in range(150):
        text, weights = bytearray(NET.encode()), bytearray(WEIGHTS)
        for content in (text, weights):
            for _ in range(random.integers(0, 3)):
                content[random.integers(len(content))] = random.integers(256)
        with suppress(ExplorerError):
            (tmp_path / "net.prototxt").write_bytes(text)
            (tmp_path / "net.caffemodel").write_bytes(weights)
            ex.inspect(ex.load(tmp_path / "net.prototxt"))


def test_opencv_is_not_loaded_with_a_net(tmp_path: Path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(WEIGHTS)
    program = f"""
import sys, explorer, numpy
path = {str(tmp_path / "net.prototxt")!r}
explorer.interpret(path, {{"x0": numpy.ones((3, 5), "f4")}})
print("cv2" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"
