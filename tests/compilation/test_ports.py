"""What limits hot loops on a core: the machine code for it, judged beside the cost model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import explorer
from explorer.backends import backend_of
from explorer.cli import main
from explorer.compilation import Compilation
from explorer.compilation.measurements.ports import ports_of, target_for_core
from explorer.errors import InputError
from explorer.results.runs.ports import KINDS, LIMITS
from explorer.runtime.assembly.analysis import find_analyser
from explorer.runtime.assembly.core_builds import build_for
from explorer.runtime.assembly.fitting import fitting_family
from explorer.targets import load_target
from explorer.targets.core_families import architecture_here, core_family

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
is_judged = pytest.mark.skipif(
    find_analyser() is None or architecture_here() != "x86_64",
    reason="llvm-mca is not installed, or the machine is none of x86",
)


@pytest.fixture(scope="module")
def haswell() -> Compilation:
    target = target_for_core(load_target("cpu"), "haswell")
    compiled = explorer.compile(MODEL, target, tuned=False)
    if find_analyser() is not None:
        compiled.ports()
    return compiled


def test_a_target_for_a_core_has_its_vectors_and_registers():
    cpu = load_target("cpu")
    for name, floats, registers in (
        ("sapphire-rapids", 16, 32),
        ("haswell", 8, 16),
        ("neoverse_v1", 4, 32),
    ):
        target = target_for_core(cpu, name)
        assert target.vector_floats == floats
        assert target.core.vector_registers == registers
    with pytest.raises(InputError, match="no family of cores 'hasswell'"):
        target_for_core(cpu, "hasswell")


@pytest.mark.skipif(architecture_here() != "x86_64", reason="another architecture")
def test_a_target_for_a_core_has_the_instructions_that_the_compiler_knows_of_it():
    """Bytes are multiplied as the core does it, not as this machine would."""
    haswell, rapids = (
        target_for_core(load_target("cpu"), name) for name in ("haswell", "sapphire_rapids")
    )
    assert haswell.processor == "haswell"
    if rapids.processor == "native":
        pytest.skip("a compiler that does not know the core")
    wanted = {"avx512_vnni", "amx_int8"}
    assert not wanted & set(backend_of(haswell).core(haswell).features)
    assert wanted <= set(backend_of(rapids).core(rapids).features)
    assert target_for_core(load_target("cpu"), "neoverse_v1").processor == "native"


@is_judged
def test_hot_loops_are_judged_on_the_core(haswell: Compilation):
    record = haswell.trace().ports
    assert record is not None
    assert record.core == record.model == "haswell"
    assert "-march=haswell" in record.compiler
    kernels = {loop.kernel for loop in record.loops}
    assert {name for name in haswell.kernels if name.startswith("conv")} <= kernels
    assert 0 < sum(loop.share for loop in record.loops) <= 1 + 1e-9
    for loop in record.loops:
        assert loop.limit in LIMITS and {kind for kind, _ in loop.counts} <= set(KINDS)
        assert loop.cycles > 0 and loop.predicted_cycles > 0 and loop.merged >= 1
        # Two units multiply and add; nothing is faster.
        assert loop.cycles >= 0.99 * loop.peak_cycles
        assert max(used for _, used in loop.ports) <= 1.01 * loop.cycles
        source = haswell.kernels[loop.kernel].source.lines
        assert f"long {loop.loop[-1]}" in source[loop.lines[0]] or loop.loop[-1] == "task"


@is_judged
def test_the_machine_codes_multiply_adds_are_the_tiles(haswell: Compilation):
    record = haswell.trace().ports
    assert record is not None
    for loop in record.loops:
        if loop.kernel.startswith("conv") and loop.peak_cycles:
            assert dict(loop.counts)["multiply-add"] == int(dict(loop.counts)["multiply-add"])


@is_judged
def test_a_trace_keeps_what_was_found(haswell: Compilation, tmp_path: Path):
    path = haswell.save(tmp_path / "judged.nnx")
    assert explorer.open(path).trace().ports == haswell.trace().ports


@is_judged
def test_the_command_prints_a_line_for_every_hot_loop(capsys, tmp_path: Path):
    out = tmp_path / "ports.json"
    arguments = ["show", str(MODEL), "--what", "ports", "--core", "haswell", "-o", str(out)]
    assert main(arguments) == 0
    found = json.loads(out.read_text())
    assert found["core"] == "haswell" and found["loops"]
    assert all(loop["cycles"] > 0 for loop in found["loops"])


def test_a_core_belongs_to_ports_only(capsys):
    assert main(["show", str(MODEL), "--what", "ir", "--core", "haswell"]) == 2
    assert "--core goes with --what ports" in capsys.readouterr().err


def test_programs_of_another_language_are_refused(haswell: Compilation):
    core = haswell.backend.core(haswell.target)
    with pytest.raises(InputError, match="programs in C, and opencl has none"):
        ports_of(haswell.program, {}, load_target("opencl"), core, 8)


@is_judged
def test_a_core_whose_table_is_wrong_is_replaced():
    """No core of x86 begins five multiply-adds in a cycle: nothing fits, and that is said."""
    found = fitting_family("haswell", "x86_64", 8, 5.0)
    assert found.family == "haswell"
    assert "on haswell it begins 2 multiply-adds of 256 bits in a cycle, the core 5" in found.note
    assert fitting_family("haswell", "x86_64", 8, 2.0).note == ""


@pytest.mark.skipif(architecture_here() != "x86_64", reason="another architecture")
@pytest.mark.parametrize("name", ["haswell", "zen4", "sapphire_rapids"])
def test_a_compiler_makes_code_for_cores_that_it_does_not_know(name: str):
    build = build_for(core_family(name))
    assert not any(flag.endswith("=native") for flag in build.compiler.flags)
    assert build.flags and build.flags[0].startswith("-march=")
    assert bool(build.note) == (not build.flags[0].endswith(core_family(name).families[0]))
