"""Generated C is right on processors with shorter vectors: SSE2, AVX2, and NEON in an emulator.

For NEON a cross compiler (`aarch64-linux-gnu-gcc`, or the package ziglang) and QEMU's user mode
emulation (`qemu-aarch64`) have to be there.
"""

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.runtime.compilers import compile_shared_library, compiler_for
from explorer.runtime.native.program import NativeProgram
from explorer.targets import load_target

SAMPLES = Path(__file__).parents[2] / "sample_models"
FLOATS = [SAMPLES / f"digits_{name}.onnx" for name in ("cnn", "mobilenet", "transformer")]
BYTES = """
<ir_version: 9, opset_import: ["" : 17]>
bytes (float[1,8,9,11] x) => (float[1,24,9,11] y) {
  s = Constant <value = float {0.04}> ()
  z = Constant <value = uint8 {117}> ()
  u = Constant <value = float {0.2}> ()
  q = QuantizeLinear (x, s, z)
  real = DequantizeLinear (q, s, z)
  filters = DequantizeLinear (w, s)
  sum = Conv <pads = [1, 1, 1, 1]> (real, filters)
  r = QuantizeLinear (sum, u, z)
  y = DequantizeLinear (r, u, z)
}"""
DYNAMIC = """
<ir_version: 9, opset_import: ["" : 17]>
dynamic (float[7,32] x) => (float[7,24] y, float[7,24] z) {
  q, s, zero = DynamicQuantizeLinear (x)
  paired = MatMulInteger (q, v, zero)
  y = Cast <to = 1> (paired)
  wide = MatMulInteger (q, w, zero)
  z = Cast <to = 1> (wide)
}"""
"""Sums of two products fit 16 bits in the first one, not in the second."""
CROSS_FLAGS = (
    "-std=gnu11", "-O2", "-pthread", "-fwrapv", "-ffp-contract=fast", "-fno-math-errno",
    "-fno-trapping-math", "-fno-signed-zeros", "-static",
)  # fmt: skip
MAIN = """
#include <stdio.h>
#include <stdlib.h>

static char *contents(const char *path, long size) {
    char *memory = aligned_alloc(64, (size_t)(size + 127) / 64 * 64);
    FILE *file = fopen(path, "rb");
    if (!memory || !file || (long)fread(memory, 1, (size_t)size, file) != size) exit(2);
    fclose(file);
    return memory;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const long size = atol(arguments[1]);
    char *arena = contents("arena", size);
    const char *weights = contents("weights", atol(arguments[2]));
    if (explorer_run(arena, weights, atoi(arguments[3]), NULL, NULL, NULL)) return 3;
    FILE *file = fopen("result", "wb");
    return !file || (long)fwrite(arena, 1, (size_t)size, file) != size || fclose(file) ? 4 : 0;
}
"""
"""Runs the program once on an arena from a file, for processors that Python does not run on."""


def bytes_model() -> onnx.ModelProto:
    model = onnx.parser.parse_model(BYTES)
    random = np.random.default_rng(0)
    filters = random.integers(-128, 128, (24, 8, 3, 3)).astype(np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(filters, "w"))
    return model


def dynamic_model() -> onnx.ModelProto:
    model = onnx.parser.parse_model(DYNAMIC)
    random = np.random.default_rng(0)
    for name, most in (("v", 64), ("w", 127)):
        weights = random.integers(-most, most + 1, (32, 24)).astype(np.int8)
        weights[:4] = most
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model


MODELS = {"bytes": bytes_model, "dynamic": dynamic_model}


def compiled(name: str, folder: Path, vector_floats: int) -> Compilation:
    path = SAMPLES / f"{name}.onnx"
    if name in MODELS:
        path = folder / f"{name}.onnx"
        onnx.save(MODELS[name](), path)
    target = load_target("cpu", {"vector_floats": vector_floats})
    return explorer.compile(path, target, tuned=False)


def distance(compilation: Compilation, outputs: dict[str, np.ndarray]) -> float:
    """From what the machine's own instructions give, relative to the largest number."""
    with compilation.open() as executable:
        wanted = executable.run(compilation.example_inputs())
    assert outputs.keys() == wanted.keys()
    return max(float(abs(outputs[n] - wanted[n]).max() / abs(wanted[n]).max()) for n in wanted)


NAMES = [*(path.stem for path in FLOATS), *MODELS]


@pytest.mark.sampled(3)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("architecture", "width"), [("x86-64", 4), ("x86-64-v3", 8)])
def test_shorter_vectors_compute_the_same(tmp_path, name, architecture, width):
    if not {"avx2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split()) and width > 4:
        pytest.skip("no AVX2")
    compilation = compiled(name, tmp_path, width)

    def build(source: str) -> Path:
        return compile_shared_library(source, tmp_path, compiler_for(architecture))

    built = compilation.built
    with NativeProgram(built.program, built.weights, build=build) as executable:
        outputs = executable.run(compilation.example_inputs())
    assert distance(compilation, outputs) <= (0 if name in MODELS else 1e-5)


REFERENCE = """
#ifndef ADD
#define ADD +=
#endif
#define REFERENCE(name, lanes) \\
    typedef int name##_type __attribute__((vector_size(4 * lanes))); \\
    static inline name##_type name(name##_type sums, name##_type bytes, name##_type filters) \\
    { \\
        for (int i = 0; i < 4 * lanes; i++) \\
            sums[i / 4] ADD ((unsigned char *)&bytes)[i] * ((signed char *)&filters)[i]; \\
        return sums; \\
    }
REFERENCE(vpdpbusd_8, 8)
REFERENCE(vpdpbusd_4, 4)
#define VPDPBUSD_512
#define VPDPBUSD_256 vpdpbusd_8
#define VPDPBUSD_128 vpdpbusd_4
#define __AVXVNNI__ 1
"""
"""VPDPBUSD as Intel's manual defines it (Software Developer's Manual, volume 2C, "Operation"), for
processors without it."""


@pytest.mark.sampled(2)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("architecture", "width"), [("x86-64", 4), ("x86-64-v3", 8)])
def test_dot_products_of_shorter_vectors_are_used_as_they_are_defined(
    tmp_path, name, architecture, width
):
    """AVX-VNNI: the instruction is replaced by its definition, and numbers are the same bits."""
    if "avx2" not in Path("/proc/cpuinfo").read_text().split() and width > 4:
        pytest.skip("no AVX2")
    header = tmp_path / "reference.h"
    header.write_text(REFERENCE)
    compilation = compiled(name, tmp_path, width)
    compiler, flags = compiler_for(architecture), ["-include", str(header)]
    built = compilation.built

    def run(*more: str) -> dict[str, np.ndarray]:
        def build(source: str) -> Path:
            return compile_shared_library(source, tmp_path, compiler, [*flags, *more])

        with NativeProgram(built.program, built.weights, build=build) as executable:
            return executable.run(compilation.example_inputs())

    assert distance(compilation, run()) == 0
    assert distance(compilation, run("-DADD=-=")) > 0  # it is what computes the sums


def cross_compiler() -> list[str] | None:
    path = shutil.which("aarch64-linux-gnu-gcc")
    if path is not None:
        return [path]
    if (path := shutil.which("zig")) is not None:
        return [path, "cc", "-target", "aarch64-linux-musl", "-fno-sanitize=undefined"]
    if importlib.util.find_spec("ziglang") is None:
        return None
    target = ["-target", "aarch64-linux-musl", "-fno-sanitize=undefined"]
    return [sys.executable, "-m", "ziglang", "cc", *target]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_an_arm_processor_computes_the_same(tmp_path, name, threads):
    compilation = compiled(name, tmp_path, 4)
    outputs, _ = run_on_arm(compilation, tmp_path, threads)
    assert distance(compilation, outputs) <= (0 if name in MODELS else 1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("processor", "instruction"), [("cortex-a76", "sdot"), ("neoverse-v1", "usdot")]
)
def test_dot_products_of_arm_are_the_same_bits(tmp_path, name, processor, instruction):
    """The first multiplies signed bytes only; the second unsigned ones with signed ones."""
    compilation = compiled(name, tmp_path, 4)
    outputs, assembly = run_on_arm(compilation, tmp_path, 1, processor)
    assert re.search(rf"\t{instruction}\t", assembly)
    assert distance(compilation, outputs) == 0


def run_on_arm(
    compilation: Compilation, folder: Path, threads: int, processor: str = ""
) -> tuple[dict[str, np.ndarray], str]:
    """Outputs of the program in the emulator, and its assembly."""
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    cross = cross_compiler()
    if emulator is None or cross is None:
        pytest.skip("no emulator of Arm processors, or no compiler for them")
    built = compilation.built
    program = built.program
    (folder / "program.c").write_text("\n".join(program.source.lines) + MAIN)
    if processor:  # zig writes LLVM's names in its own way
        name = processor.replace("-", "_") if "cc" in cross else processor
        cross = [*cross, f"-mcpu={name}"]
    command = [*cross, *CROSS_FLAGS, "-S", "program.c", "-o", "program.s"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    command = [*cross, *CROSS_FLAGS, "program.s", "-o", "program", "-lm"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    inputs = compilation.example_inputs()
    arena = np.zeros(program.arena_bytes, np.uint8)
    for port in program.inputs:
        place = slice(port.offset_bytes, port.offset_bytes + port.size_bytes)
        arena[place] = np.ascontiguousarray(inputs[port.name]).view(np.uint8).ravel()
    arena.tofile(folder / "arena")
    (folder / "weights").write_bytes(bytes(built.weights))
    sizes = [str(program.arena_bytes), str(program.weights_bytes), str(threads)]
    subprocess.run([emulator, "./program", *sizes], cwd=folder, check=True, timeout=300)
    result = (folder / "result").read_bytes()
    outputs = {
        port.name: np.frombuffer(
            result[port.offset_bytes : port.offset_bytes + port.size_bytes], port.element_type
        ).reshape(port.shape)
        for port in program.outputs
    }
    return outputs, (folder / "program.s").read_text()
