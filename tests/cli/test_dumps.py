"""Dumps of other compilers: their forms, the whole program after every pass, and what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.errors import InputError
from explorer.traces.dumps import changed_lines, read_dumps

LLVM = """noise of the command
*** IR Dump After ForceFunctionAttrsPass on [module] ***
; ModuleID = 'a'
define i32 @f(i32 %x) {
  %a = add i32 %x, 0
  ret i32 %a
}

define internal i32 @"g h"(i32 %x) {
  ret i32 %x
}
; *** IR Dump After InstCombinePass on f ***
define i32 @f(i32 %x) {
  ret i32 %x
}
# *** IR Dump After LICMPass on loop %4 in function f ***:
define i32 @f(i32 %x) {
  ret i32 %x
}
; *** IR Dump Before DCEPass on [module] ***
define i32 @f(i32 %x) {
  ret i32 %x
}
"""
MLIR = """// -----// IR Dump After Canonicalizer (canonicalize) //----- //
module {
  func.func @f(%x: i32) -> i32 {
    %y = arith.addi %x, %x : i32
    return %y : i32
  }
}

// -----// IR Dump After CSE (cse) //----- //
module {
}
"""
TVM = "PrintIR(FuseOps):\n@main = primfn(a)\nPrintIR(after):\n@main = primfn(b)\n"


def read(tmp_path: Path, text: str):
    (tmp_path / "all.txt").write_text(text)
    return read_dumps(tmp_path / "all.txt")


def test_a_function_of_llvm_takes_the_place_of_its_last_dump(tmp_path: Path):
    saved = read(tmp_path, LLVM)
    assert saved.names == [
        "input",
        "ForceFunctionAttrsPass",
        "InstCombinePass on f",
        "LICMPass on f",
        "before DCEPass",
    ]
    assert changed_lines(saved)[2:4] == [(2, 1), (0, 0)]
    last = "\n".join(saved["LICMPass on f"].after.text.lines)
    assert "ModuleID" in last and '@"g h"' in last and "add" not in last
    assert [p.changed for p in saved.passes] == [True, True, True, False, True]


def test_mlir_and_tvm(tmp_path: Path):
    saved = read(tmp_path, MLIR)
    assert saved.names == ["canonicalize", "cse"]
    assert changed_lines(saved) == [(0, 6), (4, 0)]
    assert [p.record.operations_after for p in saved.passes] == [1, 0]
    assert read(tmp_path, TVM).names == ["FuseOps", "after"]


def test_a_folder_is_read_in_natural_order_and_names_repeat(tmp_path: Path):
    folder = tmp_path / "dumps"
    (folder / "sub").mkdir(parents=True)
    for name in ("10_cse.mlir", "9_canonicalize.mlir", "2_cse.mlir"):
        (folder / name).write_text(name)
    (folder / ".hidden.txt").write_text("no")
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    assert read_dumps(folder).names == ["cse", "canonicalize", "cse #2"]


def test_files_of_xla(tmp_path: Path):
    names = (
        "module_0001.jit_f.0000.simplification.after_pipeline-start.before_dce.txt",
        "module_0001.jit_f.0001.simplification.after_dce.before_cse.txt",
    )
    for name in names:
        (tmp_path / name).write_text("HloModule f\nENTRY main {\n  ROOT x = f32[] parameter(0)\n}")
    assert read_dumps(tmp_path).names == ["pipeline-start", "dce"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x7fELF\0\0"])
def test_what_has_no_dumps_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(InputError):
        read_dumps(tmp_path / "x.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_dumps(tmp_path / "missing.txt")
    (tmp_path / "x.txt").unlink()
    with pytest.raises(InputError, match="no dumps"):
        read_dumps(tmp_path)


def test_hostile_text_stays_text(tmp_path: Path, explorer_command):
    (tmp_path / "all.txt").write_text(LLVM.replace("ModuleID", "</script><script>alert(1)//"))
    page = tmp_path / "page.html"
    finished = explorer_command("dumps", tmp_path / "all.txt", "-o", page)
    assert finished.status == 0, finished.errors
    assert "InstCombinePass on f" in finished.output and "<script>alert" not in page.read_text()
    printed = json.loads(explorer_command("dumps", tmp_path / "all.txt", "--json").output)
    assert printed[2] == {"pass": "InstCombinePass on f", "lines": 8, "removed": 2, "added": 1}
    wrong = explorer_command("dumps", tmp_path / "all.txt", "-o", tmp_path / "x.pdf")
    assert wrong.status == 2 and ".html" in wrong.errors
