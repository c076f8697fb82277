"""What a trace may be without, by name: what views ask of it, and the page's `head.has`.

A trace is saved as far as things are known; a view of what is not there says how to get it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.results import Trace


@dataclass(frozen=True, kw_only=True)
class TracePart:
    """Something that a trace has or has not."""

    is_in: Callable[[Trace], bool]
    noun: str
    advice: str
    """How one gets it."""


_AGAIN = "compile the model again"
PARTS: Mapping[str, TracePart] = {
    "memory": TracePart(
        is_in=lambda trace: trace.memory is not None, noun="memory plan", advice=_AGAIN
    ),
    "accuracy": TracePart(
        is_in=lambda trace: trace.accuracy is not None,
        noun="comparison with the source model",
        advice="save the trace after c.accuracy(inputs)",
    ),
    "quantization": TracePart(
        is_in=lambda trace: trace.quantization is not None,
        noun="quantization",
        advice="compile it with quantization=table; explorer calibrate makes one",
    ),
    "precision": TracePart(
        is_in=lambda trace: (
            trace.quantization is not None and trace.quantization.precision is not None
        ),
        noun="search for modes",
        advice="compile it with modes=explorer.mixed(...), or --qtable of explorer mixed -o",
    ),
    "float": TracePart(
        is_in=lambda trace: trace.accuracy is not None and bool(trace.accuracy.against_float),
        noun="comparison of a quantized model with the float model",
        advice="save the trace after c.accuracy(inputs)",
    ),
    "profile": TracePart(
        is_in=lambda trace: trace.profile is not None,
        noun="measured times",
        advice="save the trace after c.profile(inputs)",
    ),
    "counted": TracePart(
        is_in=lambda trace: trace.profile is not None and trace.profile.counted is not None,
        noun="counted cycles",
        advice="compile it for a target of which instructions run a part of it (explorer "
        "targets; explorer compile lists what does not), and save the trace after "
        "c.profile(inputs)",
    ),
    "ports": TracePart(
        is_in=lambda trace: trace.ports is not None,
        noun="analysis of its loops",
        advice="save the trace after c.ports()",
    ),
    "packages": TracePart(
        is_in=lambda trace: "packages" in trace.parts,
        noun="package",
        advice="save the trace after c.package(folder)",
    ),
    "placement": TracePart(
        is_in=lambda trace: "placement" in trace.parts,
        noun="choice of devices",
        advice="compile it for several targets: --target cpu+opencl",
    ),
    "program": TracePart(
        is_in=lambda trace: trace.program is not None, noun="program", advice=_AGAIN
    ),
    "steps": TracePart(
        is_in=lambda trace: any(kernel.steps for kernel in trace.kernels),
        noun="steps of schedules",
        advice=_AGAIN,
    ),
    "operators": TracePart(
        is_in=lambda trace: bool(trace.operators), noun="table of operators", advice=_AGAIN
    ),
    "sweep": TracePart(
        is_in=lambda trace: "sweep" in trace.parts,
        noun="search of machines",
        advice="explorer sweep MODEL makes one, and explorer serve MODEL --front opens it",
    ),
    "model_comparison": TracePart(
        is_in=lambda trace: "model_comparison" in trace.parts,
        noun="comparison with another model",
        advice="explorer compare A B -o FILE.html",
    ),
    "kernel": TracePart(
        is_in=lambda trace: False,  # a widget is told whether there is one
        noun="kernel that compiles",
        advice="c.explore() in a notebook",
    ),
    "compare": TracePart(
        is_in=lambda trace: False,  # the page is told whether it has two
        noun="other compilation",
        advice="c.compare(d) compares with another one",
    ),
    "workspace": TracePart(
        is_in=lambda trace: False,  # the served app has one
        noun="workspace",
        advice="explorer serve keeps branches and what was done",
    ),
}


def part_named(name: str) -> TracePart:
    """Of `PARTS`, or the record of that name in `Trace.parts`."""
    return PARTS.get(name) or TracePart(
        is_in=lambda trace: name in trace.parts, noun=f"record of its {name}", advice=_AGAIN
    )


LATE_PARTS = frozenset({"accuracy", "counted", "float", "profile", "program", "steps", "sweep"})
"""What arrives when a page is open already: kernels, errors, times and sweeps that it sends."""


def parts_of(trace: Trace) -> dict[str, bool]:
    """Of every part, whether it is there."""
    known = {name: part.is_in(trace) for name, part in PARTS.items()}
    return {**known, **dict.fromkeys(trace.parts, True)}
