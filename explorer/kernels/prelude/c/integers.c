//! widen vector integer
// gcc (12) reads a vector from memory number by number to widen it, unless it is in a register.
INLINE $function ${function}_from_$vector($vector narrow)
{
#if defined(__x86_64__) && !defined(__clang__) && $bytes >= 8
    __asm__("" : "+x"(narrow));
#endif
    return __builtin_convertvector(narrow, $function);
}

//! dot vector integer: dot_product
// Four bytes times four bytes of every lane, added to its sum: `four` holds unsigned bytes,
// `filters` signed ones. One instruction where there is one (VNNI); else 16-bit products in pairs
// (SSE2, AVX2, AVX-512BW), which are exact: 255 * 128 fits; else 32-bit products.
INLINE $vector dot_$vector($vector sums, int32_t four, $vector filters)
{
#if $lanes == 16 && defined(__AVX512VNNI__)
    return ($vector)VPDPBUSD_512(sums, splat_$vector(four), filters);
#elif $lanes == 8 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_256(sums, splat_$vector(four), filters);
#elif $lanes == 4 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_128(sums, splat_$vector(four), filters);
#else
#if $lanes == 8 && defined(__AVX2__) || $lanes == 4 && defined(__SSE2__)
    typedef int16_t halves __attribute__((vector_size($bytes)));
    const $vector few = splat_$vector(four);
    const halves low = (halves)(few & 0x00ff00ff), high = (halves)((few >> 8) & 0x00ff00ff);
    const halves low_filters = ((halves)filters << 8) >> 8, high_filters = (halves)filters >> 8;
#if $lanes == 8
    sums += ($vector)__builtin_ia32_pmaddwd256(low, low_filters);
    return sums + ($vector)__builtin_ia32_pmaddwd256(high, high_filters);
#else
    sums += ($vector)__builtin_ia32_pmaddwd128(low, low_filters);
    return sums + ($vector)__builtin_ia32_pmaddwd128(high, high_filters);
#endif
#else
    sums += (four & 255) * ((filters << 24) >> 24);
    sums += ((four >> 8) & 255) * ((filters << 16) >> 24);
    sums += ((four >> 16) & 255) * ((filters << 8) >> 24);
    return sums + ((four >> 24) & 255) * (filters >> 24);
#endif
#endif
}

//! dot_of_signed vector integer: dot
// The same of signed bytes, to which 128 is added.
INLINE $vector dot_of_signed_$vector($vector sums, int32_t four, $vector filters)
{
    return dot_$vector(sums, four ^ (int32_t)0x80808080, filters);
}
