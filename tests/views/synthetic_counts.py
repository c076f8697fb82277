"""An invented run on a machine that counts its cycles."""

from __future__ import annotations

from dataclasses import replace

from explorer.results import Trace
from explorer.results.runs.counted import (
    CountedLayer,
    CountedRun,
    CountedTile,
    CycleTerm,
    MemoryRate,
    PredictedLayer,
    ScratchpadRecord,
    ScratchpadUse,
    SearchedLayer,
    SearchPoint,
    TilePhase,
    TileRead,
)


def with_counts(trace: Trace, mark: str = "") -> Trace:
    """The same on a machine whose cycles are counted: conv_1 at its roof, conv_3 bound by flash,
    and predicted to take 50 cycles less."""
    assert trace.profile is not None
    token = (("compute" + mark, "token", 300),)

    def use(offset: int, first: int, cycles: int):
        return ScratchpadUse(
            scratchpad="buffers" + mark, content="activations", first_element=offset // 8,
            last_element=offset // 8 + 31, offset_bytes=offset, size_bytes=256,
            start_cycle=first, ready_cycle=first + 10, end_cycle=first + cycles,
        )  # fmt: skip

    def tile(column: int, first: int):
        """Of the halves of a picture of 4 x 8, with a halo of one and padding around."""
        phases = (("load" + mark, "activations", 0, 20, ()),
                  ("compute" + mark, "multiply", 25, 60, (("token", 5),)))  # fmt: skip
        return CountedTile(
            channels=(0, 7), rows=(0, 3), columns=(column, column + 3),
            reads=(TileRead(tensor="input" + mark, size=(4, 8), rows=(-1, 4),
                            columns=(column - 1, column + 4)),),
            phases=tuple(
                TilePhase(queue=queue, name=name + mark, chunk=0, count=2, waits=waits,
                          start_cycle=first + start, end_cycle=first + end,
                          busy_cycles=end - start, bytes=64 if name == "activations" else 0)
                for queue, name, start, end, waits in phases
            ),
        )  # fmt: skip

    def layer(name: str, first: int, cycles: int, least: float, bound: str, off: int):
        term = CycleTerm(queue="compute" + mark, name="multiply", count=2, cycles=cycles - 100,
                         why=f"4 for starts of 2 instructions{mark}")  # fmt: skip
        return CountedLayer(
            operation=name + mark, title="conv 3x3", macs=1600, first_cycle=first,
            last_cycle=first + cycles, instructions=7, array_macs=3200,
            memory_bytes=(("sram", 100), ("flash", 60)), least_cycles=least, bound=bound,
            busy=(("compute" + mark, cycles - 100),), waits=token,
            predicted=PredictedLayer(first_cycle=first, last_cycle=first + cycles - off,
                                     terms=(term,), waits=token),
            uses=(use(0, first, cycles // 2), use(512, first + 20, cycles - 20)), uses_left_out=3,
            tiled_size=(4, 8), tiles=(tile(0, first), tile(4, first + 50)), tiles_left_out=2,
        )  # fmt: skip

    def searched(name: str, runs: tuple[tuple[int, int], ...], others: tuple[int, ...]):
        points = [
            SearchPoint(choices=(("rows", number), ("order", "outputs" + mark)), cycles=cycles,
                        bound=180, bytes=size)
            for number, (cycles, size) in enumerate((*runs, *((one, None) for one in others)), 1)
        ]  # fmt: skip
        best = min(cycles for cycles, _ in runs)
        return SearchedLayer(layer=name + mark, candidates=90, seconds=0.5, cycles=best,
                             bound=180, gap=1 - 180 / best, points=tuple(points))  # fmt: skip

    run = CountedRun(
        cycles=600, predicted_cycles=550, macs=6400, peak_macs_per_cycle=16.0,
        loaded_bytes=(("weights", 320),), stored_bytes=(), busy_cycles=(("compute", 400),),
        stalls=(("compute", "token", 200),),
        layers=(layer("conv_1", 0, 200, 200.0, "matrix engine", 0),
                layer("conv_3", 200, 400, 100.0, "flash", 50)),
        scratchpads=(ScratchpadRecord(name="buffers" + mark, size_bytes=2048, banks=4),),
        searches=(searched("conv_1", ((250, 300), (230, 200), (240, 200)), (260,)),
                  searched("conv_3", ((400, 100),), ())),
        memories=(MemoryRate(memory="sram", bytes_per_cycle=8.0, channels=2),
                  MemoryRate(memory="flash", bytes_per_cycle=0.5, channels=1)),
    )  # fmt: skip
    return replace(trace, profile=replace(trace.profile, counted=run))
