"""Names, meanings, latency and throughput of the instructions that our kernels are made of.

    describe(["\\tvfmadd231ps\\t%ymm2, %ymm1, %ymm13"], "znver4")
        ->  {"family": "znver4", "forms": [["vfmadd231ps", "fused multiply-add", ...], ...],
             "lines": [0]}

Meanings are ours, after Intel's Software Developer's Manual (volume 2) and the Arm Architecture
Reference Manual. Cycles are those of LLVM's scheduling models, which
`scripts/make_instruction_timings.py` reads out. What is in neither is said to be not described.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from explorer.results import KernelRecord
from explorer.views.instructions.forms import architecture_of, form_of, mnemonic_of
from explorer.views.payload.text import Json

FOLDER = Path(__file__).parent
TIMINGS = FOLDER / "timings.tsv"
MEANINGS = {"x86": FOLDER / "x86.tsv", "arm": FOLDER / "arm.tsv"}
FAMILIES = {
    "x86": ("znver2", "znver3", "znver4", "skylake-avx512", "icelake-server", "alderlake"),
    "arm": ("cortex-a57", "neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2"),
}
"""As LLVM names them, the oldest first."""
TITLES = {
    "znver2": "AMD Zen 2",
    "znver3": "AMD Zen 3",
    "znver4": "AMD Zen 4",
    "skylake-avx512": "Intel Skylake-X",
    "icelake-server": "Intel Ice Lake",
    "alderlake": "Intel Alder Lake",
    "cortex-a57": "Arm Cortex-A57",
    "neoverse-n1": "Arm Neoverse N1",
    "neoverse-n2": "Arm Neoverse N2",
    "neoverse-v1": "Arm Neoverse V1",
    "neoverse-v2": "Arm Neoverse V2",
}
NEAREST = {
    "znver1": "znver2",
    "znver5": "znver4",
    "haswell": "skylake-avx512",
    "broadwell": "skylake-avx512",
    "skylake": "skylake-avx512",
    "sapphirerapids": "icelake-server",
}
"""What stands in for families without a column."""
ELEMENTS = {
    "ps": "float32",
    "pd": "float64",
    "ss": "one float32",
    "sd": "one float64",
    "b": "bytes",
    "w": "16-bit integers",
    "d": "32-bit integers",
    "q": "64-bit integers",
    "l": "32 bits",
}
CONDITIONS = {
    "e": "equal", "ne": "not equal", "z": "zero", "nz": "not zero", "g": "greater",
    "ge": "greater or equal", "l": "less", "le": "less or equal", "a": "above (unsigned)",
    "ae": "above or equal (unsigned)", "b": "below (unsigned)", "be": "below or equal (unsigned)",
    "nb": "not below (unsigned)", "s": "negative", "ns": "not negative", "p": "parity, that is NaN",
    "np": "no parity, that is no NaN", "eq": "equal", "hi": "higher (unsigned)",
    "hs": "higher or same (unsigned)", "lo": "lower (unsigned)", "ls": "lower or same (unsigned)",
    "lt": "less", "gt": "greater", "mi": "negative", "pl": "not negative", "vs": "unordered",
    "vc": "ordered", "c": "carry", "nc": "no carry", "o": "overflow", "no": "no overflow",
}  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    pattern: re.Pattern[str]
    name: str
    meaning: str
    operands: str
    """In the order in which they are written."""


@cache
def meanings(architecture: str) -> tuple[Meaning, ...]:
    """In the order of the file: the first one that fits counts."""
    if architecture not in MEANINGS:
        return ()
    lines = MEANINGS[architecture].read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple(Meaning(re.compile(row[0]), *row[1:]) for row in rows)


@cache
def timings() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """By form and family: latency, and cycles between the starts of two that do not wait."""
    table: dict[str, dict[str, tuple[float, float]]] = {}
    families: list[str] = []
    for line in TIMINGS.read_text(encoding="utf-8").splitlines():
        first, *cells = line.split("\t")
        if line.startswith("#"):
            continue
        if first in FAMILIES:
            families = cells
            continue
        table[first] = {
            family: (float(cell.split("/")[0]), float(cell.split("/")[1]))
            for family, cell in zip(families, cells, strict=True)
            if cell
        }
    return table


def source_of_timings() -> str:
    """`LLVM 19.1.7's scheduling models`."""
    first = TIMINGS.read_text(encoding="utf-8").partition("\n")[0]
    return f"LLVM {first.removeprefix('# ').partition(':')[0]}'s scheduling models"


def meaning_of(mnemonic: str, architecture: str) -> tuple[str, str, str] | None:
    """(name, what it does, operands); None where it is not described."""
    for row in meanings(architecture):
        found = row.pattern.fullmatch(mnemonic)
        if found:
            words = {
                "e": ELEMENTS.get(found.groupdict().get("e") or "", ""),
                "c": CONDITIONS.get(found.groupdict().get("c") or "", ""),
            }
            return row.name.format(**words), row.meaning.format(**words), row.operands
    return None


def describe(lines: Sequence[str], family: str = "") -> Json:
    """What is known of every line's instruction, for a processor's family (of those in `TITLES`).

    Each form stands once: [mnemonic, form, name, meaning, operands, latency, throughput], the last
    ones null where there is no number, the name null where it is not described.
    """
    architecture = architecture_of(list(lines))
    known = FAMILIES.get(architecture, ())
    shown = family if family in known else NEAREST.get(family, "")
    if shown not in known:
        shown = known[-1] if architecture == "arm" else "icelake-server" if known else ""
    table = timings()
    places: dict[str, int] = {}
    forms: list[Json] = []
    numbers = []
    for line in lines:
        form = form_of(line, architecture)
        if form and form not in places:
            places[form] = len(forms)
            mnemonic = mnemonic_of(line)
            name, meaning, operands = meaning_of(mnemonic, architecture) or (None, None, None)
            latency, throughput = table.get(form, {}).get(shown, (None, None))
            forms.append([mnemonic, form, name, meaning, operands, latency, throughput])
        numbers.append(places.get(form, -1) if form else -1)
    return {
        "architecture": architecture,
        "family": TITLES.get(shown, ""),
        "wanted": TITLES.get(family, family),
        "source": source_of_timings(),
        "forms": forms,
        "lines": numbers,
    }


def instructions_payload(kernels: Sequence[KernelRecord], family: str) -> Json:
    """Of all kernels with assembly: forms, and by kernel the form of every line, -1 for none."""
    texts = {k.name: k.assembly.lines for k in kernels if k.assembly is not None}
    told = describe([line for lines in texts.values() for line in lines], family)
    numbers = iter(told["lines"])
    return {**told, "lines": {n: [next(numbers) for _ in lines] for n, lines in texts.items()}}


def described(answer: Json) -> Json:
    """Another build of a kernel with what its instructions mean; other answers as they are."""
    if "assemblyLines" not in answer:
        return answer
    return {**answer, "instructions": describe(answer["lines"], answer.get("family", ""))}
