"""Wrong calls end in one sentence that names what is wrong, and what may have been meant."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.calling import named_arguments
from explorer.errors import InputError

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
X = np.zeros((1, 1, 8, 8), np.float32)


@pytest.fixture(scope="module")
def c():
    compiled = ex.compile(MODEL)
    yield compiled
    compiled.close()


def no_plan(buffers, steps=()):
    return None


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "keyword": (lambda c: ex.compile(MODEL, traget="cpu"), "did you mean 'target'?"),
    "keyword of fork": (lambda c: c.fork(disabled=["a"]), "did you mean 'disable'?"),
    "keyword of start": (lambda c: ex.start(MODEL, thraeds=2), "did you mean 'threads'?"),
    "keyword of a session": (lambda c: ex.Session(MODEL, moed="lazy"), "did you mean 'mode'?"),
    "keyword of reduce": (lambda c: ex.reduce(MODEL, {}, "a.onnx", conditon=1), "'condition'?"),
    "no target": (lambda c: ex.compile(MODEL, "gpu"), "did you mean 'opencl_gpu'?"),
    "no targets": (lambda c: ex.compile(MODEL, []), "target"),
    "numbers as targets": (lambda c: ex.compile(MODEL, [1, 2]), "target"),
    "a number as target": (lambda c: c.fork(target=3), "3 is no target"),
    "a model": (lambda c: ex.compile(3), "model cannot be 3: expected a path"),
    "an array as model": (lambda c: ex.load(X), "model cannot be array"),
    "a budget": (lambda c: ex.compile(MODEL, budget_bytes="lots"), "budget_bytes cannot be 'lots'"),
    "dimensions": (lambda c: c.fork(dimensions=3), "dimensions cannot be 3: expected a mapping"),
    "decisions": (lambda c: ex.compile(MODEL, decisions=["a"]), "expected a mapping"),
    "a pipeline": (lambda c: ex.compile(MODEL, pipeline="fuse-bias"), "a list of passes"),
    "planner": (lambda c: ex.compile(MODEL, planner=3), "planner cannot be 3"),
    "planner without a plan": (
        lambda c: ex.compile(MODEL, planner=no_plan),
        "no_plan returned None",
    ),
    "an array": (lambda c: c.run(X), 'c.run({"image": ...})'),
    "an array for a session": (lambda c: ex.Session(MODEL).run(X), 'session.run({"image": ...})'),
    "an array for accuracy": (lambda c: c.accuracy(X), "inputs cannot be array"),
    "a tolerance": (lambda c: c.accuracy(tolerance="x"), "tolerance cannot be 'x'"),
    "a kernel": (lambda c: c.kernels["conv3"], "did you mean 'conv_3x3_3'?"),
    "a pass": (lambda c: c["fuse-bais"], "did you mean 'fuse-bias'?"),
    "a pass of the list": (lambda c: c.passes["fuse-bais"], "did you mean 'fuse-bias'?"),
    "a number of a pass": (lambda c: c[99], "passes are 0 to"),
    "half a pass": (lambda c: c[1.5], "a pass cannot be 1.5"),
    "tune": (lambda c: ex.tune(c, "x"), "budget cannot be 'x'"),
    "tune nothing": (lambda c: ex.tune("net.onnx"), "compilation cannot be 'net.onnx'"),
    "tune for nothing": (lambda c: ex.tune(c, 0), "at least one candidate"),
    "compare": (lambda c: c.compare(3), "another branch cannot be 3"),
    "a compilation": (lambda c: c.profile(c), "inputs cannot be digits_cnn"),
    "a view": (lambda c: c.view(3), "name cannot be 3: expected a text"),
    "a table": (lambda c: c.to_frame(3), "kind cannot be 3"),
    "progress": (lambda c: ex.compile(MODEL, progress=3), "expected a function or None"),
    "a number as table": (lambda c: ex.compile(MODEL, quantization=3), "a ThresholdTable or"),
    "a switch": (lambda c: ex.compile(MODEL, tuned="yes"), "expected True or False"),
    "a schedule": (lambda c: c.fork(schedule=3), "expected a mapping or None"),
    "a path as model": (lambda c: ex.host_values(MODEL, {}), "expected what load returns"),
    "a model of a session": (lambda c: ex.Session(3), "expected what load returns or a path"),
    "a cache": (lambda c: ex.start(MODEL, cache=3), "expected a ProgramCache or None"),
    "ranges": (lambda c: ex.Session(MODEL, ranges=3), "ranges cannot be 3"),
    "pickle": (pickle.dumps, "c.save(path)"),
    "copy": (copy.copy, "c.save(path)"),
    "pickle a pass": (lambda c: pickle.dumps(c["fuse-bias"]), "c.trace()"),
    "pickle a snapshot": (lambda c: pickle.dumps(c["fuse-bias"].after), "c.trace()"),
    "no passes": (lambda c: ex.compile(MODEL, pipeline=[]), "at least one pass"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_one_sentence(name, c):
    call, words = CALLS[name]
    with pytest.raises(InputError) as raised:
        call(c)
    text = str(raised.value)
    assert words in text
    assert "\n" not in text and len(text) < 400


def test_a_missing_kernel_is_a_key_error_that_reads_well(c):
    with pytest.raises(KeyError) as raised:
        c.kernels["conv3"]
    assert not str(raised.value).startswith(('"', "'there"))
    assert c.kernels.get("conv3") is None and "conv3" not in c.kernels


def test_passes_are_iterated_and_counted(c):
    assert [p.name for p in c] == c.names and len(c) == len(list(c))
    assert c[-1] is c.passes[-1] and c.passes["import"] is c[0]
    assert c.passes[1:3] == [c[1], c[2]]


def test_numpy_numbers_and_none_are_legal():
    @named_arguments
    def call(number: int | None, share: "float", names: "list[str] | None" = None) -> object:
        return number, share, names

    call.__wrapped__.__annotations__["number"] = "int | None"  # pyright: ignore
    assert call(np.int32(3), np.float32(0.5)) == (3, 0.5, None)
    assert call(None, share=1)


def test_records_of_passes_can_be_pickled(c):
    for record in (c["fuse-bias"].record, c["fuse-bias"].diff, c.memory, c.knobs, c.kernels):
        assert pickle.loads(pickle.dumps(record)) == record


def test_a_trace_and_what_is_shown_of_it_can_be_pickled(c):
    trace = c.trace()
    assert pickle.loads(pickle.dumps(trace)) == trace
    found = c.compare(c)
    assert pickle.loads(pickle.dumps(found)) == found
    shown = pickle.loads(pickle.dumps(c.view("memory")))
    assert shown.to_text() == c.view("memory").to_text()


def test_a_view_with_numbers_of_ones_own_says_why_it_is_not_pickled(c):
    shown = c.view("graph", overlay={"conv1": 3.5})
    with pytest.raises(pickle.PicklingError, match="not the registered one"):
        pickle.dumps(shown)


def test_targets_are_listed_whatever_was_imported():
    script = "import explorer as ex; print(ex.targets() == ex.targets()); print(*dir(ex))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    first, names = shown.stdout.splitlines()
    assert first == "True"
    assert names.split() == sorted([*ex.__all__, "__version__"])
