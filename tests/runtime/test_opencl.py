"""Programs in OpenCL C: numbers, taps, events, and refusals in the driver's words."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from explorer.errors import BuildError, DeviceError, InputError
from explorer.results import Port
from explorer.runtime.devices import DeviceRecord, list_devices

pytestmark = pytest.mark.opencl

EXPECTED = [[22, 44], [66, 88]]
"""(x + w) * 2"""


@pytest.fixture(scope="module")
def device() -> DeviceRecord:
    devices = list_devices(("opencl",))
    for record in devices:
        if record.usable:
            return record
    pytest.skip("no usable OpenCL device: " + "; ".join(d.refusal for d in devices))


@pytest.fixture
def build(device):
    from explorer.runtime.opencl.program import OpenCLProgram

    def build_on_device(program, weights):
        return OpenCLProgram(program, weights, device)

    return build_on_device


def test_run_gives_the_outputs_by_name(build, opencl_program, weights, inputs):
    with build(opencl_program, weights) as executable:
        assert executable.run(inputs)["y"].tolist() == EXPECTED
        assert executable.run({"x": -inputs["x"]})["y"].tolist() == [[-18, -36], [-54, -72]]


def test_warnings_of_the_drivers_compiler_are_not_printed(
    opencl_program, weights, with_source, device, capfd
):
    from explorer.runtime.cache.store import ProgramCache
    from explorer.runtime.opencl.program import OpenCLProgram

    last = "    y[get_global_id(0)] = x[get_global_id(0)] * 2.0f;"
    doubtful = f"    int is_doubtful; if (is_doubtful = 1)\n{last}"
    program = with_source(opencl_program, last, doubtful)
    with OpenCLProgram(program, weights, device, cache=ProgramCache(None)):
        pass
    assert capfd.readouterr().err == ""


def test_without_a_device_the_first_usable_one_is_taken(device, opencl_program, weights, inputs):
    from explorer.runtime.opencl.program import OpenCLProgram

    with OpenCLProgram(opencl_program, weights.tobytes()) as executable:
        assert executable.device == device
        assert executable.run(inputs)["y"].tolist() == EXPECTED


def test_a_device_with_less_free_memory_is_the_same_device(device):
    """PoCL's memory is what is free when it is asked."""
    later = dataclasses.replace(device, memory_bytes=device.memory_bytes // 2)
    assert later == device
    assert len({later, device}) == 1


def test_pocl_compiles_each_kernel_once(tmp_path, device, sample_models):
    if "Portable Computing Language" not in device.driver:
        pytest.skip(f"{device.driver} is not PoCL")
    script = f"""
import explorer
compiled = explorer.compile({str(sample_models / "digits_mlp.onnx")!r}, target="opencl")
compiled.run(compiled.example_inputs())
"""
    fresh = {"POCL_CACHE_DIR": str(tmp_path), "EXPLORER_CACHE": str(tmp_path / "programs")}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("POCL_")} | fresh
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    compiled = [path.parent.parent for path in tmp_path.rglob("*.so")]
    assert compiled
    assert len(set(compiled)) == len(compiled)


def test_taps_are_the_values_right_after_their_launch(build, opencl_program, weights, inputs):
    """Both taps lie at the same bytes of the arena: scale_1 works in place."""
    with build(opencl_program, weights) as executable:
        outputs, taps = executable.run_with_taps(inputs)
    assert outputs["y"].tolist() == EXPECTED
    assert list(taps) == [("add_0", 0), ("scale_1", 0)]
    assert taps["add_0", 0].shape == (1, 1, 1, 1, 4)
    assert taps["add_0", 0].ravel().tolist() == [11, 22, 33, 44]
    assert taps["scale_1", 0].ravel().tolist() == [22, 44, 66, 88]


def test_profile_has_copies_and_launches_in_order(build, opencl_program, weights, inputs, device):
    with build(opencl_program, weights) as executable:
        record = executable.profile(inputs, repeats=5)
    assert [(e.name, e.operation, e.lane) for e in record.events] == [
        ("write x", "", "transfers"),
        ("Add", "add_0", "kernels"),
        ("scale_1", "scale_1", "kernels"),
        ("read y", "", "transfers"),
    ]
    times = [time for e in record.events for time in (e.start_ns, e.end_ns)]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] > 0
    assert record.device == device.name
    assert record.milliseconds > 0


def test_time_gives_one_figure_per_repeat(build, opencl_program, weights, inputs):
    with build(opencl_program, weights) as executable:
        seconds = executable.time(inputs, repeats=7)
    assert len(seconds) == 7
    assert min(seconds) > 0


def test_the_arena_starts_zeroed(build, opencl_program, weights, inputs):
    """Bytes 80 to 96 are written by no launch."""
    program = dataclasses.replace(
        opencl_program,
        outputs=(
            Port(name="rest", element_type="float32", shape=(4,), offset_bytes=80, size_bytes=16),
        ),
    )
    with build(program, weights) as executable:
        assert executable.run(inputs)["rest"].tolist() == [0, 0, 0, 0]


def test_empty_arrays_are_not_copied(build, opencl_program, weights, inputs):
    empty = Port(name="empty", element_type="float32", shape=(0, 3), offset_bytes=96, size_bytes=0)
    program = dataclasses.replace(
        opencl_program,
        inputs=(*opencl_program.inputs, empty),
        outputs=(*opencl_program.outputs, dataclasses.replace(empty, name="nothing")),
    )
    with build(program, weights) as executable:
        outputs = executable.run({**inputs, "empty": np.zeros((0, 3), np.float32)})
    assert outputs["y"].tolist() == EXPECTED
    assert outputs["nothing"].shape == (0, 3)


def test_wrong_inputs_are_refused_by_name(build, opencl_program, weights):
    expected = r"input `x`: expected float32 of shape \(2, 2\)"
    with build(opencl_program, weights) as executable, pytest.raises(InputError, match=expected):
        executable.run({"x": np.zeros((3, 2), np.float32)})


def test_a_compile_error_is_reported_in_the_compilers_words(
    build, opencl_program, weights, with_source
):
    program = with_source(opencl_program, "* 2.0f", "* undeclared_thing")
    with pytest.raises(BuildError) as caught:
        build(program, weights)
    assert "undeclared_thing" in str(caught.value)
    assert "undeclared_thing" in caught.value.log


def test_a_launch_that_does_not_fit_its_kernel_is_refused(
    build, opencl_program, weights, with_source
):
    """Here scale_phase0 has only one offset."""
    program = with_source(
        opencl_program, "const ulong offset0, const ulong offset1) {", "ulong o) {"
    )
    program = with_source(program, "x = (__global const float *)(arena + offset0)", "x = 0")
    program = with_source(program, "y = (__global float *)(arena + offset1)", "y = 0")
    with pytest.raises(BuildError, match="`scale_phase0` takes 3 arguments, its launch has 4"):
        build(program, weights)


def test_an_arena_larger_than_the_device_allows_is_refused(build, opencl_program, weights):
    program = dataclasses.replace(opencl_program, arena_bytes=1 << 60)
    with pytest.raises(DeviceError, match="the arena takes 1152921504606846976 bytes"):
        build(program, weights)


def test_a_device_that_is_gone_is_an_error(device, opencl_program, weights):
    from explorer.runtime.opencl.program import OpenCLProgram

    with pytest.raises(DeviceError, match="no OpenCL device at 7:7 any more"):
        OpenCLProgram(opencl_program, weights, dataclasses.replace(device, address="7:7"))


@pytest.mark.parametrize(
    ("tasks", "processor", "group_items"),
    [(1, "cpu", 1), (28, "cpu", 1), (64, "cpu", 4), (1024, "cpu", 64), (1 << 20, "cpu", 64),
     (1 << 20, "gpu", None), (3 * 5 * 7 * 16, "cpu", 16), (49 * 49, "cpu", 1)],
)  # fmt: skip
def test_every_core_gets_work_groups(device, tasks, processor, group_items):
    """Two cores: at least 16 groups where there are as many tasks, and groups divide the tasks."""
    from explorer.runtime.opencl.program import work_group_items

    record = dataclasses.replace(device, processor=processor, compute_units=2)
    assert work_group_items(tasks, record) == group_items


def test_a_closed_program_says_so(build, opencl_program, weights, inputs):
    executable = build(opencl_program, weights)
    executable.close()
    executable.close()
    with pytest.raises(DeviceError, match="was closed"):
        executable.run(inputs)


def test_a_record_is_plain_data(device):
    assert json.loads(json.dumps(dataclasses.asdict(device)))["address"] == device.address
