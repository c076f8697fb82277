"""Packages as a person uses them: built by their own Makefile, and run."""

from __future__ import annotations

import ctypes
import json
import locale
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.errors import InputError, MemoryBudgetError, UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.packaging.objects import read_object
from tests.packaging.building import MODELS, REPOSITORY, STRICT, run

FILES = {
    "include/NAME.h", "src/NAME.c", "src/NAME_kernels.h", "src/NAME_weights.h", "example/main.c",
    "selftest.c", "Makefile", "CMakeLists.txt", "README.md", "manifest.json",
}  # fmt: skip
PROMISED = ("init", "run", "input", "output", "inputs", "outputs")
OF_THE_C_LIBRARY = {"memcpy", "memset", "memmove"}
OF_LIBM = re.compile(r"(exp|log|tanh?|sin|cos|erf|pow|sqrt|floor|rint|fmod)f?")
SYSTEM_HEADERS = re.compile(r"#include <(pthread|sched|time|errno|unistd|stdlib|stdatomic)\.h>")


def files_of(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def library_of(folder: Path, *flags: str, name: str = "library") -> Path:
    """The package as one object file."""
    source = next((folder / "src").glob("*.c"))
    paths = (f"-I{folder / 'include'}", "-std=c99", "-fwrapv", "-O1")
    run("cc", *paths, *flags, "-c", source, "-o", folder.parent / f"{name}.o")
    return folder.parent / f"{name}.o"


def test_a_package_has_its_files_and_its_self_test_passes_bit_by_bit(packaged, built):
    folder = packaged("digits_mlp")
    assert set(files_of(folder)) == {name.replace("NAME", "digits_mlp") for name in FILES}
    copy = built(folder, "-DEXACT", "-Werror")
    assert run(copy / "selftest") == "2 vectors, ok\n"


@pytest.mark.parametrize("model", ["digits_mlp", "digits_transformer"])
@pytest.mark.parametrize("target", ["x86-64", "cortex-m4"])
@pytest.mark.sampled(2)
def test_packages_of_other_targets_compute_the_same_here(packaged, built, model, target):
    if target == "x86-64" and os.uname().machine != "x86_64":
        pytest.skip("the target is another machine")
    folder = packaged(model, target)
    flags = () if target == "x86-64" else ("-Werror",)
    makefile = folder / "Makefile"
    if target == "cortex-m4":  # its C has no extension, so that any compiler takes it
        words = re.search(r"^CHOSEN = .*", makefile.read_text(), re.M)
        assert words is not None and "-mcpu=cortex-m4" in words.group()
        run("cc", "-std=c99", "-fwrapv", *STRICT, "-Os", f"-I{folder / 'include'}",
            folder / "selftest.c", folder / "src" / f"{model}.c", "-lm",
            "-o", folder.parent / "selftest")  # fmt: skip
        assert run(folder.parent / "selftest") == "2 vectors, ok\n"
        return
    assert run(built(folder, *flags) / "selftest") == "2 vectors, ok\n"


def test_outputs_are_those_of_the_just_in_time_program(tmp_path):
    c = explorer.compile(MODELS / "digits_cnn.onnx")
    folder = c.package(tmp_path / "package")
    chosen = [line for line in (folder / "Makefile").read_text().splitlines() if " = -" in line]
    flags = " ".join(line.split(" = ")[1] for line in chosen if not line.startswith("ALL"))
    assert "-ffp-contract=fast" in flags
    run("make", "-s", "digits_cnn.o", "CFLAGS=-fPIC -DDIGITS_CNN_STATIC_ARENA", folder=folder)
    run("cc", "-shared", "-o", "library.so", "digits_cnn.o", "-lm", folder=folder)
    library = ctypes.CDLL(str(folder / "library.so"))
    model = (ctypes.c_void_p * 2)()
    library.digits_cnn_input.restype = library.digits_cnn_output.restype = ctypes.c_void_p
    assert library.digits_cnn_init(model, None, ctypes.c_size_t(0)) == 0
    for seed in range(5):
        given = c.example_inputs(seed)["image"] * 10.0**seed
        ctypes.memmove(library.digits_cnn_input(model, 0), given.ctypes.data, given.nbytes)
        assert library.digits_cnn_run(model) == 0
        found = ctypes.string_at(library.digits_cnn_output(model, 0), 40)
        assert found == c.run({"image": given})["logits"].tobytes()
    assert library.digits_cnn_input(model, 1) is None
    assert library.digits_cnn_output(model, -1) is None


def test_the_interface_checks_its_arguments(tmp_path, packaged):
    folder = packaged("digits_mlp")
    (tmp_path / "try.c").write_text("""
        #include <stdlib.h>
        #include "digits_mlp.h"
        #define SIZE (DIGITS_MLP_ARENA_BYTES + DIGITS_MLP_ARENA_ALIGNMENT)
        int main(void)
        {
            struct digits_mlp model;
            unsigned char *arena = aligned_alloc(DIGITS_MLP_ARENA_ALIGNMENT, SIZE);
            if (digits_mlp_init(&model, NULL, SIZE) != DIGITS_MLP_NO_ARENA) return 1;
            if (digits_mlp_init(NULL, arena, SIZE) != DIGITS_MLP_NO_ARENA) return 2;
            if (digits_mlp_init(&model, arena, DIGITS_MLP_ARENA_BYTES - 1)
                != DIGITS_MLP_ARENA_TOO_SMALL) return 3;
            if (digits_mlp_init(&model, arena + 1, SIZE - 1) != DIGITS_MLP_ARENA_UNALIGNED)
                return 4;
            if (digits_mlp_run(&model) != DIGITS_MLP_NOT_INITIALIZED) return 5;
            if (digits_mlp_input(&model, 0) != NULL) return 6;
            if (digits_mlp_init(&model, arena, DIGITS_MLP_ARENA_BYTES) != DIGITS_MLP_OK) return 7;
            if (digits_mlp_run(NULL) != DIGITS_MLP_NOT_INITIALIZED) return 8;
            return digits_mlp_run(&model);
        }""")
    sources = (folder / "src" / "digits_mlp.c", tmp_path / "try.c")
    run("cc", f"-I{folder / 'include'}", "-fwrapv", *sources, "-lm", "-o", tmp_path / "try")
    run(tmp_path / "try")


def test_without_vectors_it_is_c99_that_warns_of_nothing(packaged):
    folder = packaged("digits_transformer", "cortex-m0")
    library_of(folder, *STRICT)
    library_of(folder, *STRICT, "-DDIGITS_TRANSFORMER_STATIC_ARENA")
    text = "".join(data.decode() for path, data in files_of(folder).items() if path[:3] == "src")
    assert not SYSTEM_HEADERS.search(text)


def test_the_header_is_cplusplus_too(packaged, tmp_path):
    header = packaged("digits_mlp") / "include" / "digits_mlp.h"
    run("cc", "-x", "c++", "-std=c++11", *STRICT, "-fsyntax-only", header)


@pytest.mark.parametrize("target", ["cpu", "cortex-m4"])
@pytest.mark.parametrize("model", ["digits_mlp", "digits_transformer"])
@pytest.mark.sampled(2)
def test_symbols_are_what_the_header_promises(packaged, model, target):
    found = read_object(library_of(packaged(model, target), "-fno-pic"))
    assert found.defined == tuple(sorted(f"{model}_{name}" for name in PROMISED))
    assert all(n in OF_THE_C_LIBRARY or OF_LIBM.fullmatch(n) for n in found.undefined)
    assert found.written_bytes == 0


def test_two_models_are_one_program(packaged, tmp_path):
    folders = [packaged("digits_mlp"), packaged("digits_cnn", "cortex-m4")]
    names = ["digits_mlp", "digits_cnn"]
    calls = "".join(
        f"{{ static union {{ double d; unsigned char b[{n.upper()}_ARENA_BYTES + 64]; }} m;"
        f" struct {n} model; unsigned char *a = m.b; while ((uintptr_t)a % 64) a++;"
        f" failed |= {n}_init(&model, a, {n.upper()}_ARENA_BYTES) || {n}_run(&model); }}"
        for n in names
    )
    includes = "".join(f'#include "{n}.h"\n' for n in names)
    text = f"{includes}int main(void) {{ int failed = 0; {calls} return failed; }}\n"
    (tmp_path / "both.c").write_text(text)
    sources = [f / "src" / f"{n}.c" for f, n in zip(folders, names, strict=True)]
    paths = [f"-I{folder / 'include'}" for folder in folders]
    run("cc", "-fwrapv", *paths, *sources, tmp_path / "both.c", "-lm", "-o", tmp_path / "both")
    run(tmp_path / "both")


@pytest.mark.parametrize("target", ["cpu", "cortex-m0"])
def test_sanitizers_find_nothing(packaged, built, target):
    folder = packaged("digits_mlp", target)
    flags = "-fsanitize=address,undefined -fno-sanitize-recover -g0"
    if target == "cpu":
        assert run(built(folder, flags) / "selftest") == "2 vectors, ok\n"
        return
    run("cc", "-std=c99", *flags.split(), f"-I{folder / 'include'}", folder / "selftest.c",
        folder / "src" / "digits_mlp.c", "-lm", "-o", folder.parent / "checked")  # fmt: skip
    assert run(folder.parent / "checked") == "2 vectors, ok\n"


def test_weights_in_a_file_give_the_same_numbers(packaged, built):
    folder = packaged("digits_mlp", weights="file")
    assert "src/digits_mlp_weights.h" not in files_of(folder)
    copy = built(folder, "-DEXACT")
    assert run("./selftest", folder=copy) == "2 vectors, ok\n"
    damaged = bytearray((copy / "digits_mlp.weights").read_bytes())
    damaged[100] ^= 1
    (copy / "digits_mlp.weights").write_bytes(damaged)
    finished = subprocess.run(["./selftest"], cwd=copy, capture_output=True, text=True)
    assert finished.returncode == 1 and "the weights are not those" in finished.stdout


def test_many_numbers_of_vectors_are_a_file(tmp_path, built):
    from onnx import TensorProto, helper, save

    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 80, 900]) for name in ("x", "y")
    ]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "graph", ports[:1], ports[1:]
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    folder = explorer.compile(tmp_path / "m.onnx").package(tmp_path / "package")
    assert (folder / "selftest.c").stat().st_size < 10_000
    assert (folder / "vectors.bin").stat().st_size == 2 * 80 * 900 * 4
    copy = built(folder, "-DEXACT", "-Werror")
    assert run("./selftest", folder=copy) == "1 vectors, ok\n"
    (copy / "vectors.bin").write_bytes(b"few")
    finished = subprocess.run(["./selftest"], cwd=copy, capture_output=True, text=True)
    assert finished.returncode == 1 and "vectors.bin cannot be read" in finished.stdout


def test_a_changed_weight_in_an_array_is_found_by_the_self_test(packaged, copied, built):
    folder = copied(packaged("digits_mlp"))
    weights = folder / "src" / "digits_mlp_weights.h"
    text = weights.read_text()
    number = re.search(r"(?<=\.)\d{4,}(?=f,)", text)
    assert number is not None
    changed = f"{(int(number.group()) + 1) % 10 ** len(number.group()):0{len(number.group())}}"
    weights.write_text(text[: number.start()] + changed + text[number.end() :])
    copy = built(folder)
    finished = subprocess.run(["./selftest"], cwd=copy, capture_output=True, text=True)
    assert finished.returncode == 1 and "the weights are not those" in finished.stdout


def test_a_stripped_package_has_no_name_of_the_model(packaged, built):
    c = explorer.compile(MODELS / "digits_cnn.onnx")
    names = {c.model.name, *(value.name for value in (*c.model.inputs, *c.model.outputs))}
    names |= {node.name for node in c.model.nodes} | set(c.model.constants) | set(c.kernels)
    names |= {launch.operation for launch in c.program.launches}
    folder = packaged("digits_cnn", strip=True)
    found = files_of(folder)
    assert set(found) == {name.replace("NAME", "model") for name in FILES}
    for path, data in found.items():
        text = data.decode()
        words = set(re.findall(r"[\w./]+", text))
        assert not words & (names - {"image", "model"}), path
        assert "conv" not in text and "stage" not in text, path
        if path.endswith((".c", ".h")):
            assert "//" not in text
    assert run(built(packaged("digits_mlp", strip=True), "-DEXACT") / "selftest").endswith("ok\n")


PROGRAM = """
import sys
import explorer
c = explorer.compile(sys.argv[1], target="cortex-m4")
c.package(sys.argv[2], strip=False)
"""


def test_the_same_package_comes_of_another_place_day_and_language(packaged, tmp_path):
    folder = tmp_path / "ein anderer Ort" / "paket"
    folder.parent.mkdir()
    model = folder.parent / "digits_mlp.onnx"
    model.write_bytes((MODELS / "digits_mlp.onnx").read_bytes())
    chosen = next((n for n in locale.locale_alias.values() if n.startswith("de_DE")), "C")
    environment = {**os.environ, "LC_ALL": chosen, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    environment["PYTHONPATH"] = str(REPOSITORY)
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(model), str(folder)],
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert files_of(folder) == files_of(packaged("digits_mlp", "cortex-m4"))


def test_the_manifest_replays_the_compilation(packaged, tmp_path):
    folder = packaged("digits_cnn", "cortex-m4")
    table = json.loads((folder / "manifest.json").read_text())
    decisions = table["settings"]["decisions"]
    again = explorer.compile(MODELS / "digits_cnn.onnx", target="cortex-m4", decisions=decisions)
    assert files_of(again.package(tmp_path / "again")).keys() == files_of(folder).keys()
    for path in ("src/digits_cnn.c", "src/digits_cnn_kernels.h", "src/digits_cnn_weights.h"):
        assert (tmp_path / "again" / path).read_bytes() == (folder / path).read_bytes()


def test_a_package_quantized_by_a_table_has_the_table_that_replays_it(tmp_path, monkeypatch):
    model = MODELS / "digits_mlp.onnx"
    loaded = explorer.load(model)
    inputs = np.linspace(-1, 1, 4 * 64, dtype=np.float32).reshape(4, 1, 8, 8)
    table = explorer.calibrate(loaded, {"image": inputs}, corrections=("adaround",))
    first = explorer.compile(
        loaded, "cortex-m4", quantization=table, modes={list(table.thresholds)[-1]: "F32"}
    )
    folder = first.package(tmp_path / "first")
    assert {f"quantization.{end}" for end in ("table", "modes")} <= files_of(folder).keys()
    manifest = json.loads((folder / "manifest.json").read_text())
    monkeypatch.chdir(folder)
    again = explorer.compile(model, manifest["target"], **manifest["settings"])
    assert files_of(again.package(tmp_path / "again")) == files_of(folder)
    stripped = files_of(first.package(tmp_path / "stripped", strip=True))
    assert not [path for path in stripped if path.startswith("quantization")]


def test_the_manifest_tells_how_near_the_source_model_is(packaged):
    table = json.loads((packaged("digits_mlp") / "manifest.json").read_text())
    found = table["accuracy"]["outputs"]["logits"]
    assert found["largest_difference"] <= 1e-5 * found["largest_number"]
    assert table["model"] == "digits_mlp" and len(table["model_sha256"]) == 64
    assert sum(layer["weights_bytes"] for layer in table["layers"]) <= table["weights_bytes"]


def test_a_range_of_sizes_gives_a_size_to_every_run(tmp_path):
    c = explorer.compile(MODELS / "digits_mlp.onnx", dimensions={"batch": (1, 8)})
    folder = c.package(tmp_path / "package")
    run("make", "-s", "digits_mlp.o", "CFLAGS=-fPIC -DDIGITS_MLP_STATIC_ARENA", folder=folder)
    run("cc", "-shared", "-o", "library.so", "digits_mlp.o", "-lm", folder=folder)
    library = ctypes.CDLL(str(folder / "library.so"))
    library.digits_mlp_input.restype = library.digits_mlp_output.restype = ctypes.c_void_p
    model = (ctypes.c_void_p * 2)()
    assert library.digits_mlp_init(model, None, ctypes.c_size_t(0)) == 0
    for size in (1, 3, 8):
        given = np.random.default_rng(size).standard_normal((size, 1, 8, 8)).astype(np.float32)
        ctypes.memmove(library.digits_mlp_input(model, 0), given.ctypes.data, given.nbytes)
        assert library.digits_mlp_run(model, ctypes.c_int64(size)) == 0
        found = ctypes.string_at(library.digits_mlp_output(model, 0), size * 40)
        assert found == c.run({"image": given})["logits"].tobytes()
    for size in (0, 9, -1):
        assert library.digits_mlp_run(model, ctypes.c_int64(size)) == 5
    c.close()


# -- what is refused -----------------------------------------------------------------------------


def test_a_folder_that_exists_is_left_as_it_is(packaged, tmp_path):
    c = explorer.compile(MODELS / "digits_mlp.onnx")
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="it exists"):
        c.package(tmp_path / "mine")
    with pytest.raises(InputError, match="no package"):
        c.package(tmp_path / "mine", force=True)
    folder = c.package(tmp_path / "package")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        c.package(folder, force=True)
    (folder / "notes.txt").unlink()
    (folder / "selftest").write_text("a product")
    c.package(folder, force=True, strip=True)
    assert "include/model.h" in files_of(folder) and "selftest" not in files_of(folder)
    with pytest.raises(InputError, match="folder does not exist"):
        c.package(tmp_path / "a" / "b")
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(InputError, match="no package"):
        c.package(tmp_path / "link", force=True)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    c = explorer.compile(MODELS / "digits_mlp.onnx")
    folder = c.package(tmp_path / "package")
    before = files_of(folder)
    written = Path.write_bytes

    def fill_up(path: Path, data: bytes) -> int:
        if path.name == "selftest.c":
            raise OSError(28, "No space left on device")
        return written(path, data)

    monkeypatch.setattr(Path, "write_bytes", fill_up)
    for place in (tmp_path / "new", folder):
        with pytest.raises(InputError, match="No space left"):
            c.package(place, force=True)
    assert files_of(folder) == before and list(tmp_path.iterdir()) == [folder]


def test_what_only_the_host_runs_is_named(tmp_path):
    from onnx import TensorProto, helper, save

    node = helper.make_node("NonZero", ["x"], ["y"], name="places of it")
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match="no host"):
        explorer.compile(tmp_path / "m.onnx").package(tmp_path / "package")
    assert not (tmp_path / "package").exists()


def test_a_target_without_c_is_refused(tmp_path, monkeypatch):
    c = explorer.compile(MODELS / "digits_mlp.onnx")
    monkeypatch.setattr(type(c.backend), "name", "toy")
    with pytest.raises(InputError, match="not programmed in C"):
        c.package(tmp_path / "package")


def test_memories_that_are_too_small_are_refused(tmp_path):
    with pytest.raises(MemoryBudgetError, match="1,000"):
        explorer.compile(MODELS / "digits_cnn.onnx", target="cortex-m0", budget_bytes=1000)
    c = explorer.compile(MODELS / "digits_mlp.onnx", target="cortex-m0")
    with pytest.raises(InputError, match="the flash has 1,000"):
        c.package(tmp_path / "package", flash_bytes=1000)
    with pytest.raises(InputError, match="weights cannot be stored"):
        c.package(tmp_path / "package", weights="arrays")


@pytest.mark.parametrize(
    ("stored", "halves"), [("float32", 1), ("float16", 1), ("int8", 1), ("int8", 2)]
)
def test_a_package_takes_rows_of_a_past_as_they_are_stored(tmp_path, built, stored, halves):
    joined = {
        1: "present = Concat <axis = 1> (past, new)",
        2: """k, v = Split <axis = 0> (past)
        keys = Concat <axis = 1> (k, new) values = Concat <axis = 1> (v, new)
        present = Concat <axis = 0> (keys, values)""",
    }
    text = f"""<ir_version: 8, opset_import: ["": 17]>
      past (float[1, 1, 4] new, float[{halves}, p, 4] past)
        => (float[{halves}, all, 4] present, float[{halves}, all, 4] y) {{
        {joined[halves]}
        y = Neg (present)
      }}"""
    model = from_proto(onnx.parser.parse_model(text), name="past")
    compilation = explorer.compile(model, capacity=3, decisions={"narrow-past/type": stored})
    compilation.package(tmp_path / "package")
    copy = built(tmp_path / "package", "-DEXACT", "-Werror")
    assert run(copy / "selftest") == "2 vectors, ok\n"
