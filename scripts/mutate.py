"""How many small faults in the source the tests notice.

    make test-changed                                   records which tests execute what
    python scripts/mutate.py --count 150 --seed 1       one change after the other, spread over all
                                                        folders; the tests that it can affect run

A change is one of: another operator, a bound moved by one, a sign or a negation dropped, `and` for
`or`, a statement dropped. It is noticed when a test fails, and unfinished when the tests do not end
within the limit. The changes are made in a copy of the repository, and the same seed gives the same
ones. The exit status is 0; the record (--output) names each change and what became of it, one JSON
object per line, and changes that it has are not tried again.
"""

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
NO_TESTS = 5
"""pytest's exit status where nothing was selected."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the small faults that tests notice.")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-seconds", type=float, default=600, help="for each change")
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
            shutil.copy(recorded, copy / ".testmondata")
            outcome = outcome_of(change, copy, arguments.limit_seconds, arguments.rest)
            print(f"{outcome:9} {change.file}:{change.line}", flush=True)
            with arguments.output.open("a") as file:
                file.write(json.dumps({**asdict(change), "outcome": outcome}) + "\n")
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
    made = 0
    while made < count:
        for name in names:
            files = folders[name]
            path = chance.choices(files, [file.stat().st_size for file in files])[0]
            changes = changes_of(path)
            if changes and made < count:
                made += 1
                yield chance.choice(changes)


def changes_of(path: Path) -> list[Change]:
    """All changes that a file offers, inside of functions."""
    text = path.read_text(encoding="utf-8")
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            changed = changed_node(node)
            before = ast.get_source_segment(text, node) if changed is not None else None
            if changed is None or before is None or not isinstance(node, ast.expr | ast.stmt):
                continue
            file, after = str(path.relative_to(REPOSITORY)), ast.unparse(changed)
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


def outcome_of(change: Change, copy: Path, limit_seconds: float, rest: list[str]) -> str:
    """`noticed`, `missed`, `unfinished`, or `unreached` where no test executes the function."""
    path = copy / change.file
    content = path.read_bytes()
    start = sum(map(len, content.splitlines(keepends=True)[: change.line - 1])) + change.column
    before = change.before.encode()
    assert content[start:].startswith(before), change
    after = change.after if change.after == "pass" else f"({change.after})"
    path.write_bytes(content[:start] + after.encode() + content[start + len(before) :])
    command = [str(copy / ".venv" / "bin" / "python"), "-m", "pytest", "-x", "-q"]
    options = ["--testmon", "--testmon-forceselect", "--testmon-nocollect", *rest]
    environment = {"PYTHONPATH": str(copy), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    try:
        status = subprocess.run(
            [*command, *options],
            cwd=copy,
            env=environment,
            timeout=limit_seconds,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode
    except subprocess.TimeoutExpired:
        return "unfinished"
    finally:
        path.write_bytes(content)
    return {0: "missed", NO_TESTS: "unreached"}.get(status, "noticed")


if __name__ == "__main__":
    sys.exit(main())
