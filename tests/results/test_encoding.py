"""Records as JSON and back: everything survives, and what does not fit is named."""

import dataclasses
import json
import typing
from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer import results
from explorer.results import (
    Graph,
    GraphEdge,
    GraphNode,
    MemoryPlan,
    TensorError,
    TimedEvent,
    Trace,
)
from explorer.results.encoding import from_json, to_json
from explorer.results.program import Tap
from explorer.results.trace import SnapshotRecord
from explorer.results.weights import WeightsRecord, WeightTensor

EXPORTED = [getattr(results, name) for name in dir(results)]
RECORDS = sorted(
    {
        *(k for k in EXPORTED if isinstance(k, type) and dataclasses.is_dataclass(k)),
        SnapshotRecord,
        Tap,
        WeightsRecord,
        WeightTensor,
    },
    key=lambda kind: kind.__name__,
)
INF, NAN = float("inf"), float("nan")
EVENT = TimedEvent("conv", "conv1", "conv_1", "queue", 0, 10)
EVENT_JSON = {
    "name": "conv",
    "operation": "conv1",
    "kernel": "conv_1",
    "lane": "queue",
    "start_ns": 0,
    "end_ns": 10,
    "flops": 0,
    "bytes_moved": 0,
    "cycles": 0,
    "start_cycle": 0,
    "end_cycle": 0,
    "waited_cycles": 0,
    "cause": "",
}


@cache
def values(kind: typing.Hashable, above: tuple[typing.Hashable, ...] = ()) -> st.SearchStrategy:
    """Anything that an annotation of a record allows, but no record inside one of its own kind.

    above: the records that it stands in.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is str or kind is object:  # a part of a trace, whatever it is, stays as JSON
        return st.text(max_size=5)
    if kind is float:
        return st.floats(allow_nan=False)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers()
    if kind is type(None):
        return st.none()
    if origin is tuple and arguments[1:] == (Ellipsis,):
        if arguments[0] in above:
            return st.just(())
        return st.lists(values(arguments[0], above), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(*(values(k, above) for k in arguments), max_size=2)
    if origin is tuple:
        return st.tuples(*(values(k, above) for k in arguments))
    if str in arguments and float in arguments:  # an infinity would be its name, a text
        finite = st.floats(allow_nan=False, allow_infinity=False)
        others = (values(k, above) for k in arguments if k is not float and k not in above)
        return st.one_of(finite, *others)
    if arguments:
        return st.one_of(*(values(k, above) for k in arguments if k not in above))
    assert dataclasses.is_dataclass(kind) and isinstance(kind, type), kind
    hints = typing.get_type_hints(kind)
    fields = [f.name for f in dataclasses.fields(kind)]
    return st.builds(kind, **{name: values(hints[name], (*above, kind)) for name in fields})


def strict(data: object) -> object:
    """Through the text of standard JSON, which has neither NaN nor infinities."""
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_record_survives_json(kind, data):
    record = data.draw(values(kind))
    assert from_json(kind, strict(to_json(record))) == record


def test_a_record_is_an_object_of_its_fields():
    assert to_json(EVENT) == EVENT_JSON
    node = GraphNode(
        id="a",
        operation="top.unary",
        label="relu",
        family="elementwise",
        shape="4 f32",
        sources=("n",),
        device="host",
        attributes=(("k", "v"),),
    )
    edge = GraphEdge("a", "b", "a", "4 f32")
    data = to_json(Graph((node,), (edge,)))
    assert data["nodes"][0]["attributes"] == [["k", "v"]]
    assert data["edges"] == [{"source": "a", "target": "b", "value": "a", "type": "4 f32"}]


@pytest.mark.parametrize("number", [INF, -INF, NAN])
def test_infinities_and_nan_are_strings(number):
    error = TensorError(
        tensor="t", operation="op", max_absolute=number, max_relative=0.5, cosine=1.0, sqnr_db=-INF
    )
    data = strict(to_json(error))
    assert data["max_absolute"] == repr(number)
    again = from_json(TensorError, data)
    assert repr(again) == repr(error)


def test_missing_defaults_are_filled_and_everything_else_is_asked_for():
    short = {k: v for k, v in EVENT_JSON.items() if k not in ("flops", "bytes_moved")}
    assert from_json(TimedEvent, short) == EVENT
    del short["lane"]
    with pytest.raises(
        ValueError, match=r"TimedEvent: unknown fields \[\], missing fields \['lane'\]"
    ):
        from_json(TimedEvent, short)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, r"TimedEvent: unknown fields \['colour'\]"),
        ({"name": 3}, "name: str expected, not int"),
        ({"name": None}, "name: str expected, not NoneType"),
        ({"start_ns": "0"}, "start_ns: int expected, not str"),
        ({"start_ns": True}, "start_ns: int expected, not bool"),
        ({"start_ns": 1.5}, "start_ns: int expected, not float"),
    ],
)
def test_a_field_that_does_not_fit_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        from_json(TimedEvent, {**EVENT_JSON, **changes})


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(ValueError, match="a TimedEvent expected"):
        from_json(TimedEvent, data)


def test_the_path_to_a_wrong_field_is_told():
    node = to_json(
        GraphNode(
            id="a", operation="op", label="l", family="f", shape="s", sources=(), device="host"
        )
    )
    data = {"nodes": [node, {**node, "device": 3}], "edges": []}
    with pytest.raises(ValueError, match=r"nodes\[1\]\.device: str expected, not int"):
        from_json(Graph, data)
    with pytest.raises(ValueError, match="edges: a list expected"):
        from_json(Graph, {"nodes": [], "edges": {}})


@pytest.mark.parametrize("number", ["1.5", "Infinity", "none", "", None, True, [], {}])
def test_only_the_three_special_numbers_are_strings(number):
    data = {
        **to_json(
            TensorError(
                tensor="t",
                operation="op",
                max_absolute=0.0,
                max_relative=0.5,
                cosine=1.0,
                sqnr_db=0.0,
            )
        ),
        "cosine": number,
    }
    with pytest.raises(ValueError, match="cosine: a number expected"):
        from_json(TensorError, data)


def test_a_number_that_no_float_holds_is_refused():
    data = {
        **to_json(
            TensorError(
                tensor="t",
                operation="op",
                max_absolute=0.0,
                max_relative=0.5,
                cosine=1.0,
                sqnr_db=0.0,
            )
        ),
        "cosine": 10**400,
    }
    with pytest.raises(ValueError, match="cosine: the number is too large"):
        from_json(TensorError, data)


def test_tuples_of_fixed_length_have_that_length():
    tap = to_json(
        Tap(
            operation="conv1",
            result=0,
            step=0,
            offset_bytes=0,
            size_bytes=4,
            element_type="float32",
            shape=(1,),
            logical_shape=(1,),
        )
    )
    with pytest.raises(ValueError, match="halo: 4 elements expected, not 3"):
        from_json(Tap, {**tap, "halo": [0, 0, 0]})


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="set has no JSON form"):
        to_json({1, 2})


def test_records_of_a_plan_and_a_trace_are_among_those_tested():
    assert {Trace, MemoryPlan} <= set(RECORDS)
