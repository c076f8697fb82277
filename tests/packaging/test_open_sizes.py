"""Packages of programs with open sizes: a run takes the sizes, checks them, and has no gaps."""

import ctypes
import json

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.packaging.sizes import SizesInC
from tests.packaging.building import STRICT, run

BAD_SIZE = 5
BAD_RELATION = 7
NO_TENSOR = 8


def compiled(text, name, target="cpu", **dimensions):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> net {text}')
    return explorer.compile(from_proto(model, name=name), target, dimensions=dimensions)


JOINED = """(float[batch,s,4] x) => (float[n] y, float[batch,4] m) {
    shape = Constant <value_ints=[-1]> ()
    soft = Softmax <axis = 1> (x)
    y = Reshape (soft, shape)
    m = ReduceMean <axes=[1], keepdims=0> (x)
}"""
PRODUCT = "(float[a,p] x, float[q,3] z) => (float[a,3] y) { y = MatMul (x, z) }"


def tensor_of(rank):
    """`struct net_tensor` of a package with that largest rank."""

    class Tensor(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_char_p),
            ("type", ctypes.c_int),
            ("rank", ctypes.c_int),
            ("shape", ctypes.c_int32 * rank),
            ("offset_bytes", ctypes.c_uint32),
            ("size_bytes", ctypes.c_uint32),
            ("scale", ctypes.c_float),
            ("zero_point", ctypes.c_int32),
        )

    return Tensor()


class Library:
    """A package as a shared library, with a model that has a static arena."""

    def __init__(self, folder, name, rank):
        macro = f"-D{name.upper()}_STATIC_ARENA"
        run("make", "-s", f"{name}.o", f"CFLAGS=-fPIC {macro}", folder=folder)
        run("cc", "-shared", "-o", "library.so", f"{name}.o", "-lm", folder=folder)
        self.library, self.name = ctypes.CDLL(str(folder / "library.so")), name
        self.rank = rank
        for kind in ("input", "output"):
            self.function(kind).restype = ctypes.c_void_p
        self.model = (ctypes.c_void_p * 2)()
        assert self.function("init")(self.model, None, ctypes.c_size_t(0)) == 0

    def function(self, end):
        return getattr(self.library, f"{self.name}_{end}")

    def at(self, kind, number, *sizes):
        """(status, shape, bytes) of an input or output."""
        found = tensor_of(self.rank)
        status = self.function(f"{kind}_at")(
            number, *map(ctypes.c_int64, sizes), ctypes.byref(found)
        )
        return status, tuple(found.shape[: found.rank]), found.size_bytes

    def run(self, *sizes):
        return self.function("run")(self.model, *map(ctypes.c_int64, sizes))

    def outputs(self, given, *sizes):
        for number, array in enumerate(given):
            place = self.function("input")(self.model, number)
            ctypes.memmove(place, array.ctypes.data, array.nbytes)
        assert self.run(*sizes) == 0
        _, shape, size = self.at("output", 0, *sizes)
        data = ctypes.string_at(self.function("output")(self.model, 0), size)
        return np.frombuffer(data, np.float32).reshape(shape)


def test_each_run_takes_sizes_and_gives_outputs_without_gaps(tmp_path):
    c = compiled(JOINED, "joined", batch=(1, 3), s=(2, 6))
    library = Library(c.package(tmp_path / "package"), "joined", 3)
    generator = np.random.default_rng(0)
    for sizes in ((3, 6), (1, 2), (2, 5), (3, 2), (1, 6)):
        x = generator.standard_normal((*sizes, 4)).astype(np.float32)
        assert library.at("input", 0, *sizes) == (0, (*sizes, 4), x.nbytes)
        assert library.outputs([x], *sizes).tobytes() == c.run({"x": x})["y"].tobytes()
    c.close()


def test_sizes_outside_of_their_bounds_and_relations_are_refused(tmp_path):
    c = compiled(PRODUCT, "product", a=(1, 4), p=(2, 12), q=(2, 12))
    library = Library(c.package(tmp_path / "package"), "product", 2)
    assert library.run(1, 8, 8) == 0
    for sizes in ((0, 8, 8), (1, 1, 1), (1, 8, 13), (-4, 8, 8), (1, 2**40, 8)):
        assert library.run(*sizes) == BAD_SIZE
    assert library.run(2, 7, 8) == BAD_RELATION
    assert library.at("output", 0, 4, 7, 7) == (0, (4, 3), 48)
    assert library.at("output", 0, 4, 7, 8)[0] == BAD_RELATION
    assert [library.at("output", number, 4, 7, 7)[0] for number in (-1, 1)] == [NO_TENSOR] * 2
    c.close()


@pytest.mark.parametrize("strip", [False, True])
def test_the_self_test_runs_several_sizes_and_sanitizers_find_nothing(tmp_path, built, strip):
    c = compiled(JOINED, "joined", batch=(1, 3), s=(2, 6))
    package = c.package(tmp_path / "package", strip=strip, name="net")
    sizes = json.loads((package / "manifest.json").read_text())["sizes"]
    assert [(one["lowest"], one["highest"]) for one in sizes] == [(1, 3), (2, 6)]
    sanitize = "-fsanitize=address,undefined"
    copy = built(package, "-DEXACT", *STRICT, sanitize, link=sanitize)
    assert run("./selftest", folder=copy) == "3 vectors, ok\n"
    text = "".join(p.read_text() for p in package.rglob("*.[ch]"))
    assert ("batch" in text) is not strip
    c.close()


def test_a_target_without_vectors_takes_sizes_in_strict_c99(tmp_path):
    c = compiled(JOINED, "joined", target="cortex-m4", batch=(1, 3), s=(2, 6))
    folder = c.package(tmp_path / "package")
    run("cc", "-std=c99", "-fwrapv", *STRICT, f"-I{folder / 'include'}", folder / "selftest.c",
        folder / "src" / "joined.c", "-lm", "-o", tmp_path / "selftest")  # fmt: skip
    assert run(tmp_path / "selftest") == "3 vectors, ok\n"
    c.close()


def test_names_of_dimensions_that_are_no_c_names_become_some(tmp_path):
    c = compiled(JOINED.replace("batch,s", '"a b","a.b"').replace("batch", '"a b"'), "odd",
                 **{"a b": (1, 2), "a.b": (1, 3)})  # fmt: skip
    assert list(SizesInC(c.program, False).parameters.values()) == ["size_a_b", "size_a_b_1"]
    c.close()


def test_opencl_has_no_open_sizes(tmp_path):
    c = compiled(JOINED, "joined", target="opencl", batch=(1, 3), s=(2, 6))
    with pytest.raises(InputError, match="a package for OpenCL has no size that is left open"):
        c.package(tmp_path / "package")
    c.close()
