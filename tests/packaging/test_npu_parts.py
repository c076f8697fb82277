"""Packages of models that an NPU runs in part: C for its neighbours, and calls of `run_npu`."""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import subprocess

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.errors import InputError
from tests.packaging.building import MODELS, run

RUN_NPU = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p),
)


def quantized(name: str, target: str) -> Compilation:
    model = explorer.load(MODELS / f"{name}.onnx")
    images = np.load(MODELS / "digits_test.npz")["images"].astype(np.float32)
    table = explorer.calibrate(
        model, {"image": images[:10]}, method="min-max", corrections=(), arithmetic="integer"
    )
    return explorer.compile(model, target=target, quantization=table)


@pytest.fixture(scope="module")
def mlp():
    with contextlib.closing(quantized("digits_mlp", "tiny-8")) as compilation:
        yield compilation


@pytest.fixture(scope="module")
def package(mlp, tmp_path_factory):
    return mlp.package(tmp_path_factory.mktemp("npu") / "package")


def test_the_npus_files_are_those_that_compile_emits(mlp, package, tmp_path):
    mlp.backend.emit(mlp.passes, mlp.target, tmp_path / "emitted", 0)
    emitted = {path.name: path.read_bytes() for path in (tmp_path / "emitted").iterdir()}
    assert {path.name: path.read_bytes() for path in (package / "npu").iterdir()} == emitted
    table = json.loads((package / "manifest.json").read_text())
    assert {f"npu/{name}" for name in emitted} <= set(table["files"])
    assert table["target"] == "tiny-8" and table["c_target"] == "cpu"
    assert [part["device"] for part in table["parts"]] == ["cpu", "tiny-8", "cpu"]


def test_the_self_test_gives_recorded_outputs(package, built):
    assert run(built(package, "-DEXACT", "-Werror") / "selftest") == "2 vectors, ok\n"


@pytest.mark.parametrize("what", ["npu_in1_0_0", "npu_out1_0_0"])
def test_the_self_test_finds_what_goes_wrong_around_an_npu(package, copied, built, what):
    folder = copied(package)
    text = (folder / "selftest.c").read_text()
    array = re.search(rf"{what}\[\d+\] = {{(.*?)}};", text, re.DOTALL)
    assert array is not None
    numbers = ", ".join(str(int(n) // 2 + 1) for n in re.findall(r"-?\d+", array.group(1)))
    (folder / "selftest.c").write_text(text.replace(array.group(1), numbers))
    finished = subprocess.run([built(folder) / "selftest"], capture_output=True, text=True)
    message = "input 0 of part 0 is wrong" if "in" in what else "output 0 is wrong"
    assert finished.returncode == 1 and f"vector 1: {message}" in finished.stdout


def test_with_the_simulator_for_an_npu_the_outputs_are_those_of_the_program(mlp, package):
    name = "digits_mlp"
    flags = f"CFLAGS=-fPIC -D{name.upper()}_STATIC_ARENA"
    run("make", "-s", f"{name}.o", flags, folder=package)
    run("cc", "-shared", "-o", "build.a", f"{name}.o", "-lm", folder=package)
    library = ctypes.CDLL(str(package / "build.a"))
    part = next(p for p in mlp.program.parts if p.device == "tiny-8")
    simulator = mlp.executable.executables[part.function]

    def run_npu(user, number, inputs, outputs):
        given = {
            port.name: np.frombuffer(
                ctypes.string_at(inputs[i], port.size_bytes), port.element_type
            ).reshape(port.shape)
            for i, port in enumerate(simulator.program.inputs)
        }
        found = simulator.run(given)
        for i, port in enumerate(simulator.program.outputs):
            data = np.ascontiguousarray(found[port.name]).tobytes()
            ctypes.memmove(outputs[i], data, len(data))
        return 0 if number == 0 else 1

    callback = RUN_NPU(run_npu)
    model = (ctypes.c_void_p * 4)()
    library.digits_mlp_input.restype = library.digits_mlp_output.restype = ctypes.c_void_p
    assert library.digits_mlp_init(model, None, ctypes.c_size_t(0), callback, None) == 0
    for seed in (3, 4):
        image = mlp.example_inputs(seed)["image"]
        ctypes.memmove(library.digits_mlp_input(model, 0), image.ctypes.data, image.nbytes)
        assert library.digits_mlp_run(model) == 0
        found = ctypes.string_at(library.digits_mlp_output(model, 0), 40)
        assert found == mlp.run({"image": image})["logits"].tobytes()


def test_a_device_that_fails_ends_the_run(package, tmp_path):
    (tmp_path / "try.c").write_text("""
        #include "digits_mlp.h"
        static union { double d; unsigned char bytes[DIGITS_MLP_ARENA_BYTES + 64]; } memory;
        static int fail(void *user, enum digits_mlp_part part,
            const void *const inputs[], void *const outputs[])
        {
            (void)user; (void)part; (void)inputs; (void)outputs;
            return 7;
        }
        int main(void)
        {
            struct digits_mlp model;
            unsigned char *arena = memory.bytes;
            while ((uintptr_t)arena % 64) arena++;
            if (digits_mlp_init(&model, arena, DIGITS_MLP_ARENA_BYTES, NULL, NULL)
                != DIGITS_MLP_NPU_FAILED) return 1;
            if (digits_mlp_init(&model, arena, DIGITS_MLP_ARENA_BYTES, fail, NULL)) return 2;
            return digits_mlp_run(&model) != DIGITS_MLP_NPU_FAILED;
        }""")
    sources = (package / "src" / "digits_mlp.c", tmp_path / "try.c")
    run("cc", f"-I{package / 'include'}", "-fwrapv", *sources, "-lm", "-o", tmp_path / "try")
    run(tmp_path / "try")


def test_a_model_that_an_npu_runs_alone_is_one_call(tmp_path, built):
    c = explorer.compile(MODELS / "roundings_int8.tflite", target="vta-16")
    folder = c.package(tmp_path / "package")
    assert run(built(folder, "-Werror") / "selftest") == "2 vectors, ok\n"
    assert "LAUNCHES" not in (folder / "src" / "roundings_int8.c").read_text()
    with pytest.raises(InputError, match="names of the model"):
        c.package(tmp_path / "stripped", strip=True)


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["vta-16", "tiny-8", "edge-64"])
@pytest.mark.parametrize("name", ["digits_cnn", "digits_resnet", "digits_transformer"])
def test_packages_of_networks_on_npus(name, target, tmp_path, built):
    with contextlib.closing(quantized(name, target)) as c:
        folder = c.package(tmp_path / "package")
    assert run(built(folder, "-DEXACT", "-Werror") / "selftest") == "2 vectors, ok\n"
