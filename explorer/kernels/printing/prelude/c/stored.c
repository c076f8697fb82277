//! float_from_f16 scalar
INLINE float float_from_f16(uint16_t bits)
{
    const union { uint16_t bits; _Float16 value; } both = {bits};
    return both.value;
}

//! f16_from_float scalar
INLINE uint16_t f16_from_float(float value)
{
    const union { _Float16 value; uint16_t bits; } both = {(_Float16)value};
    return both.bits;
}

//! float_from_f16 vector: float_vector
// gcc 12 converts a vector of halves number by number; the processor all of them at once.
INLINE float$lanes float_from_f16_$vector($vector bits)
{
#if defined(GCC_INSTRUCTIONS) && $lanes == 16 && defined(__AVX512F__)
    typedef short integers __attribute__((vector_size(32)));
    return __builtin_ia32_vcvtph2ps512_mask((integers)bits, (float$lanes){0}, -1, 4);
#elif defined(GCC_INSTRUCTIONS) && $lanes == 8 && defined(__F16C__)
    typedef short integers __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps256((integers)bits);
#else
    typedef _Float16 halves __attribute__((vector_size($bytes)));
    return __builtin_convertvector((halves)bits, float$lanes);
#endif
}

//! f16_from_float vector: float_vector
INLINE $vector f16_from_float_$vector(float$lanes value)
{
#if defined(GCC_INSTRUCTIONS) && $lanes == 16 && defined(__AVX512F__)
    typedef short integers __attribute__((vector_size(32)));
    return ($vector)__builtin_ia32_vcvtps2ph512_mask(value, 0, (integers){0}, -1);
#elif defined(GCC_INSTRUCTIONS) && $lanes == 8 && defined(__F16C__)
    return ($vector)__builtin_ia32_vcvtps2ph256(value, 0);
#else
    typedef _Float16 halves __attribute__((vector_size($bytes)));
    return ($vector)__builtin_convertvector(value, halves);
#endif
}

//! float_from_bf16 vector: float_vector uint_vector
INLINE float$lanes float_from_bf16_$vector($vector bits)
{
    return (float$lanes)(__builtin_convertvector(bits, uint$lanes) << 16);
}

//! bf16_from_float vector: float_vector uint_vector
INLINE $vector bf16_from_float_$vector(float$lanes value)
{
    const uint$lanes bits = (uint$lanes)value;
    const uint$lanes is_nan = (uint$lanes)(value != value);
    const uint$lanes rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint$lanes upper = (is_nan & (bits >> 16 | 0x40u)) | (~is_nan & rounded);
    return __builtin_convertvector(upper, $vector);
}
