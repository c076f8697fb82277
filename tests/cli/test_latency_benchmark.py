"""`benchmarks/latency`: architectures, rows that are kept, means over classes, the chart."""

import importlib
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from explorer.accuracy.oracle import random_inputs
from explorer.cli.latency.reference import ReferenceSide, onnx_content
from explorer.errors import InputError
from explorer.runtime.measuring import Measurement

OLDER_FIELDS = {
    "model", "threads", "kind", "ms", "launches_ms", "ratios", "noise", "max_relative", "problems",
}  # fmt: skip
MODULES = ("architectures", "chart", "measuring", "models", "processors", "rows")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def load():
    """Modules of the benchmark, which is run by its path and is no package of ours."""
    folders = [str(BENCHMARKS), str(BENCHMARKS / "latency")]
    before = set(sys.modules)
    sys.path[:0] = folders
    yield importlib.import_module
    for folder in folders:
        sys.path.remove(folder)
    for name in set(sys.modules) - before:
        if name.split(".")[0] in MODULES:
            del sys.modules[name]


def make_row(load, model: str, threads: int, ours: float, peer: float, noise=1.02, **fields):
    return load("rows").Row(
        model,
        threads,
        fields.get("kind", "float"),
        {"ours": ours, "onnxruntime": peer},
        ours,
        {"onnxruntime": ours / peer},
        {"onnxruntime": noise},
        1e-7,
        {},
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenetv2", "bert_2x768", "vit_tiny", "shufflenet"]
)
def test_activations_of_an_architecture_stay_sane(load, name):
    architectures = load("architectures")
    model = architectures.open_architecture(name)
    if name in architectures.BUILT:  # the light models are of a format without such weights
        onnx.checker.check_model(onnx_content(model).proto)
    with ReferenceSide(model, random_inputs(model, 0), 1) as runtime:
        (output,) = runtime.run().values()
    assert np.isfinite(output).all()
    assert output.std() > 1e-4
    assert np.abs(output).max() < 100
    assert (output == output.max()).mean() < 0.01  # nor is it the same everywhere
    assert np.median(np.abs(output)) > 1e-6  # or one class alone


def test_an_architecture_has_the_same_weights_every_time(load):
    opened = [load("architectures").open_architecture("mobilenetv2") for _ in range(2)]
    first, second = (onnx_content(model).proto.SerializeToString() for model in opened)
    assert first == second


def test_an_unknown_model_is_refused_with_a_near_name(load):
    with pytest.raises(InputError, match="no architecture 'resnet81'") as caught:
        load("models").check_name("resnet81")
    assert caught.value.hint == "`resnet18`"


def test_rows_are_kept_after_every_model_and_not_measured_again(load, tmp_path):
    rows = load("rows")
    file = tmp_path / "latency.json"
    kept = rows.Rows(file)
    kept.add("net", [make_row(load, "net", 1, 1.0, 2.0)])
    kept.add("broken", "it took more than 600 s")

    again = rows.Rows(file)

    assert again.all == [make_row(load, "net", 1, 1.0, 2.0)]
    assert "net" in again
    assert "broken" not in again  # it is tried once more
    assert again.of("broken") == "it took more than 600 s"


def test_rows_of_another_processor_stay_apart(load, tmp_path):
    rows, processors = load("rows"), load("processors")
    file = tmp_path / "latency.json"
    measured = Measurement(
        vector_floats=8, clock_hz=3e9, multiply_adds=2, multiply_adds_of_half=2, latency_cycles=4,
        loads=2, loads_of_half=2, stores=1, l1_bytes=60, l2_bytes=30, l3_bytes=15, memory_bytes=6,
        launch_seconds=2e-9, claim_seconds=3e-9, handover_seconds=5e-8, wake_seconds=4e-6,
    )  # fmt: skip
    first, second = (processors.Processor(name, measured) for name in ("one", "other"))
    rows.Rows(file, first).add("net", [make_row(load, "net", 1, 1.0, 2.0)])
    rows.Rows(file, second).add("net", [make_row(load, "net", 1, 3.0, 2.0)])

    assert rows.Rows(file, first).all == [make_row(load, "net", 1, 1.0, 2.0)]
    assert rows.Rows(file, second).all == [make_row(load, "net", 1, 3.0, 2.0)]
    assert rows.Rows(file, first).processors == [first, second]
    assert "| one | 3.00 | 96 | 60, 30, 15, 6 | – |" in processors.table([first])


def test_a_file_from_before_processors_were_told_apart_is_kept(load, tmp_path):
    rows = load("rows")
    file = tmp_path / "latency.json"
    row = make_row(load, "net", 1, 1.0, 2.0)
    older = {"models": {"net": [{k: v for k, v in asdict(row).items() if k in OLDER_FIELDS}]}}
    file.write_text(json.dumps(older))

    assert rows.Rows(file).all == [row]


def test_outputs_of_integers_differ_by_steps_and_floats_by_a_ratio(load):
    measuring, row = load("measuring"), make_row(load, "net", 1, 1.0, 2.0)
    ours = {"bytes": np.array([3, 250], np.uint8), "floats": np.array([1.0, 2.0], np.float32)}
    theirs = {"bytes": np.array([5, 250], np.uint8), "floats": np.array([1.0, 2.5], np.float32)}

    def difference(*names: str, other=theirs) -> str:
        errors = measuring._errors(ours, {name: other[name] for name in names})
        relative, steps = measuring._largest_relative(errors), measuring._most_steps(errors)
        return replace(row, max_relative=relative, max_steps=steps).difference

    assert difference("bytes") == "2 steps"
    assert difference("bytes", other=ours) == "equal"
    assert difference("floats") == "2.0e-01"
    assert difference("bytes", "floats") == "2.0e-01, 2 steps"
    assert difference() == "–"


def test_the_part_of_the_peak_is_of_whole_calls(load):
    row = replace(make_row(load, "net", 1, 2.0, 2.0), gflop=0.1, peak_gflops=100.0)

    assert row.of_peak == pytest.approx(0.5)
    assert make_row(load, "net", 1, 2.0, 2.0).of_peak == 0  # not measured


def test_means_are_geometric_and_by_class(load):
    rows = [
        make_row(load, "large", 1, 1.0, 2.0),
        make_row(load, "large", 2, 0.1, 0.2),  # large on one thread: large on two
        make_row(load, "other", 1, 4.0, 2.0),
        make_row(load, "small", 1, 0.01, 0.1),
        make_row(load, "int8", 1, 3.0, 1.0, kind="quantized"),
    ]

    means = load("rows").means(rows, "onnxruntime")

    assert means["large", 1].ratio == pytest.approx(1.0)
    assert (means["large", 1].slowest, means["large", 1].slowest_model) == (2.0, "other")
    assert means["large", 2].ratio == pytest.approx(0.5)
    assert means["small", 1].ratio == pytest.approx(0.1)
    assert means["quantized", 1].models == 1


def test_a_ratio_within_the_noise_is_not_called_slower(load):
    rows = [make_row(load, "net", 1, 1.03, 1.0, noise=1.05)]

    assert load("rows").means(rows, "onnxruntime")["large", 1].slowest_model == ""


def test_a_model_that_one_peer_refuses_is_in_no_mean(load):
    complete = make_row(load, "both", 1, 1.0, 2.0)
    complete.ratios["openvino"] = 0.5
    rows = [complete, make_row(load, "one", 1, 3.0, 1.0)]

    assert load("rows").means(rows, "onnxruntime")["large", 1].models == 1


def test_the_chart_escapes_names_and_marks_every_ratio(load):
    rows = [make_row(load, "<net>", threads, 1.0, 2.0) for threads in (1, 2)]

    picture = load("chart").draw(rows, ["onnxruntime"])

    assert "&lt;net&gt;" in picture
    assert "<net>" not in picture
    assert picture.count("0.50 of onnxruntime") == 2
