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

//! dual_instructions
#ifdef __ARM_FEATURE_SIMD32
#include <arm_acle.h>
#endif

//! dual_pairs: dual_instructions
// sum + (x0 - zero) * w0 + ... + (x3 - zero) * w3: bytes 0 and 2 of x lie in the halves of `even`, 1
// and 3 in those of `odd`. Arm's DSP extension extends two bytes at once, and multiplies two halves.
INLINE int32_t dual_pairs(
    int32_t sum, int32_t zero, bool is_signed, uint32_t even, uint32_t odd, uint32_t filters)
{
#ifdef __ARM_FEATURE_SIMD32
    const int16x2_t less = (int16x2_t)(((uint32_t)-zero & 0xffffu) | (uint32_t)-zero << 16);
    const int16x2_t two = is_signed ? __sxtab16(less, (int8x4_t)even)
                                    : (int16x2_t)__uxtab16((uint16x2_t)less, (uint8x4_t)even);
    const int16x2_t other = is_signed ? __sxtab16(less, (int8x4_t)odd)
                                      : (int16x2_t)__uxtab16((uint16x2_t)less, (uint8x4_t)odd);
    sum = __smlad(two, __sxtb16((int8x4_t)filters), sum);
    return __smlad(other, __sxtb16((int8x4_t)(filters >> 8 | filters << 24)), sum);
#else
    const uint32_t pairs[2] = {even, odd};
    for (int place = 0; place < 4; place++) {
        const uint32_t byte = pairs[place % 2] >> (place < 2 ? 0 : 16);
        const int32_t x = is_signed ? (int8_t)byte : (uint8_t)byte;
        sum += (x - zero) * (int8_t)(filters >> 8 * place);
    }
    return sum;
#endif
}

//! dual_products: dual_pairs
// Of four bytes from anywhere, and the word of the filters.
INLINE int32_t dual_products(
    int32_t sum, int32_t zero, bool is_signed, uint8_t x0, uint8_t x1, uint8_t x2, uint8_t x3,
    int32_t filters)
{
    const uint32_t even = x0 | (uint32_t)x2 << 16, odd = x1 | (uint32_t)x3 << 16;
    return dual_pairs(sum, zero, is_signed, even, odd, (uint32_t)filters);
}

//! dual_products_of_word: dual_pairs
// Of four bytes that are neighbours.
INLINE int32_t dual_products_of_word(
    int32_t sum, int32_t zero, bool is_signed, int32_t bytes, int32_t filters)
{
    const uint32_t even = (uint32_t)bytes, odd = even >> 8 | even << 24;
    return dual_pairs(sum, zero, is_signed, even, odd, (uint32_t)filters);
}
