"""`EXPLORER_TEST_CORE`: code and decisions for another core than this machine's."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnxruntime import InferenceSession

import explorer
from explorer.backends.cores import known_core
from explorer.compilation.settings.settings import machine_lanes
from explorer.errors import InputError
from explorer.processor import FEATURES, lanes_of, processor_features
from explorer.runtime.compilers import compiler_for, find_compiler
from explorer.runtime.core_at_hand import (
    FEATURES_OF_LANES,
    FLAGS_WITHOUT,
    SETTING,
    core_at_hand,
    lanes_at_hand,
)
from explorer.runtime.devices import examine_processor
from explorer.runtime.features import features_of
from explorer.targets import load_target
from explorer.targets.core_families import architecture_here, core_family

REPOSITORY = Path(__file__).parents[2]
NAMES = [*FEATURES_OF_LANES, "haswell", "zen4", "sapphire_rapids", "cortex_a76"]


@pytest.fixture
def emulate(monkeypatch):
    return lambda name: monkeypatch.setenv(SETTING, name)


@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_those_of_the_core(name, emulate):
    emulate(name)
    core = core_at_hand()
    compiler = find_compiler()
    assert features_of(compiler) == core.features <= FEATURES.keys()
    assert lanes_of(core.features) == core.lanes == lanes_at_hand()
    assert examine_processor().vector_floats == core.lanes
    known = known_core(load_target("cpu"))
    assert known.recognized_by == f"named by {SETTING}"
    assert known.family == core.family
    assert set(known.features) == core.features
    if name in FEATURES_OF_LANES:
        assert core.lanes == int(name)
    else:
        assert known.family == core_family(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_compiler_uses_nothing_that_machine_or_core_lacks(name, emulate):
    """Its own macros say what it may use; a core of another architecture has portable code."""
    emulate("")
    here = features_of(find_compiler())
    emulate(name)
    compiler = find_compiler()
    command = [*compiler.command, *compiler.flags, "-dM", "-E", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = {line.split()[1] for line in macros.splitlines()}
    for feature, macro in {
        "avx2": "__AVX2__",
        "fma": "__FMA__",
        "avx512": "__AVX512F__",
        "avx512_vnni": "__AVX512VNNI__",
        "avx_vnni": "__AVXVNNI__",
        "avx512_bf16": "__AVX512BF16__",
        "amx_int8": "__AMX_INT8__",
    }.items():
        assert (macro in used) == (feature in here and feature in core_at_hand().features)
    if architecture_here() == "x86_64" and "avx2" not in core_at_hand().features:
        assert "__SSE3__" not in used


def test_flags_for_another_processor_are_those_of_a_machine_without_the_setting(emulate):
    emulate("")
    usual = compiler_for("x86-64-v3").flags
    emulate("haswell")
    assert find_compiler().flags != find_compiler().flags_for_others
    assert compiler_for("x86-64-v3").flags == usual
    assert not set(usual) & set(FLAGS_WITHOUT.values())


def test_without_the_setting_the_core_is_this_machine(emulate):
    emulate("")
    assert core_at_hand() is None
    assert lanes_at_hand() == lanes_of(processor_features())


@pytest.mark.parametrize(
    ("name", "near"),
    [("zen55", "zen5"), ("saphire_rapids", "sapphire_rapids"), ("32", ""), ("0", "")],
)
def test_an_unknown_core_or_number_of_lanes_is_refused(name, near, emulate):
    emulate(name)
    with pytest.raises(InputError, match=f"{SETTING} = {name}: there is no such core") as caught:
        find_compiler()
    assert not near or f"did you mean '{near}'?" in str(caught.value)
    assert "float lanes (4, 8, 16), or one of alder_lake_e, " in str(caught.value)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ([sys.executable, "-m", "explorer", "devices"], 2),
        ([sys.executable, "-m", "pytest", "-q", "tests/test_files.py"], 4),
    ],
    ids=["explorer", "pytest"],
)
def test_commands_end_with_the_error(command, status):
    environment = {**os.environ, SETTING: "zen55"}
    finished = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == status
    assert f"{SETTING} = zen55: there is no such core (did you mean 'zen5'?)" in finished.stderr
    assert "Traceback" not in finished.stderr


MODEL = """
<ir_version: 9, opset_import: ["" : 17]>
kinds (float[1,5,9,7] x, int8[33,36] b, uint8[1,8,6,5] c)
    => (float[1,24,9,7] y, float[24,20] z, int32[33,40] m, int32[1,20,4,3] n) {
  first = Conv <pads = [1,1,1,1]> (x, w)
  positive = Relu (first)
  y = Conv <pads = [1,1,1,1], group = 24> (positive, v)
  rows = Reshape (y, shape)
  products = MatMul (rows, u)
  z = Softmax <axis = -1> (products)
  m = MatMulInteger (b, r)
  n = ConvInteger (c, s)
}"""
"""Convolutions, products and sums of floats and of bytes; sizes that no vector divides."""


def _model(random):
    model = onnx.parser.parse_model(MODEL)
    weights = {
        "w": random.normal(size=(24, 5, 3, 3)).astype(np.float32) / 3,
        "v": random.normal(size=(24, 1, 3, 3)).astype(np.float32) / 3,
        "u": random.normal(size=(63, 20)).astype(np.float32) / 3,
        "r": random.integers(-128, 128, (36, 40)).astype(np.int8),
        "s": random.integers(-128, 128, (20, 8, 3, 3)).astype(np.int8),
        "shape": np.array([24, 63]),
    }
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


# With and without products of bytes. Some need instructions that few machines have, and the last
# ones run as on a machine of x86's first kind.
@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        *((name, "") for name in ("4", "cortex_a76", "8", "alder_lake_p", "16", "zen4")),
        *((name, "") for name in ("sapphire_rapids", "neoverse_v1")),
        *((name, "-mno-sse3") for name in ("alder_lake_p", "16", "sapphire_rapids")),
    ],
)
def test_floats_and_bytes_are_as_in_onnxruntime_on_every_core(
    name, lacking, emulate, monkeypatch, quick_builds, tmp_path
):
    if lacking and architecture_here() != "x86_64":
        pytest.skip("another architecture")
    emulate("")
    monkeypatch.setenv("CC", shlex.join([*find_compiler().command, *lacking.split()]))
    random = np.random.default_rng(11)
    model = _model(random)
    inputs = {
        "x": random.normal(size=(1, 5, 9, 7)).astype(np.float32),
        "b": random.integers(-128, 128, (33, 36)).astype(np.int8),
        "c": random.integers(0, 256, (1, 8, 6, 5)).astype(np.uint8),
    }
    inputs["b"][0], inputs["c"][0, 0] = -128, 255
    wanted = InferenceSession(model.SerializeToString()).run(None, inputs)
    emulate(name)
    onnx.save(model, tmp_path / "kinds.onnx")
    compiled = explorer.compile(tmp_path / "kinds.onnx", "cpu", tuned=False)
    assert machine_lanes(compiled.target, compiled.device) == core_at_hand().lanes
    with compiled.open() as executable:
        found = executable.run(inputs)
    for port, expected in zip(model.graph.output, wanted, strict=True):
        if expected.dtype == np.int32:
            np.testing.assert_array_equal(found[port.name], expected)
        else:
            np.testing.assert_allclose(found[port.name], expected, rtol=1e-5, atol=1e-5)
