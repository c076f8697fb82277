"""A lesson of the course as its reader executes it: cell by cell in one namespace.

    lesson = Lesson("03_passes_and_diffs")
    lesson.run("cell-06", answers={"folded": 11})      every code cell up to this one
    lesson.shown["cell-06"]                            what its last line shows
    lesson.printed["cell-03"]                          what it prints

Test modules load this file by its path, for xDSL's wheel installs a top-level package `tests`.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import re
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.course.predictions import Judge, check

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "notebooks"
MODELS = REPOSITORY / "sample_models"


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook's file."""

    id: str
    cell_type: str
    source: str


def cells_of(path: Path) -> list[Cell]:
    """The cells in order. The file is JSON; `nbformat` alone takes a second to import."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell(c["id"], c["cell_type"], "".join(c["source"])) for c in cells]


class Lesson:
    """A notebook and the names that its cells have made so far."""

    def __init__(self, name: str):
        self.cells = {cell.id: cell for cell in cells_of(FOLDER / f"{name}.ipynb")}
        self.names: dict[str, Any] = {"__name__": name}
        self.shown: dict[str, Any] = {}
        self.printed: dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def run(
        self,
        last: str,
        answers: Mapping[str, object] | None = None,
        leave_out: Collection[str] = (),
    ) -> None:
        """Executes the code cells that were not executed yet, up to and including the last one.

        answers: predictions by the name that the lesson gives them, in the place of the dots.
        """
        for name, cell in self.cells.items():
            is_code = cell.cell_type == "code" and name not in leave_out
            if is_code and name <= last and name not in self.printed:
                self.execute(name, answers or {})

    def execute(self, name: str, answers: Mapping[str, object]) -> Any:
        source = self.cells[name].source
        if re.search(r"^check\(", source, re.MULTILINE):  # the answer has a cell of its own
            self.names.update(answers)
        file = f"<{name} of {self.names['__name__']}>"
        # Rules show their own text, as out of a notebook's cell.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        tree = Answering(answers).visit(ast.parse(source))
        shown: ast.expr | None = None
        if isinstance(tree.body[-1], ast.Expr):
            shown = tree.body.pop().value
        tree = ast.fix_missing_locations(tree)
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile(tree, file, "exec"), self.names)
            if shown is not None:
                code = compile(ast.fix_missing_locations(ast.Expression(shown)), file, "eval")
                self.shown[name] = eval(code, self.names)
        self.printed[name] = output.getvalue()
        return self.shown.get(name)

    @property
    def prose(self) -> str:
        """All of the text."""
        return "\n".join(c.source for c in self.cells.values() if c.cell_type == "markdown")


class Answering(ast.NodeTransformer):
    """Puts answers in the place of the dots of `name = predict(question, ...)` and `name = ...`."""

    def __init__(self, answers: Mapping[str, object]):
        self.answers = answers

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        call, target = node.value, node.targets[0]
        is_open = isinstance(call, ast.Constant) and call.value is ...
        if is_open and isinstance(target, ast.Name) and target.id in self.answers:
            node.value = ast.parse(repr(self.answers[target.id]), mode="eval").body
            return node
        is_asked = isinstance(call, ast.Call) and getattr(call.func, "id", "") == "predict"
        if is_asked and isinstance(target, ast.Name) and target.id in self.answers:
            assert isinstance(call, ast.Call)
            call.args[1] = ast.parse(repr(self.answers[target.id]), mode="eval").body
        return node


def refusals(judge: Judge, answers: Mapping[str, object]) -> None:
    """Each sentence is what the judge says of the answer beside it; of strange kinds one, too."""
    for told, answer in answers.items():
        verdict = check(answer, judge)
        assert verdict.state == "wrong"
        assert told in verdict.message, verdict.message
    for strange in (None, {}, "an answer", [], object()):
        verdict = check(strange, judge)
        assert verdict.state == "wrong"
        assert "cannot be checked" not in verdict.message


def numbers_refused(lesson: Lesson, cell: str, answers: Mapping[object, str]) -> None:
    """The exercise of the cell refuses each of these answers with the sentence beside it."""
    for answer, told in answers.items():
        verdict = lesson.execute(cell, {"answer": answer})
        assert verdict.state == "wrong"
        assert verdict.message.startswith(f"{told}. ")
