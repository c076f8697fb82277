"""Programs as files: what was emitted runs like what was compiled, and damage is refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.backends.npu.emitted import IMAGE, LAYOUT, PROGRAM, read_emitted
from explorer.errors import InputError
from explorer.runtime.npu import simulate
from explorer.targets.npu.assembly import assemble

sys.path.insert(0, str(Path(__file__).parents[2] / "runtime" / "npu"))
import vta_simulator

BASE = 8192


@pytest.fixture(scope="module")
def folder(compiled, tmp_path_factory):
    c = compiled("vta-16")
    path = tmp_path_factory.mktemp("emitted") / "out"
    c.backend.emit(c.passes, c.target, path, BASE)
    return path


@pytest.fixture(scope="module")
def values(compiled, digits):
    """All values of the integer program."""
    return compiled("vta-16")["place-on-device"].after.run(digits[2])


def test_what_was_emitted_gives_the_same_integers(folder, values, compiled, digits):
    emitted = read_emitted(folder)
    (name,), (result,) = emitted.inputs, emitted.outputs
    outputs, simulation = emitted.run({name: values[name]})
    np.testing.assert_array_equal(outputs[result], values[result])
    compiled("vta-16").run(digits[2])
    assert simulation.cycles == compiled("vta-16").counted.cycles


def test_the_listing_is_the_program(folder):
    emitted = read_emitted(folder)
    listed = assemble(emitted.listing())
    layout = json.loads((folder / LAYOUT).read_text())
    assert len(listed.instructions) == layout["instructions"]
    assert emitted.listing().count("#") == len(layout["layers"]) == 7


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (PROGRAM, lambda data: data[:-16], "its bytes are not those"),
        (IMAGE, lambda data: data[:-1], "its bytes are not those"),
        (IMAGE, lambda data: data[:-1] + bytes([data[-1] ^ 1]), "its bytes are not those"),
        (LAYOUT, lambda data: data[: len(data) // 2], "it is no JSON"),
        (LAYOUT, lambda data: data.replace(b'"base_bytes": 8192', b'"base_bytes": 8200'),
         "a base of 8200 bytes is none"),
        (LAYOUT, lambda data: b"[" * 100_000, "it is no JSON"),
        (LAYOUT, lambda data: data.replace(b'"vta-16"', b'"cpu"'), "runs no instructions"),
        (LAYOUT, lambda data: data.replace(b'"vta-16"', b'"vta-32"'), "is another machine"),
        (LAYOUT, lambda data: data.replace(b'"outputs"', b'"output"'), "lacks or contradicts"),
        (LAYOUT, lambda data: data.replace(b'"offset_bytes": 0', b'"offset_bytes": 99999999'),
         "in an image of"),
        (LAYOUT, lambda data: data.replace(b'"version": 2', b'"version": 1'), "not of version"),
    ],
)  # fmt: skip
def test_damage_is_refused_before_anything_runs(folder, tmp_path, file, change, message):
    for name in (PROGRAM, IMAGE, LAYOUT):
        data = (folder / name).read_bytes()
        (tmp_path / name).write_bytes(change(data) if name == file else data)
    with pytest.raises(InputError, match=message):
        read_emitted(tmp_path)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_a_target_that_runs_no_instructions_is_refused(folder, target):
    with pytest.raises(InputError, match=f"made for the target vta-16, and {target} runs no"):
        read_emitted(folder, target)


def test_a_base_that_no_tensor_is_aligned_at_is_refused(compiled, tmp_path):
    c = compiled("vta-16")
    with pytest.raises(InputError, match="no multiple of 256"):
        c.backend.emit(c.passes, c.target, tmp_path / "out", 100)


@pytest.mark.skipif(
    bool(vta_simulator.reason_to_skip()), reason=vta_simulator.reason_to_skip() or "it is there"
)
def test_a_network_gives_the_same_bytes_in_vtas_own_simulator(folder, values, tmp_path):
    emitted = read_emitted(folder)
    memory = np.concatenate([np.zeros(BASE, np.uint8), np.frombuffer(emitted.image, np.uint8)])
    for name, place in emitted.inputs.items():
        place.write(memory, values[name], emitted.machine)
    simulator = vta_simulator.build(tmp_path, emitted.machine.rows)
    theirs = vta_simulator.run(simulator, emitted.program, memory.tobytes(), tmp_path)
    ours = simulate(emitted.program, memory, emitted.machine).image
    assert theirs[BASE:] == ours[BASE:]
    (result,) = emitted.outputs.values()
    found = result.read(np.frombuffer(theirs, np.uint8)[result.offset_bytes :], emitted.machine)
    np.testing.assert_array_equal(found, values[result.stored.name])


DAMAGED = (None, True, -1, 1 << 70, 1.5, float("inf"), "", "9" * 5000, "x\n# y", [], [1], {}, [[]])


def fields_of(data, path=()):
    """The paths of all fields of a layout, those of lists and of entries of lists included."""
    if path:
        yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from fields_of(value, (*path, key))


def test_a_damaged_field_of_the_layout_is_refused_or_without_effect(folder, values, tmp_path):
    """Each field takes each damaged value; nothing but an InputError comes of it."""
    for name in (PROGRAM, IMAGE):
        (tmp_path / name).symlink_to(folder / name)
    whole = json.loads((folder / LAYOUT).read_text())
    whole["layers"] = whole["layers"][:1]
    refused = 0
    for path in fields_of(whole):
        for value in DAMAGED:
            layout = json.loads(json.dumps(whole))
            place = layout
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            (tmp_path / LAYOUT).write_text(json.dumps(layout))
            try:
                read_emitted(tmp_path)
            except InputError:
                refused += 1
    assert refused > 400
