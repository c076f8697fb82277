"""Links between the levels of a compilation: all of them, from both sides, and what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer.errors import InputError
from explorer.results import KernelRecord, SourceText, Trace
from explorer.results.encoding import from_json, to_json
from explorer.results.linking import LevelCoverage, LinkCoverage
from explorer.traces.coverage import link_coverage


@pytest.fixture(scope="module")
def compilation(sample_models: Path):
    return explorer.compile(sample_models / "digits_mlp.onnx", dimensions={"batch": 1})


@pytest.fixture(scope="module")
def trace(compilation) -> Trace:
    return compilation.trace(with_assembly=True)


def level(coverage: LinkCoverage, name: str) -> LevelCoverage:
    (found,) = (one for one in coverage.levels if one.level == name)
    return found


def with_kernel(trace: Trace, name: str, **changes: object) -> Trace:
    kernels = [replace(k, **changes) if k.name == name else k for k in trace.kernels]
    return replace(trace, kernels=tuple(kernels))


def without_owners(text: SourceText, number: int) -> SourceText:
    owners = [() if i == number else tags for i, tags in enumerate(text.owners)]
    return replace(text, owners=tuple(owners))


def test_nodes_loops_source_and_instructions_are_linked(trace: Trace) -> None:
    coverage = link_coverage(trace)
    assert [(one.level, one.unit) for one in coverage.levels] == [
        ("model", "nodes"),
        ("top", "lines"),
        ("loops", "lines"),
        ("source", "lines"),
        ("assembly", "instructions"),
    ]
    model, loops = level(coverage, "model"), level(coverage, "loops")
    assert (model.linkable, model.share) == (6, 1.0)
    assert loops.linkable > 100 and loops.share == 1.0
    lines = sum(bool(text.strip()) for k in trace.kernels for text in k.source.lines)
    assert level(coverage, "source").linkable == lines
    assert level(coverage, "source").share >= 0.95
    assert level(coverage, "assembly").share >= 0.90


def test_lines_without_owners_are_counted_and_named(trace: Trace) -> None:
    kernel = trace.kernels[0]
    changed = with_kernel(trace, kernel.name, source=without_owners(kernel.source, 1))
    before, after = (level(link_coverage(t), "source") for t in (trace, changed))
    assert after.linkable == before.linkable
    assert after.linked == before.linked - 1
    assert after.missing == (f"{kernel.name}: {kernel.source.lines[1]}",)


def test_tags_of_a_kernel_that_nothing_launches_lead_nowhere(trace: Trace) -> None:
    kernel = trace.kernels[0]
    changed = with_kernel(trace, kernel.name, operations=())
    lost = sum(bool(text.strip()) for text in kernel.source.lines)
    before, after = (level(link_coverage(t), "source") for t in (trace, changed))
    assert after.linked == before.linked - lost


def test_an_instruction_with_an_owner_but_no_line_is_not_linked(trace: Trace) -> None:
    kernel = trace.kernels[0]
    nowhere = tuple(() for _ in kernel.assembly_lines)
    changed = with_kernel(trace, kernel.name, assembly_lines=nowhere)
    assert kernel.assembly is not None
    instructions = sum(text.startswith("\t") for text in kernel.assembly.lines)
    before, after = (level(link_coverage(t), "assembly") for t in (trace, changed))
    assert after.linked == before.linked - instructions


def test_links_lead_from_node_to_instruction_and_back(trace: Trace) -> None:
    coverage = link_coverage(trace)
    forward, backward = dict(coverage.nodes.forward), dict(coverage.nodes.backward)
    assert sorted((n, o) for n, many in forward.items() for o in many) == sorted(
        (n, o) for o, many in backward.items() for n in many
    )
    # The first layer: Gemm and Relu were fused into one operation, which one kernel computes.
    gemm, relu = (name for name, operator, _ in trace.model.source_nodes[1:3])
    shared = set(forward[gemm]) & set(forward[relu])
    kernels = {k for operation in shared for k in dict(coverage.kernels.forward).get(operation, ())}
    (name,) = kernels
    assert set(dict(coverage.kernels.backward)[name]) <= shared
    (links,) = (one for one in coverage.lines if one.kernel == name)
    pairs = {(line, i) for i, lines in enumerate(links.source_of) for line in lines}
    assert pairs == {(line, i) for line, many in enumerate(links.assembly_of) for i in many}
    (record,) = (k for k in trace.kernels if k.name == name)
    (multiplying,) = (n for n, text in enumerate(record.source.lines) if "+=" in text)
    assert len(links.assembly_of[multiplying]) >= 1


def test_assembly_is_made_only_on_request(sample_models: Path, trace: Trace) -> None:
    fresh = explorer.compile(sample_models / "digits_mlp.onnx", dimensions={"batch": 1})
    plain = fresh.trace()
    assert all(k.assembly is None and k.assembly_lines == () for k in plain.kernels)
    assert "assembly" not in [one.level for one in link_coverage(plain).levels]
    assert all(k.assembly is not None for k in trace.kernels)


def test_assembly_stays_once_it_was_made(compilation, trace: Trace) -> None:
    assert compilation.kernels == compilation.assembly()
    assert compilation.trace().kernels == trace.kernels


def test_assembly_survives_a_file(trace: Trace) -> None:
    for kernel in trace.kernels:
        assert from_json(KernelRecord, to_json(kernel)) == kernel


def test_a_trace_without_code_is_refused(compilation) -> None:
    with pytest.raises(InputError, match="the trace holds no kernels"):
        link_coverage(compilation.trace(with_code=False))


def test_a_level_with_nothing_to_link_is_complete() -> None:
    assert LevelCoverage("top", "lines", 0, 0).share == 1.0
    assert LevelCoverage("top", "lines", 8, 6).share == 0.75
