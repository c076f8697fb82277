"""The compiler in the worker's process: what was compiled stays, and forks share its passes.

compiler = ModelCompiler()
compiler.stage(Request("digits_cnn.onnx", "cpu"), "passes", progress)      all passes run
compiler.stage(Request(..., decisions=(("schedule-loops/conv_1/pixels", "4"),)), "passes", ...)
    only the passes from schedule-loops on run
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.app.session import Bisection, Progress, Request
from explorer.results import ProfileRecord, Trace

if TYPE_CHECKING:
    from explorer.compilation import Accuracy, Compilation
    from explorer.memory.planners import Planner
    from explorer.runtime.profiles import Peaks
    from explorer.runtime.roofline import PeakMeter


class ModelCompiler:
    """One per worker. Heavy imports happen here, in the worker, while the page is up already."""

    def __init__(self) -> None:
        self._compilations: dict[Request, Compilation] = {}
        self._accuracies: dict[Request, Accuracy] = {}
        self._profiles: dict[Request, ProfileRecord] = {}
        self._meter: PeakMeter | None = None

    def stage(self, request: Request, name: str, progress: Progress) -> Trace:
        compilation = self._compiled(request, progress)
        if name == "passes":
            return compilation.trace(with_code=False)
        if name == "program":
            bare = compilation.trace(with_code=False)
            program = compilation.program
            return replace(bare, kernels=program.kernels, program=program)
        if name == "accuracy":
            self._accuracies[request] = compilation.accuracy(progress=progress)
        elif name == "profile":
            self._profiles[request] = self._measured(compilation, progress)
        elif name == "assembly":
            compilation.assembly()
        return replace(compilation.trace(), profile=self._profiles.get(request))

    def optional(self, request: Request) -> tuple[str, ...]:
        return tuple(p.name for p in self._compilations[request].pipeline if not p.is_required)

    def bisect(self, request: Request) -> Bisection | None:
        compilation = self._compiled(request, lambda name, index, total: None)
        if request not in self._accuracies:
            self._accuracies[request] = compilation.accuracy()
        fault = self._accuracies[request].bisect()
        if fault is None:
            return None
        return Bisection(fault.pass_name, fault.rule, fault.operation, fault.tensor, fault.address)

    def forget(self, request: Request) -> None:
        for kept in (self._compilations, self._accuracies, self._profiles):
            kept.pop(request, None)

    def _compiled(self, request: Request, progress: Progress) -> Compilation:
        """Compiled now, or kept; a fork of the kept compilation with most passes in common."""
        if request in self._compilations:
            return self._compilations[request]
        parent = self._parent(request)
        if parent is None:
            self._compilations[request] = self._first(request, progress)
            return self._compilations[request]
        base, compilation = parent
        planner = {"planner": _planner(request)} if request.pins != base.pins else {}
        self._compilations[request] = compilation.fork(
            target=request.target if request.target != base.target else None,
            disable=[name for name in request.disable if name not in base.disable],
            decisions=request.values,
            label=request.label,
            progress=progress,
            budget_bytes=request.budget_bytes,
            **planner,
        )
        return self._compilations[request]

    def _parent(self, request: Request) -> tuple[Request, Compilation] | None:
        """A kept compilation of the model of which nothing must be taken back.

        Forks add to what was decided, so that every decision of the parent must stand in the
        request too; among those the one with most of it.
        """
        candidates = [
            kept
            for kept in self._compilations
            if kept.path == request.path
            and set(kept.disable) <= set(request.disable)
            and {address for address, _ in kept.decisions}
            <= {address for address, _ in request.decisions}
        ]
        if not candidates:
            return None

        def in_common(kept: Request) -> tuple[bool, int, int]:
            same = len(set(kept.decisions) & set(request.decisions))
            return (kept.target == request.target, len(kept.disable), same)

        best = max(candidates, key=in_common)
        return best, self._compilations[best]

    def _first(self, request: Request, progress: Progress) -> Compilation:
        import explorer as ex

        compilation = ex.compile(
            ex.load(request.path),
            target=request.target,
            disable=request.disable,
            decisions=request.values,
            budget_bytes=request.budget_bytes,
            planner=_planner(request),
            progress=progress,
        )
        compilation.label = request.label
        return compilation

    def _measured(self, compilation: Compilation, progress: Progress) -> ProfileRecord:
        """Times of all launches, and what the device can do at best."""
        progress("measuring times", 0, 2)
        profile = compilation.profile()
        progress("measuring the device's peaks", 1, 2)
        peaks = self._peaks(compilation, profile.threads)
        return replace(
            profile,
            peak_gflops=peaks.gflops,
            peak_gbytes_per_second=peaks.gbytes_per_second,
        )

    def _peaks(self, compilation: Compilation, threads: int) -> Peaks:
        from explorer.runtime.devices import first_usable, list_devices
        from explorer.runtime.roofline import PeakMeter

        if self._meter is None:
            self._meter = PeakMeter()
        device = compilation.device or first_usable(list_devices(), "cpu")
        return self._meter.peaks(device, threads)


def _planner(request: Request) -> Planner:
    from explorer.memory.pinned import PinnedPlanner
    from explorer.memory.planners import GreedyPlanner

    return PinnedPlanner(request.pins) if request.pins else GreedyPlanner()
