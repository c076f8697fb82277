"""selftest.c and example/main.c: programs that a person builds with the package.

The self-test runs vectors that were computed where the package was made. Integers have to be equal;
floats may differ by `TOLERANCE` times the largest expected number of an output, for another
processor rounds sums of products elsewhere; built with -DEXACT they have to be equal, too. The
checksum of the weights is compared first, because a changed weight need not change these outputs.
"""

from __future__ import annotations

import zlib

import numpy as np

from explorer.packaging.driver import fill, template
from explorer.packaging.kernels import without_comments
from explorer.packaging.memories import memory_values
from explorer.packaging.source import PackageSource
from explorer.packaging.text import c_type, number_literals, wrapped

MAX_TEXT_BYTES = 1 << 18
"""Of the numbers of all vectors; as text they are four times as many, and compilers slow down."""
TOLERANCE = 1e-4
"""Single precision has 6e-8; deep models add up some hundred roundings of their largest numbers."""

WEIGHTS_MEMORY = """\
static union {
    double alignment;
    unsigned char bytes[@NAME@_WEIGHTS_BYTES];
} weights;
"""

INIT = """\
    if (@name@_init(&model, @memory_arguments@@npu_arguments@) != @NAME@_OK) {
        printf("the model cannot be initialized\\n");
        return 1;
    }"""

INIT_FILE = """\
    FILE *file = fopen("@name@.weights", "rb");
    if (file == NULL
        || fread(weights.bytes, 1, sizeof weights.bytes, file) != @NAME@_WEIGHTS_BYTES) {
        printf("@name@.weights cannot be read: run this in the package's folder\\n");
        return 1;
    }
    fclose(file);
    const size_t size = sizeof weights.bytes;
    if (@name@_init(&model, @memory_arguments@, weights.bytes, size@npu_arguments@)
        != @NAME@_OK) {
        printf("the model cannot be initialized\\n");
        return 1;
    }"""


def selftest_files(source: PackageSource) -> dict[str, str | bytes]:
    """Its text, and the numbers where they are a file."""
    numbers = VectorNumbers(source)
    inputs: list[str] = []
    expected: list[str] = []
    for number, vector in enumerate(source.vectors):
        inputs.append(numbers.row(vector.inputs, f"in{number}"))
        expected.append(numbers.row(vector.outputs, f"out{number}"))
    npu = _recorded_npu(source, numbers)
    text = _finish(
        source,
        template("selftest.c"),
        {
            "npu": npu,
            "compare": template("compare.c").rstrip(),
            "vectors": str(len(source.vectors)),
            "tolerance": repr(TOLERANCE),
            "arrays": numbers.definitions,
            "load": numbers.load,
            "inputs": "\n".join(inputs),
            "expected": "\n".join(expected),
            "checksum": f"0x{zlib.crc32(source.weights.tobytes()):08X}",
        },
    )
    return numbers.with_text(text)


def example_text(source: PackageSource) -> str:
    npu = template("npu_example.c") if source.npu_parts else ""
    return _finish(source, template("example.c"), {"npu": npu})


def _finish(source: PackageSource, template: str, own: dict[str, str]) -> str:
    is_file = source.storage == "file"
    sizes = source.sizes
    call, first = "", ""
    if sizes is not None:
        places = [f"sizes[vector][{place}]" for place in range(len(sizes.parameters))]
        call = ", ".join(["", *places])
        first = ", ".join(["", *map(str, source.vectors[0].sizes)])
    values = {
        **own,
        "weights_memory": WEIGHTS_MEMORY if is_file else "",
        "init": INIT_FILE if is_file else INIT,
        "close": f"    {source.name}_close(&model);" if source.threads > 1 else "",
        "size": call if "vectors" in own else first,
        "input_tensor": f"{source.name}_inputs[i]." if sizes is None else "input_at(vector, i)->",
        "output_tensor": f"&{source.name}_outputs[i]" if sizes is None else "output_at(vector, i)",
        "call_tensors": _call_tensors(source),
    }
    names = {"name": source.name, "NAME": source.macro}
    own_memories = {key: fill(text, names) for key, text in memory_values(source).items()}
    names |= own_memories
    npu_arguments = ", run_npu, &vector" if "vectors" in own else ", run_npu, NULL"
    names["npu_arguments"] = npu_arguments if source.npu_parts else ""
    filled = {key: fill(text, names) if key[0] in "winc" else text for key, text in values.items()}
    lines = fill(template, {**filled, **names}).split("\n")
    return "\n".join(without_comments(lines) if source.is_stripped else lines).rstrip() + "\n"


def _call_tensors(source: PackageSource) -> str:
    """The sizes of every vector, and what its inputs and outputs are; empty where none is open."""
    sizes = source.sizes
    if sizes is None:
        return ""
    rows = [f"    {{{', '.join(f'{size}' for size in v.sizes)}}}," for v in source.vectors]
    count = len(sizes.parameters)
    lines = [f"static const int64_t sizes[VECTORS + 1][{count}] = {{", *rows, "    {0}", "};"]
    arguments = ", ".join(f"sizes[vector][{place}]" for place in range(count))
    for kind in ("input", "output"):
        lines += [
            "",
            f"static const struct @name@_tensor *{kind}_at(int vector, int number)",
            "{",
            "    static struct @name@_tensor tensor;",
            f"    if (@name@_{kind}_at(number, {arguments}, &tensor) != @NAME@_OK)",
            "        tensor.size_bytes = 0;",
            "    return &tensor;",
            "}",
        ]
    return "\n".join(lines)


def _recorded_npu(source: PackageSource, numbers: VectorNumbers) -> str:
    """A `run_npu` that returns what was recorded; empty where no NPU runs a part."""
    if not source.npu_parts:
        return ""
    rows: dict[str, list[str]] = {"npu_inputs": [], "npu_outputs": []}
    sizes: list[str] = []
    for number, vector in enumerate(source.vectors):
        for part, (given, made) in enumerate(
            zip(vector.npu_inputs, vector.npu_outputs, strict=True)
        ):
            rows["npu_inputs"].append(numbers.row(given, f"npu_in{number}_{part}"))
            rows["npu_outputs"].append(numbers.row(made, f"npu_out{number}_{part}"))
    for _, npu in source.npu_parts:
        for ports in (npu.inputs, npu.outputs):
            sizes.append(f"    {{{', '.join([*(f'{p.size_bytes}u' for p in ports), '0'])}}},")
    most = max(len(ports) for _, n in source.npu_parts for ports in (n.inputs, n.outputs))
    return fill(
        template("npu_selftest.c"),
        {
            "parts": str(len(source.npu_parts)),
            "ports": str(most + 1),
            "sizes": "\n".join(sizes),
            "npu_inputs": "\n".join(rows["npu_inputs"]),
            "npu_outputs": "\n".join(rows["npu_outputs"]),
        },
    )


class VectorNumbers:
    """Arrays of a self-test: constants in its text, or a file where they are too many for that."""

    def __init__(self, source: PackageSource) -> None:
        arrays = [
            array
            for vector in source.vectors
            for group in (
                vector.inputs,
                vector.outputs,
                *vector.npu_inputs,
                *vector.npu_outputs,
            )
            for array in group
        ]
        self.is_file = sum(array.nbytes for array in arrays) > MAX_TEXT_BYTES
        self.lines: list[str] = []
        self.data = bytearray()

    def row(self, numbers: tuple[np.ndarray, ...], name: str) -> str:
        """One row of pointers; the arrays that they point to are added."""
        pointers = [self._pointer(array, f"{name}_{i}") for i, array in enumerate(numbers)]
        return f"    {{{', '.join([*pointers, 'NULL'])}}},"

    def _pointer(self, array: np.ndarray, name: str) -> str:
        if self.is_file:
            place = len(self.data)
            self.data += np.ascontiguousarray(array).tobytes()
            self.data += bytes(-len(self.data) % 8)
            return f"numbers.bytes + {place}"
        kind = c_type(array.dtype.name)
        self.lines.append(f"static const {kind} {name}[{max(array.size, 1)}] = {{")
        self.lines += [*wrapped(number_literals(array) or ["0"]), "};"]
        return name

    @property
    def definitions(self) -> str:
        """After the last row was made."""
        if not self.is_file:
            return "\n".join(self.lines)
        return fill(template("load.c"), {"count": str(len(self.data))}).rstrip()

    @property
    def load(self) -> str:
        return "    if (!load_numbers())\n        return 1;" if self.is_file else ""

    def with_text(self, text: str) -> dict[str, str | bytes]:
        """The files of the self-test, by path."""
        return {"selftest.c": text, **({"vectors.bin": bytes(self.data)} if self.is_file else {})}
