//! exp vector float: mask select
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^n exp(r), exp(r) by the polynomial of Cephes.
// 2^n is multiplied in two halves, so that results become infinite or denormal gradually.
INLINE $vector exp_$vector($vector x)
{
    x = select_$vector(x > splat_$vector(89.0f), splat_$vector(89.0f), x);
    x = select_$vector(x < splat_$vector(-104.0f), splat_$vector(-104.0f), x);
    const $vector shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
    const $mask n = ($mask)shifted - 0x4b400000;
    const $vector whole = shifted - 12582912.0f;
    const $vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    $vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const $mask half_n = n >> 1;
    const $vector scale = ($vector)((half_n + 127) << 23);
    return p * scale * ($vector)((n - half_n + 127) << 23);
}

//! log vector float: mask select
// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log(m) by the polynomial of Cephes.
INLINE $vector log_$vector($vector x)
{
    const $mask is_denormal = x < splat_$vector(1.17549435e-38f);
    const $vector scaled = select_$vector(is_denormal, x * 8388608.0f, x);
    const $mask bits = ($mask)scaled;
    // 0x3f3504f3 is sqrt(1/2): exponents are counted from there.
    const $mask exponent = (bits - 0x3f3504f3) >> 23;
    const $vector m = ($vector)(bits - (exponent << 23)) - 1.0f;
    const $vector e = __builtin_convertvector(exponent - (is_denormal & 23), $vector);
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

//! tanh vector float: exp fabs
// Small arguments by the polynomial of Cephes, the others by 1 - 2 / (exp(2 |x|) + 1).
INLINE $vector tanh_$vector($vector x)
{
    const $vector size = fabs_$vector(x);
    const $vector z = x * x;
    $vector p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    const $vector far = 1.0f - 2.0f / (exp_$vector(size + size) + 1.0f);
    const $mask sign = ($mask)x & INT32_MIN;
    return select_$vector(size < splat_$vector(0.625f), p, ($vector)(($mask)far | sign));
}

//! erf vector float: exp fabs
// Two polynomials by N. Juffa: x + x p(x^2) up to 0.93, 1 - exp(-x - x p(x)) above.
INLINE $vector erf_$vector($vector x)
{
    const $vector z = x * x;
    $vector near = z * -5.96761703e-4f + 4.99119423e-3f;
    near = near * z - 2.67681349e-2f;
    near = near * z + 1.12819925e-1f;
    near = near * z - 3.76125336e-1f;
    near = near * z + 1.28379166e-1f;
    near = near * x + x;
    const $vector size = fabs_$vector(x);
    // From 4 on the result is 1.
    const $vector t = select_$vector(size > splat_$vector(4.0f), splat_$vector(4.0f), size);
    $vector p = t * -1.72853470e-5f + 3.83197126e-4f;
    p = p * (t * t) + (t * -3.88396438e-3f + 2.42546219e-2f);
    p = p * t - 1.06777877e-1f;
    p = p * t - 6.34846687e-1f;
    p = p * t - 1.28717512e-1f;
    p = p * t - t;
    const $vector far = 1.0f - exp_$vector(p);
    const $mask sign = ($mask)x & INT32_MIN;
    return select_$vector(size < splat_$vector(0.927734375f), near, ($vector)(($mask)far | sign));
}

//! fabs vector float: mask
INLINE $vector fabs_$vector($vector x)
{
    return ($vector)(($mask)x & INT32_MAX);
}

//! rint vector float: mask select fabs
// From 2^23 on every float is an integer; below, adding 2^23 rounds to even.
INLINE $vector rint_$vector($vector x)
{
    const $vector size = fabs_$vector(x);
    const $vector rounded = (size + 8388608.0f) - 8388608.0f;
    const $mask sign = ($mask)x & INT32_MIN;
    return select_$vector(size < splat_$vector(8388608.0f), ($vector)(($mask)rounded | sign), x);
}

//! floor vector float: rint
INLINE $vector floor_$vector($vector x)
{
    const $vector rounded = rint_$vector(x);
    return select_$vector(rounded > x, rounded - 1.0f, rounded);
}

//! ceil vector float: rint
INLINE $vector ceil_$vector($vector x)
{
    const $vector rounded = rint_$vector(x);
    return select_$vector(rounded < x, rounded + 1.0f, rounded);
}

//! trunc vector float: floor
INLINE $vector trunc_$vector($vector x)
{
    const $vector size = floor_$vector(fabs_$vector(x));
    return ($vector)(($mask)size | (($mask)x & INT32_MIN));
}
