"""Largest errors of the functions of one argument, over all floats, against double precision.

    python benchmarks/function_errors.py [FUNCTION ...] [--forms scalar,4,8,16,opencl]
        [--every 1] [--cpu-seconds 600] [--record FILE]

FUNCTION is an operator of ONNX ("Gelu tanh": of the hyperbolic tangent). Forms are those of the
generated code: scalar, vectors of 4, 8 and 16 floats, and OpenCL C for processors. `--every 61`
takes one float of 61. It stops after the processor time and goes on from the record when it is
called again; the table is what the record has. Errors are in units of the last place of the exact
result (1.4e-45 for denormal ones), with the argument; results below 1.5e-36 have a column of their
own. `wrong` counts NaN or infinity on one side only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import explorer
from explorer.compilation import Compilation
from explorer.runtime.compilers import compile_shared_library
from explorer.runtime.executable import Executable
from explorer.targets import load_target

FLOATS = 1 << 32
CHUNK = 1 << 20
OPERATORS = {
    **dict.fromkeys(("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal"), 13),
    **dict.fromkeys(("Sin", "Cos", "Tan", "Asin", "Acos", "Atan"), 7),
    **dict.fromkeys(("Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf"), 9),
    **dict.fromkeys(("Elu", "Selu", "HardSigmoid", "Celu"), 12),
    **dict.fromkeys(("Softplus", "Softsign"), 1),
    **{"Gelu": 20, "Gelu tanh": 20, "Mish": 18, "HardSwish": 14, "Swish": 24},
}
"""The opset in which each is taken."""


class Distance(ctypes.Structure):
    """What `compare` of function_errors.c adds up."""

    _fields_ = (
        ("units", ctypes.c_double),
        ("tiny_units", ctypes.c_double),
        ("wrong", ctypes.c_uint64),
        ("at", ctypes.c_float),
        ("tiny_at", ctypes.c_float),
        ("wrong_at", ctypes.c_float),
    )

    def record(self) -> dict[str, float]:
        return {name: getattr(self, name) for name, _ in self._fields_}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Errors of functions over all floats.")
    parser.add_argument("functions", nargs="*", metavar="FUNCTION")
    parser.add_argument("--forms", default="scalar,4,8,16,opencl")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--cpu-seconds", type=float, default=600)
    parser.add_argument("--record", type=Path)
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.functions) - set(OPERATORS)
    if unknown:
        parser.error(f"no function {', '.join(sorted(unknown))}; known: {', '.join(OPERATORS)}")
    is_kept = chosen.record is not None and chosen.record.exists()
    known = json.loads(chosen.record.read_text()) if is_kept else {}
    with tempfile.TemporaryDirectory(prefix="explorer-functions-") as folder:
        library = reference_library(Path(folder))
        for function in chosen.functions or OPERATORS:
            for form in chosen.forms.split(","):
                state = known.setdefault(f"{function}/{form}/{chosen.every}", {"next": 0})
                measure(function, form, chosen.every, state, library, chosen.cpu_seconds)
                if chosen.record is not None:
                    chosen.record.write_text(json.dumps(known, indent=1) + "\n")
    print("\n".join(table(known)))
    return 0


def reference_library(folder: Path) -> ctypes.CDLL:
    source = Path(__file__).with_suffix(".c").read_text(encoding="ascii")
    library = ctypes.CDLL(str(compile_shared_library(source, folder)))
    pointer, count = ctypes.c_void_p, ctypes.c_long
    library.evaluate.argtypes = [ctypes.c_char_p, pointer, pointer, count]
    library.compare.argtypes = [pointer, pointer, pointer, count, ctypes.POINTER(Distance)]
    library.compare.restype = None
    return library


def measure(
    function: str, form: str, every: int, state: dict, library: ctypes.CDLL, cpu_seconds: float
) -> None:
    """Goes on at `state["next"]`, the pattern of bits to begin with, until time or floats end."""
    if state["next"] >= FLOATS or time.process_time() > cpu_seconds:
        return
    kept = {name: state[name] for name, _ in Distance._fields_ if name in state}
    distance = Distance(**kept)
    exact = np.empty(CHUNK, np.float64)
    with ExitStack() as stack:
        executable = stack.enter_context(opened(function, form))
        while state["next"] < FLOATS and time.process_time() <= cpu_seconds:
            patterns = np.arange(CHUNK, dtype=np.uint64) * every + state["next"]
            x = np.minimum(patterns, FLOATS - 1).astype(np.uint32).view(np.float32)
            (y,) = executable.run({"x": x}).values()
            if library.evaluate(function.encode(), x.ctypes.data, exact.ctypes.data, CHUNK):
                raise SystemExit(f"function_errors.c has no {function}")
            arrays = (x.ctypes.data, np.ascontiguousarray(y).ctypes.data, exact.ctypes.data)
            library.compare(*arrays, CHUNK, ctypes.byref(distance))
            state["next"] += CHUNK * every
    state.update(distance.record())


def opened(function: str, form: str) -> Executable:
    return compiled(function, form).open(isolated=form == "opencl")


def compiled(function: str, form: str, count: int = CHUNK) -> Compilation:
    """The program of one operator for so many floats; form: scalar, opencl or lanes of C."""
    operator, _, manner = function.partition(" ")
    attributes = {"approximate": manner} if manner else {}
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [count]) for n in "xy"]
    graph = helper.make_graph([node], "function", ports[:1], ports[1:])
    opset = helper.make_opsetid("", OPERATORS[function])
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(model, file.name)
        source = explorer.load(file.name)
    if form == "opencl":
        return explorer.compile(source, "opencl", tuned=False)
    if form == "scalar":
        knobs = explorer.compile(source, tuned=False).knobs
        scalar = {k.address: "no" for k in knobs if k.address.endswith("/vectorize")}
        return explorer.compile(source, tuned=False, decisions=scalar)
    return explorer.compile(source, load_target("cpu", {"vector_floats": int(form)}), tuned=False)


def table(known: dict[str, dict]) -> list[str]:
    """Markdown: a row per function, a column per form."""
    forms = list(dict.fromkeys(key.split("/")[1] for key in known))
    lines = [f"| function | floats | {' | '.join(forms)} | below 1.5e-36 | wrong |"]
    lines.append("| --- " * (len(forms) + 4) + "|")
    for function, every in dict.fromkeys((k.split("/")[0], k.split("/")[2]) for k in known):
        found = [known.get(f"{function}/{form}/{every}", {}) for form in forms]
        cells = [f"{s['units']:.2f} ({s['at']:.4g})" if "units" in s else "" for s in found]
        below = max((s.get("tiny_units", 0) for s in found), default=0)
        wrong = sum(s.get("wrong", 0) for s in found)
        tried = min((min(s["next"], FLOATS) for s in found if "next" in s), default=0)
        share = f"1 of {every}" if every != "1" else "all"
        text = share if tried == FLOATS else f"{share}, {tried / FLOATS:.0%}"
        lines.append(f"| {function} | {text} | {' | '.join(cells)} | {below:.2f} | {wrong} |")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
