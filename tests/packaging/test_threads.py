"""Packages that several threads run: `--threads N`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import explorer
from explorer.errors import InputError
from tests.packaging.building import MODELS, STRICT, run

FAILING = """
    #include <pthread.h>
    #include <stdio.h>
    #include "digits_mlp.h"
    static unsigned char memory[DIGITS_MLP_ARENA_BYTES + DIGITS_MLP_ARENA_ALIGNMENT];
    static int created, joined;
    int __real_pthread_create(
        pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int __real_pthread_join(pthread_t, void **);
    int __wrap_pthread_create(
        pthread_t *handle, const pthread_attr_t *given, void *(*start)(void *), void *argument)
    {
        return ++created == 2 ? 11 : __real_pthread_create(handle, given, start, argument);
    }
    int __wrap_pthread_join(pthread_t handle, void **result)
    {
        joined++;
        return __real_pthread_join(handle, result);
    }
    int main(void)
    {
        struct digits_mlp model;
        unsigned char *arena = memory;
        while ((uintptr_t)arena % DIGITS_MLP_ARENA_ALIGNMENT)
            arena++;
        if (digits_mlp_init(&model, arena, DIGITS_MLP_ARENA_BYTES) != DIGITS_MLP_NO_THREADS)
            return 1;
        if (digits_mlp_run(&model) != DIGITS_MLP_NOT_INITIALIZED)
            return 2;
        digits_mlp_close(&model);
        if (joined != 1 || created != 2)
            return 3;
        for (int again = 0; again < 3; again++) {  // later ones are created
            if (digits_mlp_init(&model, arena, DIGITS_MLP_ARENA_BYTES) != DIGITS_MLP_OK)
                return 4;
            for (int number = 0; number < 20; number++)
                if (digits_mlp_run(&model) != DIGITS_MLP_OK)
                    return 5;
            digits_mlp_close(&model);
            digits_mlp_close(&model);
        }
        return joined == 10 ? 0 : 6;
    }
"""


@pytest.mark.parametrize("model", ["digits_mlp", "digits_cnn"])
def test_several_threads_give_the_numbers_of_one_bit_by_bit(packaged, built, model):
    copy = built(packaged(model, threads=3), "-DEXACT", "-Werror")
    assert run(copy / "selftest") == "2 vectors, ok\n"


def test_the_threads_do_not_race(packaged, built):
    found = run("cc", "-print-file-name=libtsan.so").strip()
    if not Path(found).is_absolute():
        pytest.skip("the sanitizer for threads is not installed")
    copy = built(packaged("digits_mlp", threads=3), "-fsanitize=thread")
    assert run(copy / "selftest") == "2 vectors, ok\n"


def test_without_vectors_threads_are_c99_that_warns_of_nothing(packaged, tmp_path):
    folder = packaged("digits_mlp", "armv7-linux", threads=2)
    run("cc", "-std=c99", "-fwrapv", *STRICT, f"-I{folder / 'include'}", folder / "selftest.c",
        folder / "src" / "digits_mlp.c", "-pthread", "-lm", "-o", tmp_path / "program")  # fmt: skip
    assert run(tmp_path / "program") == "2 vectors, ok\n"
    assert "-pthread" in (folder / "Makefile").read_text()


def test_a_system_that_starts_no_more_threads_is_a_status(packaged, tmp_path):
    folder = packaged("digits_mlp", threads=4)
    (tmp_path / "try.c").write_text(FAILING)
    wraps = [f"-Wl,--wrap=pthread_{name}" for name in ("create", "join")]
    sources = (folder / "src" / "digits_mlp.c", tmp_path / "try.c")
    run("cc", "-fwrapv", "-O1", "-pthread", *wraps, f"-I{folder / 'include'}", *sources, "-lm",
        "-o", tmp_path / "try")  # fmt: skip
    run(tmp_path / "try")


def test_a_package_of_one_thread_has_none(packaged):
    folder = packaged("digits_mlp")
    for path in (folder / "src" / "digits_mlp.c", folder / "include" / "digits_mlp.h"):
        assert not re.search("pthread|_close|team", path.read_text())


def test_what_verifies_a_package_compiles_it_with_its_threads(packaged):
    from explorer.packaging.inspecting import inspect_package

    record = inspect_package(packaged("digits_mlp", threads=3), runs=True)
    assert record.build.passed, record.build.note
    assert any(name.startswith("pthread_") for name in record.build.undefined_symbols or ())


@pytest.mark.parametrize("threads", [0, -1, 65])
def test_a_count_that_is_none_is_refused(tmp_path, threads):
    c = explorer.compile(MODELS / "digits_mlp.onnx")
    with pytest.raises(InputError, match="threads cannot share a run; try: 1 to 64"):
        c.package(tmp_path / "package", threads=threads)
    assert not (tmp_path / "package").exists()


def test_cmake_finds_the_threads(packaged, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    run("cmake", "-S", packaged("digits_mlp", threads=2), "-B", tmp_path)
    run("cmake", "--build", tmp_path)
    run("ctest", "--test-dir", tmp_path)
