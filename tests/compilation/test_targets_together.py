"""One program over several targets: names, what is assigned, and the numbers."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.compilation.settings import settings
from explorer.errors import DeviceError, InputError
from explorer.kernels.in_place import FORMS
from explorer.targets import load_target
from explorer.targets.together import joined, load_targets

SAMPLES = Path(__file__).parents[2] / "sample_models"
SECOND = replace(load_target("cpu"), name="second")
"""Another target of this processor: as quick to compile for as the first one."""


@pytest.fixture(scope="module")
def model():
    return ex.load(SAMPLES / "digits_cnn.onnx")


@pytest.fixture(scope="module")
def plain(model) -> Compilation:
    return ex.compile(model, target="cpu")


@pytest.fixture(scope="module")
def both(model) -> Compilation:
    return ex.compile(model, target=["cpu", SECOND])


def pins(c: Compilation) -> dict[str, tuple]:
    head = "assign/device/"
    return {k.address: k.choices for k in c.knobs if k.address.startswith(head)}


def assert_close(found: dict, expected: dict) -> None:
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_trace_has_the_memory_of_the_target_that_runs_all(model, both: Compilation):
    elsewhere = ex.compile(
        model, target=["cpu", SECOND], decisions=dict.fromkeys(pins(both), "second")
    )
    assert not elsewhere.memory.placements
    assert elsewhere.trace().memory == elsewhere.companion.memory
    assert elsewhere.trace().memory.peak_bytes > 0
    assert both.trace().memory == both.memory


# -- names -----------------------------------------------------------------------------------------


def test_names_with_a_plus_are_targets_in_order(tmp_path: Path):
    text = (Path(ex.__file__).parent / "targets" / "cpu.toml").read_text()
    file = tmp_path / "my+board.toml"
    file.write_text(text.replace('name = "cpu"', 'name = "mine"'))
    assert joined(load_targets("cpu+opencl")) == "cpu+opencl"
    assert joined(load_targets(str(file))) == "mine"
    assert joined(load_targets(["cpu", file])) == "cpu+mine"
    plain = tmp_path / "board.toml"
    plain.write_text(text.replace('name = "cpu"', 'name = "board"'))
    assert joined(load_targets(f"cpu+{plain}")) == "cpu+board"


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ([], "the list of targets is empty"),
        ("cpu+", "a target is missing in 'cpu\\+'"),
        ("+", "a target is missing"),
        ("cpu+cpu", "two targets are called 'cpu'"),
        (["cpu", SECOND, SECOND], "two targets are called 'second'"),
        ("cpu+opncl", "did you mean 'opencl'|opencl"),
        ([3], "3 is no target"),
        (3, "3 is no target"),
        ([None], "None is no target"),
        (["cpu", replace(SECOND, name="host")], "cannot be called 'host'"),
    ],
)
def test_targets_that_are_none_are_refused(model, choice: object, message: str):
    with pytest.raises(InputError, match=message):
        ex.compile(model, target=choice)


# -- one target ------------------------------------------------------------------------------------


def test_one_target_has_no_pass_of_placement(model, plain: Compilation):
    listed = ex.compile(model, target=["cpu"])
    assert listed.names == plain.names
    assert not {"find-devices", "price", "cluster", "assign"} & set(plain.names)
    assert listed.program.launches == plain.program.launches
    assert listed.program_keys == plain.program_keys


# -- several ---------------------------------------------------------------------------------------


def test_equal_devices_leave_all_on_the_first(both: Compilation, plain: Compilation):
    assert {device for device, *_ in pins(both).values()} == {"cpu"}
    found = both["assign"].artifacts["assignment"]
    assert found.optimal and not found.transferred
    assert both.program.parts == ()
    assert both.program.launches == plain.program.launches


def test_all_on_one_device_is_the_plain_program_to_the_bit(both: Compilation, plain: Compilation):
    x = plain.example_inputs(seed=3)
    expected = plain.run(x)
    for device in ("cpu", "second"):
        forked = both.fork(decisions={"assign/device": device})
        assert forked.run(x)["logits"].tobytes() == expected["logits"].tobytes()
        forked.close()


@pytest.mark.parametrize("seed", range(3))
def test_any_assignment_computes_the_same(both: Compilation, plain: Compilation, seed: int):
    chance = random.Random(seed)
    chosen = {address: chance.choice(devices) for address, devices in pins(both).items()}
    forked = both.fork(decisions=chosen)
    x = plain.example_inputs(seed=seed)
    assert_close(forked.run(x), plain.run(x))
    parts = {(part.function, part.device) for part in forked.program.parts}
    assert {device for _, device in parts} == set(chosen.values())
    forked.close()


def test_a_pin_shares_the_passes_before_it(both: Compilation):
    address = next(iter(pins(both)))
    forked = both.fork(decisions={address: "second"})
    assert forked["cluster"] is both["cluster"]
    assert forked["assign"] is not both["assign"]


def test_a_price_moves_the_cut(both: Compilation):
    dear = {f"price/cpu/{address.rpartition('/')[2]}": 1.0 for address in pins(both)}
    forked = both.fork(decisions=dear)
    chosen = {k.value for k in forked.knobs if k.address.startswith("assign/device/")}
    assert chosen == {"second"}


def test_a_fork_goes_to_one_target_and_back(both: Compilation, plain: Compilation):
    alone = both.fork(target="cpu")
    assert alone.names == plain.names
    assert alone.fork(target=["cpu", SECOND]).names == both.names
    assert [c.trace(with_code=False).target for c in (both, alone)] == ["cpu+second", "cpu"]


def test_prices_have_their_source(both: Compilation):
    prices = both["price"].artifacts["prices"]
    assert {price.source for of in prices.values() for price in of.values()} == {
        "cost model",
        "nothing is launched",
    }
    total = sum(of["cpu"].seconds for of in prices.values())
    assert total == pytest.approx(both["assign"].artifacts["assignment"].single["cpu"])


def test_functions_of_every_device_have_their_own_kernels(both: Compilation):
    addresses = list(pins(both))
    forked = both.fork(decisions=dict.fromkeys(addresses[:2], "second"))
    assert set(forked.companions) == {"second"}
    parts = {part.device: part.program for part in forked.program.parts}
    kernels = {device: {k.name for k in program.kernels} for device, program in parts.items()}
    assert kernels["cpu"] and kernels["second"] and not kernels["cpu"] & kernels["second"]


def test_every_pass_is_compared_across_the_devices(both: Compilation):
    addresses = list(pins(both))
    forked = both.fork(decisions=dict.fromkeys(addresses[1:4], "second"))
    assert forked.accuracy().passed
    forked.close()


def test_a_cluster_is_an_option(model, both: Compilation):
    first = next(iter(pins(both))).rpartition("/")[2]
    c = ex.compile(model, target=["cpu", SECOND], clusters={"stem": first})
    assert c["cluster"].after.operations[first].attributes["cluster"].data == "stem"


def test_a_cluster_of_one_target_is_refused(model):
    with pytest.raises(InputError, match="clusters belong to several targets"):
        ex.compile(model, clusters={"stem": "*"})


def test_two_ranges_of_sizes_have_one_target(tmp_path: Path):
    path = tmp_path / "open.onnx"
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", "width"])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", "width"])
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "open", [x], [y])), path)
    with pytest.raises(InputError, match="one dimension may be open"):
        ex.compile(
            ex.load(path), target=["cpu", SECOND], dimensions={"batch": (1, 4), "width": (1, 4)}
        )


def test_kernels_that_write_in_place_have_prices(sample_models):
    model = ex.load(sample_models / "digits_transformer.onnx")
    c = ex.compile(model, target=["cpu", SECOND])
    assert c["write-in-place"].artifacts[FORMS]
    sources = {p.source for op in c.placement.operations for p in op.prices}
    assert sources == {"cost model", "nothing is launched"}


def test_other_bandwidths_are_asked_for(both: Compilation):
    points = both.placement.bandwidths
    assert [point.factor for point in points] == sorted(point.factor for point in points)
    assert all(dict(point.counts) == {"cpu": len(pins(both))} for point in points)


def absent(target_name: str):
    """`device_for` of a machine that has no device for a target."""

    def device_for(target):
        if target.name == target_name:
            raise DeviceError("no OpenCL driver is installed")

    return device_for


def test_a_target_without_a_device_is_refused_or_left_out(model, monkeypatch):
    monkeypatch.setattr(settings, "device_for", absent("second"))
    with pytest.raises(DeviceError, match="no OpenCL driver"):
        ex.compile(model, target=["cpu", SECOND])
    c = ex.compile(model, target=["cpu", SECOND], fallback=True)
    assert [target.name for target in c.targets] == ["cpu"]
    assert c.placement.absent == (("second", "no OpenCL driver is installed"),)
    first_is_absent = ex.compile(model, target=[SECOND, "cpu"], fallback=True)
    assert first_is_absent.target.name == "cpu"


def test_without_any_device_there_is_nothing_to_fall_back_on(model, monkeypatch):
    monkeypatch.setattr(settings, "device_for", absent("second"))
    with pytest.raises(DeviceError, match="second: no OpenCL driver"):
        ex.compile(model, target=[SECOND], fallback=True)


def test_decisions_replay_the_assignment(model, both: Compilation):
    chance = random.Random(5)
    chosen = {address: chance.choice(devices) for address, devices in pins(both).items()}
    forked = both.fork(decisions=chosen)
    again = ex.compile(model, target=["cpu", SECOND], decisions=forked.decisions())
    assert {a: forked.decisions()[a] for a in chosen} == chosen
    assert again.placement.parts == forked.placement.parts
