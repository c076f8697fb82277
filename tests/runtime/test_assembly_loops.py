"""Loops of a listing: where they are, what they are made of, and which loop of the source it is."""

from __future__ import annotations

import pytest

from explorer.results import SourceText
from explorer.runtime.assembly.attribution import KernelAssembly
from explorer.runtime.assembly.loops import innermost_loops, reader_of, with_writeback_apart
from explorer.runtime.assembly.matching import match_loops, source_loops

NESTED_TEXT = """\
f:
	xorl	%eax, %eax
.L2:
	vxorps	%xmm0, %xmm0, %xmm0
.L3:
	vfmadd231ps	(%rdi), %ymm1, %ymm0
	decq	%rcx
	jne	.L3
	jle	.L5
	incq	%rax
	jmp	.L2
.L5:
	ret"""
SOURCE_TEXT = """\
void f() {
    for (long task = lo; task < hi; task++) {
        UNROLL(2)
        for (long v = 0; v < 2; v++) {
            acc[v] = 0;
        }
        for (long p = 0; p < 3; p++) {
            for (long q = 0; q < 3; q++) {
                acc += x * w;
            }
        }
    }
}"""
NESTED, SOURCE = NESTED_TEXT.splitlines(), SOURCE_TEXT.splitlines()


def test_only_loops_that_hold_no_other_are_innermost():
    (loop,) = innermost_loops(NESTED)
    assert NESTED[loop.start] == ".L3:" and NESTED[loop.stop - 1] == "\tjne\t.L3"


def test_jumps_forward_and_calls_make_no_loop():
    assert innermost_loops(["f:", "\tcall\tf", "\tjne\t.L1", ".L1:", "\tret"]) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("vfmadd231ps	-32(%rdx), %ymm2, %ymm12", "multiply-add"),
        ("vpdpbusd	(%rdi){1to16}, %zmm0, %zmm1", "multiply-add"),
        ("vaddps	%ymm2, %ymm1, %ymm1", "arithmetic"),
        ("vmovups	(%rdx,%rax,4), %ymm1", "load"),
        ("vbroadcastss	-4(%rax), %ymm2", "load"),
        ("vbroadcastss	%xmm1, %ymm2", "shuffle"),
        ("vpermilps	$255, %ymm1, %ymm2", "shuffle"),
        ("vmovups	%ymm1, (%rdx)", "store"),
        ("vmovaps	%ymm1, 96(%rsp)", "spill"),
        ("vmovaps	96(%rsp), %ymm1", "spill"),
        ("vmovups	96(%rsp,%rax,4), %ymm1", "load"),
        ("movq	88(%rsp), %rsi", "spill"),
        ("movq	88(%rdi), %rsi", "load"),
        ("leaq	88(%rsp), %rsi", "integer"),
        ("addq	$64, %rdx", "integer"),
        ("jne	.L3", "branch"),
    ],
)
def test_instructions_of_x86_are_of_a_kind(line: str, kind: str):
    assert reader_of((), is_arm=False).kind("\t" + line) == kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("fmla	v0.4s, v1.4s, v2.s[1]", "multiply-add"),
        ("sdot	v0.4s, v1.16b, v2.4b[1]", "multiply-add"),
        ("fadd	v0.4s, v1.4s, v2.4s", "arithmetic"),
        ("ldp	q0, q1, [x1], #32", "load"),
        ("ld1r	{ v0.4s }, [x1]", "load"),
        ("ldr	q0, [sp, #16]", "spill"),
        ("str	q0, [x2]", "store"),
        ("dup	v0.4s, v1.s[0]", "shuffle"),
        ("subs	x1, x1, #1", "integer"),
        ("b.ne	.LBB0_3", "branch"),
    ],
)
def test_instructions_of_arm_are_of_a_kind(line: str, kind: str):
    assert reader_of((), is_arm=True).kind("\t" + line) == kind


def test_an_address_that_advances_is_an_operation_of_its_own():
    lines = ["\tld1r\t{ v28.4s }, [x2], #4", "\tldr\tq0, [x1], #16", "\tst1\t{ v0.s }[1], [x3]"]
    split = ["\tld1r\t{ v28.4s }, [x2]", "\tadd\tx2, x2, #4"]
    assert with_writeback_apart(lines) == [*split, *lines[1:]]


def test_a_frame_register_addresses_the_stack_only_where_it_is_set():
    line = "\tvmovaps\t-48(%rbp), %ymm1"
    assert reader_of((), is_arm=False).kind(line) == "load"
    assert reader_of(("\tmovq\t%rsp, %rbp",), is_arm=False).kind(line) == "spill"
    line = "\tldp\tq28, q29, [x29, #-16]"
    assert reader_of(("\tstp\tx29, x30, [sp, #-16]!",), is_arm=True).kind(line) == "load"
    for sets in ("\tmov\tx29, sp", "\tadd\tx29, sp, #64"):
        assert reader_of((sets,), is_arm=True).kind(line) == "spill"


def test_loops_of_the_source_are_those_that_are_not_unrolled():
    assert source_loops(SOURCE) == [range(1, 12), range(6, 11), range(7, 10)]


@pytest.mark.parametrize(("lines", "number"), [((8, 8, 7), 2), ((8, 7, 6), 1), ((8, 4, 1), 0)])
def test_a_loop_is_the_innermost_that_all_its_instructions_come_from(lines, number):
    """Where a compiler wrote the inner loop out, some of them belong to the one around it."""
    text = (".L3:", "\tvfmadd231ps\t(%rdi), %ymm1, %ymm0", "\tdecq\t%rcx", "\tjne\t.L3")
    origins = ((), *((line,) for line in lines))
    assembly = KernelAssembly(SourceText("assembly", text, ((),) * 4), origins)
    (found,) = match_loops(SOURCE, assembly)
    assert (found.number, found.place) == (number, range(4))
    assert not found.has_call
