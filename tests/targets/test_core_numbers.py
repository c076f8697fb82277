"""Numbers of the core files beside what llvm-mca says of the same instructions."""

from __future__ import annotations

import re
import subprocess

import pytest

from explorer.runtime.assembly.analysis import TRIPLES, analyser_version, find_analyser
from explorer.targets.core_families import CoreFamily, core_family

ROUNDS = 100
NEAR = 0.05
"""Of a cycle count: what the first and the last round take beside the others."""
EVERY = ("multiply-adds", "latency", "loads", "stores")
COMPARED = {
    "haswell": EVERY,
    "skylake": EVERY,
    "skylake_x": EVERY,
    "ice_lake": EVERY,
    "sapphire_rapids": ("latency",),
    "alder_lake_p": ("multiply-adds", "latency"),
    "zen2": ("multiply-adds", "latency"),
    "zen3": ("latency", "stores"),
    "cortex_a72": ("multiply-adds", "loads", "stores"),
}
"""What is left out LLVM has wrong (one 512-bit unit of a Sapphire Rapids, one multiply-add of a
Zen 3, a third load of 256 bits of a Zen 2), takes from an older core in some of its versions, or
counts otherwise (Arm's sums, which are forwarded)."""
SAID_UNTIL = {("ice_lake", "multiply-adds"): 14, ("ice_lake", "stores"): 14}
"""The last version of LLVM that was found to agree; 19 has one unit of 512 bits, and two stores."""
X86 = {
    "multiply-adds": "vfmadd231ps %{r}14, %{r}15, %{r}{n}",
    "latency": "vfmadd231ps %{r}14, %{r}15, %{r}0",
    "loads": "vmovups {at}(%rdi), %{r}{n}",
    "stores": "vmovaps %{r}{n}, {at}(%rdi)",
}
ARM = {
    "multiply-adds": "fmla v{n}.4s, v30.4s, v31.4s",
    "latency": "fmla v0.4s, v30.4s, v31.4s",
    "loads": "ldr q{n}, [x0, #{at}]",
    "stores": "str q{n}, [x0, #{at}]",
}
COPIES = 12


def vector_bytes(family: CoreFamily) -> int:
    if family.architecture == "aarch64":
        return 16
    return 64 if "avx512" in family.features else 32


def said(family: CoreFamily, what: str) -> float:
    """Cycles for an instruction of whole vectors, by the file."""
    core, size = family.core, vector_bytes(family)
    parts = -(-size // core.unit_bytes)
    return {
        "multiply-adds": parts / core.arithmetic_units,
        "latency": core.multiply_add_latency_cycles,
        "loads": -(-size // core.load_bytes) / core.load_units,
        "stores": parts / core.store_units,
    }[what]


def judged(family: CoreFamily, what: str) -> float:
    """The same by llvm-mca, of `ROUNDS` rounds."""
    analyser = find_analyser()
    if analyser is None:
        pytest.skip("llvm-mca is not installed")
    until, version = SAID_UNTIL.get((family.name, what)), analyser_version(analyser)
    if until is not None and int(re.findall(r"\d+", version)[0]) > until:
        pytest.skip(f"{version} has {what} of {family.name} wrong")
    copies = 1 if what == "latency" else COPIES
    size = vector_bytes(family)
    form = (ARM if family.architecture == "aarch64" else X86)[what]
    register = "zmm" if size == 64 else "ymm"
    lines = [form.format(r=register, n=n, at=n * size) for n in range(copies)]
    command = [
        analyser,
        f"-mtriple={TRIPLES[family.architecture]}",
        f"-mcpu={family.families[0]}",
        f"-iterations={ROUNDS}",
    ]
    asked = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=60
    )
    if "not a recognized processor" in asked.stderr or "find target" in asked.stderr:
        pytest.skip(f"{analyser} does not know {family.families[0]}")
    found = re.search(r"^Total Cycles: +(\d+)$", asked.stdout, re.MULTILINE)
    assert found, asked.stderr
    return int(found[1]) / ROUNDS / copies


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for name in COMPARED for what in COMPARED[name]]
)
def test_a_core_does_in_a_cycle_what_the_analyser_says(name: str, what: str):
    family = core_family(name)
    assert judged(family, what) == pytest.approx(said(family, what), rel=NEAR)
