"""What the explorer gets: everything of the trace, once, in messages that any host takes."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from explorer.results import Fault, SourceText, Trace
from explorer.views.module import explorer_module
from explorer.views.page import export_page, script_data
from explorer.views.payload.measures import number
from explorer.views.payload.text import LineTable
from explorer.views.trace_payload import (
    UnknownChunk,
    chunk_messages,
    encode,
    trace_payload,
)
from explorer.views.widget import answers, explore


def lines_of(payload, key: str) -> list[str]:
    """A text put together again from its runs, as data.js does it."""
    text = payload.chunk(key)
    lines: list[str] = []
    for page, start, count in text["runs"]:
        name = text["pages"][page]
        lines += payload.chunk(f"lines/{name}")["lines"][start : start + count]
    return lines


def test_lines_that_two_texts_share_travel_once():
    table = LineTable()
    first = table.add(SourceText("mlir", ("a", "b", "c"), ((), ("b",), ())))
    second = table.add(SourceText("mlir", ("a", "x", "c"), ((), ("b",), ())))
    assert table.page(0) == {"lines": ["a", "b", "c", "x"], "owners": [[], ["b"], [], ["b"]]}
    assert first["runs"] == [[0, 0, 3]]
    assert second["runs"] == [[0, 0, 1], [0, 3, 1], [0, 2, 1]]


def test_equal_lines_of_other_operations_stay_apart():
    table = LineTable()
    text = table.add(SourceText("c", ("}", "}"), (("conv/main",), ("conv/init",))))
    assert text["runs"] == [[0, 0, 2]]


def test_a_full_page_of_lines_is_closed():
    table = LineTable(page_characters=40)
    text = table.add(SourceText("c", tuple(f"line {i:030}" for i in range(4)), ((),) * 4))
    assert [run[0] for run in text["runs"]] == [0, 1, 2, 3]


def test_every_snapshot_can_be_read_back(trace: Trace):
    payload = trace_payload(trace)
    for record, snapshot in zip(payload.head["passes"], trace.snapshots, strict=True):
        assert tuple(lines_of(payload, f"text/{record['snapshot']}")) == snapshot.text.lines


def test_graphs_can_be_read_back_from_shared_nodes(trace: Trace):
    payload = trace_payload(trace)
    records = [
        record
        for page in range(payload.chunk("graphs")["pages"])
        for record in payload.chunk(f"nodes/{page}")["records"]
    ]
    for summary, snapshot in zip(payload.head["passes"], trace.snapshots, strict=True):
        graph = payload.chunk(f"graph/{summary['snapshot']}")
        ids = [records[index][0] for index in graph["nodes"]]
        assert ids == [node.id for node in snapshot.graph.nodes]
        assert [(ids[a], ids[b], graph["types"][t]) for a, b, t, _ in graph["edges"]] == [
            (edge.source, edge.target, edge.type) for edge in snapshot.graph.edges
        ]
    assert len(records) < sum(len(snapshot.graph.nodes) for snapshot in trace.snapshots) / 3


def test_passes_without_changes_share_a_snapshot(trace: Trace):
    payload = trace_payload(trace)
    shared = [record["snapshot"] for record in payload.head["passes"]]
    assert shared == [0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 6, 6]


def test_no_positions_travel(trace: Trace):
    payload = trace_payload(trace)
    kinds = {key.partition("/")[0] for key in payload.saved_chunks()}
    assert not kinds & {"layout", "block"}


def test_declined_candidates_come_with_their_reason(trace: Trace):
    payload = trace_payload(trace)
    index = [record.name for record in trace.passes].index("fuse-activation")
    events = payload.chunk(f"pass/{index}")["events"]
    assert payload.head["passes"][index]["declined"] == 2
    assert [event[6] for event in events if not event[2]] == [
        "softmax_1 is no elementwise operation: it needs a whole row at once",
        "the producer of pool_1's input, relu_3, already holds an activation",
    ]


def test_rules_are_explained_once(trace: Trace):
    rules = {name: about for name, *about in trace_payload(trace).chunk("index")["rules"]}
    explanation, source = rules["fold-into-conv"]
    assert explanation.startswith("batch_norm(conv(x, w)) -> conv(x, w').")
    assert source == "explorer/passes/fold_batch_norm.py:31"


def test_the_dot_of_a_pass_follows_its_worst_tensor(trace: Trace):
    checks = [record["check"] for record in trace_payload(trace).head["passes"]]
    assert checks == ["equal"] * 8 + ["within-tolerance"] * 4


def test_a_tensor_that_is_not_a_number_makes_its_pass_wrong(trace: Trace):
    assert trace.accuracy is not None
    last = trace.accuracy.passes[-1]
    broken = replace(last.tensors[0], max_relative=math.nan)
    passes = (*trace.accuracy.passes[:-1], replace(last, tensors=(broken, *last.tensors[1:])))
    wrong = replace(trace, accuracy=replace(trace.accuracy, passes=passes))
    payload = trace_payload(wrong)
    assert payload.head["passes"][-1]["check"] == "wrong"
    assert payload.head["summary"]["verdict"] == "wrong"
    heat_map = payload.chunk("accuracy")
    column = heat_map["tensors"].index(broken.tensor)
    assert heat_map["accumulated"][-1]["values"][column] == "NaN"


def test_a_tensor_that_is_as_exact_as_can_be_says_so(trace: Trace):
    """Its error is out of tolerance, and its distance from float64 tells that it is right."""
    assert trace.accuracy is not None
    last = trace.accuracy.passes[-1]
    judged = replace(
        last.tensors[0], max_relative=0.5, from_exact=0.25, reachable=0.125, as_exact=True
    )
    passes = (*trace.accuracy.passes[:-1], replace(last, tensors=(judged, *last.tensors[1:])))
    payload = trace_payload(replace(trace, accuracy=replace(trace.accuracy, passes=passes)))
    assert payload.head["passes"][-1]["check"] == "within-tolerance"
    column = payload.chunk("accuracy")["tensors"].index(judged.tensor)
    page = payload.chunk(f"tensors/{column // 50}")
    rows = page["accumulated"][column - page["first"]]
    assert rows[-1][-2:] == [0.25, 0.125]
    assert rows[0][-2:] == [None, None]


def test_passes_that_leave_a_tensor_as_it_is_share_a_row(trace: Trace):
    assert trace.accuracy is not None
    payload = trace_payload(trace)
    heat_map, page = payload.chunk("accuracy"), payload.chunk("tensors/0")
    shared = 0
    for column, rows in enumerate(page["accumulated"]):
        there = [
            row["pass"] for row in heat_map["accumulated"] if row["values"][column] is not None
        ]
        assert [place for places, *_ in rows for place in places] == there
        assert all(one[1:] != other[1:] for one, other in pairwise(rows))
        shared += len(there) - len(rows)
    assert shared > 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (1.5, 1.5)],
)
def test_numbers_that_json_lacks_are_words(value: float, expected: float | str):
    assert number(value) == expected


def test_all_chunks_are_plain_json(trace: Trace, fork: Trace):
    payload = trace_payload(trace, against=fork)
    for key in payload.chunk_keys():
        assert json.loads(encode(payload.chunk(key))) is not None
    assert payload.chunk("comparison")["labels"] == ["first", "no fusion"]


def test_a_trace_of_an_unfinished_compilation_has_a_head(trace: Trace):
    bare = replace(trace, memory=None, kernels=(), program=None, accuracy=None, profile=None)
    payload = trace_payload(bare)
    assert payload.head["summary"]["verdict"] == "not-run"
    assert payload.head["has"] == dict.fromkeys(
        (
            "memory",
            "accuracy",
            "counted",
            "float",
            "quantization",
            "precision",
            "ports",
            "profile",
            "program",
            "steps",
            "compare",
            "operators",
            "packages",
            "model_comparison",
            "placement",
            "workspace",
            "sweep",
            "kernel",
        ),
        False,
    )
    assert "memory" not in payload.chunk_keys()


def test_a_large_chunk_is_cut_into_messages_below_a_megabyte():
    text = encode(["é" * 1_000_000])
    messages = list(chunk_messages("text/0", text, revision=3))
    assert [message["part"] for message in messages] == [0, 1, 2]
    assert "".join(message["text"] for message in messages) == text
    assert max(len(encode(message).encode()) for message in messages) < 1_000_000


def test_an_unknown_chunk_is_refused_by_name(trace: Trace):
    with pytest.raises(UnknownChunk, match=r"no chunk 'kernel/99'; there are chunks of accuracy"):
        trace_payload(trace).chunk("kernel/99")


def test_a_page_that_asks_gets_chunks_or_the_reason(trace: Trace):
    payload = trace_payload(trace)
    request = {"kind": "need", "keys": ["memory", "nothing"], "revision": 0}
    first, second = answers(payload, request, revision=0)
    assert json.loads(first["text"]) == payload.chunk("memory")
    assert second["kind"] == "missing"


@pytest.mark.parametrize(
    "message",
    ["need", None, {"kind": "need", "keys": "memory", "revision": 0}, {"kind": "eval"},
     {"kind": "need", "keys": ["memory"], "revision": 7}],
)  # fmt: skip
def test_what_is_no_request_gets_no_answer(trace: Trace, message: object):
    assert answers(trace_payload(trace), message, revision=0) == []


def test_a_widget_holds_the_head_and_answers_over_its_own_connection(trace: Trace):
    widget: Any = explore(lambda: trace)  # its traits are made when the class is
    sent: list[dict] = []
    widget.send = sent.append
    widget._handle_custom_msg({"kind": "need", "keys": ["graph/0"], "revision": 0}, [])
    assert widget.head["model"]["name"] == "tiny_resnet"
    assert [message["key"] for message in sent] == ["graph/0"]


def test_a_saved_notebook_holds_no_copy_of_the_module(trace: Trace):
    """What is saved of a widget is its state; the module comes from the kernel, in one message."""
    widget: Any = explore(trace)
    state = json.dumps(widget.get_state(), default=str)
    assert "const LOOK" in explorer_module()
    assert "const LOOK" not in state
    assert len(widget.get_state()["_esm"]) < 1500
    sent: list[dict] = []
    widget.send = sent.append
    widget._handle_custom_msg({"kind": "module"}, [])
    assert sent == [{"kind": "module", "text": explorer_module()}]
    assert len(sent[0]["text"]) < 1_000_000


def test_hostile_names_cannot_end_the_script_of_a_page(hostile_trace: Trace, synthetic: ModuleType):
    page = export_page(hostile_trace)
    data = page.split('<script type="application/json" id="payload">')[1].split("</script>")[0]
    assert "<" not in data
    assert json.loads(data)["head"]["model"]["name"] == "tiny_resnet" + synthetic.HOSTILE
    assert synthetic.HOSTILE not in page


def test_script_data_escapes_what_ends_a_line_of_javascript():
    assert script_data("</script>\u2028&") == '"\\u003c/script\\u003e\\u2028\\u0026"'


def test_a_page_names_nothing_outside_of_itself(trace: Trace):
    page = export_page(trace)
    assert "default-src 'none'" in page
    for mark in ("src=", "@import", "url(", "https://", "import("):
        assert mark not in page, mark


# -- excerpts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(generated: ModuleType) -> Trace:
    return generated.make_large_trace(700)


def test_a_large_program_begins_with_one_pass(large: Trace):
    payload = trace_payload(large)
    first = payload.head["first"]
    assert payload.head["excerpts"] and payload.first == (f"start/{first}", f"pass/{first}")
    assert not [key for key in payload.chunk_keys() if key.startswith("nodes/")]
    assert all(payload.is_later(key) for key in ("graphs", "graph/0", "nodes/0", "blocks"))
    begun = payload.chunk(f"start/{first}")
    assert not [key for key in payload.chunk_keys() if key.startswith("nodes/")]  # nothing else
    assert [r[0] for r in map(begun["records"].__getitem__, begun["graphs"][-1]["nodes"])] == [
        node.id for node in large.snapshots[first].graph.nodes
    ]


def test_an_excerpt_says_of_a_pass_what_the_whole_says(large: Trace):
    payload = trace_payload(large)
    whole = trace_payload(large)
    table = whole.chunk("graphs")
    records = [r for page in range(table["pages"]) for r in whole.chunk(f"nodes/{page}")["records"]]
    for index in range(len(large.passes)):
        begun = payload.chunk(f"start/{index}")
        assert begun["blocks"] == whole.chunk("blocks")
        for snapshot, graph in zip(begun["snapshots"], begun["graphs"], strict=True):
            full = whole.chunk(f"graph/{snapshot}")
            assert (graph["edges"], graph["types"]) == (full["edges"], full["types"])
            mine = [begun["records"][i] for i in graph["nodes"]]
            all_of_it = [records[i] for i in full["nodes"]]
            assert [named(r, begun["sources"]) for r in mine] == [
                named(r, table["sources"]) for r in all_of_it
            ]


def named(record: list, sources: list[str]) -> list:
    """With the names of its source nodes in place of their numbers."""
    return [*record[:5], [sources[i] for i in record[5]], *record[6:]]


def test_a_saved_page_and_a_small_program_hold_no_excerpts(trace: Trace, large: Trace):
    assert not [key for key in trace_payload(large).saved_chunks() if key.startswith("start/")]
    small = trace_payload(trace)
    assert not small.head["excerpts"] and not small.is_later("graph/0")
    assert not [key for key in small.chunk_keys() if key.startswith("start/")]


def test_what_a_bisection_blamed_goes_before_the_first_wrong_pass(
    trace: Trace, synthetic: ModuleType
):
    def culprit(shown: Trace) -> tuple[str, str] | None:
        said = trace_payload(shown).head["summary"]["fault"]
        return None if said is None else (shown.passes[said["pass"]].name, said["operation"])

    faulty = synthetic.with_fault(trace, "fuse-add", "Relu_7_out")
    fault = Fault(
        pass_name="fuse-activation",
        rule="fuse-relu",
        operation="conv_1",
        tensor="Relu_2_out",
        max_relative=0.5,
    )
    assert culprit(trace) is None
    assert culprit(faulty) == ("fuse-add", "fused_1")
    blamed = replace(faulty, accuracy=replace(faulty.accuracy, fault=fault))
    assert culprit(blamed) == ("fuse-activation", "conv_1")
    unknown = replace(fault, pass_name="of another program")
    blamed = replace(faulty, accuracy=replace(faulty.accuracy, fault=unknown))
    assert culprit(blamed) == ("fuse-add", "fused_1")
