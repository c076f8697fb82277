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
