"""A trace prints and draws what is looked at, and nothing else."""

from pathlib import Path

import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.ir import program
from explorer.results.deferring import made_fields
from explorer.views.trace_payload import trace_payload

MODEL = Path(__file__).resolve().parents[2] / "sample_models" / "digits_mlp.onnx"


@pytest.fixture
def compilation() -> Compilation:
    return ex.compile(MODEL)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was printed, in order."""
    found: list[object] = []
    show = program.show

    def counted(op, *arguments):
        found.append(op)
        return show(op, *arguments)

    monkeypatch.setattr(program, "show", counted)
    return found


def test_a_head_prints_no_program(compilation: Compilation, printed: list[object]):
    payload = trace_payload(compilation.trace(with_code=False))
    assert (
        len(payload.head["passes"]) > 20 and payload.chunk("nodes/0") and payload.chunk("graph/3")
    )
    assert not printed


def test_a_text_prints_its_own_program(compilation: Compilation, printed: list[object]):
    payload = trace_payload(compilation.trace(with_code=False))
    text = payload.chunk("text/3")
    assert len(printed) == 1
    pages = [payload.chunk(f"lines/{name}")["lines"] for name in text["pages"]]
    lines = [
        line for page, start, count in text["runs"] for line in pages[page][start : start + count]
    ]
    assert tuple(lines) == payload_snapshot(compilation, 3).text.lines
    payload.chunk("text/3")
    assert len(printed) == 1


def payload_snapshot(compilation: Compilation, index: int) -> program.Snapshot:
    """Of the distinct ones, the model itself being the first."""
    distinct = dict.fromkeys([compilation.source, *(p.after for p in compilation.passes)])
    return list(distinct)[index]


def test_measures_and_rewrites_are_made_when_they_are_read(compilation: Compilation):
    trace = compilation.trace(with_code=False)
    trace_payload(trace)
    fused = next(record for record in trace.passes[1:] if any(e.applied for e in record.events))
    assert not {"macs", "peak_bytes"} & made_fields(fused)
    assert "delta" not in made_fields(fused.events[0])
    assert fused.events[0].delta.changed or fused.events[0].delta.added
    assert trace.passes[-1].macs > 0


def test_the_order_in_which_texts_are_asked_for_changes_none(compilation: Compilation):
    trace = compilation.trace(with_code=False)
    first, second = trace_payload(trace), trace_payload(trace)
    keys = [key for key in first.chunk_keys() if key.startswith("text/")]
    assert lines_by_text(first, keys) == lines_by_text(second, keys[::-1])


def lines_by_text(payload, keys: list[str]) -> dict[str, list[str]]:
    found = {}
    for key in keys:
        text = payload.chunk(key)
        pages = [payload.chunk(f"lines/{name}")["lines"] for name in text["pages"]]
        found[key] = [
            line for page, start, count in text["runs"] for line in pages[page][start:][:count]
        ]
    return found


def test_the_peak_after_planning_is_that_of_the_plan(compilation: Compilation):
    peaks = {record.name: record.peak_bytes for record in compilation.trace().passes}
    assert peaks["plan-memory"] == compilation.memory.peak_bytes
    assert peaks["plan-memory"] > 0


def test_an_unchanged_operation_keeps_its_node(compilation: Compilation):
    kept = 0
    for result in compilation.passes:
        before = {node.id: node for node in result.before.graph.nodes}
        after = result.after.graph
        assert after == program.module_graph(result.after.program)
        kept += sum(before.get(n.id) is n for n in after.nodes) if result.changed else 0
    assert kept > 20
