//! exp float
// As in generated C (c/math.c): x = n ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^n exp(r), exp(r) by
// the polynomial of Cephes. 2^n is multiplied in two halves, so that results become infinite or
// denormal gradually.
INLINE $vector exp_$vector($vector x)
{
    x = select(x, ($vector)(89.0f), x > 89.0f);  // x is a NaN if it was one
    x = select(x, ($vector)(-104.0f), x < -104.0f);
    const $vector shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
    const $vector whole = shifted - 12582912.0f;
    const $vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    $vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const $mask power = as_$mask(shifted) - 0x4b400000;  // the bits of 1.5 * 2^23
    const $mask half_power = power >> 1;
    return p * as_$vector((half_power + 127) << 23) * as_$vector((power - half_power + 127) << 23);
}

//! log float
// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log(m) by the polynomial of Cephes.
INLINE $vector log_$vector($vector x)
{
    const $mask is_denormal = x < 1.17549435e-38f;
    const $mask bits = as_$mask(select(x, x * 8388608.0f, is_denormal));
    // 0x3f3504f3 is sqrt(1/2): exponents are counted from there.
    const $mask exponent = (bits - 0x3f3504f3) >> 23;
    const $vector m = as_$vector(bits - (exponent << 23)) - 1.0f;
    const $vector e = convert_$vector(exponent - select(($mask)(0), ($mask)(23), is_denormal));
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
    result = select(result, x, x == INFINITY);
    result = select(result, ($vector)(-INFINITY), x == 0.0f);
    return select(result, ($vector)(NAN), (x < 0.0f) | (x != x));
}

//! tanh float
// x p(x^2) / q(x^2), minimax in the relative error up to 8.6, from where on tanh rounds to 1.
INLINE $vector tanh_$vector($vector x)
{
    x = select(x, ($vector)(8.6f), x > 8.6f);  // x is a NaN if it was one
    x = select(x, ($vector)(-8.6f), x < -8.6f);
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

//! erf float
// x p(x^2) / q(x^2), minimax in the relative error up to 3.925, from where on erf rounds to 1.
INLINE $vector erf_$vector($vector x)
{
    x = select(x, ($vector)(3.925f), x > 3.925f);  // x is a NaN if it was one
    x = select(x, ($vector)(-3.925f), x < -3.925f);
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
