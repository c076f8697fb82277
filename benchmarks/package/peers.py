"""Packages next to emlearn, LiteRT and IREE: bytes of code and RAM, instructions or time.

    python benchmarks/package/peers.py --mlp sample_models/digits_mlp.onnx \
        --onnx sample_models/digits_cnn.onnx --tflite mlperf_kws_int8.tflite --record peers.csv

The dense network is compiled for `cortex-m4` from emlearn's C and from a package, with the same
flags, and run in the emulator. Other models are run on this machine, one thread, in turns; the
package by its own program, LiteRT and IREE from Python. Of a package, RAM is the arena; of emlearn
all that is written. IREE's code is its file without the weights. A peer that is not installed is
left out.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import explorer as ex
from explorer.packaging.building import REQUIRED_FLAGS, flags_of
from explorer.packaging.objects import read_object
from explorer.packaging.toolchains import build_package, compiler_command, runner_command
from explorer.targets import load_target

FOLDER = Path(__file__).parent
BOARDS = Path(ex.__file__).parent / "packaging" / "boards"
COLUMNS: tuple[str, ...] = (
    "model",
    "target",
    "framework",
    "code",
    "weights",
    "RAM",
    "instructions",
    "µs",
    "spread",
)
ROUNDS, CALLS = 11, 50
INSTRUCTIONS_PER_TICK = 40
Row = dict[str, Any]
own = SimpleNamespace(**run_path(str(FOLDER / "__main__.py"), run_name="package"))


# -- cortex-m4 -----------------------------------------------------------------------------------


def emlearn_row(path: Path) -> Row | None:
    """A chain of dense layers with ReLU between them, in emlearn's loadable form."""
    if importlib.util.find_spec("emlearn") is None:
        return None
    net = importlib.import_module("emlearn.net")
    target = load_target("cortex-m4")
    command, runner = compiler_command(target), runner_command(target)
    if command is None or runner is None:
        return None
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    layers = [name.removesuffix(".weight") for name in stored if name.endswith(".weight")]
    weights = [stored[f"{name}.weight"].T for name in layers]
    biases = [stored[f"{name}.bias"] for name in layers]
    activations = ["relu"] * (len(layers) - 1) + ["identity"]
    text = net.c_generate_net_loadable(activations, weights, biases, "net")
    inputs = weights[0].shape[0]
    driver = f"""
float features[{inputs}];
int volatile found;
int run(const void *model);
int run(const void *model) {{ (void)model; return found = net_predict(features, {inputs}); }}
"""
    main = "int run(const void *); int main(void) { return run(0) < 0; }\n"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "net.c").write_text(text + driver)
        (folder / "main.c").write_text(main)
        include = str(Path(str(net.__file__)).parent)
        flags = (*REQUIRED_FLAGS, *flags_of(target)[0], f"-I{include}")
        _run(*command, *flags, "-c", "net.c", "-o", "net.o", folder=folder)
        words = ("-DRUN=run", "-Wl,--wrap=run", str(BOARDS / "cortex_m.c"), "-T",
                 str(BOARDS / "cortex_m.ld"), "-nostartfiles")  # fmt: skip
        _run(*command, *flags, "main.c", "net.o", *words, *target.package.link_flags, "-lm",
             "-o", "program", folder=folder)  # fmt: skip
        output = _run(*runner, "program", folder=folder)
        found = read_object(folder / "net.o")
        stored_bytes = sum(array.nbytes for array in (*weights, *biases))
        ticks = int(output.split("ticks ")[1].split()[0])
        return {
            "model": path.stem,
            "target": target.name,
            "framework": "emlearn",
            "code": found.code_bytes + found.constant_bytes - stored_bytes,
            "weights": stored_bytes,
            "RAM": found.written_bytes - 4 * inputs - 4,  # without those of the driver
            "instructions": ticks * INSTRUCTIONS_PER_TICK,
        }


def package_rows(path: Path) -> list[Row]:
    rows = []
    for optimize in ("speed", "size"):
        c = ex.compile(path, "cortex-m4", decisions={"target/optimize": optimize})
        with tempfile.TemporaryDirectory() as place:
            c.package(Path(place, "package"), name="net")
            build = build_package(Path(place, "package"), "net", c.target)
        assert build.passed is not False, build.note
        rows.append(
            {
                "model": path.stem,
                "target": "cortex-m4",
                "framework": f"package, {optimize}",
                "code": build.code_bytes,
                "weights": c.program.weights_bytes,
                "RAM": c.program.arena_bytes,
                "instructions": build.instructions,
            }
        )
        c.close()
    return rows


# -- this machine --------------------------------------------------------------------------------


def timed_rows(path: Path) -> list[Row]:
    """The package's program, and each peer that takes the model, in turns."""
    c = ex.compile(path)
    inputs = c.example_inputs()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        folder = c.package(Path(place, "package"), name="net")
        build = build_package(folder, "net", c.target)
        assert build.passed is not False, build.note
        sides: dict[str, Callable[[], float]] = {"package": _program(folder, c, inputs)}
        rows.append({"framework": "package", "code": build.code_bytes,
                     "weights": c.program.weights_bytes, "RAM": c.program.arena_bytes})  # fmt: skip
        for name, make in (("LiteRT", _litert), ("IREE", _iree)):
            if (made := make(path, list(inputs.values()), Path(place))) is not None:
                sides[name], facts = made
                rows.append({"framework": name, **facts})
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, run in sides.items():
                times[name].append(run())
    c.close()
    for row in rows:
        found = times[row["framework"]]
        row |= {
            "model": path.stem,
            "target": "this machine",
            "µs": f"{statistics.median(found):.1f}",
        }
        row["spread"] = f"{own._spread(found):.0%}"
    return rows


def _program(folder: Path, c: ex.Compilation, inputs: dict[str, np.ndarray]) -> Callable[[], float]:
    """Microseconds of a run, by the program of `timed.c`."""
    arrays = [np.ascontiguousarray(inputs[port.name]) for port in c.program.inputs]
    (folder / "inputs").write_bytes(b"".join(array.tobytes() for array in arrays))
    _run("make", "-s", "net.o", "CFLAGS=-DNET_STATIC_ARENA", folder=folder)
    _run("cc", "-O2", "-Iinclude", str(FOLDER / "timed.c"), "net.o", "-lm", "-o", "timed",
         folder=folder)  # fmt: skip
    return lambda: float(_run("./timed", "inputs", folder=folder)) * 1e-3


def _litert(path: Path, inputs: list[np.ndarray], place: Path) -> Any:  # a call and its facts
    if path.suffix != ".tflite" or importlib.util.find_spec("ai_edge_litert") is None:
        return None
    interpreter = importlib.import_module("ai_edge_litert.interpreter")
    network = interpreter.Interpreter(model_path=str(path), num_threads=1)
    network.allocate_tensors()
    for detail, array in zip(network.get_input_details(), inputs, strict=True):
        network.set_tensor(detail["index"], array)
    return _called(network.invoke), {}


def _iree(path: Path, inputs: list[np.ndarray], place: Path) -> Any:  # a call and its facts
    if path.suffix != ".onnx" or importlib.util.find_spec("iree") is None:
        return None
    compiler = importlib.import_module("iree.compiler")
    runtime = importlib.import_module("iree.runtime")
    text, file = place / "model.mlir", place / "model.vmfb"
    module = "iree.compiler.tools.import_onnx"
    _run(sys.executable, "-m", module, str(path), "-o", str(text), "--opset-version", "17")
    compiler.compile_file(
        str(text),
        input_type="onnx",
        target_backends=["llvm-cpu"],
        output_file=str(file),
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    made = runtime.VmModule.copy_buffer(context.instance, file.read_bytes())
    context.add_vm_module(made)
    name = next(n for n in made.function_names if "$" not in n and not n.startswith("__"))
    function = context.modules[made.name][name]
    stored = sum(numpy_helper.to_array(t).nbytes for t in onnx.load(path).graph.initializer)
    facts = {"code": file.stat().st_size - stored, "weights": stored}
    return _called(lambda: function(*inputs)), facts


def _called(call: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        times = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1e6

    return run


def _run(*words: str, folder: Path | None = None) -> str:
    found = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout + found.stderr


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--mlp", type=Path, help="dense layers with ReLU between them")
    parser.add_argument("--onnx", type=Path, nargs="*", default=[])
    parser.add_argument("--tflite", type=Path, nargs="*", default=[])
    parser.add_argument("--record", type=Path, required=True)
    arguments = parser.parse_args(given)
    rows: list[Row] = []
    if arguments.mlp is not None:
        rows += [*package_rows(arguments.mlp), *filter(None, [emlearn_row(arguments.mlp)])]
    for path in (*arguments.onnx, *arguments.tflite):
        rows += timed_rows(path)
        print(rows[-3:], flush=True)
    with arguments.record.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(arguments.record.read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
