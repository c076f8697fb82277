"""The app's worker: stages in order, passes before everything else, forks that share passes."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, parser, save

import explorer
from explorer.app.decisions import request_of, settings_of
from explorer.app.protocol import (
    JUDGED,
    STAGES,
    TEXTS,
    Bisection,
    CompileRequest,
    Failure,
    Progress,
    failure_of,
)
from explorer.app.worker.background import Background
from explorer.app.worker.compiler import ModelCompiler
from explorer.app.worker.program import SEARCH, Task, Worker
from explorer.compilation.inspecting import read_trace
from explorer.errors import InputError, UnsupportedError
from explorer.results import Trace
from explorer.results.decisions import BUDGET, ORDER, PINS
from explorer.results.encoding import from_json

MODEL = str(Path(__file__).resolve().parents[2] / "sample_models" / "digits_mlp.onnx")


FINISHED = {"finished", "cancelled", "bisected", "prepared"}
WAIT_SECONDS = 20


class Closed(Exception):
    """The page has gone."""


class Wire:
    """A connection whose other end is the test: messages come in when `arrive` says so."""

    def __init__(self) -> None:
        self.incoming: list[bytes] = []
        self.sent: list[list[Any]] = []
        self.expected: set[int] = set()
        self.is_done: Callable[[], bool] = lambda: True
        """Of what no message tells the end."""

    def arrive(self, kind: str, key: int, request: CompileRequest) -> None:
        if kind in ("compile", "bisect"):
            self.expected.add(key)
        self.incoming.append(json.dumps([kind, key, asdict(request)]).encode())

    def poll(self) -> bool:
        return bool(self.incoming)

    def recv_bytes(self) -> bytes:
        """The page goes when it has got everything that it asked for."""
        end = time.monotonic() + WAIT_SECONDS
        while not self.incoming and time.monotonic() < end:
            if not self.unfinished() and self.is_done():
                break
            time.sleep(0.005)
        if not self.incoming:
            raise Closed
        return self.incoming.pop(0)

    def unfinished(self) -> set[int]:
        return self.expected - {m[1] for m in list(self.sent) if m[0] in FINISHED}

    def send_bytes(self, data: bytes) -> None:
        self.sent.append(json.loads(data))

    def of_kind(self, *kinds: str) -> list[list[Any]]:
        return [message for message in self.sent if message[0] in kinds]


class ScriptedCompiler:
    """Answers with one trace; `during` is called while a stage reports its progress."""

    def __init__(self, trace: Trace, during: Callable[[str], None] = lambda stage: None) -> None:
        self._trace = trace
        self._during = during
        self.failing: dict[str, Exception] = {}
        self.as_read: Trace | None = None

    def stage(self, request: CompileRequest, name: str, progress: Progress) -> Trace:
        self._during(name)
        progress(name, 0, 1)
        if name in self.failing:
            raise self.failing[name]
        return self._trace

    def read(self, request: CompileRequest, progress: Progress) -> Trace | None:
        return self.as_read

    def optional(self, request: CompileRequest) -> tuple[str, ...]:
        return ("fuse-add",)

    def bisect(self, request: CompileRequest) -> Bisection | None:
        return None

    def forget(self, request: CompileRequest) -> None: ...


def run(wire: Wire, compiler: Any) -> None:
    with pytest.raises(Closed):
        Worker(wire, compiler).run()  # pyright: ignore[reportArgumentType]  (a stand-in)


def test_stages_come_one_after_another(trace: Trace):
    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, ScriptedCompiler(trace))
    assert [stage for _, _, stage in wire.of_kind("stage")] == list(STAGES)
    assert not wire.of_kind("failed")


def test_what_rests_on_data_is_measured_again_and_nothing_else(trace: Trace):
    on_data = CompileRequest(MODEL, "cpu", data=("eval.npz",), data_name="eval.npz")
    seen: list[str] = []

    def during(stage: str) -> None:
        seen.append(stage)
        if stage == "assembly" and "judged" not in seen:
            seen.append("judged")
            wire.arrive("judge", 1, on_data)

    wire = Wire()
    wire.is_done = lambda: tuple(seen[-len(JUDGED) :]) == tuple(JUDGED) and "judged" in seen
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, ScriptedCompiler(trace, during))
    again = seen[seen.index("judged") + 1 :]
    assert again == list(JUDGED)
    stages = [stage for _, _, stage in wire.of_kind("stage")]
    assert stages.count("passes") == 1
    assert [stages.count(stage) for stage in JUDGED] == [2, 2]


@pytest.mark.parametrize("kind", ["compile", "prepare"])
def test_a_large_model_is_seen_as_it_was_read_before_its_passes_run(trace: Trace, kind: str):
    answers: list[bool] = []
    request = CompileRequest(MODEL, "cpu")
    data = json.loads(json.dumps(asdict(request)))

    def during(stage: str) -> None:
        if stage == "passes":
            chunks = ("text/0", "moon", "links")
            answers.extend(worker._answer_read(7, chunk, data) for chunk in chunks)

    wire = Wire()
    wire.arrive(kind, 1, request)
    compiler = ScriptedCompiler(trace, during)
    compiler.as_read = read_trace(explorer.load(MODEL))
    worker = Worker(wire, compiler)  # pyright: ignore[reportArgumentType]  (a stand-in)
    with pytest.raises(Closed):
        worker.run()
    [(_, _, of, head, chunks)] = wire.of_kind("read")
    assert from_json(CompileRequest, of) == request
    assert [step["name"] for step in head["passes"]] == ["model"]
    assert {"graph/0", "nodes/0"} <= set(chunks)
    assert "links" not in chunks  # all of the program is printed for them
    before = cut_at(wire, ["stage", 1, "passes"])[0] if kind == "compile" else wire.sent
    assert next(m[0] for m in before if m[0] in ("read", "head")) == "read"
    assert answers == [True, True, True]
    text, moon, links = (message for message in wire.of_kind("made") if message[1] == 7)
    assert "lines" in text[3] or "pages" in text[3]
    assert moon[3] is None and "program" in links[3]
    is_seen = kind == "prepare"  # by whoever asks for it before all passes have run
    assert worker._answer_read(7, "text/0", data) == is_seen


def test_levers_are_made_when_they_are_asked_for_and_never_else(trace: Trace):
    class Moving(ScriptedCompiler):
        def levers(self, request: CompileRequest, asked: str) -> dict[str, Any]:
            if asked not in ("peak_bytes", "sqnr_db/trials"):
                raise InputError(f"there are no levers of {asked!r}")
            return {"quantity": asked}

    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    wire.arrive("compile", 2, CompileRequest(MODEL, "opencl"))
    worker = Worker(wire, Moving(trace))  # pyright: ignore[reportArgumentType]  (stand-ins)
    for chunk in ("levers/sqnr_db/trials", "levers/peak_bytes"):
        worker.need(2, chunk, is_to_come=True)  # before its compilation arrives
    with pytest.raises(Closed):
        worker.run()
    early = [m for m in wire.of_kind("chunk", "made") if m[2].startswith("levers/")]
    assert [(m[1], m[2]) for m in early] == [
        (2, "levers/peak_bytes"),
        (2, "levers/sqnr_db/trials"),
    ]
    compared = wire.sent.index(["stage", 2, "accuracy"])
    places = [wire.sent.index(message) for message in early]
    assert places[0] < compared < places[1]  # decibels rest on what is compared
    worker.need(1, "levers/peak_bytes")
    worker.need(1, "levers/moon")
    found, refused = (m for m in wire.of_kind("made") if m[1] == 1 and "levers/" in m[2])
    assert json.loads(found[3]) == {"quantity": "peak_bytes"}
    assert refused[3] is None
    assert "no levers of 'moon'" in refused[4]


def test_a_lever_is_found_by_an_address_with_the_marks_of_the_chunk(tmp_path: Path):
    name, path = "x?%3F/one/%", str(tmp_path / "marked.onnx")
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    marked (float[1, 2] x) => (float[1, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
      y = MatMul (x, w)
    }""")
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    save(model, path)
    table = explorer.calibrate(path, {name: np.ones((1, 1, 2), np.float32)}, method="min-max")
    compiler, request = ModelCompiler({path: {"quantization": table}}), CompileRequest(path, "cpu")
    address = f"quantize-tensors/mode/{name}"
    addresses = [lever["address"] for lever in compiler.levers(request, "weights")["levers"]]
    assert address in addresses
    asked = address.replace("%", "%25").replace("?", "%3F")
    for of in ("", "?matmul_1", f"?{name}"):
        assert compiler.levers(request, f"weights/one/{asked}{of}")["address"] == address


def test_a_chunk_is_sent_again_only_when_it_is_another_one(trace: Trace):
    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, ScriptedCompiler(trace))
    keys = [message[2] for message in wire.of_kind("chunk", "made")]
    assert len(keys) == len(set(keys)) > 30


def test_texts_are_made_after_the_passes_are_shown(trace: Trace):
    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, ScriptedCompiler(trace))
    before, after = cut_at(wire, ["stage", 1, "passes"])
    assert {"graph/0", "nodes/0", "index"} <= {m[2] for m in before if m[0] == "chunk"}
    assert not [m for m in before if m[0] in ("chunk", "made") and m[2].startswith("text/")]
    texts = [m[2] for m in after if m[0] == "made" and m[2].startswith("text/")]
    assert texts == sorted(texts, key=lambda key: int(key.split("/")[1]))
    counts = [m[3:] for m in wire.of_kind("progress") if m[2] == "texts" and m[3] == "printing"]
    assert counts == [["printing", number, len(texts)] for number in range(len(texts))]


def test_a_text_that_is_asked_for_comes_first_and_once(trace: Trace):
    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    worker: Worker

    def during(stage: str) -> None:
        if stage in ("passes", "program"):  # before there is a trace, and after it
            worker.need(1, {"passes": "text/3", "program": "text/2"}[stage])
            worker.need(1, "text/77")

    worker = Worker(wire, ScriptedCompiler(trace, during))  # pyright: ignore[reportArgumentType]
    with pytest.raises(Closed):
        worker.run()
    made = [m for m in wire.of_kind("made") if m[2].startswith("text/")]
    assert [m[2] for m in made[:4]] == ["text/3", "text/77", "text/2", "text/77"]
    assert "no chunk 'text/77'" in made[1][4] and made[1][3] is None
    assert len(made) == len({m[2] for m in made}) + 1


def test_a_text_that_is_asked_for_before_its_compilation_arrives_is_made_then(trace: Trace):
    """What is needed comes another way, and a page that shows what is known needs it at once."""
    wire = Wire()
    wire.arrive("compile", 2, CompileRequest(MODEL, "cpu"))
    worker = Worker(wire, ScriptedCompiler(trace))  # pyright: ignore[reportArgumentType]
    worker.need(2, "text/3")
    assert not wire.sent
    with pytest.raises(Closed):
        worker.run()
    made = [m for m in wire.of_kind("made") if m[2].startswith("text/")]
    assert made[0][1:3] == [2, "text/3"]
    assert made[0][3] is not None
    assert len([m for m in made if m[2] == "text/3"]) == 1


def test_a_text_of_what_was_dropped_is_made_no_more(trace: Trace):
    wire = Wire()
    wire.arrive("compile", 2, CompileRequest(MODEL, "cpu"))
    wire.arrive("forget", 2, CompileRequest(MODEL, "cpu"))
    wire.expected.clear()
    worker = Worker(wire, ScriptedCompiler(trace))  # pyright: ignore[reportArgumentType]
    worker.need(3, "text/3")
    wire.arrive("forget", 3, CompileRequest(MODEL, "opencl"))
    with pytest.raises(Closed):
        worker.run()
    worker.need(2, "text/3")
    why = "it was dropped"
    refused = [["made", 3, "text/3", None, why], ["made", 2, "text/3", None, why]]
    assert wire.of_kind("made") == refused
    worker.need(2, "text/3", is_to_come=True)  # it will be compiled once more
    assert wire.of_kind("made") == refused


def test_a_search_ends_with_its_branch_and_not_with_a_cancelled_compilation(trace: Trace):
    wire, request = Wire(), CompileRequest(MODEL, "cpu")
    worker = Worker(wire, ScriptedCompiler(trace))  # pyright: ignore[reportArgumentType]
    for key, of in ((3, request), (4, CompileRequest(MODEL, "opencl"))):
        worker._background.add(Task(key, of, [SEARCH], order={}))
    worker._drop(2, request, "cancelled")
    assert [task.key for task in worker._background.tasks()] == [3, 4]
    assert wire.sent == [["cancelled", 2]]
    worker._drop(2, request, "forgotten")
    assert [task.key for task in worker._background.tasks()] == [4]
    assert wire.sent[1:] == [["searched", 3, {"status": "cancelled"}], ["forgotten", 2]]


def cut_at(wire: Wire, message: list[Any]) -> tuple[list[list[Any]], list[list[Any]]]:
    place = wire.sent.index(message)
    return wire.sent[:place], wire.sent[place:]


def test_passes_of_a_fork_are_run_while_errors_are_compared(trace: Trace):
    wire = Wire()

    def during(stage: str) -> None:
        if stage == "accuracy" and 2 not in wire.expected:
            wire.arrive("compile", 2, CompileRequest.deciding(MODEL, "cpu", {"fuse-add": False}))
            while not any(key == 2 for _, key, _ in wire.of_kind("stage")[:5]):
                time.sleep(0.005)  # a comparison takes its time

    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, ScriptedCompiler(trace, during))
    done = [(key, stage) for _, key, stage in wire.of_kind("stage")]
    assert done[:4] == [(1, "passes"), (1, "program"), (1, "kernels"), (2, "passes")]
    assert set(done) == {(key, stage) for key in (1, 2) for stage in STAGES}


def test_the_background_holds_still_while_passes_run(trace: Trace):
    steps: list[str] = []
    is_begun, is_held = threading.Event(), threading.Event()

    class Task:
        def __init__(self) -> None:
            self.waiting = ["accuracy"]

    def work(task: Task) -> None:
        is_begun.set()
        is_held.wait(WAIT_SECONDS)
        background.wait_while_held()
        steps.append("background")
        task.waiting = []

    background: Background[Task] = Background(work)
    background.start()
    background.add(Task())
    assert is_begun.wait(WAIT_SECONDS)
    with background.held_still():
        is_held.set()
        time.sleep(0.1)
        steps.append("passes")
    while background.tasks():
        time.sleep(0.005)
    assert steps == ["passes", "background"]
    assert background.holds == 1


def test_what_is_cancelled_ends_at_its_next_step(trace: Trace):
    wire = Wire()
    first, second = (
        CompileRequest(MODEL, "cpu"),
        CompileRequest.deciding(MODEL, "cpu", {"fuse-add": False}),
    )

    def during(stage: str) -> None:
        if stage == "passes" and 2 not in wire.expected:
            wire.arrive("cancel", 1, first)
            wire.arrive("compile", 2, second)

    wire.arrive("compile", 1, first)
    run(wire, ScriptedCompiler(trace, during))
    assert wire.of_kind("cancelled") == [["cancelled", 1]]
    assert {key for _, key, _ in wire.of_kind("stage")} == {2}
    assert not wire.of_kind("failed")


def test_what_is_prepared_is_silent_until_somebody_asks(trace: Trace):
    wire = Wire()
    request = CompileRequest(MODEL, "cpu")
    seen: list[str] = []

    def during(stage: str) -> None:
        seen.append(stage)
        if len(seen) == 1:
            assert not wire.sent
            wire.arrive("compile", 1, request)

    wire.arrive("prepare", 0, request)
    wire.expected.add(1)
    run(wire, ScriptedCompiler(trace, during))
    assert seen[:2] == ["passes", "passes"]
    assert {message[1] for message in wire.sent if message[0] != "prepared"} == {1}


def test_cancelling_stops_what_was_prepared_for_the_same(trace: Trace):
    wire = Wire()
    request, other = (
        CompileRequest(MODEL, "cpu"),
        CompileRequest.deciding(MODEL, "cpu", {"fuse-add": False}),
    )
    seen: list[str] = []

    def during(stage: str) -> None:
        seen.append(stage)
        if len(seen) == 1:
            wire.arrive("compile", 1, request)
            wire.arrive("cancel", 1, request)
            wire.arrive("compile", 2, other)

    wire.arrive("prepare", 0, request)
    wire.expected.add(2)
    run(wire, ScriptedCompiler(trace, during))
    assert wire.of_kind("cancelled") == [["cancelled", 1]]
    assert {key for _, key, _ in wire.of_kind("stage")} == {2}
    assert seen == ["passes", *(stage for stage in STAGES if stage != TEXTS)]


def test_times_are_taken_again_when_something_was_compiled_meanwhile(trace: Trace):
    wire = Wire()
    measured: list[str] = []

    def during(stage: str) -> None:
        if stage != "profile":
            return
        measured.append(stage)
        if 2 not in wire.expected:
            wire.arrive("compile", 2, CompileRequest.deciding(MODEL, "cpu", {"fuse-add": False}))
            while (2, "passes") not in [(key, stage) for _, key, stage in wire.of_kind("stage")]:
                time.sleep(0.005)

    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, ScriptedCompiler(trace, during))
    assert len(measured) == 3  # twice for the first, once for the second
    assert [m for m in wire.of_kind("stage") if m[1:] == [1, "profile"]] == [
        ["stage", 1, "profile"]
    ]


def test_a_saved_trace_is_opened_and_nothing_else_is_made(saved_trace: Path):
    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(str(saved_trace), ""))
    run(wire, ModelCompiler())
    assert [stage for _, _, stage in wire.of_kind("stage")] == ["passes", "texts"]
    head = wire.of_kind("head")[-1][2]
    assert head["has"]["accuracy"]
    assert head["model"]["name"] == "digits_mlp"


def test_a_stage_that_fails_leaves_the_others(trace: Trace):
    wire = Wire()
    compiler = ScriptedCompiler(trace)
    compiler.failing = {"accuracy": InputError("no oracle here", hint="install it")}
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, compiler)
    assert [message[2] for message in wire.of_kind("failed")] == ["accuracy"]
    assert [stage for _, _, stage in wire.of_kind("stage")][-3:] == ["profile", "assembly", "texts"]


def test_without_passes_nothing_else_is_tried(trace: Trace):
    wire = Wire()
    compiler = ScriptedCompiler(trace)
    compiler.failing = {"passes": ValueError("cannot")}
    wire.arrive("compile", 1, CompileRequest(MODEL, "cpu"))
    run(wire, compiler)
    assert [message[2] for message in wire.of_kind("failed")] == ["passes"]
    assert not wire.of_kind("stage")


def quiet(name: str, index: int, total: int) -> None:
    pass


def test_a_fork_shares_the_passes_before_its_first_decision():
    compiler = ModelCompiler()
    first = CompileRequest(MODEL, "cpu")
    base = compiler.stage(first, "passes", quiet)
    fork = CompileRequest(
        MODEL, "cpu", decisions=(("schedule-loops/matmul_1/epilogue", '"separate"'),)
    )
    ran: list[str] = []
    trace = compiler.stage(fork, "passes", lambda name, index, total: ran.append(name))
    repeated = ("schedule-loops", "write-in-place", "order-operations", "plan-memory")
    assert ran == [f"compiling: {name}" for name in repeated]
    assert dict(trace.decisions)["schedule-loops/matmul_1/epilogue"] == '"separate"'
    assert dict(base.decisions)["schedule-loops/matmul_1/epilogue"] == '"fused"'
    assert trace.label == "matmul_1 epilogue = separate"


def test_the_first_model_is_quantized_by_a_table_that_the_server_was_started_with():
    digits = np.load(Path(MODEL).with_name("digits_test.npz"))["images"][:4]
    table = explorer.calibrate(MODEL, {"image": digits}, method="min-max")
    compiler = ModelCompiler({MODEL: {"quantization": table}})
    first = compiler.stage(CompileRequest(MODEL, "cpu"), "passes", quiet)
    assert first.quantization is not None
    tensor = first.quantization.tensors[0]
    address = f"quantize-tensors/threshold/{tensor.name}"
    request = CompileRequest.deciding(MODEL, "cpu", {address: 0.25})
    fork = compiler.stage(request, "passes", quiet)
    assert fork.quantization is not None
    assert fork.quantization.tensors[0].high == pytest.approx(0.25)
    assert fork.label == f"threshold {tensor.name} = 0.25"
    plain = CompileRequest(str(Path(MODEL).with_name("digits_resnet.onnx")), "cpu")
    assert compiler.stage(plain, "passes", quiet).quantization is None


def test_the_first_model_has_the_capacity_that_the_server_was_started_with(tmp_path: Path):
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    past (float[1, 1, 4] new, float[1, p, 4] past) => (float[1, q, 4] present, float[1, q, 4] y) {
      present = Concat <axis = 1> (past, new)
      y = Relu (present)
    }"""
    path = tmp_path / "past.onnx"
    save(parser.parse_model(text), path)
    found = []
    for options in ({str(path): {"capacity": 6}}, {}):
        trace = ModelCompiler(options).stage(CompileRequest(str(path), "cpu"), "passes", quiet)
        assert not trace.problems
        size = next(knob.value for knob in trace.knobs if knob.address == "dimensions/p")
        changed = [record.name for record in trace.passes if record.changed]
        found.append((size, "keep-past" in changed))
    assert found[0] == (5, True)  # and a row of the call
    assert not found[1][1]


def test_a_pinned_buffer_lies_where_the_fork_wants_it():
    compiler = ModelCompiler()
    plan = compiler.stage(CompileRequest(MODEL, "cpu"), "passes", quiet).memory
    assert plan is not None
    name = plan.placements[-1].buffer.id
    offset = plan.peak_bytes + 64 - plan.peak_bytes % 64
    pinned = compiler.stage(
        CompileRequest.deciding(MODEL, "cpu", {PINS: [[name, offset]]}), "passes", quiet
    )
    assert pinned.memory is not None
    assert pinned.memory.offsets[name] == offset
    free = compiler.stage(CompileRequest(MODEL, "cpu"), "program", quiet)
    assert free.memory == plan


def test_kernels_are_there_before_their_schedules_are_taken_apart():
    compiler = ModelCompiler()
    request = CompileRequest(MODEL, "cpu")
    compiler.stage(request, "passes", quiet)
    program = compiler.stage(request, "program", quiet)
    assert all(kernel.source.lines and not kernel.steps for kernel in program.kernels)
    assert program.program is not None
    assert all(kernel.steps for kernel in compiler.stage(request, "kernels", quiet).kernels)


def test_a_fork_takes_back_what_its_parent_decided():
    compiler = ModelCompiler()
    address = "schedule-loops/matmul_1/epilogue"
    compiler.stage(
        CompileRequest(MODEL, "cpu", decisions=((address, '"separate"'),)), "passes", quiet
    )
    other = CompileRequest.deciding(MODEL, "cpu", {"fuse-bias": False})
    trace = compiler.stage(other, "passes", quiet)
    assert dict(trace.decisions)[address] == '"fused"'
    assert "fuse-bias" not in [record.name for record in trace.passes]
    again = compiler.stage(
        CompileRequest.deciding(MODEL, "cpu", {BUDGET: 1 << 20}), "passes", quiet
    )
    assert "fuse-bias" in [record.name for record in again.passes]


def test_settings_of_a_page_become_a_request_and_back():
    decisions = {
        "fuse-add": False,
        "a/b/c": False,
        "a/b/d": 4,
        "a/b/e": 0.5,
        "a/e": False,
        "a/f": ["x", "y"],
        BUDGET: 4096,
        PINS: [["conv_1", 64]],
        ORDER: ["q", "p"],
    }
    request = CompileRequest.deciding(MODEL, "cpu", decisions)
    assert request_of(settings_of(request), MODEL, ("cpu",)) == request
    sent = json.loads(json.dumps({"target": "cpu", "decisions": decisions}))
    assert settings_of(request) == sent and request_of(sent, MODEL, ("cpu",)) == request
    assert request.values == decisions and request.disable == ("fuse-add",)
    assert request.label == (
        "without b at c, b d = 4, b e = 0.5, without e, f = ['x', 'y'], without fuse-add, "
        "in the order q, p, at most 4,096 bytes, conv_1 at byte 64"
    )


def test_a_link_of_an_earlier_version_is_followed():
    settings = {
        "target": "cpu",
        "disable": ["fuse-add"],
        "decisions": {"a/b/d": 4},
        "budget": 4096,
        "pins": [["conv_1", 64]],
        "order": ["q", "p"],
    }
    request = request_of(settings, MODEL, ("cpu",))
    assert request is not None and request.values == {
        "a/b/d": 4,
        "fuse-add": False,
        ORDER: ["q", "p"],
        BUDGET: 4096,
        PINS: [["conv_1", 64]],
    }


@pytest.mark.parametrize(
    "change",
    [
        {"target": "../x"}, {"disable": "all"}, {"decisions": []}, {"decisions": {"a": {"b": 1}}},
        {"decisions": {"a": [["b"]]}},
        {"decisions": {"a": float("nan")}}, {"decisions": {"plan-memory/pins": [["a"]]}},
        {"decisions": {"a" * 500: 1}}, {"budget": -1}, {"budget": True}, {"pins": [["a"]]},
        {"pins": [["a", [0]]]}, {"pins": None}, {"order": [1]}, {"order": "fuse"},
        {"disable": [["a"]]}, {"disable": ["a"] * 501},
    ],
)  # fmt: skip
def test_settings_that_no_page_of_ours_sends_are_refused(change: dict[str, object]):
    settings = {"target": "cpu", "disable": [], "decisions": {}, "budget": None, "pins": []}
    assert request_of(settings, MODEL, ("cpu",)) == CompileRequest(MODEL, "cpu")
    assert request_of({**settings, **change}, MODEL, ("cpu",)) is None


def test_a_failure_says_what_was_being_done_and_the_way_out(synthetic: ModuleType):
    request = CompileRequest.deciding("net.onnx", "cpu", {"fuse-add": False})
    failure = failure_of(ValueError("first line\nsecond line"), request)
    assert failure == Failure(
        "first line",
        "ValueError while compiling net.onnx for cpu",
        "second line\nSwitch fuse-add on again, or choose another target or model.",
        "passes",
    )
    later = failure_of(ValueError("no"), request, "accuracy")
    assert later.where == "ValueError while comparing net.onnx for cpu"
    assert later.advice == "Everything that was shown before stays usable."


@pytest.fixture
def refused(tmp_path: Path) -> str:
    """A model with an operator that nobody knows."""
    graph = helper.make_graph(
        [helper.make_node("Wobble", ["x"], ["y"], "wobble", domain="com.example")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [ValueInfoProto(name="y")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", 1)]
    path = tmp_path / "refused.onnx"
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return str(path)


def test_a_model_that_cannot_be_imported_is_shown_as_it_is(refused: str):
    compiler = ModelCompiler()
    request = CompileRequest(refused, "cpu")
    trace = compiler.stage(request, "passes", quiet)
    assert trace.passes == ()
    assert trace.problems == (("wobble", "unknown operator"),) and not trace.needs_quantization
    assert compiler.optional(request) == ()
    assert compiler.stage(request, "program", quiet) is trace
    with pytest.raises(UnsupportedError, match="1 node of refused cannot be imported"):
        compiler.stage(
            CompileRequest.deciding(refused, "cpu", {"fuse-bias": False}), "passes", quiet
        )
    compiler.forget(request)
    assert compiler.stage(request, "passes", quiet) == trace


def test_the_page_of_a_model_that_cannot_be_imported_gets_its_reasons(refused: str):
    wire = Wire()
    wire.arrive("compile", 1, CompileRequest(refused, "cpu"))
    run(wire, ModelCompiler())
    assert not wire.of_kind("failed")
    (head,) = {json.dumps(message[2]) for message in wire.of_kind("head")}
    shown = json.loads(head)
    assert [p["name"] for p in shown["passes"]] == ["model"]
    assert shown["problems"]["reasons"] == [["wobble", "unknown operator"]]


@pytest.fixture
def windowed(tmp_path: Path) -> str:
    """A convolution whose window needs five elements of an input of n."""
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "window")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, "m"])],
        [helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 5], [1.0] * 5)],
    )
    path = tmp_path / "windowed.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return str(path)


def test_a_model_at_sizes_that_do_not_fit_is_shown_with_the_node(windowed: str):
    compiler = ModelCompiler()
    request = CompileRequest.deciding(windowed, "cpu", {"dimensions/n": 3})
    trace = compiler.stage(request, "passes", quiet)
    assert trace.passes == () and trace.source is not None
    ((node, why),) = trace.problems
    assert node == "window" and "5" in why
    assert [n.problem for n in trace.source.graph.nodes if n.operation == "source.node"] == [why]
    fitting = CompileRequest.deciding(windowed, "cpu", {"dimensions/n": 8})
    assert fitting.base == fitting and fitting.sizes == {"n": 8}
    shapes = [n.shape for n in compiler.stage(fitting, "passes", quiet).snapshots[-1].graph.nodes]
    assert "1x1x4 f32" in shapes


def test_a_model_on_which_the_compiler_fails_is_shown(
    windowed: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("explorer.compile", fail)
    trace = ModelCompiler().stage(CompileRequest(windowed, "cpu"), "passes", quiet)
    assert trace.problems == (
        ("the model", "the compiler failed with IndexError: tuple index out of range"),
    )
