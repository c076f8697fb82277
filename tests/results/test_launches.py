"""The events of a profile by launch: queues that work on one layer at the same time count once."""

from explorer.results.runs.events import ProfileRecord, TimedEvent

LAYER = (
    TimedEvent("load", "conv1", "conv1", "load", 100, 300, cycles=20, start_cycle=10, end_cycle=30),
    TimedEvent(
        "sum", "conv1", "conv1", "compute", 150, 400, cycles=9, start_cycle=15, end_cycle=40
    ),
    TimedEvent("load", "conv1", "conv1", "load", 300, 350, cycles=5, start_cycle=30, end_cycle=35),
)
HOST = (
    TimedEvent("relu", "relu2", "relu", "cpu", 400, 450, flops=7),
    TimedEvent("relu", "relu2", "relu", "cpu", 500, 520, flops=7),
    TimedEvent("send", "", "", "cpu", 0, 90),
    TimedEvent("fetch", "", "", "dma", 600, 610),
)


def record(*events: TimedEvent) -> ProfileRecord:
    return ProfileRecord(device="d", threads=1, repeats=1, milliseconds=0.0, events=events)


def test_queues_of_a_layer_are_one_launch_from_first_to_last():
    (launch,) = record(*LAYER).launches
    assert (launch.start_ns, launch.end_ns) == (100, 400)
    assert (launch.start_cycle, launch.end_cycle, launch.cycles) == (10, 40, 30)
    assert record(*LAYER).launched_milliseconds == 300 / 1e6


def test_launches_of_one_lane_and_transfers_stay_as_they_are():
    assert record(*HOST).launches == HOST
    assert record(*HOST).launched_milliseconds == 70 / 1e6
    assert record(*HOST, *LAYER).launched_milliseconds == 370 / 1e6


def test_no_events_are_no_launches():
    assert record().launches == ()
    assert record().launched_milliseconds == 0
