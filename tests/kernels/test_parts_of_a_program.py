"""One program of several parts: each part's memory begins elsewhere."""

from explorer.kernels.program.parts import _shifted
from explorer.results.program import Port, Program, Tap
from explorer.results.source import SourceText


def port(name: str, offset_bytes: int) -> Port:
    return Port(
        name=name, element_type="float32", shape=(2,), offset_bytes=offset_bytes, size_bytes=8
    )


def test_what_a_part_reads_and_shows_lies_in_its_own_arena():
    tap = Tap(operation="y", result=0, step=0, offset_bytes=64, size_bytes=8,
              element_type="float32", shape=(2,), logical_shape=(2,))  # fmt: skip
    own = Program(target="cpu", source=SourceText("c", (), ()), kernels=(), launches=(),
                  inputs=(port("x", 0),), outputs=(port("y", 64),), taps=(tap,), weights=(),
                  arena_bytes=128, weights_bytes=0)  # fmt: skip
    moved = _shifted(own, 256, 1024)
    assert [tap.offset_bytes for tap in moved.taps] == [320]
    assert [p.offset_bytes for p in (*moved.inputs, *moved.outputs)] == [256, 320]
