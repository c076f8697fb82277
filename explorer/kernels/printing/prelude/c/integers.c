//! widen vector integer
// gcc (12) reads a vector from memory number by number to widen it, unless it is in a register.
INLINE $function ${function}_from_$vector($vector narrow)
{
#if defined(__x86_64__) && !defined(__clang__) && $bytes >= 8
    __asm__("" : "+x"(narrow));
#endif
    return __builtin_convertvector(narrow, $function);
}

//! narrow vector integer: int_vector
// The lowest bytes of 32-bit numbers. gcc (12) takes them out of the vector one by one where no
// instruction does all of it (AVX-512); packing keeps numbers within bounds that these do not reach.
INLINE $vector ${vector}_from_int$lanes(int$lanes wide)
{
#if defined(__SSE2__) && !defined(__AVX512VL__) && !defined(__clang__) && $lanes <= 8
    typedef int32_t four __attribute__((vector_size(16)));
    typedef int16_t eight __attribute__((vector_size(16)));
    typedef char sixteen __attribute__((vector_size(16)));
    const union { int$lanes whole; four parts[$lanes / 4]; } low = {wide & 255};
    const eight halves = (eight)__builtin_ia32_packssdw128(low.parts[0], low.parts[$lanes / 4 - 1]);
    const union { sixteen whole; $vector part; } bytes = {
        (sixteen)__builtin_ia32_packuswb128(halves, halves)
    };
    return bytes.part;
#else
    return __builtin_convertvector(wide, $vector);
#endif
}

//! high_product vector integer
// Instructions multiply every second number: those of even places first, then those of odd ones. Of
// the products bits 31 to 62 are the result; the two shifts bring them where they belong.
INLINE $vector high_product_$vector($vector a, $vector b)
{
#if !defined(__clang__) && ($lanes == 8 && defined(__AVX2__) || $lanes == 16 && defined(__AVX512F__))
    typedef uint64_t wide __attribute__((vector_size($bytes)));
    const $vector odd_a = ($vector)((wide)a >> 32), odd_b = ($vector)((wide)b >> 32);
#if $lanes == 8
    const wide even = (wide)__builtin_ia32_pmuldq256(a, b) + 0x40000000;
    const wide odd = (wide)__builtin_ia32_pmuldq256(odd_a, odd_b) + 0x40000000;
#else
    typedef long long longs __attribute__((vector_size($bytes)));
    const wide even = (wide)__builtin_ia32_pmuldq512_mask(a, b, (longs){0}, -1) + 0x40000000;
    const wide odd = (wide)__builtin_ia32_pmuldq512_mask(odd_a, odd_b, (longs){0}, -1) + 0x40000000;
#endif
#if $lanes == 8
    return __builtin_ia32_pblendd256(($vector)(even >> 31), ($vector)(odd << 1), 0xaa);
#else
    return __builtin_ia32_blendmd_512_mask(($vector)(even >> 31), ($vector)(odd << 1), 0xaaaa);
#endif
#else
    typedef int64_t wide __attribute__((vector_size(2 * $bytes)));
    const wide product = __builtin_convertvector(a, wide) * __builtin_convertvector(b, wide);
    return __builtin_convertvector((product + 0x40000000) >> 31, $vector);
#endif
}

//! upper_product vector integer
// The products of every second number, as in `high_product`; their upper halves are the result.
INLINE $vector upper_product_$vector($vector a, $vector b)
{
#if !defined(__clang__) && ($lanes == 8 && defined(__AVX2__) || $lanes == 16 && defined(__AVX512F__))
    typedef uint64_t wide __attribute__((vector_size($bytes)));
    const $vector odd_a = ($vector)((wide)a >> 32), odd_b = ($vector)((wide)b >> 32);
#if $lanes == 8
    const wide even = (wide)__builtin_ia32_pmuldq256(a, b);
    const $vector odd = ($vector)__builtin_ia32_pmuldq256(odd_a, odd_b);
    return __builtin_ia32_pblendd256(($vector)(even >> 32), odd, 0xaa);
#else
    typedef long long longs __attribute__((vector_size($bytes)));
    const wide even = (wide)__builtin_ia32_pmuldq512_mask(a, b, (longs){0}, -1);
    const $vector odd = ($vector)__builtin_ia32_pmuldq512_mask(odd_a, odd_b, (longs){0}, -1);
    return __builtin_ia32_blendmd_512_mask(($vector)(even >> 32), odd, 0xaaaa);
#endif
#else
    typedef int64_t wide __attribute__((vector_size(2 * $bytes)));
    const wide product = __builtin_convertvector(a, wide) * __builtin_convertvector(b, wide);
    return __builtin_convertvector(product >> 32, $vector);
#endif
}

//! dot vector integer: dot_product
// Four bytes times four bytes of every lane, added to its sum: `four` holds unsigned bytes,
// `filters` signed ones. One instruction where there is one (VNNI, Arm's usdot); where both have to be
// signed (Arm's sdot), 128 is taken from each byte, and 128 times the filters added, which are the
// same for all pixels of a tile; else 16-bit products in pairs (SSE2, AVX2, AVX-512BW), which are
// exact: 255 * 128 fits; else 32-bit products.
INLINE $vector dot_$vector($vector sums, int32_t four, $vector filters)
{
#if $lanes == 16 && defined(__AVX512VNNI__)
    return ($vector)VPDPBUSD_512(sums, splat_$vector(four), filters);
#elif $lanes == 8 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_256(sums, splat_$vector(four), filters);
#elif $lanes == 4 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_128(sums, splat_$vector(four), filters);
#elif $lanes == 4 && defined(__ARM_FEATURE_MATMUL_INT8)
    const $vector few = splat_$vector(four);
    return ($vector)vusdotq_s32((int32x4_t)sums, (uint8x16_t)few, (int8x16_t)filters);
#elif $lanes == 4 && defined(__ARM_FEATURE_DOTPROD)
    const int32x4_t all = vdotq_s32((int32x4_t){0}, (int8x16_t)filters, vdupq_n_s8(1));
    const $vector few = splat_$vector(four ^ (int32_t)0x80808080);
    return ($vector)vdotq_s32((int32x4_t)sums, (int8x16_t)few, (int8x16_t)filters)
        + (($vector)all << 7);
#else
#if $lanes == 8 && defined(__AVX2__) || $lanes == 4 && defined(__SSE2__)
    typedef int16_t halves __attribute__((vector_size($bytes)));
    typedef uint16_t unsigned_halves __attribute__((vector_size($bytes)));
    $vector few = splat_$vector(four);
    IN_REGISTER(few);
    const halves low = (halves)few & 255, high = (halves)((unsigned_halves)few >> 8);
    const halves low_filters = ((halves)filters << 8) >> 8, high_filters = (halves)filters >> 8;
#if $lanes == 8
    sums += ($vector)__builtin_ia32_pmaddwd256(low, low_filters)
        + ($vector)__builtin_ia32_pmaddwd256(high, high_filters);
#else
    sums += ($vector)__builtin_ia32_pmaddwd128(low, low_filters)
        + ($vector)__builtin_ia32_pmaddwd128(high, high_filters);
#endif
    IN_REGISTER(sums);
    return sums;
#else
    sums += (four & 255) * ((filters << 24) >> 24);
    sums += ((four >> 8) & 255) * ((filters << 16) >> 24);
    sums += ((four >> 16) & 255) * ((filters << 8) >> 24);
    return sums + ((four >> 24) & 255) * (filters >> 24);
#endif
#endif
}

//! dot_fitting vector integer: dot
// The same where the products of bytes 0 and 1, and of 2 and 3, add up to 16 bits. (`vpmaddubsw`
// keeps sums of two within 16 bits; here there is nothing to keep.)
INLINE $vector dot_fitting_$vector($vector sums, int32_t four, $vector filters)
{
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    return dot_$vector(sums, four, filters);
#elif $lanes == 8 && defined(__AVX2__) || $lanes == 4 && defined(__SSSE3__)
    typedef char bytes __attribute__((vector_size($bytes)));
    typedef int16_t halves __attribute__((vector_size($bytes)));
    const halves ones = (halves){0} + 1;
#if $lanes == 8
    const halves pairs =
        (halves)__builtin_ia32_pmaddubsw256((bytes)splat_$vector(four), (bytes)filters);
    sums += ($vector)__builtin_ia32_pmaddwd256(pairs, ones);
#else
    const halves pairs =
        (halves)__builtin_ia32_pmaddubsw128((bytes)splat_$vector(four), (bytes)filters);
    sums += ($vector)__builtin_ia32_pmaddwd128(pairs, ones);
#endif
    IN_REGISTER(sums);
    return sums;
#else
    return dot_$vector(sums, four, filters);
#endif
}

//! dot_fitting_of_signed vector integer: dot_fitting dot_of_signed
INLINE $vector dot_fitting_of_signed_$vector($vector sums, int32_t four, $vector filters)
{
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    return dot_of_signed_$vector(sums, four, filters);
#else
    return dot_fitting_$vector(sums, four ^ (int32_t)0x80808080, filters);
#endif
}

//! dot_sizes vector integer: dot_product
// Sizes of filters times signed bytes whose bits are flipped where `flips` has ones: of those two
// products always fit 16 bits, the largest sum is 2 * 128 * 127, the least 2 * 128 * -128.
INLINE $vector dot_sizes_$vector($vector sums, int32_t four, $vector filters, $vector flips)
{
#if $lanes == 8 && defined(__AVX2__) || $lanes == 4 && defined(__SSSE3__)
    typedef char bytes __attribute__((vector_size($bytes)));
    const bytes few = (bytes)(splat_$vector(four) ^ flips);
#if $lanes == 8
    const bytes sizes = (bytes)__builtin_ia32_pabsb256((bytes)filters);
#else
    const bytes sizes = (bytes)__builtin_ia32_pabsb128((bytes)filters);
#endif
#if $lanes == 8 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_256(sums, ($vector)sizes, ($vector)few);
#else
    typedef int16_t halves __attribute__((vector_size($bytes)));
#if $lanes == 8
    const halves pairs = (halves)__builtin_ia32_pmaddubsw256(sizes, few);
    sums += ($vector)__builtin_ia32_pmaddwd256(pairs, (halves){0} + 1);
#else
    const halves pairs = (halves)__builtin_ia32_pmaddubsw128(sizes, few);
    sums += ($vector)__builtin_ia32_pmaddwd128(pairs, (halves){0} + 1);
#endif
    IN_REGISTER(sums);
    return sums;
#endif
#else
    const $vector few = splat_$vector(four) ^ flips;
    for (int part = 0; part < 32; part += 8) {
        const $vector filter = (filters << (24 - part)) >> 24, sign = filter >> 31;
        sums += ((filter ^ sign) - sign) * ((few << (24 - part)) >> 24);
    }
    return sums;
#endif
}

//! signs vector integer
// All bits of each byte whose sign bit is set.
INLINE $vector signs_$vector($vector filters)
{
    typedef int8_t signed_bytes __attribute__((vector_size($bytes)));
    return ($vector)((signed_bytes)filters < 0);
}

//! dot_split vector integer: dot_sizes signs
// Of bytes without a sign, from which 128 is taken: that flips their highest bit.
INLINE $vector dot_split_$vector($vector sums, int32_t four, $vector filters)
{
    const $vector flips = signs_$vector(filters) ^ (int32_t)0x80808080;
    return dot_sizes_$vector(sums, four, filters, flips);
}

//! dot_split_of_signed vector integer: dot_sizes signs
INLINE $vector dot_split_of_signed_$vector($vector sums, int32_t four, $vector filters)
{
    return dot_sizes_$vector(sums, four, filters, signs_$vector(filters));
}

//! dot_of_signed vector integer: dot
// The same of signed bytes, to which 128 is added: to all lanes at once, with a vector that gcc does
// not see through. It would flip the four in a general register and broadcast them from there, which
// takes three instructions for one that reads, broadcasts and flips.
INLINE $vector dot_of_signed_$vector($vector sums, int32_t four, $vector filters)
{
#if $lanes == 16 && defined(__AVX512VNNI__) || ($lanes == 8 || $lanes == 4) \
    && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    $vector flips = splat_$vector((int32_t)0x80808080);
    IN_REGISTER(flips);
    const $vector few = splat_$vector(four) ^ flips;
#if $lanes == 16
    return ($vector)VPDPBUSD_512(sums, few, filters);
#elif $lanes == 8
    return ($vector)VPDPBUSD_256(sums, few, filters);
#else
    return ($vector)VPDPBUSD_128(sums, few, filters);
#endif
#else
    return dot_$vector(sums, four ^ (int32_t)0x80808080, filters);
#endif
}

//! dot_small vector integer: dot_product
// Four signed bytes times four numbers without a sign that are below 128, of every lane, added to its
// sum: two products of the largest of them, 2 * 127 * -128, fit into 16 bits. Arm's sdot takes such
// numbers as signed ones.
INLINE $vector dot_small_$vector($vector sums, int32_t four, $vector filters)
{
#if $lanes == 16 && defined(__AVX512VNNI__)
    return ($vector)VPDPBUSD_512(sums, filters, splat_$vector(four));
#elif $lanes == 8 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_256(sums, filters, splat_$vector(four));
#elif $lanes == 4 && (defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
    return ($vector)VPDPBUSD_128(sums, filters, splat_$vector(four));
#elif $lanes == 4 && defined(__ARM_FEATURE_DOTPROD)
    const $vector few = splat_$vector(four);
    return ($vector)vdotq_s32((int32x4_t)sums, (int8x16_t)few, (int8x16_t)filters);
#elif $lanes == 16 && defined(__AVX512BW__) || $lanes == 8 && defined(__AVX2__) \
    || $lanes == 4 && defined(__SSSE3__)
    typedef char bytes __attribute__((vector_size($bytes)));
    typedef int16_t halves __attribute__((vector_size($bytes)));
    const bytes few = (bytes)splat_$vector(four);
#if $lanes == 16 && defined(__clang__)
    const halves pairs = (halves)__builtin_ia32_pmaddubsw512((bytes)filters, few);
    sums += ($vector)__builtin_ia32_pmaddwd512(pairs, (halves){0} + 1);
#elif $lanes == 16
    const halves pairs =
        (halves)__builtin_ia32_pmaddubsw512_mask((bytes)filters, few, (halves){0}, -1);
    sums += ($vector)__builtin_ia32_pmaddwd512_mask(pairs, (halves){0} + 1, ($vector){0}, -1);
#elif $lanes == 8
    const halves pairs = (halves)__builtin_ia32_pmaddubsw256((bytes)filters, few);
    sums += ($vector)__builtin_ia32_pmaddwd256(pairs, (halves){0} + 1);
#else
    const halves pairs = (halves)__builtin_ia32_pmaddubsw128((bytes)filters, few);
    sums += ($vector)__builtin_ia32_pmaddwd128(pairs, (halves){0} + 1);
#endif
    IN_REGISTER(sums);
    return sums;
#else
    sums += (int32_t)(int8_t)four * (filters & 255);
    sums += (int32_t)(int8_t)(four >> 8) * ((filters >> 8) & 255);
    sums += (int32_t)(int8_t)(four >> 16) * ((filters >> 16) & 255);
    return sums + (four >> 24) * ((filters >> 24) & 255);
#endif
}

//! dot_unsigned vector integer: dot_small
// The same of numbers of eight bits: where only smaller ones are multiplied at once, their highest
// bits are apart, of which two products fit 16 bits, too.
INLINE $vector dot_unsigned_$vector($vector sums, int32_t four, $vector filters)
{
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    return dot_small_$vector(sums, four, filters);
#elif $lanes == 4 && defined(__ARM_FEATURE_MATMUL_INT8)
    const $vector few = splat_$vector(four);
    return ($vector)vusdotq_s32((int32x4_t)sums, (uint8x16_t)filters, (int8x16_t)few);
#elif $lanes == 16 && defined(__AVX512BW__) || $lanes == 8 && defined(__AVX2__) \
    || $lanes == 4 && (defined(__SSSE3__) || defined(__ARM_FEATURE_DOTPROD))
    const $vector highest = (filters >> 7) & (int32_t)0x01010101;
    sums = dot_small_$vector(sums, four, filters & (int32_t)0x7f7f7f7f);
    return sums + (dot_small_$vector(($vector){0}, four, highest) << 7);
#else
    return dot_small_$vector(sums, four, filters);
#endif
}

//! dot_low vector integer: dot_small
// Of the lower four bits of each byte.
INLINE $vector dot_low_$vector($vector sums, int32_t four, $vector filters)
{
    return dot_small_$vector(sums, four, filters & (int32_t)0x0f0f0f0f);
}

//! dot_high vector integer: dot_small
// Of the upper four bits of each byte.
INLINE $vector dot_high_$vector($vector sums, int32_t four, $vector filters)
{
    return dot_small_$vector(sums, four, (filters >> 4) & (int32_t)0x0f0f0f0f);
}
