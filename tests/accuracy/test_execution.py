"""Values of programs below level top: those that live on the host are there, too."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.ir.evaluation import outputs_by_name

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

TWO_OUTPUTS = """
func.func @main(%x : tensor<4xf32>, %z : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {output_names = ["first output", "second output"]} {
  %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
  %b = top.binary(%a, %z) {kind = "add"} : tensor<4xf32>
  top.return(%b, %a)
}
"""


@pytest.fixture(scope="module")
def results():
    return programs.lower(programs.program(TWO_OUTPUTS))


def test_every_level_knows_the_hosts_values(results):
    inputs = {"x": np.float32([-1, 2, -3, 4]), "z": np.float32([1, 1, 1, 1])}
    host = {"x", "z", "send1", "send2", "receive1", "receive2", "x.device", "z.device"}
    for result in results:
        values = result.after.run(inputs)
        assert host | {"a", "b", "b.device"} <= set(values), result.name
        assert values["send1"].tolist() == values["x.device"].tolist() == [-1, 2, -3, 4]
        assert values["receive1"].tolist() == values["b"].tolist() == [2, 3, 4, 5]
        assert values["receive2"].tolist() == values["a"].tolist() == [1, 2, 3, 4]
        outputs = outputs_by_name(result.after.module, values)
        assert outputs["first output"].tolist() == [2, 3, 4, 5], result.name
        assert outputs["second output"].tolist() == [1, 2, 3, 4], result.name
