"""Both backends of torch.compile, explorer and inductor, on ten networks and one thread.

    python benchmarks/inductor [NAME ...] [--rounds 20] [--journal FILE.jsonl] [--packages FOLDER]

Each network is measured in a process of its own (measuring.py): the time from the first call to its
result with empty caches, then calls in turns with PyTorch's eager mode, so that what else the
machine does meets all. Inductor is measured as it is, and `frozen`: with parameters as constants,
which they are for explorer always. What was measured is in the journal, and is not measured again;
`--known` measures nothing. torchvision, timm and transformers may lie in a FOLDER
(benchmarks/architectures/pytorch).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from measuring import EAGER, EXPLORER, FROZEN, INDUCTOR, PEERS, Row
from networks import NETWORKS

MEASURING = Path(__file__).resolve().parent / "measuring.py"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="torch.compile: explorer and inductor.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=20, help="of at least three calls of each")
    parser.add_argument("--journal", type=Path, help="rows are kept, and not measured again")
    parser.add_argument("--known", action="store_true", help="only what the journal has")
    parser.add_argument("--packages", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=900, help="of one (default: 900)")
    chosen = parser.parse_args(arguments)
    for name in chosen.names:
        if name not in NETWORKS:
            parser.error(f"there is no {name}; there are {', '.join(NETWORKS)}")
    rows = _read(chosen.journal)
    names = chosen.names or NETWORKS
    for name in names:
        if name in rows or chosen.known:
            continue
        answer = _measured(name, chosen.rounds, chosen.packages, chosen.seconds)
        if isinstance(answer, str):
            print(f"{name}: {answer}", file=sys.stderr, flush=True)
            continue
        rows[name] = Row(**answer)
        if chosen.journal is not None:
            with chosen.journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps(answer) + "\n")
        print(f"{name}: {rows[name].ratios}", file=sys.stderr, flush=True)
    print("\n".join(table([rows[name] for name in names if name in rows])))
    return 0


def _read(journal: Path | None) -> dict[str, Row]:
    if journal is None or not journal.is_file():
        return {}
    rows = [Row(**json.loads(line)) for line in journal.read_text(encoding="utf-8").splitlines()]
    return {row.name: row for row in rows}


def _measured(name: str, rounds: int, packages: Sequence[str], seconds: float) -> dict | str:
    """The row as JSON has it, or why there is none."""
    command = [sys.executable, str(MEASURING), name, "--rounds", str(rounds)]
    for folder in packages:
        command += ["--packages", folder]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"it took more than {seconds:g} s"
    lines = finished.stdout.splitlines()
    if finished.returncode != 0 or not lines:
        return (finished.stderr.strip().splitlines() or [f"status {finished.returncode}"])[-1]
    return json.loads(lines[-1])


def table(rows: Sequence[Row]) -> list[str]:
    """Markdown, and the geometric means below it."""
    titles = ["network", "eager, ms", "inductor", "inductor, frozen", "explorer", "of inductor"]
    titles += ["of frozen", "first result: inductor, s", "explorer", "max_relative"]
    lines = [_line(titles), _line(["---"] * len(titles))]
    for row in rows:
        cells = [f"{row.ms[side]:.2f}" for side in (EAGER, INDUCTOR, FROZEN, EXPLORER)]
        cells += [f"{row.ratios[peer]:.2f} ({row.noise[peer]:.2f})" for peer in (INDUCTOR, FROZEN)]
        cells += [
            f"{row.first_seconds[side]:.1f} ({row.first_processor_seconds[side]:.1f})"
            for side in (INDUCTOR, EXPLORER)
        ]
        lines.append(_line([row.name, *cells, f"{row.max_relative[EXPLORER]:.0e}"]))
    lines += [""] + [
        f"explorer / {peer}: {mean([row.ratios[peer] for row in rows]):.2f}"
        for peer in (PEERS if rows else ())
    ]
    for peer in (INDUCTOR,) if rows else ():  # frozen, it finds kernels that were compiled just now
        kinds = [row.first_seconds for row in rows], [row.first_processor_seconds for row in rows]
        clock, processor = (mean([s[EXPLORER] / s[peer] for s in kind]) for kind in kinds)
        lines.append(
            f"first result, explorer / {peer}: {clock:.2f} by the clock, "
            f"{processor:.2f} of processor time"
        )
    lines += [f"{row.name}: {row.left_to_torch}" for row in rows if row.left_to_torch]
    return lines


def mean(ratios: Sequence[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
