"""A comparison keeps the tensors that a later one needs, and no others."""

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import onnx.parser

import explorer
from explorer.ir.evaluation import EvaluationCache

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import CHAIN, source_model


def test_nothing_computed_for_earlier_passes_is_kept_to_the_end(tmp_path, monkeypatch):
    caches = []

    class Kept(EvaluationCache):
        def __init__(self):
            super().__init__()
            caches.append(self)
            self.most = 0

        def forget_unused(self):
            self.most = max(self.most, len(self.results))
            super().forget_unused()

    monkeypatch.setattr("explorer.compilation.checking.EvaluationCache", Kept)
    c = explorer.compile(source_model(tmp_path, CHAIN))
    assert c.accuracy().passed
    c.close()
    assert len(caches) == 1
    # Results of the last snapshot, accumulated and isolated, of as many as were computed.
    assert not caches[0].results
    assert 0 < caches[0].most <= caches[0].runs


PICTURES = """<ir_version: 9, opset_import: ["" : 17]>
pictures (float[1,3,64,64] x) => (y) <int64[4] first = {8, 3, 3, 3}, int64[4] next = {8, 8, 3, 3}> {
  v = ConstantOfShape <value = float[1] {0.03}> (first)
  w = ConstantOfShape <value = float[1] {0.02}> (next)
  a0 = Conv <pads = [1, 1, 1, 1]> (x, v)
  LAYERS
  y = Relu (aLAST)
}"""


def test_a_check_holds_a_few_times_the_tensors_of_the_source(tmp_path):
    layers = 12
    lines = [
        f"r{n} = Relu (a{n})  a{n + 1} = Conv <pads = [1, 1, 1, 1]> (r{n}, w)"
        for n in range(layers)
    ]
    text = PICTURES.replace("LAYERS", "\n".join(lines)).replace("LAST", str(layers))
    onnx.save(onnx.parser.parse_model(text), path := tmp_path / "m.onnx")
    c = explorer.compile(path)
    x = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 3, 64, 64)).astype(np.float32)}
    c.run(x)
    one = 2 * (layers + 1) * 8 * 64 * 64 * 4
    tracemalloc.start()
    try:
        assert c.accuracy(x).passed
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        c.close()
    # The source's, and both runs of a snapshot as its taps lie and as tensors; others are gone.
    assert peak < 6 * one
