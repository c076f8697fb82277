//! exp vector float: smaller larger scaled_by_power
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^n exp(r), exp(r) by the polynomial of Cephes.
INLINE $vector exp_$vector($vector x)
{
    x = smaller_$vector(splat_$vector(89.0f), x);  // x is a NaN if it was one
    x = larger_$vector(splat_$vector(-104.0f), x);
    const $vector shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
    const $vector whole = shifted - 12582912.0f;
    const $vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    $vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return scaled_by_power_$vector(p, whole);
}

//! scaled_by_power vector float: mask
// x 2^n for whole n from -150 to 128. 2^n is multiplied in two halves, so that results become
// infinite or denormal gradually, as the instruction has it.
INLINE $vector scaled_by_power_$vector($vector x, $vector n)
{
#if defined(FLOAT_INSTRUCTIONS) && $bytes == 64 && defined(__AVX512F__)
    return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4);
#else
    const $mask power = ($mask)(n + 12582912.0f) - 0x4b400000;  // 1.5 * 2^23: bits of an integer
    const $mask half = power >> 1;
    return x * ($vector)((half + 127) << 23) * ($vector)((power - half + 127) << 23);
#endif
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

//! tanh vector float: smaller larger
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

//! erf vector float: smaller larger
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

//! fabs vector float: mask
INLINE $vector fabs_$vector($vector x)
{
    return ($vector)(($mask)x & INT32_MAX);
}

//! rint vector float: mask select fabs
// An instruction, where there is one (8: to nearest even, without exceptions). Otherwise: from 2^23
// on every float is an integer; below, adding 2^23 rounds to even.
INLINE $vector rint_$vector($vector x)
{
#if $lanes == 16 && defined(__AVX512F__)
    return ($vector)__builtin_ia32_rndscaleps_mask(x, 8, x, -1, 4);
#elif $lanes == 8 && defined(__AVX__)
    return ($vector)__builtin_ia32_roundps256(x, 8);
#elif $lanes == 4 && defined(__SSE4_1__)
    return ($vector)__builtin_ia32_roundps(x, 8);
#else
    const $vector size = fabs_$vector(x);
    const $vector rounded = (size + 8388608.0f) - 8388608.0f;
    const $mask sign = ($mask)x & INT32_MIN;
    return select_$vector(size < splat_$vector(8388608.0f), ($vector)(($mask)rounded | sign), x);
#endif
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

//! sqrt vector float
// gcc has no square root of vectors in C, and does not find its instruction in a loop over lanes.
INLINE $vector sqrt_$vector($vector x)
{
#if !defined(__clang__) && $element_bytes == 4 && $bytes == 64 && defined(__AVX512F__)
    return __builtin_ia32_sqrtps512_mask(x, x, -1, 4);
#elif !defined(__clang__) && $element_bytes == 4 && $bytes == 32 && defined(__AVX__)
    return __builtin_ia32_sqrtps256(x);
#elif !defined(__clang__) && $element_bytes == 4 && $bytes == 16 && defined(__SSE__)
    return __builtin_ia32_sqrtps(x);
#else
    for (int lane = 0; lane < $lanes; lane++)
        x[lane] = sqrtf(x[lane]);
    return x;
#endif
}
