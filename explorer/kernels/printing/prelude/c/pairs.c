//! pair_instructions
// Compilers differ in what the elements of their vectors of bfloat16 are: those are cast to.
#ifdef VDPBF16PS_512  // named already: what stands in for it on a processor without
#elif defined(__AVX512BF16__)
#include <immintrin.h>
#define VDPBF16PS_512(sums, pairs, filters) \
    _mm512_dpbf16_ps(sums, (__m512bh)(pairs), (__m512bh)(filters))
#if defined(__AVX512VL__)
#define VDPBF16PS_256(sums, pairs, filters) \
    _mm256_dpbf16_ps(sums, (__m256bh)(pairs), (__m256bh)(filters))
#define VDPBF16PS_128(sums, pairs, filters) \
    _mm_dpbf16_ps(sums, (__m128bh)(pairs), (__m128bh)(filters))
#endif
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#include <arm_neon.h>
#endif

//! dot_pairs vector float: int_vector pair_instructions
// Two bfloat16 times two of every lane, added to its sum: one instruction where there is one
// (AVX-512 BF16, Arm's bfdot). Else a bfloat16 is the upper half of a float, and the product of two
// has no more digits than a float: only sums are rounded, whether multiply-adds are fused or not.
INLINE $vector dot_pairs_$vector($vector sums, int32_t pair, int$lanes filters)
{
#if $lanes == 16 && defined(VDPBF16PS_512)
    return ($vector)VDPBF16PS_512(sums, splat_int$lanes(pair), filters);
#elif $lanes == 8 && defined(VDPBF16PS_256)
    return ($vector)VDPBF16PS_256(sums, splat_int$lanes(pair), filters);
#elif $lanes == 4 && defined(VDPBF16PS_128)
    return ($vector)VDPBF16PS_128(sums, splat_int$lanes(pair), filters);
#elif $lanes == 4 && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    const int$lanes few = splat_int$lanes(pair);
    return ($vector)vbfdotq_f32((float32x4_t)sums, (bfloat16x8_t)few, (bfloat16x8_t)filters);
#else
    const int$lanes few = splat_int$lanes(pair), upper = splat_int$lanes((int32_t)0xffff0000);
    sums += ($vector)(few & upper) * ($vector)(filters & upper);
    return sums + ($vector)(few << 16) * ($vector)(filters << 16);
#endif
}
