"""Tools for testing operations: build one, ask onnxruntime, run its compute definition as C.

op = build(PoolOp, [x], kind="max", ...)      one operation in a module of its own, verified
check(op, [x], expected)                      NumPy meaning == expected (onnxruntime's outputs),
                                              inferred shapes == evaluated ones,
                                              text -> parser -> the same text,
                                              compute definition as C == NumPy meaning
"""

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from runpy import run_path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_empty_tensor_value_info, np_dtype_to_tensor_dtype
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from explorer.ir.compute import KernelBuilder
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.layout import haloed_shape
from explorer.ir.operation import Access, TopOperation, set_identity
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import (
    PLAIN,
    Layout,
    element_type_from_numpy,
    element_type_of,
    layout_of,
    numpy_dtype,
    shape_of,
    static_shape,
    stored_type,
    tensor_type,
    with_layout,
)
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.c import print_c
from explorer.kernels.program.translation_unit import emit_program
from explorer.passes.lower.lower_to_kernels import define_kernel
from explorer.results import Argument, Launch

without_driver = run_path(str(Path(__file__).parents[1] / "alone.py"))["without_driver"]

GUARD_BYTES = 64
GUARD = 0xAB
GARBAGE = 31.0
"""Stands in the padding channels of inputs, where no result may depend on it."""

Operand = np.ndarray | None | Sequence[np.ndarray]


def build(
    op_class: type[TopOperation],
    arrays: Sequence[Operand],
    *,
    layouts: Sequence[Layout] = (),
    result_layout: Layout = PLAIN,
    constants: Sequence[int] = (),
    kinds: Mapping[int, Attribute] | None = None,
    **properties: object,
) -> TopOperation:
    """The operation on function arguments like the arrays; those in `constants` are weights.

    kinds: element types of operands by number, where they are not NumPy's.
    """
    block = Block()
    numbers = itertools.count()

    def operand(array: np.ndarray) -> SSAValue:
        number = next(numbers)
        layout = layouts[number] if number < len(layouts) else PLAIN
        element = (kinds or {}).get(number) or element_type_from_numpy(array.dtype)
        kind = tensor_type(element, array.shape, layout)
        if number in constants:
            weight = WeightOp.make([], [kind], weight=f"w{number}")
            set_identity(weight, f"w{number}")
            block.add_op(weight)
            return weight.output
        value = block.insert_arg(kind, len(block.args))
        value.name_hint = f"x{number}"
        return value

    operands = [
        a if a is None else operand(a) if isinstance(a, np.ndarray) else [operand(b) for b in a]
        for a in (*arrays, *_absent(op_class, len(arrays)))
    ]
    op = op_class.make(operands, **properties)  # pyright: ignore[reportArgumentType]
    set_identity(op, "y")
    if not result_layout.is_plain:
        result = op.results[0]
        op = op_class.make(
            operands,
            [with_layout(result.type, result_layout)],
            **properties,  # pyright: ignore[reportArgumentType]
        )
        set_identity(op, "y")
    block.add_op(op)
    block.add_op(ReturnOp.make([list(op.results)]))
    types = ([a.type for a in block.args], [r.type for r in op.results])
    module = ModuleOp([func.FuncOp("main", types, Region(block))])
    module.verify()
    return op


def _absent(op_class: type[TopOperation], given: int) -> list[None]:
    """Optional operands at the end that a test left out."""
    return [None] * (len(op_class.get_irdl_definition().operands) - given)


def onnx_outputs(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    *,
    opset: int = 20,
    outputs: int = 1,
    domain: str = "",
    **attributes: object,
) -> list[np.ndarray]:
    """What onnxruntime computes for a model of this one node, optimizations off."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    graph = helper.make_graph(
        [node], "one", inputs, [make_empty_tensor_value_info(r) for r in results]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    return list(session.run(None, feeds))


def define(op: TopOperation) -> func.FuncOp:
    """The operation's kernel; one with several results gets an output argument for each."""
    if len(op.results) == 1:
        return define_kernel(op)
    k = KernelBuilder("kernel")

    def access(name: str, value: SSAValue, role: str) -> Access:
        shape = static_shape(value)
        return Access(
            k.argument(name, shape, stored_type(element_type_of(value)), role),
            shape,
            (0,) * len(shape),
        )

    inputs = [access(f"x{i}", o, "input") for i, o in enumerate(op.operands)]
    outputs = [access(f"y{i}", r, "output") for i, r in enumerate(op.results)]
    return k.finish(op.define(k, inputs, *outputs))


class CompiledKernels:
    """Compiles kernels with the machine's C compiler and calls them."""

    def __init__(self, folder: Path, compiler: str):
        self.folder, self.compiler = folder, compiler
        self.numbers = itertools.count()

    def run(self, op: TopOperation, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Logical results of the operation's compute definition.

        Fails where a definition writes outside its buffers, leaves padding channels unset or
        changes the halo.
        """
        return self.run_all([(op, arrays)])[0]

    def run_all(
        self, cases: Sequence[tuple[TopOperation, Sequence[np.ndarray]]]
    ) -> list[list[np.ndarray]]:
        """As `run`, of many operations in one program: compiling takes most of the time."""
        called = _Call()
        for op, arrays in cases:
            kernel = define(op)
            kernel.verify()
            called.add(kernel, [_filled(v, a) for v, a in zip(op.operands, arrays, strict=True)])
        program = emit_program("c", called.printed, called.launches)
        source = without_driver(program.source.lines)
        return [
            [
                _interior(result, buffer, op.keeps_finite)
                for result, buffer in zip(op.results, buffers, strict=True)
            ]
            for (op, _), buffers in zip(cases, called.run(self._library(source)), strict=True)
        ]

    def _library(self, source: str) -> ctypes.CDLL:
        stem = self.folder / f"kernel{next(self.numbers)}"
        stem.with_suffix(".c").write_text(source)
        # Unoptimized: these kernels run once, and compiling them is all that takes time.
        flags = ["-O0", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-w"]
        command = [self.compiler, *flags, "-o", f"{stem}.so", f"{stem}.c", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return ctypes.CDLL(f"{stem}.so")


@dataclass
class _Call:
    """Kernels, and one memory in which every buffer of theirs has a guard behind it."""

    printed: list = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    places: list[list[tuple[str, int, np.ndarray]]] = field(default_factory=list)
    """Of every kernel: role, offset and first contents of its buffers."""
    pieces: list[np.ndarray] = field(
        default_factory=lambda: [np.full(GUARD_BYTES, GUARD, np.uint8)]
    )
    offset: int = GUARD_BYTES

    def add(
        self, kernel: func.FuncOp, inputs: Sequence[Callable[[tuple[int, ...]], np.ndarray]]
    ) -> None:
        names = [str(n.data) for n in kernel.attributes["kernel.names"].data]  # pyright: ignore
        roles = [str(r.data) for r in kernel.attributes["kernel.roles"].data]  # pyright: ignore
        fillers = iter(inputs)
        arguments: list[Argument] = []
        places: list[tuple[str, int, np.ndarray]] = []
        for name, role, argument in zip(names, roles, kernel.body.block.args, strict=True):
            kind = argument.type
            assert isinstance(kind, MemRefType)
            shape, dtype = kind.get_shape(), numpy_dtype(kind.element_type)
            array = next(fillers)(shape) if role in ("input", "weight") else _unset(shape, dtype)
            assert array.shape == shape and array.dtype == dtype, (name, array.shape, shape)
            space = (
                "weights" if role == "weight" else "arena"
            )  # here they begin at the same address
            arguments.append(Argument(name, space, self.offset, array.nbytes, role))
            places.append((role, self.offset, array))
            size = -(-array.nbytes // GUARD_BYTES) * GUARD_BYTES + GUARD_BYTES
            piece = np.full(size, GUARD, np.uint8)
            piece[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.pieces.append(piece)
            self.offset += size
        called = f"kernel{len(self.launches)}"
        self.printed.append(print_c(lower_to_loops(kernel), called))
        self.launches.append(Launch(called, called, tuple(arguments), ()))
        self.places.append(places)

    def run(self, library: ctypes.CDLL) -> list[list[np.ndarray]]:
        """The output buffers of every kernel after one run of all."""
        arena = np.concatenate(self.pieces)
        address = arena.ctypes.data_as(ctypes.c_void_p)
        assert library.explorer_run(address, address, 1, None, None, None) == 0
        assert (arena[:GUARD_BYTES] == GUARD).all(), "a kernel writes before its first buffer"
        return [self._outputs(arena, places) for places in self.places]

    @staticmethod
    def _outputs(arena: np.ndarray, places: list[tuple[str, int, np.ndarray]]) -> list[np.ndarray]:
        outputs = []
        for role, begin, array in places:
            end = begin + array.nbytes
            guard = arena[end : -(-end // GUARD_BYTES) * GUARD_BYTES + GUARD_BYTES]
            assert (guard == GUARD).all(), "the kernel writes behind a buffer"
            data = arena[begin:end].view(array.dtype).reshape(array.shape)
            if role in ("input", "weight"):
                np.testing.assert_array_equal(data, array, "the kernel writes into an input")
            elif role == "output":
                outputs.append(data.copy())
        return outputs


def _unset(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What a buffer holds before it is written: anything."""
    return np.full(shape, np.nan if dtype.kind == "f" else 1 if dtype.kind == "b" else 77, dtype)


def _filled(value: SSAValue, array: np.ndarray) -> Callable[[tuple[int, ...]], np.ndarray]:
    """The array in a buffer of a given shape, with its halo and garbage in padding channels."""
    layout = layout_of(value)

    def fill(shape: tuple[int, ...]) -> np.ndarray:
        if isinstance(value.owner, WeightOp):
            if array.size == np.prod(shape):
                return array.reshape(shape)
            widths = [(0, new - old) for old, new in zip(array.shape, shape, strict=True)]
            return np.pad(array, widths)
        if layout.is_plain:
            return np.ascontiguousarray(array).reshape(shape)
        assert shape == haloed_shape(array.shape, layout)
        top, left, *_ = layout.halo
        rows, columns = array.shape[2:]
        buffer = np.full(shape, layout.fill, array.dtype)
        plane = np.s_[top : top + rows, left : left + columns]
        buffer[:, :, *plane] = array.dtype.type(GARBAGE)
        buffer[:, : array.shape[1], *plane] = array
        return buffer

    return fill


def _interior(result: SSAValue, buffer: np.ndarray, keeps_finite: bool) -> np.ndarray:
    layout, shape = layout_of(result), static_shape(result)
    if layout.is_plain:
        return buffer.reshape(shape)
    top, left, *_ = layout.halo
    plane = np.s_[top : top + shape[2], left : left + shape[3]]
    around = np.ones(buffer.shape[2:], bool)
    around[plane] = False
    np.testing.assert_array_equal(
        buffer[:, :, around], layout.fill, "the halo does not hold its fill"
    )
    if keeps_finite and buffer.dtype.kind == "f":
        padding = buffer[:, shape[1] :, *plane]
        assert np.isfinite(padding).all(), "padding channels are not finite"
    return buffer[:, : shape[1], *plane]


def check_inference(op: TopOperation, results: Sequence[np.ndarray]) -> None:
    """The declared types fit what was evaluated."""
    for result, array in zip(op.results, results, strict=True):
        assert array.dtype == numpy_dtype(element_type_of(result))
        declared = shape_of(result)
        assert len(declared) == array.ndim
        assert all(isinstance(d, str) or d == n for d, n in zip(declared, array.shape, strict=True))


def check_text(op: TopOperation) -> None:
    """Printing and parsing is the identity, for the whole module around the operation."""
    module = op.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    text = dump(module)
    assert dump(parse(text)) == text


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Integers and booleans exact; floats within `tolerance`, relative to the largest magnitude."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(float(finite.max(initial=0)), 1e-6)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledKernels:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (gcc or cc) to run compute definitions with")
    return CompiledKernels(tmp_path_factory.mktemp("kernels"), compiler)


@pytest.fixture(scope="session")
def check(compiled: CompiledKernels) -> Callable[..., None]:
    """Everything that must hold for an operation with a compute definition."""

    def run(
        op: TopOperation,
        arrays: Sequence[np.ndarray],
        expected: Sequence[np.ndarray] | None = None,
        tolerance: float = 2e-6,
    ) -> None:
        results = op.evaluate(*arrays)
        for result, reference in zip(results, expected or results, strict=True):
            assert_close(result, reference, tolerance)
        check_inference(op, results)
        check_text(op)
        for actual, result in zip(compiled.run(op, arrays), results, strict=True):
            assert_close(actual, np.asarray(result), tolerance)

    return run


@pytest.fixture(scope="session", name="build")
def build_fixture() -> Callable[..., TopOperation]:
    return build


@pytest.fixture(scope="session", name="onnx_outputs")
def onnx_outputs_fixture() -> Callable[..., list[np.ndarray]]:
    return onnx_outputs


@pytest.fixture
def values() -> Callable[..., np.ndarray]:
    """Random arrays, the same in every run: `values(1, 3, 8, 8)`, `values(4, dtype="int8")`."""
    generator = np.random.default_rng(20240611)

    def make(*shape: int, dtype: str = "float32", low: float = -3, high: float = 3) -> np.ndarray:
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return generator.random(shape) < 0.5
        if kind.kind in "iu":
            return generator.integers(int(low), int(high), shape, dtype=kind, endpoint=True)
        return np.asarray(generator.uniform(low, high, shape), kind)

    return make


@pytest.fixture(scope="session")
def infer() -> Callable[..., list[str]]:
    """Result types of an operation on operands given by shape: `infer(PoolOp, [("n", 3)], ...)`."""

    def run(
        op_class: type[TopOperation], shapes: Sequence[object], dtype: str = "float32", **properties
    ) -> list[tuple[int | str, ...]]:
        block = Block()
        element_type = element_type_from_numpy(np.dtype(dtype))

        def argument(shape) -> SSAValue:
            kinds: Mapping = {"shape": shape, "type": element_type}
            if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[0], tuple):
                kinds = {"shape": shape[0], "type": element_type_from_numpy(np.dtype(shape[1]))}
            return block.insert_arg(tensor_type(kinds["type"], kinds["shape"]), len(block.args))

        operands = [
            s if s is None else [argument(t) for t in s] if isinstance(s, list) else argument(s)
            for s in (*shapes, *_absent(op_class, len(shapes)))
        ]
        op = op_class.make(operands, **properties)
        return [shape_of(r) for r in op.results]

    return run


__all__ = ["TensorProto"]
