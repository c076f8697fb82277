//! codes: bits
// Floats of a few bits: a sign, an exponent with `bias`, `mantissa` bits behind the point. The code
// of a magnitude is what stands behind the sign; larger codes are larger numbers.
INLINE float float_of_code(unsigned code, int mantissa, int bias)
{
    if (code >> mantissa == 0)  // denormal: a multiple of the smallest number
        return (float)code * as_float((unsigned)(128 - bias - mantissa) << 23);
    return as_float((code << (23 - mantissa)) + ((unsigned)(127 - bias) << 23));
}

// To nearest, ties to even. What is too large gets a code that is too large, NaN the largest.
INLINE unsigned code_of_float(float value, int mantissa, int bias)
{
    const unsigned bits = as_uint(value) & 0x7fffffffu;
    if (bits > 0x7f800000u)
        return 0xffffu;
    const int exponent = (int)(bits >> 23) - 127;
    const int below = exponent < 1 - bias ? 1 - bias - exponent : 0;
    const int dropped = 23 - mantissa + below;
    if (dropped > 24)
        return 0;
    const unsigned significand = (bits & 0x7fffffu) | 0x800000u;
    const unsigned is_odd = (significand >> dropped) & 1u;
    const unsigned kept = (significand + (1u << (dropped - 1)) - 1u + is_odd) >> dropped;
    return ((unsigned)(exponent + below - 1 + bias) << mantissa) + kept;
}

//! float_from_f8e4m3fn scalar: codes
INLINE float float_from_f8e4m3fn(unsigned char bits)
{
    const unsigned code = bits & 0x7fu;
    const float magnitude = code == 0x7fu ? NAN : float_of_code(code, 3, 7);
    return bits & 0x80u ? -magnitude : magnitude;
}

//! f8e4m3fn_from_float scalar: codes
INLINE unsigned char f8e4m3fn_from_float(float value)
{
    const unsigned code = code_of_float(value, 3, 7);
    return (unsigned char)(as_uint(value) >> 24 & 0x80u) | (code > 0x7eu ? 0x7fu : code);
}

//! float_from_f8e4m3fnuz scalar: codes
INLINE float float_from_f8e4m3fnuz(unsigned char bits)
{
    const float magnitude = bits == 0x80u ? NAN : float_of_code(bits & 0x7fu, 3, 8);
    return bits & 0x80u ? -magnitude : magnitude;
}

//! f8e4m3fnuz_from_float scalar: codes
INLINE unsigned char f8e4m3fnuz_from_float(float value)
{
    const unsigned code = code_of_float(value, 3, 8);
    if (code == 0 || code > 0x7fu)  // zero has no sign, and its place is NaN's
        return code ? 0x80u : 0;
    return (unsigned char)(as_uint(value) >> 24 & 0x80u) | code;
}

//! float_from_f8e5m2 scalar: codes
INLINE float float_from_f8e5m2(unsigned char bits)
{
    const unsigned code = bits & 0x7fu;
    const float special = code == 0x7cu ? INFINITY : NAN;
    const float magnitude = code >= 0x7cu ? special : float_of_code(code, 2, 15);
    return bits & 0x80u ? -magnitude : magnitude;
}

//! f8e5m2_from_float scalar: codes
INLINE unsigned char f8e5m2_from_float(float value)
{
    const unsigned code = code_of_float(value, 2, 15);
    const unsigned largest = value != value ? 0x7eu : 0x7cu;
    return (unsigned char)(as_uint(value) >> 24 & 0x80u) | (code > 0x7bu ? largest : code);
}

//! float_from_f8e5m2fnuz scalar: codes
INLINE float float_from_f8e5m2fnuz(unsigned char bits)
{
    const float magnitude = bits == 0x80u ? NAN : float_of_code(bits & 0x7fu, 2, 16);
    return bits & 0x80u ? -magnitude : magnitude;
}

//! f8e5m2fnuz_from_float scalar: codes
INLINE unsigned char f8e5m2fnuz_from_float(float value)
{
    const unsigned code = code_of_float(value, 2, 16);
    if (code == 0 || code > 0x7fu)  // zero has no sign, and its place is NaN's
        return code ? 0x80u : 0;
    return (unsigned char)(as_uint(value) >> 24 & 0x80u) | code;
}

//! float_from_f4e2m1fn scalar: codes
INLINE float float_from_f4e2m1fn(unsigned char bits)
{
    const float magnitude = float_of_code(bits & 0x7u, 1, 1);
    return bits & 0x8u ? -magnitude : magnitude;
}

//! f4e2m1fn_from_float scalar: codes
// There is neither infinity nor NaN: what is too large becomes 6, NaN -0 (as ml_dtypes has it).
INLINE unsigned char f4e2m1fn_from_float(float value)
{
    if (value != value)
        return 0x8u;
    const unsigned code = code_of_float(value, 1, 1);
    return (unsigned char)(as_uint(value) >> 28 & 0x8u) | (code > 0x7u ? 0x7u : code);
}

//! float_from_f8e8m0fnu scalar: bits
// Powers of two, without zero: the exponent of a float.
INLINE float float_from_f8e8m0fnu(unsigned char bits)
{
    if (bits == 0xffu)
        return NAN;
    return as_float(bits ? (unsigned)bits << 23 : 0x400000u);
}

//! f8e8m0fnu_from_float scalar: bits
// Towards zero; NaN and infinity become NaN.
INLINE unsigned char f8e8m0fnu_from_float(float value)
{
    return (unsigned char)(as_uint(value) >> 23 & 0xffu);
}

//! float_from_bf16 scalar: bits
INLINE float float_from_bf16(unsigned short bits)
{
    return as_float((unsigned)bits << 16);
}

//! bf16_from_float scalar: bits
// The upper half of a float, to nearest, ties to even.
INLINE unsigned short bf16_from_float(float value)
{
    const unsigned bits = as_uint(value);
    if (value != value)
        return (unsigned short)(bits >> 16 | 0x40u);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
