"""A backend added as a folder and one line compiles, checks, runs, forks, saves and shows."""

import json
import shlex
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import explorer
from explorer.app.protocol import CompileRequest
from explorer.app.worker.compiler import ModelCompiler
from explorer.backends import all_backends, backend_of
from explorer.cli import main
from explorer.compilation import Compilation
from explorer.errors import InputError, UnsupportedError
from explorer.importers import SourceModel
from explorer.targets import load_target
from explorer.tuning.measuring import Bench
from explorer.tuning.workloads import workloads_of
from explorer.views.trace_payload import trace_payload

REPOSITORY = Path(__file__).resolve().parents[2]

# Sums of 72 products in another order.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def compiled(toy: Path, model: SourceModel) -> Compilation:
    return explorer.compile(model, toy)


def test_a_target_file_says_whose_it_is(toy):
    assert backend_of(load_target(toy)).name == "toy"
    assert [backend.name for backend in all_backends()] == ["c", "opencl", "npu", "toy"]


def test_it_computes_what_generated_c_does(compiled, model):
    inputs = compiled.example_inputs()
    (expected,) = explorer.compile(model, "cpu").run(inputs).values()
    (found,) = compiled.run(inputs).values()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_every_pass_and_its_own_program_are_checked(compiled):
    accuracy = compiled.accuracy()
    assert accuracy.passed, str(accuracy)
    binary = accuracy.report.passes[-1]
    assert binary.name == "binary on toy"
    assert len(binary.tensors) > 1, "values on the way are read, too"


def test_a_wrong_interpreter_is_found(compiled, model, toy, monkeypatch):
    module = import_module("explorer.backends.toy")
    monkeypatch.setitem(module.ARITHMETIC, "arith.mulf", np.add)
    again = explorer.compile(model, toy)
    accuracy = again.accuracy()
    assert not accuracy.passed
    assert [p.name for p in accuracy.report.passes if not p.worst.max_relative <= 1e-4] == [
        "binary on toy"
    ]


def test_forks_share_passes_and_change_target_and_back(compiled):
    fork = compiled.fork(disable=["fuse-activation"])
    assert fork.passes[1] is compiled.passes[1]
    inputs = compiled.example_inputs()
    (expected,) = compiled.run(inputs).values()
    (found,) = fork.run(inputs).values()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    elsewhere = compiled.fork(target="cpu")
    assert elsewhere.backend.name == "c"
    of_schedules = [
        {knob.address for knob in c.knobs if knob.address.startswith("schedule-loops/")}
        for c in (compiled, elsewhere)
    ]
    early = {address for address in of_schedules[1] if address.endswith("/prefetch")}
    assert of_schedules[0] and of_schedules[0] == of_schedules[1] - early  # loops are not C


def test_a_saved_trace_opens_and_shows_the_loops(compiled, tmp_path):
    profile = compiled.profile(repeats=2, with_peaks=True)
    assert [event.operation for event in profile.events] == list(compiled.memory.steps)
    kernels = compiled.assembly()
    assert {k.assembly_note for k in kernels.values()} == {"the backend toy has no assembly"}
    opened = explorer.open(compiled.save(tmp_path / "toy.nnx"))
    trace = opened.trace()
    assert trace.program == compiled.program
    assert trace.language == "loops"
    (kernel,) = (k for k in opened.kernels.values() if k.name == compiled.program.kernels[0].name)
    assert "affine.for" in "\n".join(kernel.source.lines)
    assert kernel.steps


def test_the_page_and_a_notebook_show_it(compiled):
    payload = trace_payload(compiled.trace())
    assert payload.head["target"] == "toy"
    assert payload.head["language"] == "loops"
    chunk = json.dumps(payload.chunk("kernel/0"))
    assert "affine.for" in chunk
    assert "toy" in compiled._repr_html_()


def test_the_app_compiles_and_measures_it(toy: Path, sources: SimpleNamespace, tmp_path):
    """A small model: the interpreter takes seconds for each of many runs of convolutions."""
    text = "m (float[4,8] x) => (float[4,8] y) { t = Add (x, x) y = Relu (t) }"
    path = tmp_path / "net.onnx"
    onnx.save(sources.source_model(tmp_path, text).content.proto, path)
    compiler = ModelCompiler()
    request = CompileRequest(str(path), str(toy))
    seen: list[str] = []

    def progress(name: str, index: int, total: int) -> None:
        seen.append(name)

    trace = compiler.stage(request, "passes", progress)
    assert "plan-memory" in [record.name for record in trace.passes]
    trace = compiler.stage(request, "program", progress)
    assert trace.program is not None and trace.language == "loops"
    trace = compiler.stage(request, "profile", progress)
    assert trace.profile is not None and trace.profile.device == "a toy"
    trace = compiler.stage(request, "accuracy", progress)
    assert trace.accuracy is not None and trace.accuracy.passed


def test_a_session_and_a_start_run_it(model: SourceModel, toy: Path, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model.content.proto, path)
    with explorer.start(path, toy) as started:
        inputs = {v.name: np.ones(v.shape, np.float32) for v in started.model.inputs}
        (expected,) = started.run(inputs).values()
    with explorer.Session(path, toy) as session:
        (found,) = session(inputs).values()
    np.testing.assert_array_equal(found, expected)


def test_the_commands_of_the_page_run(toy, tmp_path, monkeypatch, capsys, page_blocks):
    (text,) = page_blocks("sh")
    (tmp_path / "digits_mlp.onnx").symlink_to(REPOSITORY / "sample_models" / "digits_mlp.onnx")
    (tmp_path / "toy.toml").symlink_to(toy)
    monkeypatch.chdir(tmp_path)
    for line in text.splitlines():
        status = main(shlex.split(line)[1:])
        told = capsys.readouterr()
        assert status == 0, f"{line}: {told.err}"
        if "bench" in line:
            assert "for toy" in told.out


def test_a_search_measures_candidates_on_it(
    toy: Path, sources: SimpleNamespace, tmp_path, monkeypatch
):
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    text = "m (float[2,16] x, float[16,8] w) => (float[2,8] y) { y = MatMul (x, w) }"
    compiled = explorer.compile(sources.source_model(tmp_path, text), toy)
    (searched,) = explorer.tune(compiled, 3).kernels
    assert searched.device == "this process"
    assert [c.status for c in searched.candidates] == ["measured"] * 3
    assert min(c.measured_us for c in searched.candidates) > 100, "an interpreter takes longer"


def test_wrong_numbers_of_a_candidate_are_found(toy: Path, sources: SimpleNamespace, tmp_path):
    text = "m (float[4] x) => (float[4] y) { y = Add (x, x) }"
    (workload,) = workloads_of(explorer.compile(sources.source_model(tmp_path, text), toy))
    with Bench(workload) as bench:
        assert bench.try_default(workload.schedule(), None).status == "measured"
        make = type(workload).program

        def wrong(self, kernel, arrays):
            made = make(self, kernel, arrays)
            lines = tuple(n.replace("addf", "mulf") for n in made.program.source.lines)
            source = replace(made.program.source, lines=lines)
            return replace(made, program=replace(made.program, source=source))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(workload), "program", wrong)
            found = bench.measure(workload.schedule(), None)
    assert found.status == "wrong" and "differs from the default's" in found.reason


def test_what_it_does_not_know_is_refused_by_name(toy: Path, sources: SimpleNamespace, tmp_path):
    model = sources.source_model(tmp_path, "e (float[4] x) => (float[4] y) { y = Exp (x) }")
    compiled = explorer.compile(model, toy)
    with pytest.raises(UnsupportedError, match=r"has no meaning of math\.exp"):
        compiled.run(compiled.example_inputs())


def test_a_backend_that_does_not_exist_is_named_with_the_target():
    target = load_target("cpu").with_(backend="opencll")
    with pytest.raises(InputError, match="target cpu: there is no backend 'opencll'") as raised:
        backend_of(target)
    assert "opencl" in raised.value.hint


def test_instructions_need_a_backend(model):
    target = load_target("cpu").with_(languages=["instructions"])
    with pytest.raises(InputError, match="target cpu: there is no backend 'instructions'"):
        explorer.compile(model, target)
