"""A kernel as other compilers and processors would have it: to be looked at, never run."""

import importlib.util
import platform
import shutil

import pytest

from explorer.errors import BuildError
from explorer.results import KernelRecord, PhaseRecord, SourceText
from explorer.runtime.assembly.cross_compilation import (
    COMPILERS,
    INSTRUCTION_SETS,
    Build,
    cross_compile,
)
from explorer.runtime.assembly.queries import answer, tools

PRELUDE = ("#include <stddef.h>", "typedef float float8 __attribute__((vector_size(32)));")
LINES = (
    "static void scale_phase0(const float8 *restrict x, float8 *restrict y, long lo, long hi)",
    "{",
    "    for (long i = lo; i < hi; i++) {",
    "        y[i] = x[i] * x[i];",
    "    }",
    "}",
)
OWNERS = ((), (), ("scale/main",), ("scale/main",), (), ())
MULTIPLY = {"SSE2": "mulps", "AVX2": "vmulps", "AVX-512": "vmulps", "NEON": "fmul", "RVV": "vfmul"}


def kernel(lines: tuple[str, ...] = LINES) -> KernelRecord:
    return KernelRecord(
        name="scale",
        kind="multiply",
        operations=("scale1",),
        flops=8,
        bytes_moved=64,
        steps=(),
        phases=(PhaseRecord("scale_phase0", 1),),
        source=SourceText("c", lines, OWNERS),
    )


def is_there(compiler: str) -> bool:
    is_module = compiler == "zig" and importlib.util.find_spec("ziglang") is not None
    return is_module or shutil.which(compiler) is not None


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_kernel_is_made_for_another_processor(compiler, instruction_set):
    build = Build(compiler, instruction_set)
    if not is_there(compiler):
        pytest.skip(f"{compiler} is not installed")
    if compiler != "zig" and build.architecture != platform.machine():
        pytest.skip(f"{compiler} for {build.architecture} is another package")
    built = cross_compile(PRELUDE, kernel(), build)
    text = built.assembly.text
    assert text is not None
    multiply = next(
        index for index, line in enumerate(text.lines)
        if line.strip().startswith(MULTIPLY[instruction_set])
    )  # fmt: skip
    assert built.assembly.source_lines[multiply] == (3,)
    assert text.owners[multiply] == ("scale/main",)
    assert "native" not in " ".join(built.command)


def test_a_compiler_that_is_missing_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="there is no clang on this machine") as raised:
        cross_compile(PRELUDE, kernel(), Build("clang", "AVX2"))
    assert "apt install clang" in (raised.value.hint or "")
    other = "NEON" if platform.machine() == "x86_64" else "AVX2"
    with pytest.raises(BuildError, match="-linux-gnu-gcc on this machine") as raised:
        cross_compile(PRELUDE, kernel(), Build("gcc", other))
    assert "pip install ziglang" in (raised.value.hint or "")
    assert [found for _, found, _ in tools()["compilers"]][:2] == [False, False]


def test_what_a_page_asks_for_is_one_of_a_few_things():
    for wrong in (("tcc", "AVX2", "-O2"), ("gcc", "MMX", "-O2"), ("gcc", "AVX2", "-o/tmp/x")):
        with pytest.raises(BuildError, match="is none of"):
            Build(*wrong)


def chunk(lines: tuple[str, ...]):
    own = {"lines": list(lines), "owners": [list(o) for o in OWNERS]}
    text = {"language": "c", "count": len(lines), "runs": [[0, 0, len(lines)]]}
    chunks = {
        "prelude": list(PRELUDE),
        "kernel/0": {
            "name": "scale", "kind": "multiply", "operations": ["scale1"], "flops": 8, "bytes": 64,
            "phases": [["scale_phase0", 1]], "source": text, "page": own, "assembly": None,
            "assemblyNote": "nobody asked",
        },
    }  # fmt: skip
    return chunks.__getitem__


@pytest.mark.skipif(not is_there("gcc"), reason="gcc is not installed")
def test_answers_hold_what_a_compiler_wrote_when_it_refused():
    level = "SSE2" if platform.machine() == "x86_64" else "NEON"
    found = answer(f"asked/build/0/gcc/{level}/-O1", chunk(LINES))
    assert "-O1" in found["command"] and len(found["lines"]) == len(found["assemblyLines"])
    wrong = (*LINES[:3], "        y[i] = nothing[i];", *LINES[4:])
    refused = answer(f"asked/build/0/gcc/{level}/-O1", chunk(wrong))
    assert "refused the program" in refused["error"]
    assert "nothing" in refused["log"]


def test_questions_about_what_is_not_there_are_answered_in_words():
    for key, words in (
        ("asked/build/7/gcc/SSE2/-O2", "there is no kernel '7'"),
        ("asked/analysis/0/0/3", "scale was not disassembled: nobody asked"),
        ("asked/else", "is no question about a kernel"),
    ):
        assert words in answer(key, chunk(LINES))["error"]
