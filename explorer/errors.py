"""Every error that this project raises on purpose: what failed, where, and what to try.

    raise ModelError("the file is cut off after 312 bytes", file="net.onnx",
                     hint="download it again")

prints as

    the file is cut off after 312 bytes; where: file net.onnx; try: download it again

This is the lowest layer: it imports nothing of ours. The command line prints `str(error)` and
ends with status 2; any other exception is a defect of the project.
"""

from __future__ import annotations

from collections.abc import Sequence


class ExplorerError(Exception):
    """Something that the person who called can understand and act upon.

    All fields but `message` may be empty, and only `message` is positional: so an error survives
    pickling on its way from another process.
    """

    def __init__(self, message: str, *, file: str = "", node: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        """File at fault, as the caller named it."""
        self.node = node
        """Node of the source model, or operation of the IR, at fault."""
        self.hint = hint
        """What to try."""

    def places(self) -> list[str]:
        """Where it happened, outermost first: `["file net.onnx", "node conv1"]`."""
        places = []
        if self.file:
            places.append(f"file {self.file}")
        if self.node:
            places.append(f"node {self.node}")
        return places

    def __str__(self) -> str:
        text = self.message
        if places := self.places():
            text += "; where: " + ", ".join(places)
        if self.hint:
            text += f"; try: {self.hint}"
        return text


class ModelError(ExplorerError):
    """A model file that is damaged, inconsistent, or asks for more than is allowed."""


class TextError(ModelError):
    """IR text that is none, at `line` and `column`, from 1; 0 where no place is known."""

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        node: str = "",
        hint: str = "",
        line: int = 0,
        column: int = 0,
    ) -> None:
        super().__init__(message, file=file, node=node, hint=hint)
        self.line = line
        self.column = column


class UnsupportedError(ExplorerError):
    """The model is valid, but uses what this project cannot do. All problems at once."""

    def __init__(
        self,
        message: str,
        *,
        problems: Sequence[str] = (),
        file: str = "",
        node: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, file=file, node=node, hint=hint)
        self.problems = tuple(problems)
        """One line each: the operator, the node and what about it is not supported."""

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  - {line}" for line in grouped(self.problems))])


class NotQuantizedError(UnsupportedError):
    """The target computes with integers, and nothing in the model is quantized."""


MAX_PLACES = 3
"""Names of the nodes that share a problem."""
MAX_OPERATIONS = 12
"""Names of operations in the place of an error."""


def grouped(problems: Sequence[str]) -> list[str]:
    """One line per problem, in the order of the first node that has it.

    node a: Foo: unknown operator        =>   Foo: unknown operator (2 nodes: a, c)
    node b: Bar: unknown operator             node b: Bar: unknown operator
    node c: Foo: unknown operator
    """
    same: dict[str, list[str]] = {}
    for problem in problems:
        _, colon, what = problem.partition(": ")
        same.setdefault(what if colon else problem, []).append(problem)
    return [found[0] if len(found) == 1 else _in_places(w, found) for w, found in same.items()]


def _in_places(what: str, problems: Sequence[str]) -> str:
    places = [problem.partition(": ")[0] for problem in problems]
    shown = ", ".join(place.removeprefix("node ") for place in places[:MAX_PLACES])
    rest = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    kind = "nodes" if all(place.startswith("node ") for place in places) else "places"
    return f"{what} ({len(places)} {kind}: {shown}{rest})"


class InputError(ExplorerError):
    """An input array or an argument that does not fit: its name, what was expected, what came."""


class UnknownNameError(InputError, KeyError):
    """A name that a mapping does not have: a KeyError with a sentence as its text."""

    __str__ = ExplorerError.__str__


class RangeError(InputError):
    """One program for a range of sizes is not possible: the operations that ask for one size."""


class BuildError(ExplorerError):
    """A compiler is missing, refused generated code, or took too long."""

    def __init__(
        self, message: str, *, log: str = "", file: str = "", node: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, file=file, node=node, hint=hint)
        self.log = log
        """All that the compiler said."""


class DeviceError(ExplorerError):
    """A device, or the process that runs a program on it, failed, hung or is not there."""

    def __init__(
        self,
        message: str,
        *,
        device: str = "",
        signal: str = "",
        log: str = "",
        file: str = "",
        node: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, file=file, node=node, hint=hint)
        self.device = device
        self.signal = signal
        """Name of the signal that ended the process (`SIGSEGV`); empty when it was none."""
        self.log = log
        """What the process or driver wrote before it failed."""

    def places(self) -> list[str]:
        device = [f"device {self.device}"] if self.device else []
        return device + super().places()


class PassError(ExplorerError):
    """A pass failed, or left behind a program that its verifier refuses."""

    def __init__(
        self,
        message: str,
        *,
        pass_name: str = "",
        operation: str = "",
        file: str = "",
        node: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, file=file, node=node, hint=hint)
        self.pass_name = pass_name
        self.operation = operation
        """Identity of the operation in the IR."""

    def places(self) -> list[str]:
        places = []
        if self.pass_name:
            places.append(f"pass {self.pass_name}")
        if self.operation:
            places.append(f"operation {self.operation}")
        return places + super().places()


class MemoryBudgetError(ExplorerError):
    """No memory plan fits the budget; `operations` are live at the peak."""

    def __init__(
        self,
        message: str,
        *,
        budget_bytes: int = 0,
        needed_bytes: int = 0,
        operations: Sequence[str] = (),
        file: str = "",
        node: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, file=file, node=node, hint=hint)
        self.budget_bytes = budget_bytes
        self.needed_bytes = needed_bytes
        """The least that any plan, or the best plan found, takes."""
        self.operations = tuple(operations)

    def places(self) -> list[str]:
        shown = ", ".join(self.operations[:MAX_OPERATIONS])
        rest = len(self.operations) - MAX_OPERATIONS
        shown += f" and {rest} more" if rest > 0 else ""
        return super().places() + ([f"operations {shown}"] if shown else [])


class CacheWarning(RuntimeWarning):
    """The program cache could not do what it is for; every result is right all the same."""
