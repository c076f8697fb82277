"""The app on an invented compiler, as a process of its own: `python served.py <token> <models>`.

Its targets: `broken` fails, `slow` never ends its passes but says so, `deaf` doesn't even do that,
`dying` ends the process, `lost` loses its device when times are measured, `patient` never ends the
comparison, and on `faulty` a tensor is wrong after fuse-add. Edited IR with a line "  wrong" is
refused.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import synthetic

from explorer.app.protocol import Bisection, CompileRequest, Progress, SavedFile, SaveOrder
from explorer.app.worker.saving import saved_file, text_file, zip_file
from explorer.errors import DeviceError, TextError
from explorer.results import Knob, Trace
from explorer.results.runs.interleaved import InterleavedTiming, SideTimes, TimedSide
from explorer.views.payload.interleaved import turns_payload

OPTIONAL = ("remove-identities", "fuse-activation", "fuse-add")
TARGETS = ("cpu", "broken", "slow", "deaf", "dying", "lost", "patient", "faulty")
PIXELS = (2, 4, 8)


class InventedCompiler:
    """The synthetic trace of a model that is named by its file, stage by stage."""

    def stage(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        for index, step in enumerate(("import", "fold", "fuse")):
            progress(step, index, 3)
        lines = Path(request.edit[1]).read_text().splitlines() if request.edit else []
        if "  wrong" in lines:
            line = lines.index("  wrong") + 1
            raise TextError("not valid IR: no such operation", line=line, column=3)
        if request.target == "broken":
            raise ValueError("no device was found\nexpected a driver\ntry the target cpu")
        if request.target == "dying":
            os.kill(os.getpid(), signal.SIGKILL)
        if request.target == "lost" and name == "profile":
            raise DeviceError("the device does not answer", device="gpu 0", hint="plug it in")
        while request.target == "slow":
            time.sleep(0.05)
            progress("fold", 1, 3)
        while request.target == "deaf":
            time.sleep(0.05)
        while request.target == "patient" and name == "accuracy":
            time.sleep(0.05)
            progress("comparing", 1, 3)
        return self._until(request, name)

    def read(self, request: CompileRequest, progress: Progress) -> Trace | None:
        return None

    def optional(self, request: CompileRequest) -> tuple[str, ...]:
        return tuple(name for name in OPTIONAL if name not in request.disable)

    def bisect(self, request: CompileRequest) -> Bisection | None:
        address = "fuse-add/add-into-conv/fused_1"
        return Bisection("fuse-add", "add-into-conv", "fused_1", "Relu_7_out", address)

    def saved(self, request: CompileRequest, order: SaveOrder, progress: Progress) -> SavedFile:
        if order.what == "ir":
            return text_file(f"{order.after}.mlir", "builtin.module {\n  top.add\n}\n")
        if order.what == "package":
            return zip_file(f"{order.name} cpu", order.name, {"selftest.c": b"int main;"})
        return saved_file(order, self._until(request, "profile"), None)

    def turns(
        self, request: CompileRequest, others: Sequence[CompileRequest], progress: Progress
    ) -> dict[str, Any]:
        """The base takes 100 µs, every other one 80; in its kernel conv_1 alone."""
        for number in range(4):
            progress("round", number, 4)
        labels = [each.label or "first" for each in (request, *others)]

        def side(label: str, ratio: float) -> TimedSide:
            like = {"low_ratio": 0.98, "high_ratio": 1.02}
            unlike = {"ratio": ratio, "low_ratio": ratio, "high_ratio": ratio}
            whole = SideTimes(median_ns=1e5 * ratio, low_ns=9e4, high_ns=1.1e5, **unlike)
            conv_1 = SideTimes(median_ns=4e4 * ratio, low_ns=3e4, high_ns=5e4, **unlike)
            conv_3 = SideTimes(median_ns=2e4, low_ns=1.9e4, high_ns=2.2e4, **like)
            kernels = (("conv_1", conv_1), ("conv_3", conv_3))
            return TimedSide(label=label, latency=whole, kernels=kernels)

        sides = tuple(side(label, 0.8 if i else 1.0) for i, label in enumerate(labels))
        record = InterleavedTiming(device="Invented CPU", threads=1, rounds=4, sides=sides)
        return turns_payload(record)

    def forget(self, request: CompileRequest) -> None:
        pass

    def _until(self, request: CompileRequest, name: str) -> Trace:
        """The whole trace, less what later stages make."""
        mark = synthetic.HOSTILE if "hostile" in Path(request.path).name else ""
        trace = synthetic.make_trace(
            label=request.label, mark=mark, fused="fuse-activation" not in request.disable
        )
        trace = replace(
            trace,
            target=request.target,
            decisions=decisions_of(trace, request),
            knobs=knobs_of(trace, request),
        )
        if request.target == "faulty":
            trace = synthetic.with_fault(trace, "fuse-add", "Relu_7_out")
        if name == "passes":
            return replace(trace, kernels=(), program=None, accuracy=None, profile=None)
        if name == "program":
            kernels = tuple(replace(kernel, steps=()) for kernel in trace.kernels)
            return replace(trace, kernels=kernels, accuracy=None, profile=None)
        if name == "kernels":
            return replace(trace, accuracy=None, profile=None)
        return replace(trace, profile=None) if name == "accuracy" else trace


def decisions_of(trace: Trace, request: CompileRequest) -> tuple[tuple[str, str], ...]:
    """The schedule's choices, with what the request wants otherwise."""
    made = dict(trace.decisions) | {
        f"schedule-loops/{kernel.name}/pixels": "8" for kernel in trace.kernels
    }
    return tuple((made | dict(request.decisions)).items())


def knobs_of(trace: Trace, request: CompileRequest) -> tuple[Knob, ...]:
    """Switches of passes and of one rule, and the schedule's choices."""
    wanted = request.values
    names = [*(wanted.get("order") or OPTIONAL)]
    rule = "fuse-add/add-into-conv"
    return (
        *(Knob(name, name not in request.disable, (True, False), "a pass") for name in names),
        Knob(rule, wanted.get(rule, True), (True, False), "fired 3 times"),
        *(
            Knob(address, wanted.get(address, 8), PIXELS, "as many as fit")
            for address in (f"schedule-loops/{k.name}/pixels" for k in trace.kernels)
        ),
    )


if __name__ == "__main__":
    # A worker imports the compiler by name: it must not be called `__main__`.
    from served import InventedCompiler as Compiler

    from explorer.app.server.serving import serve

    serve(
        sys.argv[2:],
        token=sys.argv[1],
        open_browser=False,
        compares=True,
        targets=TARGETS,
        make_compiler=Compiler,
    )
