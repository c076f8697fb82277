"""What is said of single instructions: every one of our kernels has an entry, with its cycles."""

import platform
from pathlib import Path

import pytest

import explorer
from explorer.views.instructions.forms import architecture_of, form_of, mnemonic_of
from explorer.views.instructions.table import (
    FAMILIES,
    describe,
    meaning_of,
    source_of_timings,
    timings,
)

SAMPLES = sorted((Path(__file__).parents[2] / "sample_models").glob("*.onnx"))


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("\tvfmadd231ps\t-32(%rdx), %ymm2, %ymm12", "vfmadd231ps m,ymm,ymm"),
        ("\tvmovups\t(%rcx,%rax,8), %zmm0", "vmovups m,zmm"),
        ("\tvaddps\t.LC3(%rip), %xmm0, %xmm1{%k1}{z}", "vaddps m,xmm,xmm"),
        ("\tlock cmpxchgq\t%rdx, (%rdi)", "lock cmpxchgq r64,m"),
        ("\tjne\t.L74", "jne label"),
        ("\taddq\t$-4, %rax", "addq imm,r64"),
        ("conv_1_phase0:", ""),
        ("\t.p2align 4", ""),
    ],
)
def test_a_line_of_x86_is_a_form(line, form):
    assert form_of(line, "x86") == form


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("\tfmla\tv0.4s, v1.4s, v2.s[1]", "fmla v4s,v4s,vs"),
        ("\tldp\tq0, q1, [x8, #32]", "ldp q,q,m"),
        ("\tld1r\t{ v3.4s }, [x9], #4", "ld1r list,m,imm"),
        ("\tadd\tx8, x8, x9, lsl #2", "add x,x,x,shift"),
        ("\tb.ne\t.LBB0_4", "b.ne label"),
    ],
)
def test_a_line_of_aarch64_is_a_form(line, form):
    assert form_of(line, "arm") == form


def test_architectures_are_told_apart():
    assert architecture_of(["f:", "\tpushq\t%rbp"]) == "x86"
    assert architecture_of(["f:", "\tcmp\tx4, x5"]) == "arm"
    assert architecture_of(["f:", "\tslli\ta0, s2, 9"]) == "riscv"
    assert architecture_of(["f:"]) == ""


def test_a_multiply_add_takes_four_cycles_on_zen_4():
    """Two in a cycle with 256 bits; with 512 each keeps two units busy."""
    lines = ["\tvfmadd231ps\t%ymm2, %ymm1, %ymm13", "\tvfmadd231ps\t%zmm2, %zmm1, %zmm13", ".L1:"]
    told = describe(lines, "znver4")
    assert told["family"] == "AMD Zen 4"
    (mnemonic, _, name, meaning, operands, *cycles), wide = told["forms"]
    assert (mnemonic, name, cycles) == ("vfmadd231ps", "fused multiply-add", [4, 0.5])
    assert "float32" in meaning and operands.endswith("destination")
    assert wide[-2:] == [4, 1]
    assert told["lines"] == [0, 1, -1]


def test_what_is_unknown_is_said_to_be():
    told = describe(["\tvfrobnicate\t%ymm2, %ymm1"], "znver4")
    assert told["forms"] == [["vfrobnicate", "vfrobnicate ymm,ymm", *[None] * 5]]
    other = describe(["\tvaddps\t%ymm2, %ymm1, %ymm0"], "znver5")
    assert (other["family"], other["wanted"]) == ("AMD Zen 4", "znver5")
    assert describe(["\tslli\ta0, s2, 9"])["forms"][0][2] is None


def test_the_conditions_of_jumps_are_words():
    names = [
        (meaning_of(mnemonic, architecture) or ("",))[0]
        for mnemonic, architecture in (("jne", "x86"), ("b.lt", "arm"), ("cmovns", "x86"))
    ]
    assert names == ["jump if not equal", "jump if less", "move if not negative"]


@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_form_in_the_table_is_described_and_has_plausible_cycles(architecture):
    forms = {f: t for f, t in timings().items() if set(t) <= set(FAMILIES[architecture])}
    assert len(forms) > 100
    missing = {
        f.split()[0] for f in forms if meaning_of(mnemonic_of(f"\t{f}"), architecture) is None
    }
    assert not missing
    assert all(
        0 <= latency <= 200 and 0 <= throughput <= 200
        for cycles in forms.values()
        for latency, throughput in cycles.values()
    )
    assert source_of_timings().startswith("LLVM ")


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no table for it")
@pytest.mark.parametrize("path", SAMPLES[:2], ids=lambda path: path.stem)
def test_every_instruction_of_a_sample_model_is_described(path):
    kernels = explorer.compile(path).assembly().values()
    lines = [line for kernel in kernels if kernel.assembly for line in kernel.assembly.lines]
    told = describe(lines)
    assert len(told["forms"]) > 20
    assert {mnemonic for mnemonic, _, name, *_ in told["forms"] if name is None} == set()
    timed = [latency for *_, latency, _ in told["forms"] if latency is not None]
    assert len(timed) > 0.8 * len(told["forms"])
