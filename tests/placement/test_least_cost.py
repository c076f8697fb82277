"""The cheapest assignment: against all assignments of small graphs, and rules for large ones."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.placement import least_cost

INFINITE = float("inf")
Problem = tuple[dict, dict, dict]


def brute_force(costs: dict, values: dict, transfers: dict) -> Fraction | None:
    """The least sum over all assignments, without rounding; None where none is possible."""
    best = None
    for chosen in itertools.product(*(list(of) for of in costs.values())):
        at = dict(zip(costs, chosen, strict=True))
        total = total_of(at, costs, values, transfers)
        if total is not None and (best is None or total < best):
            best = total
    return best


def total_of(at: dict, costs: dict, values: dict, transfers: dict) -> Fraction | None:
    total = sum((Fraction(costs[op][device]) for op, device in at.items()), Fraction(0))
    for maker, size, readers in values.values():
        for device in {at[reader] for reader in readers} - {at[maker]}:
            if (at[maker], device) not in transfers:
                return None
            latency, rate = transfers[at[maker], device]
            total += Fraction(latency + size / rate)
    return total


def random_problem(seed: int, count: int, devices: int) -> Problem:
    chance = random.Random(seed)
    names = "abcd"[:devices]
    costs = {}
    for number in range(count):
        able = [d for d in names if chance.random() < 0.85] or [chance.choice(names)]
        prices = [chance.uniform(0, 1e-3), chance.randint(0, 5) * 1e-4]
        costs[f"op{number}"] = {device: chance.choice(prices) * chance.random() for device in able}
    values = {}
    for maker in range(count - 1):
        for number in range(chance.choice([0, 1, 1, 2])):
            later = [
                f"op{chance.randint(maker + 1, count - 1)}" for _ in range(chance.randint(0, 4))
            ]
            values[f"v{maker}.{number}"] = f"op{maker}", chance.choice([0, 1000, 100_000]), later
    used = {device for of in costs.values() for device in of}
    transfers = {
        (source, target): (chance.choice([0, 2e-5, 2e-4]), chance.choice([1e8, 1e9, INFINITE]))
        for source, target in itertools.permutations(sorted(used), 2)
        if chance.random() < 0.95
    }
    return costs, values, transfers


def check_against_all(seed: int) -> None:
    devices = 2 + seed % 2
    count = 1 + seed // 2 % (12 if devices == 2 else 8)
    problem = random_problem(seed, count, devices)
    least = brute_force(*problem)
    if least is None:
        with pytest.raises(InputError, match="possible"):
            least_cost(*problem)
        return
    found = least_cost(*problem)
    assert found.seconds == float(least)
    assert total_of(dict(found.devices), *problem) == least
    assert found.bound <= found.seconds
    assert not found.optimal or found.bound == found.seconds
    assert {t.value for t in found.transferred} <= set(problem[1])


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_no_assignment_of_a_small_graph_costs_less(first: int):
    for seed in range(first, first + 20):
        check_against_all(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(200, 2200, 100))
def test_no_assignment_of_many_small_graphs_costs_less(first: int):
    for seed in range(first, first + 100):
        check_against_all(seed)


@pytest.mark.sweep
def test_twelve_operations_on_three_devices():
    for seed in range(5000, 5010):
        problem = random_problem(seed, 12, 3)
        least = brute_force(*problem)
        if least is not None:
            assert least_cost(*problem).seconds == float(least)


def check_against_rules(seed: int) -> None:
    problem = random_problem(seed, 200, 2 + seed % 3)
    try:
        found = least_cost(*problem)
    except InputError:
        return
    total = total_of(dict(found.devices), *problem)
    assert total is not None and float(total) == found.seconds
    rules = [*found.single.values(), *([] if found.greedy is None else [found.greedy])]
    assert all(found.seconds <= cost for cost in rules)
    assert found.bound <= found.seconds
    assert 0 <= found.gap < 1  # free and missing transfers leave some far from proven


def test_the_result_is_never_above_a_rule():
    for seed in (0, 1):
        check_against_rules(seed)


def test_three_hundred_operations_on_three_devices_have_a_small_gap():
    chance = random.Random(7)
    costs = {f"op{n}": {d: chance.uniform(1e-6, 1e-3) for d in "abc"} for n in range(300)}
    values = {
        f"v{n}": (
            f"op{n}",
            100_000,
            [f"op{min(299, n + step)}" for step in (1, chance.randint(2, 8))],
        )
        for n in range(299)
    }
    links = dict.fromkeys(itertools.permutations("abc", 2), (2e-5, 1e9))
    found = least_cost(costs, values, links)
    assert found.gap < 0.05
    assert found.seconds < min(found.single.values())


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_the_result_is_never_above_a_rule_on_many_graphs(first: int):
    for seed in range(first, first + 50):
        check_against_rules(seed)


# -- what an assignment is made of -----------------------------------------------------------------


def test_a_value_is_sent_once_to_a_device():
    costs = {"make": {"cpu": 1.0}, "left": {"gpu": 1.0}, "right": {"gpu": 1.0}}
    values = {"v": ("make", 8, ["left", "right"])}
    found = least_cost(costs, values, {("cpu", "gpu"): (0.5, 16.0), ("gpu", "cpu"): (0.5, 16.0)})
    assert found.seconds == 4.0
    assert [(t.value, t.source, t.target, t.size_bytes, t.seconds) for t in found.transferred] == [
        ("v", "cpu", "gpu", 8, 1.0)
    ]


def test_devices_that_share_memory_transfer_in_no_time():
    costs = {"a": {"cpu": 2.0, "gpu": 1.0}, "b": {"cpu": 1.0, "gpu": 2.0}}
    shared = dict.fromkeys((("cpu", "gpu"), ("gpu", "cpu")), (0.0, INFINITE))
    found = least_cost(costs, {"v": ("a", 1 << 40, ["b"])}, shared)
    assert found.devices == {"a": "gpu", "b": "cpu"}
    assert found.seconds == 2.0


def test_a_slow_second_device_gets_nothing():
    costs = {f"op{n}": {"cpu": 1e-3, "gpu": 5e-3} for n in range(20)}
    values = {f"v{n}": (f"op{n}", 4096, [f"op{n + 1}"]) for n in range(19)}
    found = least_cost(costs, values, {("cpu", "gpu"): (1e-5, 1e9), ("gpu", "cpu"): (1e-5, 1e9)})
    assert set(found.devices.values()) == {"cpu"}
    assert found.transferred == ()


def test_a_fast_device_without_transfers_takes_all_it_can():
    costs = {f"op{n}": {"cpu": 3e-3, "gpu": 1e-3} for n in range(20)}
    costs["op7"] = {"cpu": 3e-3}
    values = {f"v{n}": (f"op{n}", 4096, [f"op{n + 1}"]) for n in range(19)}
    shared = dict.fromkeys((("cpu", "gpu"), ("gpu", "cpu")), (0.0, INFINITE))
    found = least_cost(costs, values, shared)
    assert [op for op, device in found.devices.items() if device == "cpu"] == ["op7"]


def test_bandwidth_moves_the_cut():
    costs = {"a": {"cpu": 1e-3}, "b": {"cpu": 4e-3, "gpu": 1e-3}, "c": {"cpu": 1e-3}}
    values = {"v": ("a", 10**6, ["b"]), "w": ("b", 10**6, ["c"])}

    def where(rate: float) -> str:
        links = {("cpu", "gpu"): (0.0, rate), ("gpu", "cpu"): (0.0, rate)}
        return least_cost(costs, values, links).devices["b"]

    assert (where(6e8), where(7e8)) == ("cpu", "gpu")  # 2 MB in 3 ms: 667 MB/s


def test_operations_are_named_in_the_order_of_the_caller():
    costs = {"last": {"cpu": 1.0}, "first": {"cpu": 1.0}}
    found = least_cost(costs, {"v": ("first", 1, ["last"])}, {})
    assert list(found.devices) == ["last", "first"]


def test_costs_far_apart_are_not_rounded():
    costs = {"big": {"cpu": 1e9, "gpu": 1e9}, "tiny": {"cpu": 1e-12, "gpu": 2e-12}}
    shared = dict.fromkeys((("cpu", "gpu"), ("gpu", "cpu")), (0.0, INFINITE))
    found = least_cost(costs, {"v": ("big", 0, ["tiny"])}, shared)
    assert found.devices["tiny"] == "cpu"


def test_nothing_costs_nothing():
    found = least_cost({}, {}, {})
    assert (found.devices, found.seconds, found.optimal) == ({}, 0.0, True)


def test_numbers_of_numpy_are_prices():
    found = least_cost({"a": {"cpu": np.float32(0.5)}}, {"v": ("a", np.int64(4), [])}, {})
    assert found.seconds == 0.5


def test_seven_devices_are_assigned_with_a_bound():
    names = "abcdefg"
    costs = {f"op{n}": {d: 1.0 + (n * i) % 5 for i, d in enumerate(names)} for n in range(9)}
    values = {f"v{n}": (f"op{n}", 8, [f"op{n + 1}", f"op{min(8, n + 3)}"]) for n in range(8)}
    links = dict.fromkeys(itertools.permutations(names, 2), (0.25, 1000000000.0))
    found = least_cost(costs, values, links)
    assert found.bound <= found.seconds <= min(found.single.values())


# -- other objectives ------------------------------------------------------------------------------


def test_energy_prefers_the_frugal_device():
    costs = {"a": {"cpu": 1.0, "npu": 2.0}, "b": {"cpu": 1.0, "npu": 2.0}}
    shared = dict.fromkeys((("cpu", "npu"), ("npu", "cpu")), (0.0, INFINITE))
    watts = {"cpu": 10.0, "npu": 1.0}
    found = least_cost(costs, {"v": ("a", 8, ["b"])}, shared, objective="energy", watts=watts)
    assert found.devices == {"a": "npu", "b": "npu"}
    assert found.seconds == 4.0  # joules


def test_energy_counts_both_ends_of_a_transfer():
    costs = {"a": {"cpu": 1.0}, "b": {"npu": 1.0}}
    found = least_cost(costs, {"v": ("a", 8, ["b"])}, {("cpu", "npu"): (0.5, 16.0)},
                       objective="energy", watts={"cpu": 4.0, "npu": 2.0})  # fmt: skip
    assert found.seconds == 4.0 + 2.0 + 6.0


def test_two_equal_branches_run_at_once():
    both = {"cpu": 1.0, "gpu": 1.0}
    costs = {"in": {"cpu": 0.1}, "left": both, "right": both, "out": {"cpu": 0.1}}
    values = {
        "x": ("in", 8, ["left", "right"]),
        "l": ("left", 8, ["out"]),
        "r": ("right", 8, ["out"]),
    }
    links = {("cpu", "gpu"): (0.01, 1e9), ("gpu", "cpu"): (0.01, 1e9)}
    found = least_cost(costs, values, links, objective="makespan")
    assert found.devices["left"] != found.devices["right"]
    assert found.seconds == pytest.approx(1.22, abs=1e-6)
    assert found.optimal
    assert found.single["cpu"] == pytest.approx(2.2)


def makespan_of(at: dict, costs: dict, values: dict, transfers: dict) -> Fraction | None:
    """Operations of these graphs stand in an order in which they can run."""
    ends: dict[str, Fraction] = {}
    free: dict[str, Fraction] = {}
    for op, device in at.items():
        begin = free.get(device, Fraction(0))
        for maker, size, readers in values.values():
            if op not in readers:
                continue
            sent = Fraction(0)
            if at[maker] != device:
                if (at[maker], device) not in transfers:
                    return None
                latency, rate = transfers[at[maker], device]
                sent = Fraction(latency + size / rate)
            begin = max(begin, ends[maker] + sent)
        ends[op] = free[device] = begin + Fraction(costs[op][device])
    return max(ends.values())


def test_no_assignment_of_a_small_graph_ends_earlier():
    for seed in range(60):
        costs, values, transfers = random_problem(seed, 1 + seed % 7, 2 + seed % 2)
        all_of_them = (
            makespan_of(dict(zip(costs, chosen, strict=True)), costs, values, transfers)
            for chosen in itertools.product(*(list(of) for of in costs.values()))
        )
        possible = [end for end in all_of_them if end is not None]
        if not possible:
            with pytest.raises(InputError, match="possible"):
                least_cost(costs, values, transfers, objective="makespan")
            continue
        found = least_cost(costs, values, transfers, objective="makespan")
        assert found.seconds == float(min(possible))
        assert found.optimal


def test_a_makespan_of_many_operations_has_a_bound():
    problem = random_problem(6, 120, 2)
    found = least_cost(*problem, objective="makespan")
    assert 0 < found.bound <= found.seconds <= (found.greedy or INFINITE)


# -- what is refused -------------------------------------------------------------------------------

GOOD: Problem = (
    {"a": {"cpu": 1.0, "gpu": 1.0}, "b": {"cpu": 1.0, "gpu": 1.0}},
    {"v": ("a", 4, ["b"])},
    {("cpu", "gpu"): (0.0, 1e9), ("gpu", "cpu"): (0.0, 1e9)},
)


@pytest.mark.parametrize("price", [-1.0, float("nan"), INFINITE, "1", None, True, 10**400])
def test_a_price_that_is_none_is_refused(price: object):
    with pytest.raises(InputError, match="costs of 'a' on 'cpu'"):
        least_cost({"a": {"cpu": price}}, {}, {})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"a": {}}, "no device can run 'a'"),
        ({"a": 1.0}, "seconds by device"),
        ({"a": {"": 1.0}}, "no name of a device"),
        ({3: {"cpu": 1.0}}, "no name of an operation"),
        ([], "operations with seconds"),
    ],
)
def test_costs_that_are_none_are_refused(costs: object, message: str):
    with pytest.raises(InputError, match=message):
        least_cost(costs, {}, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (("a", "4", ["b"]), "bytes are not known"),
        (("a", None, ["b"]), "bytes are not known"),
        (("a", 4.5, ["b"]), "bytes are not known"),
        (("a", -4, ["b"]), "-4 bytes"),
        (("c", 4, ["b"]), "no operation 'c'"),
        (("a", 4, ["c"]), "no operation 'c'"),
        (("a", 4, "b"), "names of operations"),
        (("a", 4), "maker, bytes, readers"),
        (("a", 4, ["a"]), "reads what it makes"),
    ],
)
def test_values_that_are_none_are_refused(value: object, message: str):
    with pytest.raises(InputError, match=message):
        least_cost(GOOD[0], {"v": value}, GOOD[2])  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("transfers", "message"),
    [
        ({("cpu", "npu"): (0.0, 1.0)}, "no operation has a price on 'npu'"),
        ({"cpu": (0.0, 1.0)}, "no pair of devices"),
        ({("cpu", "gpu"): (-1.0, 1.0)}, "below 0"),
        ({("cpu", "gpu"): (0.0, 0.0)}, "bytes per second"),
        ({("cpu", "gpu"): (0.0, float("nan"))}, "bytes per second"),
        ({("cpu", "gpu"): (0.0, "fast")}, "bytes per second"),
        ({("cpu", "gpu"): 1.0}, "seconds, bytes per second"),
    ],
)
def test_transfers_that_are_none_are_refused(transfers: object, message: str):
    with pytest.raises(InputError, match=message):
        least_cost(GOOD[0], GOOD[1], transfers)  # type: ignore[arg-type]


def test_a_cycle_is_refused():
    with pytest.raises(InputError, match="cycle through 'a'"):
        least_cost(GOOD[0], {**GOOD[1], "w": ("b", 4, ["a"])}, GOOD[2])


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize("objective", ["sum", "makespan"])
def test_what_is_impossible_is_refused(devices: int, objective: str):
    costs = {"a": {"cpu": 1.0}, "b": {"gpu": 1.0}}
    costs |= {"c": {"npu": 1.0}} if devices == 3 else {}
    with pytest.raises(InputError, match="possible"):
        least_cost(costs, {"v": ("a", 4, ["b"])}, {}, objective=objective)


def test_an_unknown_objective_is_refused():
    with pytest.raises(InputError, match="did you mean 'makespan'"):
        least_cost(*GOOD, objective="makespam")


@pytest.mark.parametrize("watts", [{"cpu": 1.0}, {"cpu": 1.0, "gpu": -1.0}])
def test_watts_of_every_device_are_needed(watts: dict[str, float]):
    with pytest.raises(InputError, match="watts of 'gpu'"):
        least_cost(*GOOD, objective="energy", watts=watts)


def test_watts_without_energy_are_refused():
    with pytest.raises(InputError, match="belong to the objective 'energy'"):
        least_cost(*GOOD, watts={"cpu": 1.0, "gpu": 1.0})
