"""The passes that choose devices: what each notes, what each refuses, and why."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, run_pass
from explorer.ir.structure import device_of, functions
from explorer.passes.lower.partition import Other, host_reason
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.placement.assign import ASSIGNMENT, AssignDevices
from explorer.placement.cluster import ClusterOperations
from explorer.placement.find_devices import REFUSED, Candidate, FindDevices
from explorer.placement.marks import chosen_device, cluster_of, devices_of, seconds_of
from explorer.placement.price import LINKS, PRICES, Link, Price, PriceOperations

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

CHAIN = """
func.func @main(%x : tensor<4x32xf32>) -> tensor<8x16xf32> {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %b = top.unary(%a) {kind = "exp"} : tensor<4x32xf32>
  %c = top.unary(%b) {kind = "neg"} : tensor<4x32xf32>
  %y = top.reshape(%c) {shape = [8, 16]} : tensor<8x16xf32>
  top.return(%y)
}
"""
DIAMOND = """
func.func @main(%x : tensor<4x32xf32>) -> tensor<4x32xf32> {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %b = top.unary(%a) {kind = "exp"} : tensor<4x32xf32>
  %c = top.unary(%a) {kind = "neg"} : tensor<4x32xf32>
  %y = top.binary(%b, %c) {kind = "add"} : tensor<4x32xf32>
  top.return(%y)
}
"""
FOUND = """
func.func @main(%x : tensor<4x32xf32>) -> tensor<2x?xi64> {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %i = top.nonzero(%a) : tensor<2x?xi64>
  top.return(%i)
}
"""
SLOW, FAST = Link(1e-3, 1e-6, "given"), Link(0.0, 0.0, "given")
BOTH = (("cpu", "gpu"), ("gpu", "cpu"))


class Given:
    """Prices of one device, by operation."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, module: object, weights: object) -> dict[str, Price]:
        return {op: Price(number, "given") for op, number in self.seconds.items()}


def no_exponentials(op: TopOperation, weights: object) -> str:
    return "it has no exponentials" if op.label().startswith("exp") else ""


class Placed:
    """A program after the passes, whose numbers are checked against those before."""

    def __init__(
        self,
        text: str = CHAIN,
        cpu: dict[str, float] | None = None,
        gpu: dict[str, float] | None = None,
        link: Link = FAST,
        refuses: object = None,
        clusters: tuple[tuple[str, str], ...] = (),
        memory: int | None = None,
        watts: tuple[tuple[str, float], ...] = (),
        decisions: dict[str, object] | None = None,
    ) -> None:
        working = programs.program(text)
        before = working.snapshot
        candidates = (Candidate("cpu"), Candidate("gpu", refuses, memory))  # type: ignore[arg-type]
        prices = (("cpu", Given(**(cpu or {}))), ("gpu", Given(**(gpu or {}))))
        limits = () if memory is None else (("gpu", memory),)
        passes = [
            FindDevices(candidates, host_reason),
            PriceOperations(prices, tuple((pair, link) for pair in BOTH)),
            ClusterOperations(clusters, limits),
            AssignDevices(("cpu", "gpu"), "cpu", watts),
            PlaceOnDevice("cpu", True, others=(Other("gpu", refuses),)),  # type: ignore[arg-type]
        ]
        options = RewriteOptions(decisions or {})
        self.found, self.priced, self.clustered, self.assigned, self.placed = (
            run_pass(p, working, options) for p in passes
        )
        inputs = programs.random_inputs(before)
        expected, after = before.run(inputs), self.placed.after.run(inputs)
        for name, array in expected.items():
            if name in after:
                np.testing.assert_array_equal(after[name], array, name)

    def ops(self, result) -> dict[str, TopOperation]:
        return dict(result.after.operations)

    @property
    def devices(self) -> dict[str, str]:
        found = self.ops(self.assigned)
        return {name: device for name, op in found.items() if (device := chosen_device(op))}

    @property
    def clusters(self) -> dict[str, str]:
        found = self.ops(self.clustered)
        return {name: cluster for name, op in found.items() if (cluster := cluster_of(op))}

    @property
    def functions(self) -> list[tuple[str, list[str]]]:
        return [
            (device_of(f), [identity_of(op) for op in f.body.block.ops][:-1])
            for f in functions(self.placed.after.program)[1:]
        ]


def reasons(result) -> dict[str, str]:
    return {r.address: r.reason for r in result.rewrites if not r.applied}


# -- find-devices ----------------------------------------------------------------------------------


def test_every_operation_gets_the_devices_that_can_run_it():
    placed = Placed(refuses=no_exponentials)
    ops = placed.ops(placed.found)
    assert {name: devices_of(ops[name]) for name in "aby"} == {
        "a": ["cpu", "gpu"],
        "b": ["cpu"],
        "y": ["cpu", "gpu"],
    }
    assert reasons(placed.found) == {"find-devices/gpu/b": "it has no exponentials"}
    assert placed.found.artifacts[REFUSED] == {"b": {"gpu": "it has no exponentials"}}


def test_what_has_no_compiled_form_has_no_device():
    placed = Placed(FOUND)
    assert devices_of(placed.ops(placed.found)["i"]) == []
    assert "decides how large" in reasons(placed.found)["find-devices/host/i"]
    assert "i" not in placed.devices


def test_values_that_do_not_fit_are_refused():
    placed = Placed(memory=1000)
    assert "its values take 1,024 bytes" in reasons(placed.found)["find-devices/gpu/a"]
    assert set(placed.devices.values()) == {"cpu"}


# -- price -----------------------------------------------------------------------------------------


def test_prices_stand_at_operations_with_their_source():
    placed = Placed(cpu={"a": 2e-3}, gpu={"a": 1e-3, "b": 5e-4})
    ops = placed.ops(placed.priced)
    assert seconds_of(ops["a"]) == {"cpu": 2e-3, "gpu": 1e-3}
    assert seconds_of(ops["b"]) == {"cpu": 0.0, "gpu": 5e-4}
    prices = placed.priced.artifacts[PRICES]
    assert prices["a"]["gpu"] == Price(1e-3, "given")  # type: ignore[index]
    assert placed.priced.artifacts[LINKS] == dict.fromkeys(BOTH, FAST)


def test_a_price_is_a_decision():
    seconds = {"cpu": {"a": 2e-3, "b": 2e-3, "c": 2e-3}, "gpu": {"a": 1e-3, "b": 1e-3, "c": 1e-3}}
    assert set(Placed(**seconds).devices.values()) == {"gpu"}
    placed = Placed(**seconds, decisions={"price/gpu/b": 1.0})
    assert placed.devices["b"] == "cpu"
    knob = next(k for k in placed.priced.artifacts[KNOBS] if k.address == "price/gpu/b")
    assert (knob.value, knob.why) == (1.0, "seconds: decided")


def test_a_bandwidth_is_a_decision():
    seconds = {"cpu": {"b": 3e-3}, "gpu": {"b": 1e-3}}
    assert Placed(**seconds, link=FAST).devices["b"] == "gpu"
    slow = {"price/bandwidth/cpu>gpu": 1e5}  # 512 bytes take 5 ms
    assert Placed(**seconds, link=FAST, decisions=slow).devices["b"] == "cpu"
    late = {"price/latency/gpu>cpu": 1e-2}
    assert Placed(**seconds, link=FAST, decisions=late).devices["b"] == "cpu"


def test_latency_and_bandwidth_of_every_link_are_knobs():
    placed = Placed(decisions={"price/latency/gpu>cpu": 1e-2})
    knobs = {k.address: k for k in placed.priced.artifacts[KNOBS]}
    for site in ("cpu>gpu", "gpu>cpu"):
        assert {f"price/latency/{site}", f"price/bandwidth/{site}"} <= knobs.keys()
    assert knobs["price/latency/gpu>cpu"].value == 1e-2
    assert knobs["price/latency/gpu>cpu"].why == "seconds of a transfer: decided"


@pytest.mark.parametrize("price", [-1.0, float("nan"), "fast", True])
def test_a_price_that_is_none_is_refused(price: object):
    with pytest.raises(InputError, match="price/gpu/b"):
        Placed(decisions={"price/gpu/b": price})


# -- cluster ---------------------------------------------------------------------------------------


def test_edges_are_contracted_where_no_cut_pays():
    placed = Placed(cpu={"a": 1e-6, "b": 1e-6, "c": 1e-6}, link=SLOW)
    assert placed.clusters == {"c": "price:c", "y": "price:c"}  # a view costs nothing by itself


def test_every_edge_that_stays_has_its_reason():
    def kinds(placed: Placed) -> dict[str, str]:
        found = reasons(placed.clustered).items()
        return {address.rpartition("/")[2]: reason.partition(":")[0] for address, reason in found}

    dear = {"a": 1.0, "b": 2.0, "c": 3.0, "y": 4.0}
    assert kinds(Placed(DIAMOND, cpu=dear, link=SLOW)) == {
        "b": "readers",
        "c": "readers",
        "y": "price",
    }
    placed = Placed(cpu=dear, link=SLOW, refuses=no_exponentials)
    assert kinds(placed) == {"b": "device", "c": "device", "y": "price"}
    assert kinds(Placed(link=SLOW, memory=1024))["y"] == "memory"


def test_a_contraction_that_would_close_a_cycle_is_refused():
    loop = """
func.func @main(%x : tensor<1x8xf32>) -> tensor<1x2xf32> {
  %v, %i = top.top_k(%x) {axis = 1, k = 2, largest = true} : tensor<1x2xf32>, tensor<1x2xi64>
  %c = top.cast(%i) {to = f32} : tensor<1x2xf32>
  %y = top.binary(%v, %c) {kind = "add"} : tensor<1x2xf32>
  top.return(%y)
}
"""
    placed = Placed(loop, cpu={"v": 1.0, "c": 1.0}, link=FAST)
    assert (
        "cycle: what lies between the two would wait for itself"
        in reasons(placed.clustered).values()
    )


def test_fuel_ends_contraction():
    placed = Placed(link=SLOW, decisions={"cluster/fuel": 0})
    assert placed.clusters == {}
    assert "fuel: no contraction is left" in reasons(placed.clustered).values()


def test_clustering_again_changes_nothing():
    working = programs.program(CHAIN)
    prices = (("cpu", Given(a=1e-6)), ("gpu", Given()))
    passes = [
        FindDevices((Candidate("cpu"), Candidate("gpu")), host_reason),
        PriceOperations(prices, tuple((pair, SLOW) for pair in BOTH)),
        ClusterOperations((("head", "a"),)),
        ClusterOperations(),
    ]
    *_, first, again = programs.run_passes(working, passes)
    assert any(r.applied for r in first.rewrites)
    assert not any(r.applied for r in again.rewrites)
    assert not again.changed


def test_a_marked_cluster_stays_together():
    seconds = {"cpu": {"a": 1e-3, "c": 1e-3}, "gpu": {"a": 2e-3, "c": 5e-4}}
    assert Placed(**seconds).devices["c"] == "gpu"
    placed = Placed(**seconds, clusters=(("ends", "[ac]"),))
    assert placed.devices["a"] == placed.devices["c"]
    assert placed.clusters["a"] == placed.clusters["c"] == "ends"


def test_a_cluster_is_marked_by_nodes_of_the_source_too():
    assert Placed(clusters=(("one", "node_b"),)).clusters["b"] == "one"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": (("one", "nothing*"),)}, "no operation is called 'nothing\\*'"),
        ({"clusters": (("", "a"),)}, "cannot be called ''"),
        ({"decisions": {"cluster/fuel": -1}}, "cluster/fuel cannot be -1"),
        ({"decisions": {"cluster/fuel": True}}, "cluster/fuel cannot be True"),
    ],
)
def test_clusters_that_are_none_are_refused(options: dict, message: str):
    with pytest.raises(InputError, match=message):
        Placed(**options)


def test_a_cluster_stays_where_there_is_memory_for_it():
    seconds = {"cpu": {"a": 2e-3, "b": 2e-3}, "gpu": {"a": 1e-3, "b": 1e-3}}
    assert Placed(**seconds, memory=1100).devices["a"] == "gpu"
    placed = Placed(**seconds, memory=1100, clusters=(("big", "[ab]"),))
    assert placed.devices["a"] == placed.devices["b"] == "cpu"


def test_a_cluster_that_fits_nowhere_is_refused():
    working = programs.program(CHAIN)
    prices = (("cpu", Given()), ("gpu", Given()))
    passes = [
        FindDevices((Candidate("cpu"), Candidate("gpu")), host_reason),
        PriceOperations(prices, tuple((pair, SLOW) for pair in BOTH)),
        ClusterOperations((("big", "*"),), (("cpu", 1100), ("gpu", 1100))),
    ]
    with pytest.raises(InputError, match="cluster big: its values take 2,560 bytes, more than"):
        programs.run_passes(working, passes)


def test_pins_apart_in_a_marked_cluster_are_refused():
    pins = {"assign/device/a": "cpu", "assign/device/c": "gpu"}
    with pytest.raises(InputError, match="the cluster ends is pinned to cpu and gpu"):
        Placed(clusters=(("ends", "[ac]"),), decisions=pins)


# -- assign ----------------------------------------------------------------------------------------


def test_the_cheapest_devices_are_assigned_and_proven():
    placed = Placed(cpu={"a": 1e-3, "b": 4e-3, "c": 1e-3}, gpu={"a": 2e-3, "b": 1e-3, "c": 2e-3})
    assert placed.devices == {"a": "cpu", "b": "gpu", "c": "cpu", "y": "cpu"}
    found = placed.assigned.artifacts[ASSIGNMENT]
    assert found.seconds == pytest.approx(3e-3) and found.optimal  # type: ignore[attr-defined]
    assert placed.functions == [
        ("cpu", ["a"]),
        ("gpu", ["b"]),
        ("cpu", ["c", "y"]),
    ]


def test_a_slow_link_keeps_everything_on_the_first_device():
    placed = Placed(cpu={"a": 1e-5, "b": 4e-5, "c": 1e-5}, gpu={"b": 1e-5}, link=SLOW)
    assert set(placed.devices.values()) == {"cpu"}
    assert [device for device, _ in placed.functions] == ["cpu"]


def test_a_pin_moves_what_follows():
    seconds = {"cpu": {"a": 1e-3, "b": 1e-3, "c": 1e-3}, "gpu": {"a": 9e-4, "b": 9e-4, "c": 9e-4}}
    link = Link(3e-4, 0.0, "given")
    assert set(Placed(**seconds, link=link).devices.values()) == {"cpu"}
    placed = Placed(**seconds, link=link, decisions={"assign/device/b": "gpu"})
    assert placed.devices["a"] == placed.devices["b"] == placed.devices["c"] == "gpu"


def test_all_that_a_device_can_run_is_pinned_by_one_decision():
    placed = Placed(refuses=no_exponentials, decisions={"assign/device": "gpu"})
    assert placed.devices == {"a": "gpu", "b": "cpu", "c": "gpu", "y": "gpu"}


def test_legal_devices_are_those_that_do_not_refuse():
    placed = Placed(refuses=no_exponentials)
    knobs = {k.address: k for k in placed.assigned.artifacts[KNOBS]}
    assert knobs["assign/device/a"].choices == ("cpu", "gpu")
    assert knobs["assign/device/b"].choices == ("cpu",)


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"assign/device/b": "gpu"}, "gpu cannot run it.*legal: cpu"),
        ({"assign/device/b": "gpo"}, "did you mean 'gpu'"),
        ({"assign/minimum": 0}, "assign/minimum cannot be 0"),
        ({"assign/objective": "speed"}, "assign/objective cannot be 'speed'"),
        ({"assign/objective": "energy"}, "does not state its watts"),
    ],
)
def test_decisions_that_are_none_are_refused(decisions: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        Placed(refuses=no_exponentials, decisions=decisions)


def test_small_regions_go_back():
    seconds = {"cpu": {"a": 1e-3, "b": 4e-3, "c": 1e-3}, "gpu": {"a": 2e-3, "b": 1e-3, "c": 2e-3}}
    placed = Placed(**seconds, decisions={"assign/minimum": 2})
    assert placed.devices["b"] == "cpu"
    assert "fewer than 2 operations" in reasons(placed.assigned)["assign/minimum/b"]


@pytest.mark.parametrize(("minimum", "device"), [(1, "gpu"), (2, "gpu"), (3, "cpu")])
def test_a_region_of_as_many_operations_as_wanted_stays(minimum: int, device: str):
    seconds = {"cpu": {"a": 1e-3, "b": 4e-3, "c": 4e-3}, "gpu": {"a": 9e-3, "b": 1e-3, "c": 1e-3}}
    placed = Placed(**seconds, decisions={"assign/minimum": minimum})
    assert [placed.devices[name] for name in "abc"] == ["cpu", device, device]


def test_the_makespan_puts_branches_on_both_devices():
    equal = {"b": 1e-3, "c": 1e-3}
    options = {"assign/objective": "makespan"}
    placed = Placed(DIAMOND, cpu=equal, gpu=equal, decisions=options)
    assert placed.devices["b"] != placed.devices["c"]


def test_energy_takes_the_frugal_device():
    placed = Placed(
        cpu={"a": 1e-3, "b": 1e-3, "c": 1e-3},
        gpu={"a": 2e-3, "b": 2e-3, "c": 2e-3},
        watts=(("cpu", 10.0), ("gpu", 1.0)),
        decisions={"assign/objective": "energy"},
    )
    assert {placed.devices[name] for name in "abc"} == {"gpu"}


def test_the_host_reads_what_it_has_no_compiled_form_for():
    placed = Placed(FOUND, cpu={"a": 1e-3}, gpu={"a": 1e-4}, link=FAST)
    assert [device for device, _ in placed.functions] == ["gpu", "host"]


# -- outlining -------------------------------------------------------------------------------------

SHARED = """
func.func @main(%x : tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>) {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %b = top.unary(%a) {kind = "exp"} : tensor<4x32xf32>
  %c = top.unary(%b) {kind = "neg"} : tensor<4x32xf32>
  %d = top.binary(%c, %a) {kind = "add"} : tensor<4x32xf32>
  %e = top.binary(%d, %x) {kind = "add"} : tensor<4x32xf32>
  top.return(%d, %e)
}
"""


def test_a_value_is_sent_once_to_a_device():
    pins = {f"assign/device/{op}": "gpu" if op in "bd" else "cpu" for op in "abcde"}
    placed = Placed(SHARED, decisions=pins)
    lines = [line.strip() for line in placed.placed.after.text.lines]
    sent = [line for line in lines if '{to = "gpu"}' in line]
    assert len(sent) == 2  # a, which b and d read, and c
    received = [line for line in lines if '{to = "host"}' in line]
    assert len(received) == 5  # a and c for gpu, b for cpu, the outputs


def test_a_value_that_only_its_device_reads_does_not_travel():
    pins = {f"assign/device/{op}": "gpu" if op == "b" else "cpu" for op in "abcde"}
    placed = Placed(SHARED, decisions=pins)
    lines = [line.strip() for line in placed.placed.after.text.lines]
    assert sum("top.transfer(%x)" in line for line in lines) == 1
    assert len([line for line in lines if '{to = "gpu"}' in line]) == 1
