"""How many small faults in the source the tests notice.

    make test-changed                                   records which tests execute what
    python scripts/mutate.py --count 150 --seed 1       one change after the other, spread over all
                                                        folders; the tests that it can affect run

A change is one of: another operator, a bound moved by one, a sign or a negation dropped, `and` for
`or`, a statement dropped. The changes are made in a copy of the repository, and the same seed gives
the same ones. The tests that execute the changed function run until one fails: first those of the
same folder, then the fastest, as many as half of the limit allows.

| outcome | |
| --- | --- |
| noticed | a test fails with the change and passes without it |
| hung | the tests did not end, although they take a quarter of the limit without the change |
| missed | all tests of the function pass |
| unfinished | the tests that ran pass, and there was no time for the others |
| unreached | no test executes the function in pytest's own process |
| broken | a test fails without the change too |

The exit status is 0; the record (--output) names each change, what became of it and the test that
failed, one JSON object per line, and changes that it has are not tried again.
"""

import argparse
import ast
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

from testmon.process_code import Module, blob_to_checksums

REPOSITORY = Path(__file__).resolve().parents[1]
NO_TESTS = 5
"""pytest's exit status where nothing was selected."""
STARTING_SECONDS = 0.5
"""What a file of tests takes until its first test runs, on average."""
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Change:
    """One replacement in a file; lines count from 1, columns (of bytes, as in `ast`) from 0."""

    file: str
    line: int
    column: int
    before: str
    after: str

    def applied(self, content: bytes) -> bytes:
        """The file with the fault."""
        lines = content.splitlines(keepends=True)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        before = self.before.encode()
        assert content[start:].startswith(before), self
        after = self.after if self.after == "pass" else f"({self.after})"
        return content[:start] + after.encode() + content[start + len(before) :]


@dataclass(frozen=True)
class Outcome:
    """What became of a change: see the table at the top."""

    outcome: str
    test: str = ""
    """The test that failed."""
    tests: int = 0
    """How many tests execute the function."""
    ran: int = 0
    """How many of them had time to run."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the small faults that tests notice.")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-seconds", type=float, default=60, help="for each change")
    parser.add_argument("--output", type=Path, default=Path("build/mutations.jsonl"))
    parser.add_argument("rest", nargs="*", help="further arguments of pytest, after --")
    arguments = parser.parse_args()
    recorded = REPOSITORY / ".testmondata"
    if not recorded.is_file():
        parser.error("no recorded run: `make test-changed` makes one")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.output.read_text().splitlines() if arguments.output.exists() else []
    done = {(c["file"], c["line"], c["column"], c["after"]) for c in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder, "main")
        copy_repository(copy)
        for change in chosen_changes(arguments.count, random.Random(arguments.seed)):
            if (change.file, change.line, change.column, change.after) in done:
                continue
            outcome = outcome_of(change, copy, recorded, arguments.limit_seconds, arguments.rest)
            print(f"{outcome.outcome:10} {change.file}:{change.line} {outcome.test}", flush=True)
            with arguments.output.open("a") as file:
                file.write(json.dumps({**asdict(change), **asdict(outcome)}) + "\n")
    outcomes = Counter(json.loads(line)["outcome"] for line in arguments.output.open())
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))


def copy_repository(copy: Path) -> None:
    """The tracked files, with the environment and the shared models linked."""
    subprocess.run(["git", "clone", "-q", "--shared", REPOSITORY, copy], check=True)
    (copy / ".venv").symlink_to((REPOSITORY / ".venv").resolve())
    models = REPOSITORY.parent / "shared"
    if models.is_dir():
        copy.with_name("shared").symlink_to(models.resolve())


def chosen_changes(count: int, chance: random.Random) -> Iterator[Change]:
    """Changes of the folders of `explorer` in turn: small ones have as many as large ones."""
    folders: dict[str, list[Path]] = {}
    for path in sorted(REPOSITORY.glob("explorer/*/**/*.py")):
        folders.setdefault(path.relative_to(REPOSITORY).parts[1], []).append(path)
    names = sorted(folders)
    chance.shuffle(names)
    made: set[Change] = set()
    while len(made) < count:
        for name in names:
            files = folders[name]
            path = chance.choices(files, [file.stat().st_size for file in files])[0]
            changes = [change for change in changes_of(path) if change not in made]
            if changes and len(made) < count:
                made.add(change := chance.choice(changes))
                yield change


def changes_of(path: Path) -> list[Change]:
    """All changes that a file offers, inside of functions."""
    content = path.read_bytes()
    file = str(path.relative_to(REPOSITORY))
    starts = [0, *accumulate(map(len, content.splitlines(keepends=True)))]
    found = []
    for function in ast.walk(ast.parse(content)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            changed = changed_node(node)
            if changed is None or not isinstance(node, ast.expr | ast.stmt):
                continue
            assert node.end_lineno is not None and node.end_col_offset is not None
            end = starts[node.end_lineno - 1] + node.end_col_offset
            before = content[starts[node.lineno - 1] + node.col_offset : end].decode()
            after = ast.unparse(changed)
            found.append(Change(file, node.lineno, node.col_offset, before, after))
    return sorted(set(found), key=astuple)


def changed_node(node: ast.AST) -> ast.AST | None:
    """The node with one fault, where its kind has one."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATORS:
        return with_field(node, "op", OPERATORS[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        return with_field(node, "ops", [OPERATORS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return node.operand
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return ast.Pass() if is_call or isinstance(node, ast.AugAssign) else None


def with_field(node: ast.AST, name: str, value: object) -> ast.AST:
    fields = {field: getattr(node, field) for field in node._fields}
    return type(node)(**{**fields, name: value})


def outcome_of(
    change: Change, copy: Path, recorded: Path, limit_seconds: float, rest: list[str]
) -> Outcome:
    path = copy / change.file
    content = path.read_bytes()
    changed = change.applied(content)
    affected = affected_tests(recorded, change.file, content.decode(), changed.decode())
    if not affected:
        return Outcome("unreached")
    chosen = chosen_tests(affected, change.file, limit_seconds / 2)
    result = partial(Outcome, tests=len(affected), ran=len(chosen))
    names = copy / "chosen-tests.txt"
    names.write_text("".join(f"{name}\n" for name in chosen))
    failed = copy / ".pytest_cache" / "v" / "cache" / "lastfailed"
    failed.unlink(missing_ok=True)
    command = [str(copy / ".venv" / "bin" / "python"), "-m", "pytest", "-x", "-q"]
    command += ["-p", "no:testmon", "-p", "no:rerunfailures", *rest]
    path.write_bytes(changed)
    try:
        status = status_of([*command, f"@{names}"], copy, limit_seconds)
    finally:
        path.write_bytes(content)
    if status is None:
        is_quick = sum(affected[name] for name in chosen) <= limit_seconds / 4
        return result("hung" if is_quick else "unfinished")
    if status == 0:
        return result("missed" if len(chosen) == len(affected) else "unfinished")
    by = next(iter(json.loads(failed.read_text())), "") if failed.is_file() else ""
    without = status_of([*command, *([by] if by else ["--collect-only", f"@{names}"])], copy, None)
    return result("noticed" if without in (0, NO_TESTS) else "broken", by)


def affected_tests(recorded: Path, file: str, before: str, after: str) -> dict[str, float]:
    """The tests that executed what differs between two sources of a file, and their seconds.

    Tests that failed when they were recorded are left out.
    """
    gone = checksums_of(before) - checksums_of(after)
    query = """SELECT test_name, duration, method_checksums FROM test_execution AS t
        JOIN test_execution_file_fp AS link ON link.test_execution_id = t.id
        JOIN file_fp AS f ON f.id = link.fingerprint_id WHERE f.filename = ? AND NOT t.failed"""
    with sqlite3.connect(f"file:{recorded}?mode=ro", uri=True) as connection:
        rows = connection.execute(query, (file,)).fetchall()
    return {
        name: seconds or 0.0
        for name, seconds, executed in rows
        if not gone.isdisjoint(blob_to_checksums(executed))
    }


def checksums_of(source: str) -> set[int]:
    """Of each function of a file, as pytest-testmon records them."""
    return set(Module(source_code=source).method_checksums)


def chosen_tests(affected: dict[str, float], file: str, seconds: float) -> list[str]:
    """As many tests as the time allows, file by file: first those of the folder that mirrors the
    changed file's, then the fastest. There is always one."""
    mirrored = f"tests/{file.split('/')[1]}/"
    chosen: dict[str, list[str]] = {}
    for name in sorted(affected, key=lambda n: (not n.startswith(mirrored), affected[n], n)):
        module = name.partition("::")[0]
        seconds -= affected[name] + (0 if module in chosen else STARTING_SECONDS)
        if seconds < 0 and chosen:
            break
        chosen.setdefault(module, []).append(name)
    return [name for names in chosen.values() for name in names]


def status_of(command: list[str], copy: Path, limit_seconds: float | None) -> int | None:
    """The exit status, or nothing when the limit ended it with all that it had started."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        command,
        cwd=copy,
        env={**environment, "PYTHONPATH": str(copy)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
