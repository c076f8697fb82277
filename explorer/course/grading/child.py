"""The child process that runs a lesson with answers: `python -m explorer.course.grading.child`.

Reads an order as JSON from standard input and writes a line of JSON for every exercise that begins
or was judged, to the file descriptor of the order. What a lesson or an answer prints is dropped.

An answer runs in a copy of the lesson's names, of which plain containers and arrays are copies, and
only the value of its variable is taken. While it runs, an audit hook (PEP 578) refuses files,
processes and sockets to it; afterwards no function of the compiler, of NumPy or of Python may be
another one. This contains careless and playful answers. It is no wall against an attacker: grade
strangers' work in a container.
"""

from __future__ import annotations

import ast
import builtins
import copy
import json
import linecache
import os
import resource
import signal
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from explorer.course.grading.answers import refused
from explorer.course.lessons import Cell, read_lesson, variable_of
from explorer.course.predictions import Verdict

FILE_BYTES = 1 << 30
"""The largest file that a lesson writes."""
ANSWER = "<answer "
REFUSED_EVENTS = (
    "ctypes.",
    "os.",
    "shutil.",
    "socket.",
    "subprocess.",
    "open",
    "glob.",
    "pathlib.",
    "tempfile.",
    "urllib.",
    "webbrowser.",
    "marshal.",
    "pickle.",
    "sys.addaudithook",
    "gc.",
    "code.__new__",
    "function.__new__",
)
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REMOVES = ("os.remove", "os.rename", "os.rmdir", "os.truncate", "os.chmod", "shutil.rmtree")
NETWORK = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto")


class TooLong(BaseException):
    """An answer took longer than it may; no `except Exception` of it catches this."""


class Guard:
    """The audit hook. `writable`: folders in which files may be written and removed."""

    def __init__(self, writable: tuple[Path, ...], hidden: tuple[Path, ...]):
        self.writable = tuple(str(path.resolve()) for path in writable)
        self.hidden = tuple(str(path.resolve()) for path in hidden)
        self.library = (sysconfig.get_path("stdlib"), "<frozen")
        self.is_on = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event in NETWORK:
            raise PermissionError("no answer reaches for the network")
        if event == "open" and self._is_forbidden_file(*arguments):
            raise PermissionError("no answer reaches for files")
        if event in REMOVES and not self._is_within(arguments[0], self.writable):
            raise PermissionError("no answer changes files")
        if event.startswith(REFUSED_EVENTS) and self._is_by_answer():
            raise PermissionError("no answer reaches for files, processes or the interpreter")

    def _is_forbidden_file(self, path: object, mode: object, flags: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        is_write = isinstance(flags, int) and bool(flags & WRITES)
        if is_write and not self._is_within(path, (*self.writable, "/dev")):
            return True
        return self._is_within(path, self.hidden)

    def _is_within(self, path: object, folders: tuple[str, ...]) -> bool:
        try:
            whole = os.path.realpath(os.fsdecode(path))  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            return False
        return any(whole == folder or whole.startswith(folder + os.sep) for folder in folders)

    def _is_by_answer(self) -> bool:
        """Whether an answer called, with nothing but Python's own library in between."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(ANSWER):
                return True
            if file.startswith("<frozen importlib"):  # a module that an answer may import
                return False
            if not file.startswith(self.library) and file != __file__:
                return False
            frame = frame.f_back
        return False


def main() -> int:
    order = json.load(sys.stdin)
    report = os.fdopen(int(order["report"]), "w", encoding="utf-8", buffering=1)

    def say(**line: object) -> None:
        report.write(json.dumps(line) + "\n")
        report.flush()

    limit_process(int(order["seconds"]))
    os.chdir(order["folder"])
    guard = Guard(tuple(map(Path, order["writable"])), tuple(map(Path, order["hidden"])))
    sys.addaudithook(guard)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        run = Run(Path(order["lesson"]), order["answers"], guard, float(order["answer_seconds"]))
        try:
            for line in run.judged():
                say(**line)
            say(done=True)
        except Exception as error:  # of the lesson itself
            say(failed=f"{type(error).__name__}: {error}"[:500])
    report.close()
    os._exit(0)  # nothing that an answer registered runs at the end


def limit_process(seconds: int) -> None:
    """Processor time, size of files, no core dumps."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Run:
    """A lesson with answers, from its first cell to its last."""

    def __init__(self, lesson: Path, answers: Mapping[str, str], guard: Guard, seconds: float):
        self.lesson = read_lesson(lesson)
        self.answers = answers
        self.guard = guard
        self.seconds = seconds
        self.names: dict[str, Any] = {"__name__": "lesson"}

    def judged(self) -> Iterator[dict[str, object]]:
        """What is reported, exercise by exercise."""
        pending: tuple[Cell, str] | None = None  # an answer's cell, and why it is refused
        for cell in self.lesson.cells:
            if cell.kind != "code":
                continue
            if "answer" in cell.tags:
                yield {"begins": cell.exercise}
                pending = (cell, self.take(cell))
            elif "grader" in cell.tags and pending is not None:
                yield self.judge(cell, pending[1])
                pending = None
            else:
                execute(cell.source, f"<cell {cell.id}>", self.names)

    def take(self, cell: Cell) -> str:
        """Gives the answer's value to the lesson; a sentence where there is none."""
        variable = variable_of(cell)
        self.names[variable] = ...
        source = self.answers.get(cell.exercise, "")
        if not source:
            return ""
        if reason := refused(source, variable):
            return reason
        scope = {name: copied(value) for name, value in self.names.items()}
        before = fingerprint()
        try:
            with self.guarded():
                execute(source, f"{ANSWER}{cell.exercise}>", scope)
        except TooLong:
            return f"this takes longer than {self.seconds:g} s"
        except BaseException as error:  # whatever an answer raises is its own
            return f"{type(error).__name__}: {str(error)[:500]}"
        if changed := changes(before):
            return f"an answer leaves {changed} as it is"
        value = scope.get(variable, ...)
        if not is_plain(value):
            return "a value of a class of your own is no answer"
        self.names[variable] = value
        return ""

    def judge(self, cell: Cell, reason: str) -> dict[str, object]:
        if reason:
            return {"exercise": cell.exercise, "right": False, "message": reason}
        before = fingerprint()
        try:
            with self.guarded():  # an answer may be a function that the judge calls
                verdict = execute(cell.source, f"<cell {cell.id}>", self.names)
        except TooLong:
            return self.refusal(cell, f"this takes longer than {self.seconds:g} s")
        except BaseException as error:  # of the answer's, which the judge called
            return self.refusal(cell, f"{type(error).__name__}: {str(error)[:500]}")
        if changed := changes(before):
            return self.refusal(cell, f"an answer leaves {changed} as it is")
        if type(verdict) is not Verdict:
            return self.refusal(cell, "this cannot be judged")
        return {
            "exercise": cell.exercise,
            "right": verdict.state == "right",
            "message": str(verdict.message),
        }

    def refusal(self, cell: Cell, message: str) -> dict[str, object]:
        return {"exercise": cell.exercise, "right": False, "message": message}

    @contextmanager
    def guarded(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            raise TooLong

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        self.guard.is_on = True
        try:
            yield
        finally:
            self.guard.is_on = False
            signal.setitimer(signal.ITIMER_REAL, 0)


def execute(source: str, file: str, names: dict[str, Any]) -> Any:
    """Runs a cell; the value of its last line, if that is an expression."""
    # Rules show their own text, as out of a notebook's cell.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source)
    shown: ast.expr | None = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body.pop()
        assert isinstance(last, ast.Expr)
        shown = last.value
    exec(compile(tree, file, "exec"), names)
    if shown is None:
        return None
    return eval(compile(ast.Expression(shown), file, "eval"), names)


def copied(value: Any) -> Any:
    """A copy of plain containers and arrays; all else is shared."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (dict, list, set):
        try:
            return copy.deepcopy(value)
        except Exception:  # it holds what cannot be copied: then the container alone
            return copy.copy(value)
    return value


def is_plain(value: object, depth: int = 3) -> bool:
    """Whether a value and what it holds are of classes that are found where they say they are: one
    of an answer's own may compare as equal to everything."""
    kind = type(value)
    known: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        known = getattr(known, name, None)
    if value is None or value is ... or isinstance(value, FUNCTIONS):
        return True
    if known is not kind or kind.__module__ == "lesson":
        return False
    if depth and isinstance(value, dict):
        return all(is_plain(item, depth - 1) for pair in value.items() for item in pair)
    if depth and isinstance(value, list | tuple | set | frozenset):
        return all(is_plain(item, depth - 1) for item in value)
    return True


def fingerprint() -> dict[tuple[str, str], tuple[int, ...]]:
    """The functions of the compiler, of NumPy and of Python, by module and name."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for module, text in list(sys.modules.items()):
        if module.split(".")[0] in ("explorer", "numpy") and isinstance(text, ModuleType):
            for name, value in list(vars(text).items()):
                _note(found, module, name, value)
    for name, value in vars(builtins).items():
        if name != "_":
            _note(found, "builtins", name, value)
    return found


def _note(
    found: dict[tuple[str, str], tuple[int, ...]], module: str, name: str, value: object
) -> None:
    if isinstance(value, FunctionType):
        found[module, name] = id(value), id(value.__code__)
    elif isinstance(value, type) and value.__module__ == module:
        for inner, member in list(vars(value).items()):
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType):
                found[module, f"{name}.{inner}"] = id(member), id(function.__code__)
    elif callable(value):
        found[module, name] = (id(value),)


def changes(before: Mapping[tuple[str, str], tuple[int, ...]]) -> str:
    """The first function that is another one than before, or gone; empty where none is."""
    after = fingerprint()
    for key, value in before.items():
        if after.get(key) != value:
            return ".".join(key)
    return ""


if __name__ == "__main__":
    sys.exit(main())
