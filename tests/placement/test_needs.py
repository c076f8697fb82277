"""Operations that a device runs only together with others."""

import itertools
import random
from collections.abc import Mapping
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.passes.lower.partition import host_reason
from explorer.placement import least_cost
from explorer.placement.assign import AssignDevices
from explorer.placement.cluster import ClusterOperations
from explorer.placement.find_devices import Candidate, FindDevices
from explorer.placement.marks import chosen_device, devices_of, needs_of
from explorer.placement.price import Link, Price, PriceOperations

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

CHAIN = """
func.func @main(%x : tensor<4x32xf32>) -> tensor<4x32xf32> {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %b = top.unary(%a) {kind = "exp"} : tensor<4x32xf32>
  %c = top.unary(%b) {kind = "neg"} : tensor<4x32xf32>
  top.return(%c)
}
"""
CHEAP_GPU = {"a": (2e-3, 1e-3), "b": (2e-3, 1e-3), "c": (2e-3, 1e-3)}
BOTH = (("cpu", "gpu"), ("gpu", "cpu"))


def reads_through(op: TopOperation, weights: object) -> list[TopOperation]:
    """The device has no form of b but that within c."""
    return [use.operation for use in op.results[0].uses] if identity_of(op) == "b" else []  # type: ignore[misc]


class Placed:
    def __init__(
        self, decisions: Mapping[str, object] | None = None, prices=CHEAP_GPU, refuses=None,
        cpu_refuses=None,
    ) -> None:  # fmt: skip
        working = programs.program(CHAIN)
        candidates = (Candidate("cpu", cpu_refuses), Candidate("gpu", refuses, None, reads_through))

        def seconds(index: int):
            return lambda module, weights: {o: Price(p[index], "given") for o, p in prices.items()}

        passes = (
            FindDevices(candidates, host_reason),
            PriceOperations(
                (("cpu", seconds(0)), ("gpu", seconds(1))),
                tuple((pair, Link(0.0, 0.0, "given")) for pair in BOTH),
            ),
            ClusterOperations((), ()),
            AssignDevices(("cpu", "gpu"), "cpu"),
        )
        options = RewriteOptions(decisions or {})
        self.found, _, _, self.assigned = (run_pass(p, working, options) for p in passes)

    @property
    def devices(self) -> str:
        """Of a, b and c: `ggc`."""
        ops = self.assigned.after.operations
        return "".join(chosen_device(ops[name])[0] for name in "abc")


def test_what_an_operation_needs_is_noted_with_its_device():
    ops = Placed().found.after.operations
    assert needs_of(ops["b"]) == {"gpu": ["c"]} and needs_of(ops["a"]) == {}
    assert devices_of(ops["b"]) == ["cpu", "gpu"]


def test_a_device_that_refuses_what_is_needed_refuses_the_operation():
    def no_negation(op: TopOperation, weights: object) -> str:
        return "it does not negate" if identity_of(op) == "c" else ""

    placed = Placed(refuses=no_negation)
    assert devices_of(placed.found.after.operations["b"]) == ["cpu"]
    assert any(r.reason == "it runs only together with c" for r in placed.found.rewrites)


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ({}, "ggg"),
        ({"c": "cpu"}, "gcc"),
        ({"b": "gpu"}, "ggg"),
        ({"c": "gpu", "b": "cpu"}, "gcg"),
        ({"a": "cpu"}, "cgg"),
    ],
)
def test_the_others_follow(pins: dict[str, str], expected: str):
    assert Placed({f"assign/device/{op}": d for op, d in pins.items()}).devices == expected


def test_the_least_cost_counts_what_has_to_come_along():
    dear_c = {**CHEAP_GPU, "c": (1e-3, 9e-3)}  # more than b saves
    assert Placed(prices=dear_c).devices == "gcc"


def test_a_pin_gives_way_to_that_of_what_it_needs_with_its_reason():
    placed = Placed({"assign/device/b": "gpu", "assign/device/c": "cpu"})
    assert placed.devices == "gcc"
    reason = next(r.reason for r in placed.assigned.rewrites if r.rule == "needs")
    assert reason == "gpu runs it only together with c, which is on cpu"


def test_every_assignment_by_pins_keeps_together_what_must_be():
    for devices in itertools.product(("cpu", "gpu"), repeat=3):
        pins = {f"assign/device/{o}": d for o, d in zip("abc", devices, strict=True)}
        found = Placed(pins).devices
        assert found[0] == devices[0][0] and found[2] == devices[2][0]
        assert found[1] == (devices[1][0] if devices[1] == "cpu" else found[2])


def test_a_pin_without_another_device_is_refused():
    def only_a(op: TopOperation, weights: object) -> str:
        return "it cannot" if identity_of(op) == "b" else ""

    with pytest.raises(InputError, match="gpu runs it only together with c, which is on cpu"):
        Placed({"assign/device/b": "gpu", "assign/device/c": "cpu"}, cpu_refuses=only_a)


def test_small_regions_keep_what_a_pin_needs():
    placed = Placed({"assign/device/b": "gpu", "assign/device/a": "cpu", "assign/minimum": 4})
    assert placed.devices == "cgg"


def forbids(needs: dict, at: dict) -> bool:
    return any(
        at[op] == device and at[other] != device
        for op, by_device in needs.items()
        for device, others in by_device.items()
        for other in others
    )


@pytest.mark.parametrize("seed", range(24))
def test_the_cheapest_of_all_assignments_that_are_allowed_is_found(seed: int):
    chance = random.Random(seed)
    devices = "abc"[: 2 + seed % 2]
    names = [f"op{number}" for number in range(6)]
    costs = {op: {d: chance.randint(0, 9) / 8 for d in devices} for op in names}
    values = {
        f"v{number}": (op, 1, chance.sample(names[number + 1 :], 1))
        for number, op in enumerate(names[:-1])
    }
    links = {pair: (chance.randint(0, 4) / 8, float("inf")) for pair in
             itertools.permutations(devices, 2)}  # fmt: skip
    needs = {op: {chance.choice(devices): chance.sample([o for o in names if o != op], 1)}
             for op in chance.sample(names, 3)}  # fmt: skip
    best = np.inf
    for chosen in itertools.product(devices, repeat=len(names)):
        at = dict(zip(names, chosen, strict=True))
        if forbids(needs, at):
            continue
        total = sum(costs[op][d] for op, d in at.items())
        total += sum(links[at[op], at[reader]][0] for op, _, (reader,) in values.values()
                     if at[op] != at[reader])  # fmt: skip
        best = min(best, total)
    found = least_cost(costs, values, links, needs=needs)
    assert not forbids(needs, dict(found.devices))
    assert found.seconds == best and found.optimal
    assert all(t.value for t in found.transferred)


@pytest.mark.parametrize(
    ("needs", "message"),
    [({"x": {"a": ["y"]}}, "no operation 'x'"), ({"p": {"a": "q"}}, "names of operations")],
)
def test_needs_of_nothing_are_refused(needs: dict, message: str):
    with pytest.raises(InputError, match=message):
        least_cost({"p": {"a": 0.0}, "q": {"a": 0.0}}, {}, {}, needs=needs)
