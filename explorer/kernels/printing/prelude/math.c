//! exp float: smaller larger splat as exp_part
// x = 2 n ln 2 + r with |r| <= ln 2; exp(x) = 2^n 2^n exp(r). 2^n is multiplied twice, so that
// results become infinite or denormal gradually.
INLINE $vector exp_$vector($vector x)
{
    x = smaller_$vector(splat_$vector(89.0f), x);  // x is a NaN if it was one
    x = larger_$vector(splat_$vector(-104.0f), x);
    const $vector shifted = x * 0.72134752f + 12583039.0f;  // 1.5 * 2^23 + 127: n + 127 comes last
    const $vector n = shifted - 12583039.0f;
    const $vector r = (x - n * 1.38671875f) + n * 4.2438888e-4f;
    const $vector power = as_$vector(as_$mask(shifted) << 23);
    return exp_part_$vector(r) * power * power;
}

//! exp_part float
// exp(r) for |r| <= 0.694, minimax in the relative error.
INLINE $vector exp_part_$vector($vector r)
{
    $vector p = r * 1.9611082e-4f + 1.4104892e-3f;
    p = p * r + 8.336115e-3f;
    p = p * r + 4.1661248e-2f;
    p = p * r + 1.6666614e-1f;
    p = p * r + 5.0000036e-1f;
    return p * (r * r) + r + 1.0f;
}

//! expm1 float: smaller larger select splat as
// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1) with |r| <= ln 2 / 2, and exp(r) by the polynomial of
// Cephes. Where x is small, n is 0.
INLINE $vector expm1_$vector($vector x)
{
    $vector inside = smaller_$vector(splat_$vector(89.0f), x);
    inside = larger_$vector(splat_$vector(-18.0f), inside);  // from where on it rounds to -1
    const $vector shifted = inside * 1.44269504f + 12583038.0f;  // 1.5 * 2^23 + 126
    const $vector whole = shifted - 12583038.0f;
    const $vector r = (inside - whole * 0.693359375f) + whole * 2.12194440e-4f;
    $vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r;
    const $vector half_power = as_$vector(as_$mask(shifted) << 23);
    const $vector result = (p * half_power + (half_power - 0.5f)) * 2.0f;  // 2^128 is no float
    const $mask is_small = larger_$vector(x, -x) < splat_$vector(1e-8f);
    return select_$vector(is_small, x, result);
}

//! log float: select splat as convert logarithm
// x = m 2^e with m in [sqrt(1/2), sqrt(2)).
INLINE $vector log_$vector($vector x)
{
    const $mask is_denormal = x < splat_$vector(1.17549435e-38f);
    const $mask bits = as_$mask(select_$vector(is_denormal, x * 8388608.0f, x));
    // 0x3f3504f3 is sqrt(1/2): exponents are counted from there.
    const $mask exponent = (bits - 0x3f3504f3) >> 23;
    const $vector m = as_$vector(bits - (exponent << 23)) - 1.0f;
    const $vector raised = select_$vector(is_denormal, splat_$vector(23.0f), splat_$vector(0.0f));
    return logarithm_$vector(x, m, convert_$vector(exponent) - raised);
}

//! log1p float: select splat as convert logarithm
// As log of u = 1 + x, to whose m is added what was rounded off u: that is exact, and all of x
// where x is small.
INLINE $vector log1p_$vector($vector x)
{
    const $vector u = x + 1.0f;
    const $mask is_small = x < splat_$vector(1.0f);  // of 1 and x the greater one goes first
    const $vector off = select_$vector(is_small, x - (u - 1.0f), 1.0f - (u - x));
    const $mask bits = as_$mask(u);
    const $mask exponent = (bits - 0x3f3504f3) >> 23;
    const $vector power = as_$vector((190 - exponent) << 23);  // 2^(63 - e): 2^-128 is no power
    const $vector m = as_$vector(bits - (exponent << 23)) - 1.0f;
    const $vector moved = m + (off * power) * 1.08420217e-19f;  // 2^-63
    const $vector result = logarithm_$vector(u, moved, convert_$vector(exponent));
    return select_$vector(x == splat_$vector(0.0f), x, result);
}

//! logarithm float: select splat
// log(1 + m) + e ln 2 by the polynomial of Cephes; x says whether it is one of zero, infinity, NaN.
INLINE $vector logarithm_$vector($vector x, $vector m, $vector e)
{
    const $vector z = m * m;
    $vector p = m * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z - e * 2.12194440e-4f - z * 0.5f;
    $vector result = (m + p) + e * 0.693359375f;
    result = select_$vector(x == splat_$vector(INFINITY), x, result);
    result = select_$vector(x == splat_$vector(0.0f), splat_$vector(-INFINITY), result);
    return select_$vector((x < splat_$vector(0.0f)) | (x != x), splat_$vector(NAN), result);
}

//! tanh float: smaller larger splat
// x p(x^2) / q(x^2), minimax in the relative error up to 8.6, from where on tanh rounds to 1.
INLINE $vector tanh_$vector($vector x)
{
    x = smaller_$vector(splat_$vector(8.6f), x);  // x is a NaN if it was one
    x = larger_$vector(splat_$vector(-8.6f), x);
    const $vector z = x * x;
    $vector p = z * 1.4080823e-8f + 2.1121292e-5f;
    p = p * z + 3.5263398e-3f;
    p = p * z + 1.3406825e-1f;
    p = p * z + 1.0f;
    $vector q = z * 8.069992e-7f + 3.336166e-4f;
    q = q * z + 2.599367e-2f;
    q = q * z + 4.6740147e-1f;
    q = q * z + 1.0f;
    return x * (p / q);
}

//! erf float: smaller larger splat
// x p(x^2) / q(x^2), minimax in the relative error up to 3.925, from where on erf rounds to 1.
INLINE $vector erf_$vector($vector x)
{
    x = smaller_$vector(splat_$vector(3.925f), x);  // x is a NaN if it was one
    x = larger_$vector(splat_$vector(-3.925f), x);
    const $vector z = x * x;
    $vector p = z * 2.0457512e-6f + 2.8481553e-4f;
    p = p * z + 3.7722979e-3f;
    p = p * z + 5.27684e-2f;
    p = p * z + 1.9059095e-1f;
    p = p * z + 1.1283791f;
    $vector q = z * 3.8043457e-5f + 1.1637559e-3f;
    q = q * z + 1.4982695e-2f;
    q = q * z + 1.1418109e-1f;
    q = q * z + 5.022396e-1f;
    q = q * z + 1.0f;
    return x * (p / q);
}

//! normal_cdf double: erfc
// erfc(-x / sqrt(2)) / 2
INLINE $vector normal_cdf_$vector($vector x)
{
    return erfc_$vector(x * -0.70710678118654752) * 0.5;
}

//! normal_cdf float: smaller larger select splat as exp_part
// The tail: exp(-a^2 / 2) p(a) / q(a) with a = |x|, minimax in the relative error up to 14.25, from
// where on it rounds to 0. a^2 = c^2 + (a - c) (a + c), c being the upper 12 bits of a: c^2 is
// exact, without which the exponent would lose the digits that count. The rest as in exp.
INLINE $vector normal_cdf_$vector($vector x)
{
    const $vector a = smaller_$vector(splat_$vector(14.25f), larger_$vector(x, -x));
    const $vector c = as_$vector(as_$mask(a) & -4096);
    const $vector square = c * c * -0.5f, rest = (a - c) * (a + c) * -0.5f;
    const $vector shifted = (square + rest) * 0.72134752f + 12583039.0f;
    const $vector n = shifted - 12583039.0f;
    const $vector r = ((square - n * 1.38671875f) + n * 4.2438888e-4f) + rest;
    const $vector power = as_$vector(as_$mask(shifted) << 23);
    $vector p = a * 4.0972395e-3f + 4.0504871e-2f;
    p = p * a + 1.8285453e-1f;
    p = p * a + 4.377814e-1f;
    p = p * a + 0.5f;
    $vector q = a * 1.0270132e-2f + 1.0153728e-1f;
    q = q * a + 4.684658e-1f;
    q = q * a + 1.2009225f;
    q = q * a + 1.6734475f;
    q = q * a + 1.0f;
    const $vector tail = exp_part_$vector(r) * (p / q) * power * power;
    return select_$vector(x > splat_$vector(0.0f), 1.0f - tail, tail);
}
