"""What llvm-mca says of a loop: from output that it wrote, and where it is installed, by itself."""

import json
from pathlib import Path

import pytest

from explorer.errors import BuildError
from explorer.processor import processor_family
from explorer.runtime.assembly.analysis import (
    CHAIN,
    analyse_loop,
    find_analyser,
    parse_analysis,
)

WRITTEN = Path(__file__).with_name("llvm_mca_znver3.json")
"""`llvm-mca -mcpu=znver3 -json` (LLVM 14) about `TEXT`."""
TEXT = """\
.L74:
	vmovups	(%rdx), %ymm1
	addq	$4, %rax
	addq	$64, %rdx
	vbroadcastss	-4(%rax), %ymm2
	vfmadd231ps	%ymm2, %ymm1, %ymm13
	vfmadd231ps	-32(%rdx), %ymm2, %ymm12
	cmpq	%rax, %rcx
	jne	.L74"""
LOOP = TEXT.split("\n")


def test_a_sum_that_waits_for_itself_is_told_from_a_busy_port():
    found = parse_analysis(WRITTEN.read_text(encoding="utf-8"), LOOP)
    assert found.family == "znver3"
    # Two sums of latency 4 each: an iteration takes 4 cycles although the ports need 2.
    assert found.cycles == pytest.approx(4.1, abs=0.2)
    assert found.bound == 2.0
    assert found.bottleneck == CHAIN
    label, load, *_, compare, jump = found.lines
    assert label is None
    assert load is not None and (load.latency, load.throughput) == (8, 0.5)
    assert compare is not None and compare.latency == 1
    assert jump is not None and not jump.is_bottleneck
    multiply = found.lines[5]
    assert multiply is not None and multiply.latency == 4 and multiply.is_bottleneck


def test_output_about_other_instructions_is_refused():
    with pytest.raises(BuildError, match="saw 8 instructions where there are 7"):
        parse_analysis(WRITTEN.read_text(encoding="utf-8"), LOOP[:-1])


def test_a_machine_without_the_analyser_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="not installed") as raised:
        analyse_loop(LOOP)
    assert "install llvm-mca" in (raised.value.hint or "")


def test_an_older_family_stands_in_for_one_that_the_analyser_does_not_know(tmp_path):
    """A program that knows znver3 only, as LLVM 14 does of AMD's later families."""
    analyser = tmp_path / "llvm-mca"
    written = json.dumps(str(WRITTEN))
    analyser.write_text(
        f'#!/bin/sh\ncase "$*" in *znver3*) cat {written};; '
        '*) echo "is not a recognized processor for this target";; esac\n'
    )
    analyser.chmod(0o755)
    found = analyse_loop(LOOP, str(analyser), "x86_64", "znver4")
    assert (found.family, found.wanted_family) == ("znver3", "znver4")
    with pytest.raises(BuildError, match="does not understand this loop"):
        analyse_loop(LOOP, str(analyser), "x86_64", "haswell")


@pytest.mark.skipif(find_analyser() is None, reason="llvm-mca is not installed")
def test_the_installed_analyser_reads_a_loop():
    found = analyse_loop(LOOP, machine="x86_64", family="znver3")
    assert len(found.lines) == len(LOOP)
    assert found.cycles > found.bound > 0


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("vendor_id : AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n", "znver4"),
        ("vendor_id : AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n", "znver3"),
        ("vendor_id : AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n", "znver5"),
        ("vendor_id : GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n", "icelake-server"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "neoverse-n1"),
        ("vendor_id : SomebodyElse\n", ""),
    ],
)
def test_families_have_the_names_that_llvm_gives_them(text, family):
    assert processor_family(text) == family
