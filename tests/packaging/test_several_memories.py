"""Packages for targets with several memories: one buffer for each, which a linker may place."""

from __future__ import annotations

import ctypes
import json
import subprocess

import numpy as np
import pytest

import explorer
from explorer.errors import InputError
from explorer.packaging.inspecting import inspect_package
from explorer.targets import load_target
from tests.packaging.building import MODELS, STRICT, run

TARGET = """
name = "two-memories"
languages = ["c"]
data_types = ["float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8"]
vector_floats = 1
[layout]
channel_block = 1
[package]
threads = true
[memories.model]
kind = "arena"
size_bytes = {fast}
bytes_per_second = 4e9
[memories.slow]
kind = "arena"
size_bytes = 524288
bytes_per_second = 5e8
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory):
    def load(fast: int):
        path = tmp_path_factory.mktemp("targets") / "two.toml"
        path.write_text(TARGET.format(fast=fast))
        return load_target(path)

    return load


@pytest.mark.parametrize("threads", [1, 2])
def test_the_self_test_passes_with_a_buffer_for_each_memory(threads, target, tmp_path, built):
    c = explorer.compile(MODELS / "digits_cnn.onnx", target(4096))
    folder = c.package(tmp_path / "package", threads=threads)
    strict = STRICT if threads == 1 else ()
    assert run(built(folder, "-DEXACT", *strict) / "selftest") == "2 vectors, ok\n"
    table = json.loads((folder / "manifest.json").read_text())
    fast, slow = table["memories"]
    # `model` is the name of a parameter already.
    assert (fast["name"], slow["name"]) == ("model_memory", "slow")
    assert fast["size_bytes"] <= 4096 and slow["first_byte"] == fast["size_bytes"]
    assert fast["size_bytes"] + slow["size_bytes"] == table["arena_bytes"]
    assert inspect_package(folder).changed_files == ()


def test_an_open_size_is_given_at_a_run_in_several_memories(target, tmp_path, built):
    """Its place is in the last memory; inputs and outputs are moved within theirs."""
    c = explorer.compile(MODELS / "digits_mlp.onnx", target(320), dimensions={"batch": (1, 3)})
    folder = c.package(tmp_path / "package")
    assert "at(memories, " in (folder / "src" / "digits_mlp.c").read_text()
    assert run(built(folder, "-DEXACT") / "selftest").endswith(" vectors, ok\n")


def test_a_section_of_each_memory_is_where_the_macro_says(target, tmp_path):
    c = explorer.compile(MODELS / "digits_mlp.onnx", target(320))
    folder = c.package(tmp_path / "package")
    section = "'-DDIGITS_MLP_{}_SECTION=__attribute__((section(\".{}\")))'"
    flags = ["-fPIC", "-DDIGITS_MLP_STATIC_ARENA", section.format("MODEL_MEMORY", "quick"),
             section.format("SLOW", "other")]  # fmt: skip
    run("make", "-s", "digits_mlp.o", f"CFLAGS={' '.join(flags)}", folder=folder)
    listed = subprocess.run(["objdump", "-h", str(folder / "digits_mlp.o")], capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    assert ".quick" in listed and ".other" in listed
    run("cc", "-shared", "-o", "library.so", "digits_mlp.o", "-lm", folder=folder)
    library = ctypes.CDLL(str(folder / "library.so"))
    model = (ctypes.c_void_p * 4)()
    library.digits_mlp_input.restype = library.digits_mlp_output.restype = ctypes.c_void_p
    nothing = ctypes.c_size_t(0)
    assert library.digits_mlp_init(model, None, nothing, None, nothing) == 0
    given = c.example_inputs()["image"]
    ctypes.memmove(library.digits_mlp_input(model, 0), given.ctypes.data, given.nbytes)
    assert library.digits_mlp_run(model) == 0
    expected = c.run({"image": given})["logits"]
    found = ctypes.string_at(library.digits_mlp_output(model, 0), expected.nbytes)
    np.testing.assert_array_equal(np.frombuffer(found, np.float32), expected.ravel())


def test_what_fits_the_fastest_memory_has_one_arena(target, tmp_path):
    c = explorer.compile(MODELS / "digits_mlp.onnx", target(1 << 16))
    header = (c.package(tmp_path / "package") / "include" / "digits_mlp.h").read_text()
    assert "void *arena, size_t arena_bytes" in header and "unsigned char *memories" not in header


def test_functions_next_to_another_target_have_several_memories_and_no_package(target, tmp_path):
    model, chosen = MODELS / "digits_mlp.onnx", {"assign/device/dense3": "two-memories"}
    c = explorer.compile(model, ["cpu", target(320)], decisions=chosen)
    assert [part.device for part in c.program.parts] == ["cpu", "two-memories"]
    assert c.companion is not None and c.companion.memories["model"].peak_bytes <= 320
    images = c.example_inputs()
    expected = explorer.compile(model).run(images)["logits"]
    np.testing.assert_allclose(c.run(images)["logits"], expected, atol=1e-4)
    words = "2 parts has one arena, and the target two-memories has several memories: model, slow"
    with pytest.raises(InputError, match=words) as refused:
        c.package(tmp_path / "package")
    assert refused.value.hint is not None and "two-memories alone" in refused.value.hint
    assert not (tmp_path / "package").exists()
