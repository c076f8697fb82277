"""Dumps of another compiler's passes as a trace: texts with their differences, and no graphs.

    saved = read_dumps(Path("dumps"))          a folder of files, or one file with many dumps
    saved.names                                ["input", "canonicalize", "cse", ...]

Known forms: MLIR's `--mlir-print-ir-after-all` and `--mlir-print-ir-tree-dir`, StableHLO, XLA's
`--xla_dump_hlo_pass_re`, LLVM's `-print-after-all`, TVM's `PrintIR`. Any other folder of texts is
one dump for each file, in the natural order of their names. Nothing in them is executed.

A dump of one function of LLVM (`InstCombinePass on main`) takes the place of that function in the
program, so that every step is the whole program.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import InputError
from explorer.results import TRACE_VERSION, Graph, GraphDiff, ModelRecord, SourceText, Trace
from explorer.results.passes import PassRecord
from explorer.results.trace import SnapshotRecord
from explorer.traces.saving import SavedCompilation

MAX_BYTES = 500 << 20
MAX_DUMPS = 5_000
FIRST = "input"
WHOLE = ("", "[module]", "module")
"""Scopes that are the whole program."""
MARK = re.compile(
    r"""^(?: [;\#]?\s*\*\*\*\ IR\ Dump\ (?P<when>After|Before)\ (?P<llvm>.+?)
             \ (?:\*\*\*|\(\w+\)\ \*\*\*):?
        | //\ -----//\ IR\ Dump\ (?P<mlir_when>After|Before)\ (?P<mlir>[^/]+?)\ //-----\ //
        | PrintIR\((?P<tvm>[^)]*)\):?
        )\s*$""",
    re.VERBOSE,
)
DEFINITION = re.compile(r'^define\b.*?@("[^"]+"|[\w.$-]+)\(')
"""A function of LLVM, which ends with a line of `}`."""
XLA = re.compile(r"^module_\d+\.(?P<module>.+?)\.(?P<number>\d{4})\.(?P<rest>.+)$")
SUFFIXES = (
    ".mlir",
    ".txt",
    ".ll",
    ".hlo",
    ".stablehlo",
    ".ir",
    ".tir",
    ".relax",
    ".py",
    ".mir",
    "",
)
OPERATION = re.compile(r"^\s*(?:%|@?[\w.]+\s*[:=]|ROOT )")


@dataclass(frozen=True)
class Dump:
    """One text, the pass that it was written after, and the part of the program that it is of."""

    name: str
    scope: str
    lines: tuple[str, ...]


def read_dumps(path: Path) -> SavedCompilation:
    """The dumps of a file or a folder as a compilation that can be looked at.

    InputError for what has no dumps, is too large, or is no text.
    """
    dumps = list(_of_folder(path) if path.is_dir() else _of_file(path, _read(path)))
    if not dumps or not any(dump.lines for dump in dumps):
        raise InputError(
            "there are no dumps in it",
            file=str(path),
            hint="a folder of texts, or a file with `IR Dump After` marks",
        )
    if len(dumps) > MAX_DUMPS:
        raise InputError(f"{len(dumps):,} dumps; at most {MAX_DUMPS:,} are read", file=str(path))
    return SavedCompilation(_trace(path, dumps), {})


def changed_lines(saved: SavedCompilation) -> list[tuple[int, int]]:
    """Lines that every step took away and added, whatever their order."""
    before: Counter[str] = Counter()
    found = []
    for snapshot in saved.trace().snapshots:
        after = Counter(snapshot.text.lines)
        found.append(((before - after).total(), (after - before).total()))
        before = after
    return found


# -- reading ---------------------------------------------------------------------------------------


def _of_folder(path: Path) -> Iterator[Dump]:
    """The dumps of every text in the folder and below it, in the natural order of their paths."""
    files = [
        file
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith(".") and file.suffix.lower() in SUFFIXES
    ]
    if sum(file.stat().st_size for file in files) > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20} MB of dumps", file=str(path))
    for file in sorted(files, key=lambda file: _natural(str(file.relative_to(path)))):
        yield from _of_file(file, _read(file))


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Numbers in a name count as numbers: `2` before `10`."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", text)]


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES >> 20} MB", file=str(path))
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    if b"\0" in content[:4096]:
        raise InputError("this is no text", file=str(path))
    return content.decode("utf-8", "replace")


def _of_file(path: Path, text: str) -> Iterator[Dump]:
    """Every dump that a mark begins; without marks the file is one."""
    name, scope = _name_of_file(path), ""
    lines: list[str] = []
    has_marks = False
    for line in text.splitlines():
        mark = MARK.match(line)
        if mark is None:
            lines.append(line)
            continue
        if has_marks or any(other.strip() for other in lines):
            yield Dump(name if has_marks else FIRST, scope, _trimmed(lines))
        has_marks = True
        name, scope = _name_and_scope(mark)
        lines = []
    if has_marks or lines:
        yield Dump(name, scope, _trimmed(lines))


def _name_and_scope(mark: re.Match[str]) -> tuple[str, str]:
    name = (mark["llvm"] or mark["mlir"] or mark["tvm"] or "").strip()
    scope = ""
    if mark["llvm"] and " on " in name:
        name, scope = name.rsplit(" on ", 1)
        scope = scope.rsplit(" in function ", 1)[-1]  # `loop %4 in function main`
    if nested := re.fullmatch(r"(.+?)\s*(?:\('[\w.]+' operation: (@?[^)]+)\))", name):
        name, scope = nested[1], nested[2]  # MLIR's --mlir-print-ir-module-scope is off
    if short := re.fullmatch(r"\w+ \(([\w-]+)\)", name):
        name = short[1]  # Canonicalizer (canonicalize)
    if "Before" in (mark["when"], mark["mlir_when"]):
        name = f"before {name}"
    return name, scope.strip()


def _name_of_file(path: Path) -> str:
    stem = path.stem
    if xla := XLA.match(stem):
        after = re.search(r"after_([^.]+)", xla["rest"])
        return after[1] if after else xla["rest"]
    return re.sub(r"^\d+[_.-]+", "", stem) or stem


def _trimmed(lines: list[str]) -> tuple[str, ...]:
    """Without empty lines at the ends."""
    full = [i for i, line in enumerate(lines) if line.strip()]
    return tuple(lines[full[0] : full[-1] + 1]) if full else ()


# -- the trace -------------------------------------------------------------------------------------


def _trace(path: Path, dumps: Iterable[Dump]) -> Trace:
    steps = list(_whole_programs(dumps))
    names = _unique(name for name, _ in steps)
    texts = [text for _, text in steps]
    records = []
    count = 0
    for i, name in enumerate(names):
        before, count = count, sum(bool(OPERATION.match(line)) for line in texts[i])
        records.append(
            PassRecord(
                name=name,
                description=f"dump {i + 1} of {len(names)}",
                level="text",
                seconds=0.0,
                changed=i == 0 or texts[i] != texts[i - 1],
                operations_before=before,
                operations_after=count,
                macs=0,
                peak_bytes=0,
                events=(),
            )
        )
    model = ModelRecord(
        name=path.stem if path.is_file() else path.name,
        format="dumps",
        producer="",
        opset="",
        nodes=count,
        parameters=0,
        inputs=(),
        outputs=(),
    )
    return Trace(
        version=TRACE_VERSION,
        model=model,
        target="",
        device="",
        label="",
        passes=tuple(records),
        snapshots=tuple(_snapshot(text) for text in texts),
        diffs=tuple(GraphDiff() for _ in texts),
        decisions=(),
        memory=None,
        kernels=(),
        program=None,
        accuracy=None,
        profile=None,
    )


def _snapshot(lines: tuple[str, ...]) -> SnapshotRecord:
    return SnapshotRecord(SourceText("mlir", lines, ((),) * len(lines)), Graph((), ()))


def _whole_programs(dumps: Iterable[Dump]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The whole program after every dump: its functions as they were dumped last."""
    parts: dict[str, tuple[str, ...]] = {}
    for dump in dumps:
        if dump.scope in WHOLE:
            parts = _functions(dump.lines)
        else:
            parts[dump.scope] = dump.lines
        name = dump.name if dump.scope in WHOLE else f"{dump.name} on {dump.scope}"
        yield name, tuple(line for part in parts.values() for line in part)


def _functions(lines: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """LLVM's functions by name, and what comes before each; all else as one part."""
    parts: dict[str, list[str]] = {"": []}
    current, name = parts[""], ""
    for line in lines:
        if found := DEFINITION.match(line):
            name = found[1].strip('"')
            current = parts.setdefault(name, [])
        current.append(line)
        if name and line == "}":
            name = ""
            current = parts.setdefault(f"after {len(parts)}", [])
    return {key: tuple(part) for key, part in parts.items()}


def _unique(names: Iterable[str]) -> list[str]:
    """Names with a number where they came before."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found
