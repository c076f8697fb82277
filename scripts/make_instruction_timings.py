"""Makes explorer/views/instructions/timings.tsv: cycles of the instructions that our kernels have.

    python scripts/make_instruction_timings.py --analyser llvm-mca kernels/*.s

The files are assembly of kernels (gcc or clang with -S). Of every kind of instruction in them one
line is asked about, of every processor below: `llvm-mca -json` tells latency and throughput from
LLVM's scheduling models (llvm/lib/Target/*/*Sched*.td), whose version the table names.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

from explorer.views.instructions.forms import architecture_of, form_of
from explorer.views.instructions.table import FAMILIES, TIMINGS

TRIPLES = {"x86": "x86_64-linux-gnu", "arm": "aarch64-linux-gnu"}
FEATURES = {"x86": "", "arm": "+neon,+fullfp16,+dotprod,+lse"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--analyser", default="llvm-mca", help="an llvm-mca as new as possible")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    examples = examples_of(given.files)
    version = subprocess.run(
        [given.analyser, "--version"], capture_output=True, text=True, check=True
    ).stdout
    release = re.search(r"LLVM version (\S+)", version)
    rows = [f"# {release.group(1) if release else 'LLVM'}: latency/cycles between two starts"]
    for architecture, forms in sorted(examples.items()):
        tables = {
            family: timings(given.analyser, architecture, family, forms)
            for family in FAMILIES[architecture]
        }
        rows.append("\t".join((architecture, *tables)))
        rows += [
            "\t".join((form, *(table.get(form, "") for table in tables.values())))
            for form in sorted(forms)
            if any(form in table for table in tables.values())
        ]
    TIMINGS.write_text("\n".join(rows) + "\n", encoding="utf-8")


def examples_of(files: list[Path]) -> dict[str, dict[str, str]]:
    """By architecture a line for every form."""
    found: dict[str, dict[str, str]] = {}
    for file in files:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line for line in lines if re.match(r"\t[a-z]", line)]
        architecture = architecture_of(lines)
        if architecture not in TRIPLES:
            continue
        forms = found.setdefault(architecture, {})
        for line in lines:
            form = form_of(line, architecture)
            if form and not form.startswith(("call", "bl ")):
                forms.setdefault(form, line)
    return found


def timings(
    analyser: str, architecture: str, family: str, examples: dict[str, str]
) -> dict[str, str]:
    """`latency/throughput` by form; what the family does not have is left out."""
    with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
        file.write("\n".join(examples.values()) + "\n")
        file.flush()
        command = [
            analyser, f"-mtriple={TRIPLES[architecture]}", f"-mcpu={family}", "-json",
            f"-mattr={FEATURES[architecture]}", "-iterations=1", file.name,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        about = json.loads(done.stdout[done.stdout.index("{") :])["CodeRegions"][0]
        infos = about["InstructionInfoView"]["InstructionList"]
        if len(infos) == len(examples):
            return {
                form: f"{info['Latency']}/{info['RThroughput']:.3g}"
                for form, info in zip(examples, infos, strict=True)
            }
    if len(examples) == 1:
        return {}
    # One that is not understood spoils all: each half by itself.
    forms = list(examples)
    middle = len(forms) // 2
    halves = (forms[:middle], forms[middle:])
    parts = [timings(analyser, architecture, family, {f: examples[f] for f in h}) for h in halves]
    return parts[0] | parts[1]


if __name__ == "__main__":
    main()
