"""A quotient that becomes a float of 8 bits is no product with the inverse: ties would move."""

from fractions import Fraction

import numpy as np
import onnx.parser
import pytest

import explorer as ex
from explorer.importers.onnx.file.reading import from_proto

SCALE = np.float32(0.03)


def nearest(quotient: Fraction) -> float:
    """E4M3: three bits after the first one, ties to even; by exact fractions."""
    if quotient == 0:
        return 0.0
    size, exponent = abs(quotient), 0
    while size >= 2:
        size, exponent = size / 2, exponent + 1
    while size < 1:
        size, exponent = size * 2, exponent - 1
    steps = round(size * 8)  # Python rounds ties to even
    found = float(Fraction(steps, 8) * Fraction(2) ** exponent)
    return found if quotient > 0 else -found


@pytest.mark.parametrize(("number", "limit"), [(17, 448.0), (18, 240.0)], ids=["e4m3fn", "fnuz"])
def test_ties_of_float8_fall_to_the_even_side(number: int, limit: float):
    """Each tie of E4M3 times the scale: the quotient in float32 is the tie for most, the product
    with the inverse is next to it for some."""
    ties = [(8 + k + 0.5) * 2.0**e for e in range(-2, 5) for k in range(8)]
    x = (np.array([t for t in ties if t < limit]) * float(SCALE)).astype(np.float32)
    x = np.concatenate([x, -x])
    text = f"""<ir_version: 10, opset_import: ["" : 24]>
    g (float[{x.size}] x) => (float[{x.size}] y) <float s = {{0.03}}, float n = {{0}}> {{
      z = Cast <to = {number}> (n)
      q = QuantizeLinear (x, s, z)
      y = Cast <to = 1> (q)
    }}"""
    with np.errstate(all="ignore"):
        quotients = x / SCALE  # rounded to float32, as ONNX divides
        products = x * (1 / SCALE)
    assert np.any(quotients != products)
    model = from_proto(onnx.parser.parse_model(text))
    compilation = ex.compile(model, "cpu")
    (found,) = compilation.run({"x": x}).values()
    compilation.close()
    expected = [nearest(Fraction(float(n))) for n in quotients]
    np.testing.assert_array_equal(found, expected)
    assert any(nearest(Fraction(float(p))) != e for p, e in zip(products, expected, strict=True))
