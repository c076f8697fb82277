"""Angles of vectors on OpenCL: no lane decides about another one."""

import numpy as np
import onnx.parser
import pytest

import explorer as ex
from explorer.importers.onnx.file.reading import from_proto

SMALL = 0.0045


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["Sin", "Cos", "Tan"])
@pytest.mark.parametrize("other", [1e20, np.inf, np.nan])
def test_a_lane_that_is_huge_changes_no_other_lane(
    function: str, other: float, opencl_device_record
):
    """PoCL's functions of vectors double a small sine next to 1e20 or infinity."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[64] x) => (float[64] y) {{ y = {function} (x) }}"""
    )
    x = np.full(64, SMALL, np.float32)
    x[[5, 22, 63]] = other
    compilation = ex.compile(from_proto(model), "opencl")
    (found,) = compilation.run({"x": x}).values()
    compilation.close()
    exact = getattr(np, function.lower())(np.float64(np.float32(SMALL)))
    np.testing.assert_allclose(found[x == np.float32(SMALL)], exact, 1e-6)
