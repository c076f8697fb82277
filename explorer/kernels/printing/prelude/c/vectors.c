//! vector vector
typedef $scalar $vector __attribute__((vector_size($bytes)));
typedef $scalar ${vector}_in_memory
    __attribute__((vector_size($bytes), aligned($element_bytes), may_alias));

INLINE $vector load_$vector(const $scalar *from)
{
    return *(const ${vector}_in_memory *)from;
}

INLINE void store_$vector($vector value, $scalar *to)
{
    *(${vector}_in_memory *)to = value;
}

INLINE $vector splat_$vector($scalar value)
{
    return value - ($vector){0};  // exact for every value, -0.0 and NaN too
}

//! keep vector
// Compilers take a vector in memory that is used a few times for an operand of each use. What an
// assembly instruction without text may have changed must be in a register, if there are such.
INLINE $vector keep_$vector($vector value)
{
#if $bytes == 64 && defined(__AVX512F__)
    __asm__("" : "+v"(value));
#elif $bytes == 32 && defined(__AVX__) || $bytes <= 16 && defined(__SSE2__)
    __asm__("" : "+x"(value));
#elif $bytes <= 16 && defined(__aarch64__)
    __asm__("" : "+w"(value));
#endif
    return value;
}

//! select vector: mask
INLINE $vector select_$vector($mask mask, $vector if_true, $vector if_false)
{
    return ($vector)((mask & ($mask)if_true) | (~mask & ($mask)if_false));
}

//! as vector: mask
INLINE $mask as_$mask($vector value)
{
    return ($mask)value;
}

INLINE $vector as_$vector($mask bits)
{
    return ($vector)bits;
}

//! convert vector float: mask
INLINE $vector convert_$vector($mask whole)
{
    return __builtin_convertvector(whole, $vector);
}

//! larger vector float: select
// a > b ? a : b in every lane, so b where one of them is a NaN. gcc has no `?:` of vectors in C.
INLINE $vector larger_$vector($vector a, $vector b)
{
#if defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 64 && defined(__AVX512F__)
    return __builtin_ia32_maxps512_mask(a, b, b, -1, 4);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 32 && defined(__AVX__)
    return __builtin_ia32_maxps256(a, b);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 16
    return __builtin_ia32_maxps(a, b);
#else
    return select_$vector(a > b, a, b);
#endif
}

//! smaller vector float: select
INLINE $vector smaller_$vector($vector a, $vector b)
{
#if defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 64 && defined(__AVX512F__)
    return __builtin_ia32_minps512_mask(a, b, b, -1, 4);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 32 && defined(__AVX__)
    return __builtin_ia32_minps256(a, b);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 16
    return __builtin_ia32_minps(a, b);
#else
    return select_$vector(a < b, a, b);
#endif
}

//! maximum vector float: select larger
// A NaN in either operand wins: `larger` gives one in b, and a != a finds one in a.
INLINE $vector maximum_$vector($vector a, $vector b)
{
    return select_$vector(a != a, a, larger_$vector(a, b));
}

//! minimum vector float: select smaller
INLINE $vector minimum_$vector($vector a, $vector b)
{
    return select_$vector(a != a, a, smaller_$vector(a, b));
}

//! maximum vector integer: select
// One instruction where gcc (12) makes a comparison and a blend of what `select` says.
INLINE $vector maximum_$vector($vector a, $vector b)
{
#if defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 64 && defined(__AVX512F__)
    typedef int signed_lanes __attribute__((vector_size($bytes)));
    if (($scalar)-1 < 0)
        return ($vector)__builtin_ia32_pmaxsd512_mask(
            (signed_lanes)a, (signed_lanes)b, (signed_lanes){0}, -1);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 32 && defined(__AVX2__)
    typedef int signed_lanes __attribute__((vector_size($bytes)));
    if (($scalar)-1 < 0)
        return ($vector)__builtin_ia32_pmaxsd256((signed_lanes)a, (signed_lanes)b);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 16 && defined(__SSE4_1__)
    typedef int signed_lanes __attribute__((vector_size($bytes)));
    if (($scalar)-1 < 0)
        return ($vector)__builtin_ia32_pmaxsd128((signed_lanes)a, (signed_lanes)b);
#endif
    return select_$vector(a > b, a, b);
}

//! minimum vector integer: select
INLINE $vector minimum_$vector($vector a, $vector b)
{
#if defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 64 && defined(__AVX512F__)
    typedef int signed_lanes __attribute__((vector_size($bytes)));
    if (($scalar)-1 < 0)
        return ($vector)__builtin_ia32_pminsd512_mask(
            (signed_lanes)a, (signed_lanes)b, (signed_lanes){0}, -1);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 32 && defined(__AVX2__)
    typedef int signed_lanes __attribute__((vector_size($bytes)));
    if (($scalar)-1 < 0)
        return ($vector)__builtin_ia32_pminsd256((signed_lanes)a, (signed_lanes)b);
#elif defined(GCC_INSTRUCTIONS) && $element_bytes == 4 && $bytes == 16 && defined(__SSE4_1__)
    typedef int signed_lanes __attribute__((vector_size($bytes)));
    if (($scalar)-1 < 0)
        return ($vector)__builtin_ia32_pminsd128((signed_lanes)a, (signed_lanes)b);
#endif
    return select_$vector(a < b, a, b);
}

//! lanewise vector
INLINE $vector ${function}_$vector($vector value)
{
    for (int lane = 0; lane < $lanes; lane++)
        value[lane] = $libm(value[lane]);
    return value;
}

//! lanewise2 vector
INLINE $vector ${function}_$vector($vector left, $vector right)
{
    for (int lane = 0; lane < $lanes; lane++)
        left[lane] = $libm(left[lane], right[lane]);
    return left;
}

//! absolute vector integer: select
INLINE $vector absolute_$vector($vector value)
{
    return select_$vector(value < 0, -value, value);
}

//! erfc vector double
INLINE $vector erfc_$vector($vector x)
{
    for (int lane = 0; lane < $lanes; lane++)
        x[lane] = erfc(x[lane]);
    return x;
}

//! halves vector: half_vector
INLINE $half_vector low_half_$vector($vector whole)
{
    const union { $vector whole; $half_vector halves[2]; } both = {whole};
    return both.halves[0];
}

INLINE $half_vector high_half_$vector($vector whole)
{
    const union { $vector whole; $half_vector halves[2]; } both = {whole};
    return both.halves[1];
}

//! reduce_add wide: halves half_reduce_add
INLINE $scalar reduce_add_$vector($vector v)
{
    return reduce_add_$half_vector(low_half_$vector(v) + high_half_$vector(v));
}

//! reduce_add narrow
INLINE $scalar reduce_add_$vector($vector v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

//! reduce_multiply wide: halves half_reduce_multiply
INLINE $scalar reduce_multiply_$vector($vector v)
{
    return reduce_multiply_$half_vector(low_half_$vector(v) * high_half_$vector(v));
}

//! reduce_multiply narrow
INLINE $scalar reduce_multiply_$vector($vector v)
{
    return (v[0] * v[2]) * (v[1] * v[3]);
}

//! reduce_and wide: halves half_reduce_and
INLINE $scalar reduce_and_$vector($vector v)
{
    return reduce_and_$half_vector(low_half_$vector(v) & high_half_$vector(v));
}

//! reduce_and narrow
INLINE $scalar reduce_and_$vector($vector v)
{
    return (v[0] & v[2]) & (v[1] & v[3]);
}

//! reduce_or wide: halves half_reduce_or
INLINE $scalar reduce_or_$vector($vector v)
{
    return reduce_or_$half_vector(low_half_$vector(v) | high_half_$vector(v));
}

//! reduce_or narrow
INLINE $scalar reduce_or_$vector($vector v)
{
    return (v[0] | v[2]) | (v[1] | v[3]);
}

//! reduce_xor wide: halves half_reduce_xor
INLINE $scalar reduce_xor_$vector($vector v)
{
    return reduce_xor_$half_vector(low_half_$vector(v) ^ high_half_$vector(v));
}

//! reduce_xor narrow
INLINE $scalar reduce_xor_$vector($vector v)
{
    return (v[0] ^ v[2]) ^ (v[1] ^ v[3]);
}

//! reduce_maximum wide: halves half_maximum half_reduce_maximum
INLINE $scalar reduce_maximum_$vector($vector v)
{
    const $half_vector larger = maximum_$half_vector(low_half_$vector(v), high_half_$vector(v));
    return reduce_maximum_$half_vector(larger);
}

//! reduce_maximum narrow: scalar_maximum
INLINE $scalar reduce_maximum_$vector($vector v)
{
    return maximum_$suffix(maximum_$suffix(v[0], v[2]), maximum_$suffix(v[1], v[3]));
}

//! reduce_minimum wide: halves half_minimum half_reduce_minimum
INLINE $scalar reduce_minimum_$vector($vector v)
{
    const $half_vector smaller = minimum_$half_vector(low_half_$vector(v), high_half_$vector(v));
    return reduce_minimum_$half_vector(smaller);
}

//! reduce_minimum narrow: scalar_minimum
INLINE $scalar reduce_minimum_$vector($vector v)
{
    return minimum_$suffix(minimum_$suffix(v[0], v[2]), minimum_$suffix(v[1], v[3]));
}

//! shuffle
// Lanes of two vectors by number, those of the second one behind the first one's.
#if defined(__clang__)
#define SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

//! interleave_low vector: mask shuffle
INLINE $vector interleave_low_$vector($vector a, $vector b)
{
#if $lanes == 16
    return SHUFFLE($mask, a, b, 0, 16, 1, 17, 2, 18, 3, 19,
        4, 20, 5, 21, 6, 22, 7, 23);
#elif $lanes == 8
    return SHUFFLE($mask, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#elif $lanes == 4
    return SHUFFLE($mask, a, b, 0, 4, 1, 5);
#endif
}

//! interleave_high vector: mask shuffle
INLINE $vector interleave_high_$vector($vector a, $vector b)
{
#if $lanes == 16
    return SHUFFLE($mask, a, b, 8, 24, 9, 25, 10, 26, 11, 27,
        12, 28, 13, 29, 14, 30, 15, 31);
#elif $lanes == 8
    return SHUFFLE($mask, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif $lanes == 4
    return SHUFFLE($mask, a, b, 2, 6, 3, 7);
#endif
}
