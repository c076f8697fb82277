"""Whole networks on simulated NPUs: bit-equal behind every pass and on the device."""

import pytest

import explorer
from explorer.errors import UnsupportedError
from explorer.ir.inspection.printing import parse
from explorer.results.coverage import level_coverages
from explorer.views.static.profile import profile_text


@pytest.mark.parametrize("target", ["vta-16", "odd-12x20"])
def test_every_level_and_the_program_give_the_integer_programs_bits(compiled, digits, target):
    c = compiled(target)
    assert [r.after.level for r in c.passes[-3:]] == ["tiled", "addressed", "instructions"]
    accuracy = c.accuracy(digits[2])
    assert accuracy.report.bit_exact
    assert accuracy.passed, accuracy.summary


def test_text_of_every_level_is_read_back(compiled):
    for result in compiled("odd-12x20").passes[-3:]:
        module = parse(result.after.dump())
        again = type(result.after)(module, result.after.weights, result.after.level)
        assert again.dump() == result.after.dump()


def test_instructions_belong_to_nodes_of_the_model(compiled):
    c = compiled("odd-12x20")
    program = c.program
    convolutions = [launch for launch in program.launches if launch.operation.startswith("conv")]
    assert [launch.sources[0] for launch in convolutions] == [
        "/stage1/conv1", "/stage1/conv2", "/stage2/conv1",
    ]  # fmt: skip
    lines = dict(zip(program.source.owners, program.source.lines, strict=True))
    assert lines[(convolutions[0].operation,)].startswith("store outputs")


def test_every_instruction_leads_to_its_operation(compiled):
    coverages = {found.level: found for found in level_coverages(compiled("odd-12x20").trace())}
    assert coverages["source"].linkable == coverages["source"].linked > 100


def test_tensors_share_global_memory(compiled):
    plan = compiled("odd-12x20").memory
    assert plan.optimal and plan.peak_bytes < plan.total_bytes


def test_cycles_are_those_that_were_predicted(compiled, digits):
    for target in ("vta-16", "odd-12x20"):
        c = compiled(target)
        c.run(digits[2])
        found = c.counted
        assert found.cycles == found.predicted_cycles
        assert len(found.layers) == len(c.program.launches)
        assert 0 < found.utilization < 1


def test_what_the_host_runs_is_said_with_the_reason(compiled):
    c = compiled("vta-16")
    operations, reasons = zip(*c.host_operations, strict=True)
    assert set(reasons) == {"it reads or makes floats"}
    assert [c.final.operations[name].name for name in operations] == [
        "top.quantize", "top.dequantize",
    ]  # fmt: skip


def test_a_float_model_is_to_be_quantized_first(digits):
    with pytest.raises(UnsupportedError, match="nothing in this model is quantized"):
        explorer.compile(digits[0], "mac-128")


def test_events_say_what_every_queue_did_and_waited_for(compiled, digits):
    c = compiled("vta-16")
    c.run(digits[2])
    profile = c.profile(digits[2])
    events = [event for event in profile.events if event.cycles]
    assert {event.lane for event in events} == {"load", "compute", "store"}
    counted = c.counted
    assert max(event.end_cycle for event in events) == counted.cycles
    assert sum(e.cycles for e in events) == sum(cycles for _, cycles in counted.busy_cycles)
    assert sum(e.waited_cycles for e in events) == sum(count for *_, count in counted.stalls)
    text = profile_text(profile)
    assert f"{counted.cycles:,} cycles on" in text and "most of all for token" in text
