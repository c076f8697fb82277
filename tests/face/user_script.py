"""What an engineer writes with this package: type checkers in strict mode accept it.

`test_types.py` checks it as it is, and with ten mistakes in it.
"""

from pathlib import Path

import numpy as np

import explorer as ex


def main(folder: Path) -> None:
    model = ex.load(ex.sample("digits_cnn"))
    found = ex.inspect(model, {"batch": 1})
    print(found.problems, found.to_frame("operators"))

    compiled = ex.compile(model)
    small = ex.compile(model, "cpu", budget_bytes=65536)
    plain = ex.compile(model, pipeline=compiled.pipeline)
    images = np.zeros((1, 1, 8, 8), np.float32)
    scores: np.ndarray = compiled.run({"image": images})["scores"]
    print(scores.shape, small.memory.peak_bytes, plain.names)

    for result in compiled.passes:
        fired = [event.rule for event in result.events if event.applied]
        print(result.name, result.changed, result.seconds, fired)
    print(compiled["fuse-activation"].diff.fused, compiled.final.text)
    print(compiled.view("memory"))
    print(compiled.to_frame("kernels"))
    compiled.explore(at={"pass": "fuse-bias", "dock": "rewrites"})
    page: Path = compiled.export_html(folder / "net.html")

    report = compiled.accuracy(tolerance=1e-4)
    fault = report.bisect()
    print(report.passed, None if fault is None else fault.rule, page)
    fork = compiled.fork(disable=["fuse-activation"])
    other = fork.fork(decisions={knob.address: knob.value for knob in fork.knobs}, planner="greedy")
    print(compiled.compare(fork, other).first_decision(), compiled.kernels["conv_3x3_1"].source)
    saved = ex.open(compiled.save(folder / "net.nnx"))
    print(saved.view("passes"), saved["import"].events, compiled.profile(repeats=3).milliseconds)

    data = {"image": np.zeros((16, 1, 8, 8), np.float32)}
    table = ex.calibrate(model, data, method="best")
    quantized = ex.compile(model, target="cpu", quantization=table, modes={"relu1": "F32"})
    point = ex.mixed(model, data, table=table, sqnr=30.0).points[0]
    print(ex.compile(model, quantization=table, modes=point.modes).names, quantized.quantization)
    ex.convert(model, folder / "net.onnx", integers="exact")
    tuned = ex.tune(compiled, 4, kernels=["conv_3x3_1"])
    print(tuned["conv_3x3_1"].seconds, tuned.schedule, ex.devices()[0], ex.targets())

    with ex.start("digits_cnn.onnx", threads=2, tuned=False) as started:
        print(started.run({"image": images}), started.why, started.is_kept)
    with ex.Session("digits_cnn.onnx", mode="lazy", disable=["fuse-bias"]) as session:
        print(session({"image": images}), session.why(), session.calls[0])
