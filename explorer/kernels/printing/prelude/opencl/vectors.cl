//! splat
INLINE $vector splat_$vector($scalar value)
{
    return ($vector)(value);
}

//! select: mask
INLINE $vector select_$vector($mask mask, $vector if_true, $vector if_false)
{
    return select(if_false, if_true, mask);
}

//! larger float
// a > b ? a : b in every lane, so b where one of them is a NaN.
INLINE $vector larger_$vector($vector a, $vector b)
{
    return select(b, a, a > b);
}

//! smaller float
INLINE $vector smaller_$vector($vector a, $vector b)
{
    return select(b, a, a < b);
}

//! erfc double
INLINE $vector erfc_$vector($vector x)
{
    return erfc(x);
}

//! lanewise vector
INLINE $vector ${function}_$vector($vector x)
{
    $scalar lanes[$lanes];
    vstore$lanes(x, 0, lanes);
    for (int lane = 0; lane < $lanes; lane++)
        lanes[lane] = $function(lanes[lane]);
    return vload$lanes(0, lanes);
}

//! maximum vector float
// A NaN in either operand wins (fmax would drop it).
static inline $vector maximum_$vector($vector a, $vector b)
{
    return select(b, a, (a > b) | (a != a));
}

//! minimum vector float
static inline $vector minimum_$vector($vector a, $vector b)
{
    return select(b, a, (a < b) | (a != a));
}

//! high_product vector integer
static inline $vector high_product_$vector($vector a, $vector b)
{
    const long$lanes product = convert_long$lanes(a) * convert_long$lanes(b) + 0x40000000L;
    return convert_$vector(product >> 31);
}

//! upper_product vector integer
static inline $vector upper_product_$vector($vector a, $vector b)
{
    return mul_hi(a, b);
}

//! maximum vector integer
static inline $vector maximum_$vector($vector a, $vector b)
{
    return max(a, b);
}

//! minimum vector integer
static inline $vector minimum_$vector($vector a, $vector b)
{
    return min(a, b);
}

//! absolute vector integer
static inline $vector absolute_$vector($vector value)
{
    return max(value, -value);
}

//! reduce_add wide: half_reduce_add
static inline $scalar reduce_add_$vector($vector v)
{
    return reduce_add_$half_vector(v.lo + v.hi);
}

//! reduce_add narrow
static inline $scalar reduce_add_$vector($vector v)
{
    return (v.s0 + v.s2) + (v.s1 + v.s3);
}

//! reduce_multiply wide: half_reduce_multiply
static inline $scalar reduce_multiply_$vector($vector v)
{
    return reduce_multiply_$half_vector(v.lo * v.hi);
}

//! reduce_multiply narrow
static inline $scalar reduce_multiply_$vector($vector v)
{
    return (v.s0 * v.s2) * (v.s1 * v.s3);
}

//! reduce_and wide: half_reduce_and
static inline $scalar reduce_and_$vector($vector v)
{
    return reduce_and_$half_vector(v.lo & v.hi);
}

//! reduce_and narrow
static inline $scalar reduce_and_$vector($vector v)
{
    return (v.s0 & v.s2) & (v.s1 & v.s3);
}

//! reduce_or wide: half_reduce_or
static inline $scalar reduce_or_$vector($vector v)
{
    return reduce_or_$half_vector(v.lo | v.hi);
}

//! reduce_or narrow
static inline $scalar reduce_or_$vector($vector v)
{
    return (v.s0 | v.s2) | (v.s1 | v.s3);
}

//! reduce_xor wide: half_reduce_xor
static inline $scalar reduce_xor_$vector($vector v)
{
    return reduce_xor_$half_vector(v.lo ^ v.hi);
}

//! reduce_xor narrow
static inline $scalar reduce_xor_$vector($vector v)
{
    return (v.s0 ^ v.s2) ^ (v.s1 ^ v.s3);
}

//! reduce_maximum wide: half_maximum half_reduce_maximum
static inline $scalar reduce_maximum_$vector($vector v)
{
    return reduce_maximum_$half_vector(maximum_$half_vector(v.lo, v.hi));
}

//! reduce_maximum narrow: scalar_maximum
static inline $scalar reduce_maximum_$vector($vector v)
{
    return maximum_$suffix(maximum_$suffix(v.s0, v.s2), maximum_$suffix(v.s1, v.s3));
}

//! reduce_minimum wide: half_minimum half_reduce_minimum
static inline $scalar reduce_minimum_$vector($vector v)
{
    return reduce_minimum_$half_vector(minimum_$half_vector(v.lo, v.hi));
}

//! reduce_minimum narrow: scalar_minimum
static inline $scalar reduce_minimum_$vector($vector v)
{
    return minimum_$suffix(minimum_$suffix(v.s0, v.s2), minimum_$suffix(v.s1, v.s3));
}

//! interleave_low vector
static inline $vector interleave_low_$vector($vector a, $vector b)
{
#if $lanes == 16
    return ($vector)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3,
        a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
#elif $lanes == 8
    return ($vector)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3);
#elif $lanes == 4
    return ($vector)(a.s0, b.s0, a.s1, b.s1);
#endif
}

//! interleave_high vector
static inline $vector interleave_high_$vector($vector a, $vector b)
{
#if $lanes == 16
    return ($vector)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb,
        a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
#elif $lanes == 8
    return ($vector)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
#elif $lanes == 4
    return ($vector)(a.s2, b.s2, a.s3, b.s3);
#endif
}
