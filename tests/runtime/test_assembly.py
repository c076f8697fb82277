"""Assembly of kernels: what it says is what runs, and its lines are those of the source."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.backends import backend_named
from explorer.results import KernelRecord, PhaseRecord, Program, SourceText
from explorer.runtime.assembly import KernelAssembly
from explorer.runtime.assembly.attribution import assign, kernel_ranges, wanted_functions
from explorer.runtime.assembly.disassembler import disassemble, find_disassembler, parse_disassembly
from explorer.runtime.assembly.functions import (
    AssemblyFunction,
    AssemblyLine,
    Disassembly,
    with_lines_if_equal,
)
from explorer.runtime.assembly.listing import parse_listing
from explorer.runtime.assembly.native import LINE_TABLE, native_functions
from explorer.runtime.assembly.ptx import is_ptx, parse_ptx
from explorer.runtime.compilers import compile_shared_library
from explorer.runtime.devices import DeviceRecord, list_devices

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

NETWORK = """
func.func @main(%x : tensor<1x64xf32>) -> (tensor<1x32xf32>) {
  %w = top.weight() {weight = "w"} : tensor<64x32xf32>
  %b = top.weight() {weight = "b"} : tensor<32xf32>
  %y = top.matmul(%x, %w, bias = %b) {activation = "relu"} : tensor<1x32xf32>
  %z = top.unary(%y) {kind = "exp"} : tensor<1x32xf32>
  top.return(%z)
}
"""

GCC_LISTING = """\
	.file	"program-1.c"
	.text
	.section	.debug_info
	# (DIE (0xb) DW_TAG_compile_unit)
	.text
	.file 1 "program-1.c"
	.file 2 "/usr/include/math.h"
	.type	add_phase0, @function
add_phase0:
.LFB0:
	.loc 1 10 1 view -0
	.cfi_startproc
	# program-1.c:10:1
	testq	%rdx, %rdx
# SUCC: 3 [89.0% (guessed)]
	jle	.L1
.L3:
.LBB4:
	.loc 1 2 5
	vaddps	(%rdi), %zmm0, %zmm0
.LBE4:
.LBB5:
	.loc 2 77 1
	call	sqrtf@PLT
.LBE5:
	.loc 1 12 9
	jne	.L3
.L1:
	ret
	.cfi_endproc
	.size	add_phase0, .-add_phase0
other:
	.loc 1 20 1
	ret
	.cfi_endproc
	.section	.debug_info,"",@progbits
	.uleb128 0x3	# (DIE (0x40) DW_TAG_inlined_subroutine)
	.quad	.LBB4	# DW_AT_low_pc
	.quad	.LBE4-.LBB4	# DW_AT_high_pc
	.byte	0x1	# DW_AT_call_file (program-1.c)
	.byte	0xd	# DW_AT_call_line
	.uleb128 0x4	# (DIE (0x60) DW_TAG_inlined_subroutine)
	.long	.Ldebug_ranges0+0x20	# DW_AT_ranges
	.byte	0x1	# DW_AT_call_file (program-1.c)
	.byte	0xf	# DW_AT_call_line
	.section	.debug_ranges,"",@progbits
.Ldebug_ranges0:
	.quad	.LFB0-.Ltext0	# Offset 0
	.quad	.LBB4-.Ltext0
	.quad	0
	.quad	0
	.quad	.LBB5-.Ltext0	# Offset 0x20
	.quad	.LBE5-.Ltext0
	.quad	0
	.quad	0
"""

CLANG_LISTING = """\
	.file	"program-1.c"
	.text
	.type	f_phase0,@function
f_phase0:                               # @f_phase0
.Lfunc_begin1:
	.file	1 "/tmp" "program-1.c"
	.loc	1 3 0 is_stmt 1                 # program-1.c:3:0
	.cfi_startproc
# %bb.0:
	pushq	%rbp
.Ltmp3:
	.loc	1 6 7 prologue_end              # program-1.c:6:7
	vmovups	(%rdi), %zmm0                   # 64-byte Reload
.Ltmp4:
	.loc	1 1 44                          # program-1.c:1:44 @[ program-1.c:5:10 ]
	vaddps	%zmm0, %zmm0, %zmm0
.Ltmp5:
	.loc	1 0 0                           # program-1.c:0:0
	retq
.Lfunc_end1:
	.size	f_phase0, .Lfunc_end1-f_phase0
	.cfi_endproc
	.section	.debug_info,"",@progbits
	.byte	1                               # Abbrev [1] 0xb:0x4c DW_TAG_compile_unit
	.byte	4                               # Abbrev [4] 0x46:0x14 DW_TAG_inlined_subroutine
	.long	42                              # DW_AT_abstract_origin
	.quad	.Ltmp4                          # DW_AT_low_pc
	.long	.Ltmp5-.Ltmp4                   # DW_AT_high_pc
	.byte	1                               # DW_AT_call_file
	.byte	5                               # DW_AT_call_line
	.byte	0                               # End Of Children Mark
"""

MACH_O_LISTING = """\
	.section	__TEXT,__text,regular,pure_instructions
	.file	1 "/tmp" "program-1.c"
_f_phase0:                              ; @f_phase0
	.loc	1 7 0                           ; program-1.c:7:0
	cbz	x2, LBB0_2                      ; encoding
	fadd	v0.4s, v0.4s, v1.4s
LBB0_2:
	ret
	.cfi_endproc
	.section	__DWARF,__debug_info,regular,debug
	.byte	1                               ; Abbrev [1] 0xb:0x4c DW_TAG_compile_unit
"""

OBJDUMP = """\
f.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001100 <f_phase0>:
f_phase0():
/tmp/f.cl:9
    1100:	lea    0x40(%rdi),%rax        # 2000 <other+0x9>
twice():
/tmp/f.cl:1
inlined by /tmp/f.cl:5 (f_phase0)
    1110:	movups (%rdi),%xmm0
inlined by /tmp/f.cl:6 (f_phase0)
    1113:	add    $0x10,%rdi
f_phase0():
/tmp/f.cl:7 (discriminator 2)
    1124:	jne    1110 <f_phase0+0x10>
    1126:	ret
    1127:	nopw   0x0(%rax,%rax,1)
"""

PTX = """\
.version 8.4
.target sm_90, texmode_independent
.address_size 64
	.file	1 "<kernel>"
	// .globl	add_phase0
.entry add_phase0(
	.param .u64 .ptr .global .align 1 add_phase0_param_0,
	.param .u64 add_phase0_param_1
)
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<4>;
	.loc	1 4 9
	ld.param.u64 	%rd1, [add_phase0_param_0];
	.loc	1 2 3, function_name $L__info_string0, inlined_at 1 6 5
	add.f32 	%f3, %f1, %f2;
	@%p1 bra 	$L__BB0_2;
$L__BB0_1:
	st.global.f32 	[%rd4], %f3;
$L__BB0_2:
	ret;
}
.entry unwanted(
)
{
	ret;
}
"""


def shown(function: AssemblyFunction) -> list[tuple[str, tuple[int, ...]]]:
    return [(line.text, line.source_lines) for line in function.lines]


def kernel(name: str, lines: tuple[str, ...]) -> KernelRecord:
    owners = tuple((f"{name}/line{i}",) for i in range(len(lines)))
    phases = (PhaseRecord(f"{name}_phase0", 4),)
    return KernelRecord(
        name=name,
        kind="",
        operations=(name,),
        flops=0,
        bytes_moved=0,
        steps=(),
        phases=phases,
        source=SourceText("c", lines, owners),
    )


def program_of(*kernels: KernelRecord) -> Program:
    """A unit of a prelude of two lines, the kernels, each with an empty line behind it."""
    lines = ["// prelude", ""]
    for record in kernels:
        lines += [*record.source.lines, ""]
    text = SourceText("c", tuple(lines), ((),) * len(lines))
    return Program(
        target="cpu",
        source=text,
        kernels=kernels,
        launches=(),
        inputs=(),
        outputs=(),
        taps=(),
        weights=(),
        arena_bytes=64,
        weights_bytes=64,
    )


def function(symbol: str, *lines: tuple[str, tuple[int, ...]]) -> AssemblyFunction:
    return AssemblyFunction(
        symbol, (AssemblyLine(f"{symbol}:"), *(AssemblyLine(f"\t{t}", n) for t, n in lines))
    )


# -- listings ----------------------------------------------------------------------------------


def test_a_listing_of_gcc_has_lines_of_inlined_code_and_of_the_calls_around_it() -> None:
    (found,) = parse_listing(GCC_LISTING, "program-1.c", ["add_phase0"])
    assert shown(found) == [
        ("add_phase0:", ()),
        ("\ttestq\t%rdx, %rdx", (9,)),
        ("\tjle\t.L1", (9,)),
        (".L3:", ()),
        ("\tvaddps\t(%rdi), %zmm0, %zmm0", (1, 12)),
        ("\tcall\tsqrtf@PLT", (14,)),  # its own line is in a header; the call is at line 15
        ("\tjne\t.L3", (11,)),
        (".L1:", ()),
        ("\tret", (11,)),
    ]


def test_a_listing_of_clang_loses_its_comments_and_keeps_its_links() -> None:
    (found,) = parse_listing(CLANG_LISTING, "program-1.c", ["f_phase0"])
    assert shown(found) == [
        ("f_phase0:", ()),
        ("\tpushq\t%rbp", (2,)),
        ("\tvmovups\t(%rdi), %zmm0", (5,)),
        ("\tvaddps\t%zmm0, %zmm0, %zmm0", (0, 4)),
        ("\tretq", ()),
    ]


def test_a_listing_for_mach_o_names_functions_as_the_source_does() -> None:
    (found,) = parse_listing(MACH_O_LISTING, "program-1.c", ["f_phase0"])
    assert shown(found) == [
        ("f_phase0:", ()),
        ("\tcbz\tx2, LBB0_2", (6,)),
        ("\tfadd\tv0.4s, v0.4s, v1.4s", (6,)),
        ("LBB0_2:", ()),
        ("\tret", (6,)),
    ]


def test_clones_of_a_function_belong_to_it_and_other_functions_are_left_out() -> None:
    text = GCC_LISTING.replace("add_phase0", "add_phase0.constprop.0")
    (found,) = parse_listing(text, "program-1.c", ["add_phase0"])
    assert found.symbol == "add_phase0.constprop.0"


def test_a_disassembly_names_jumps_and_ends_before_the_padding() -> None:
    (found,) = parse_disassembly(OBJDUMP)
    assert shown(found) == [
        ("f_phase0:", ()),
        ("\tlea\t0x40(%rdi),%rax", (8,)),
        (".L10:", ()),
        ("\tmovups\t(%rdi),%xmm0", (0, 4)),
        ("\tadd\t$0x10,%rdi", (0, 5)),
        ("\tjne\t.L10", (6,)),
        ("\tret", (6,)),
    ]


def test_ptx_gives_one_listing_per_entry_without_declarations() -> None:
    assert is_ptx(PTX.encode())
    assert not is_ptx(b"poclbin\0\x0c")
    (found,) = parse_ptx(PTX + "\0", ["add_phase0"])
    assert shown(found) == [
        ("add_phase0:", ()),
        ("\tld.param.u64 %rd1, [add_phase0_param_0];", (3,)),
        ("\tadd.f32 %f3, %f1, %f2;", (1, 5)),
        ("\t@%p1 bra $L__BB0_2;", (1, 5)),
        ("\tst.global.f32 [%rd4], %f3;", (1, 5)),
        ("$L__BB0_2:", ()),
        ("\tret;", (1, 5)),
    ]


def test_links_of_other_code_than_what_runs_are_dropped() -> None:
    running = Disassembly("assembly", (function("f", ("ret", ())),))
    same = Disassembly("assembly", (function("f", ("ret", (3,))),))
    other = Disassembly("assembly", (function("f", ("nop", (3,)), ("ret", (3,))),))
    assert with_lines_if_equal(running, same) == same
    kept = with_lines_if_equal(running, other, "gcc 12")
    assert kept.functions == running.functions
    ((symbol, note),) = kept.function_notes
    assert symbol == running.functions[0].symbol
    assert note.startswith(f"gcc 12 makes other code of {symbol} when it writes a line table")


def test_a_function_with_other_code_leaves_the_others_their_lines() -> None:
    running = Disassembly("assembly", (function("f", ("x", ())), function("g", ("y", ()))))
    table = Disassembly("assembly", (function("f", ("x", (3,))), function("g", ("z", (5,)))))
    kept = with_lines_if_equal(running, table, "gcc 12")
    assert kept.functions == (table.functions[0], running.functions[1])
    assert [symbol for symbol, _ in kept.function_notes] == ["g"]


# -- kernels -----------------------------------------------------------------------------------


def test_kernels_are_found_in_the_unit_in_order() -> None:
    program = program_of(kernel("a", ("a", "b")), kernel("b", ("a", "c")))
    assert kernel_ranges(program) == {"a": range(2, 4), "b": range(5, 7)}
    lost = replace(program, source=SourceText("c", ("x",), ((),)))
    assert kernel_ranges(lost) == {"a": range(0), "b": range(0)}


def test_an_instruction_takes_over_the_owners_of_its_lines() -> None:
    program = program_of(kernel("a", ("static void a_phase0(", "{", "}")))
    found = assign(
        program, Disassembly("assembly", (function("a_phase0", ("x", (0, 3)), ("y", (1,))),))
    )["a"]
    assert found.text is not None
    assert found.text.lines == ("a_phase0:", "\tx", "\ty")
    assert found.source_lines == ((), (1,), ())
    assert found.text.owners == ((), ("a/line1",), ())


def test_a_phase_inlined_into_the_driver_is_shown_there() -> None:
    program = program_of(kernel("a", ("static void a_phase0(", "{", "}")))
    wrapper = function("a_phase0_section", ("fetch", (9,)), ("compute", (3, 9)), ("odd", ()))
    found = assign(program, Disassembly("assembly", (wrapper,)))["a"]
    # Fetching arguments belongs to the header; what the compiler gives no line has none.
    assert found.source_lines == ((), (0,), (1,), ())


def test_a_wrapper_that_only_calls_is_not_part_of_the_kernel() -> None:
    program = program_of(kernel("a", ("static void a_phase0(", "{", "}")))
    functions = (
        function("a_phase0", ("compute", (3,))),
        function("a_phase0_section", ("jmp\ta_phase0", (9,))),
    )
    found = assign(program, Disassembly("assembly", functions))["a"]
    assert found.text is not None and found.text.lines == ("a_phase0:", "\tcompute")


def test_a_kernel_merged_with_another_shows_the_code_that_runs() -> None:
    lines = ("static void _phase0(", "{", "}")
    program = program_of(kernel("a", ("// a", *lines)), kernel("b", ("// b", *lines)))
    functions = (
        function("a_phase0", ("compute", (4,))),
        function("b_phase0_section", ("jmp\ta_phase0", (20,))),
    )
    found = assign(program, Disassembly("assembly", functions))["b"]
    assert found.note == "b_phase0 runs the code of a_phase0, which is the same"
    assert found.text is not None
    assert found.text.lines == ("a_phase0:", "\tcompute")
    assert found.text.owners == ((), ("b/line2",))


def test_a_kernel_without_code_says_so() -> None:
    program = program_of(kernel("a", ("{",)))
    assert assign(program, Disassembly("assembly"))["a"].note == (
        "the compiler kept no code of this kernel"
    )
    assert assign(program, Disassembly("assembly", note="why"))["a"].note == "why"


# -- compilers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    working = programs.program(NETWORK)
    return programs.lower(working)


def assembled(program: Program, device: DeviceRecord | None = None) -> dict[str, KernelAssembly]:
    return backend_named(program.source.language).assembly(program, device)


def instructions_and_links(
    kernel_assembly: KernelAssembly,
) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    text = kernel_assembly.text
    assert text is not None, kernel_assembly.note
    rows = zip(text.lines, kernel_assembly.source_lines, text.owners, strict=True)
    return [row for row in rows if row[0].startswith("\t")]


def test_the_multiplication_of_a_c_kernel_is_linked_to_its_instructions(results) -> None:
    program = programs.build(results).program
    (record,) = (k for k in program.kernels if k.kind == "matmul")
    found = assembled(program)
    assert list(found) == [k.name for k in program.kernels]
    assert found[record.name].note == ""
    rows = instructions_and_links(found[record.name])
    assert rows and all(lines and tags for _, lines, tags in rows)
    (multiplying,) = (n for n, text in enumerate(record.source.lines) if "+=" in text)
    assert multiplying in {line for _, lines, _ in rows for line in lines}
    assert {tag for _, _, tags in rows for tag in tags} == {
        tag for tags in record.source.owners for tag in tags
    }


def test_the_listing_is_the_code_of_the_library_that_runs(results, tmp_path: Path) -> None:
    objdump = find_disassembler()
    if objdump is None:
        pytest.skip("binutils are not installed")
    program = programs.build(results).program
    source = "\n".join(program.source.lines) + "\n"
    names = wanted_functions(program)
    listed = native_functions(program, names).functions
    library = compile_shared_library(source, tmp_path).read_bytes()
    in_library = {f.symbol: f for f in disassemble(library, objdump)}
    assert listed

    def count(function: AssemblyFunction) -> int:
        """Without what only fills up to an aligned address, which -S writes as directives."""
        return sum("nop" not in text and "xchg" not in text for text in function.instructions)

    assert {f.symbol: count(f) for f in listed} == {
        f.symbol: count(in_library[f.symbol]) for f in listed
    }


def test_a_line_table_changes_no_instruction_of_the_library(results, tmp_path: Path) -> None:
    objdump = find_disassembler()
    if objdump is None:
        pytest.skip("binutils are not installed")
    source = "\n".join(programs.build(results).program.source.lines) + "\n"
    libraries = [
        compile_shared_library(source, tmp_path, flags=flags).read_bytes()
        for flags in ((), LINE_TABLE)
    ]
    running, with_lines = (disassemble(library, objdump) for library in libraries)
    assert "explorer_run" in {f.symbol for f in running}
    assert [(f.symbol, f.instructions) for f in running] == [
        (f.symbol, f.instructions) for f in with_lines
    ]


def test_a_program_that_the_compiler_refuses_has_a_note(c_program) -> None:
    broken = replace(c_program, source=SourceText("c", ("int f( {",), ((),)))
    found = assembled(broken)
    assert found["add"].text is None
    assert found["add"].note.startswith("there is no assembly: ")
    assert "refused the program" in found["add"].note


def test_opencl_without_a_device_has_a_note(opencl_program) -> None:
    assert assembled(opencl_program)["add"].note == (
        "there is no device whose driver could be asked"
    )


@pytest.fixture(scope="module")
def device() -> DeviceRecord:
    for record in list_devices(("opencl",)):
        if record.usable:
            return record
    pytest.skip("no usable OpenCL device")


def test_an_opencl_program_shows_what_its_driver_tells(results, device) -> None:
    program = programs.build(results, "opencl").program
    found = assembled(program, device)
    assert list(found) == [k.name for k in program.kernels]
    for kernel_assembly in found.values():
        if kernel_assembly.text is None or "no line is linked" in kernel_assembly.note:
            assert kernel_assembly.note  # a reason that a person can read
            continue
        assert kernel_assembly.text.language in ("assembly", "ptx")
        rows = instructions_and_links(kernel_assembly)
        assert sum(bool(tags) for _, _, tags in rows) >= 0.9 * len(rows)


def test_pocl_is_disassembled_with_its_lines(results, device) -> None:
    if "Portable Computing Language" not in device.driver or find_disassembler() is None:
        pytest.skip("needs PoCL and binutils")
    program = programs.build(results, "opencl").program
    (record,) = (k for k in program.kernels if k.kind == "matmul")
    found = assembled(program, device)[record.name]
    assert found.note.startswith("this is the driver's code for work-groups of any size")
    rows = instructions_and_links(found)
    assert rows and all(lines and tags for _, lines, tags in rows)


def test_a_driver_with_a_format_of_its_own_is_named() -> None:
    pytest.importorskip("pyopencl")
    from explorer.runtime.assembly.opencl import read_binary

    program = program_of(kernel("a", ("{",)))
    found = read_binary(b"\x7fELF\x02\x01\x01@rest", program, ["a_phase0"], "AMD 3.1")
    assert found.functions == ()
    assert found.note == (
        "AMD 3.1 gives its program as 12 bytes in a format of its own (beginning with "
        "b'\\x7fELF\\x02\\x01\\x01@')"
    )
