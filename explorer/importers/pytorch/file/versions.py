"""Writes as values: what a program writes in place becomes new versions of the tensors it changes.

    %r = aten.relu_(%x)           later users of x take r
    %s = aten.select(%y, 1, 0)
    %f = aten.fill_(%s, 1)        results f, and y as it is then: `y after f`

A tensor belongs to a storage, whose first tensor is its root; a view is the root with some calls
applied. A write into a view gives the root anew, and with it those of its other views that are
used later. Steps with writes have these as further results (`Write`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.importers.pytorch.file.program import (
    Argument,
    Call,
    Graph,
    Ref,
    ValueType,
    references,
    renamed,
)
from explorer.importers.pytorch.file.views import Unclear, view_of

_NORMALIZATIONS = {
    "aten.batch_norm": "training",
    "aten._native_batch_norm_legit": "training",
    "aten.native_batch_norm": "training",
    "aten.instance_norm": "use_input_stats",
}
"""Calls that change running statistics, by the argument that makes them do it."""
_NO_WRITES = ("aten.detach_", "aten.requires_grad_")


@dataclass(frozen=True)
class View:
    """One call on the way from a storage's root to a view."""

    call: Call
    parameter: str
    """Of the call: what is viewed."""
    result: int


@dataclass(frozen=True, kw_only=True)
class Write:
    """What a call changes beside its result."""

    parameter: str
    """What it writes into."""
    root: str
    """The version of the storage's root that is changed."""
    path: tuple[View, ...]
    """From the root to what is written into."""
    others: tuple[tuple[View, ...], ...]
    """From the root to each of the further results."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A call that changes nothing: its operands are versions, its results new ones."""

    call: Call
    """With the names of versions."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    write: Write | None = None
    unclear: bool = False
    """It writes into what may or may not share its storage with others."""
    tensors: Mapping[str, str] = field(default_factory=dict)
    """Of the results: which of the file's tensors each is, as it is after the call."""


@dataclass(frozen=True)
class Versioned:
    """A graph without writes."""

    steps: tuple[Step, ...]
    outputs: tuple[Argument, ...]
    changed: Mapping[str, str]
    """The last versions of inputs that were written into."""


def versioned(graph: Graph) -> Versioned:
    return _Walk(graph).walk()


def is_write(call: Call) -> bool:
    """Whether a call changes its first operand: `add_`, `__iand__`."""
    if not call.target.startswith("aten.") or call.target in _NO_WRITES:
        return False
    name = call.target.removeprefix("aten.").split(".")[0]
    is_operator = name.startswith("__i") and name.endswith("__")
    return is_operator or (name.endswith("_") and not name.endswith("__"))


def statistics_of(call: Call) -> tuple[str, ...]:
    """Running mean and variance that a normalization changes as it trains, by their names.

    They become further results of the call, as no overload says that it writes into them.
    """
    flag = _NORMALIZATIONS.get(call.target)
    is_training = flag is not None and call.arguments.get(flag) is True
    given = [call.arguments.get(name) for name in ("running_mean", "running_var")]
    names = tuple(argument.name for argument in given if isinstance(argument, Ref))
    return names if is_training and len(names) == len(given) else ()


def complex_values(types: Mapping[str, ValueType], steps: Sequence[Step]) -> frozenset[str]:
    """Which tensors of a graph are complex, and which versions of tensors."""
    tensors = {name for name, kind in types.items() if kind.is_complex}
    versions = {v for step in steps for v, name in step.tensors.items() if name in tensors}
    return frozenset(tensors | versions)


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._current: dict[str, str] = {}
        """Of tensors that were changed: the version that counts."""
        self._places: dict[str, tuple[str, tuple[View, ...]]] = {}
        """Of views: root and path."""
        self._members: dict[str, list[str]] = {}
        """Tensors of a storage, by its root."""
        self._unclear: set[str] = set()
        self._last_uses = _last_uses(graph)
        self._taken = set(graph.types) | {r for call in graph.calls for r in call.results}

    def walk(self) -> Versioned:
        steps = [self._step(index, call) for index, call in enumerate(self._graph.calls)]
        outputs = tuple(renamed(argument, self._current) for argument in self._graph.outputs)
        changed = {n: self._current[n] for n in self._graph.inputs if n in self._current}
        return Versioned(tuple(steps), outputs, changed)

    def _step(self, index: int, call: Call) -> Step:
        current = replace(
            call,
            arguments={name: renamed(a, self._current) for name, a in call.arguments.items()},
        )
        inputs = tuple(dict.fromkeys(current.references()))
        if is_write(call):
            return self._write(index, call, current, inputs)
        self._note_view(call)
        tensors = {name: name for name in call.results if name}
        result = next(filter(None, call.results), call.name)
        changed = {name: self._unused(f"{name} after {result}") for name in statistics_of(call)}
        self._current |= changed
        tensors |= {version: name for name, version in changed.items()}
        outputs = (*call.results, *changed.values())
        return Step(call=current, inputs=inputs, outputs=outputs, tensors=tensors)

    def _note_view(self, call: Call) -> None:
        try:
            parameter = view_of(call, self._graph.types)
        except Unclear:
            sources = [self._places.get(name, (name, ()))[0] for name in call.references()]
            self._unclear.update((*call.results, *sources))
            parameter = None
        source = call.arguments.get(parameter) if parameter else None
        if parameter is None or not isinstance(source, Ref):
            return
        root, path = self._places.get(source.name, (source.name, ()))
        for number, name in enumerate(call.results):
            self._places[name] = root, (*path, View(call, parameter, number))
            self._members.setdefault(root, []).append(name)
            if source.name in self._unclear:
                self._unclear.add(name)

    def _write(self, index: int, call: Call, current: Call, inputs: tuple[str, ...]) -> Step:
        parameter = next(iter(call.arguments), "")
        target = call.arguments.get(parameter)
        result = next(filter(None, call.results), "")
        tensors = {name: name for name in call.results if name}
        if not isinstance(target, Ref) or not result:
            return Step(call=current, inputs=inputs, outputs=call.results, tensors=tensors)
        root, path = self._places.get(target.name, (target.name, ()))
        before = self._current.get(root, root)
        outputs, others = list(call.results), []
        for name in (root, *self._members.get(root, ())):
            own = self._places.get(name, (root, ()))[1]
            if own == path:
                self._current[name] = result
            elif name == root or self._last_uses.get(name, -1) > index:
                version = self._unused(f"{name} after {result}")
                self._current[name] = version
                outputs.append(version)
                others.append(own)
                tensors[version] = name
        self._places[result] = root, path
        self._members.setdefault(root, []).append(result)
        used = [name for own in (path, *others) for view in own for name in view.call.references()]
        numbers = [name for name in used if name not in self._graph.types]
        inputs = tuple(dict.fromkeys((*inputs, before, *numbers)))
        write = Write(parameter=parameter, root=before, path=path, others=tuple(others))
        is_unclear = bool({target.name, root, *self._members[root]} & self._unclear)
        return Step(
            call=current,
            inputs=inputs,
            outputs=tuple(outputs),
            write=write if path or others else None,
            unclear=is_unclear,
            tensors=tensors,
        )

    def _unused(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name


def _last_uses(graph: Graph) -> dict[str, int]:
    """The last call that takes each value, by its place; behind all calls for what is returned."""
    uses = {name: index for index, call in enumerate(graph.calls) for name in call.references()}
    returned: Iterable[str] = (n for argument in graph.outputs for n in references(argument))
    everything: Sequence[str] = (*returned, *graph.inputs)
    return uses | dict.fromkeys(everything, len(graph.calls))
