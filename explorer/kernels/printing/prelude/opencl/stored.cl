//! float_from_f16 scalar
// Every device reads and writes halves in memory; few compute with them.
INLINE float float_from_f16(ushort bits)
{
    return vload_half(0, (const half *)&bits);
}

//! f16_from_float scalar
INLINE ushort f16_from_float(float value)
{
    ushort bits;
    vstore_half_rte(value, 0, (half *)&bits);
    return bits;
}

//! float_from_f16 vector
INLINE float$lanes float_from_f16_$vector($vector bits)
{
    return vload_half$lanes(0, (const half *)&bits);
}

//! f16_from_float vector
INLINE $vector f16_from_float_$vector(float$lanes value)
{
    $vector bits;
    vstore_half${lanes}_rte(value, 0, (half *)&bits);
    return bits;
}

//! float_from_bf16 vector
INLINE float$lanes float_from_bf16_$vector($vector bits)
{
    return as_float$lanes(convert_uint$lanes(bits) << 16);
}

//! bf16_from_float vector
INLINE $vector bf16_from_float_$vector(float$lanes value)
{
    const uint$lanes bits = as_uint$lanes(value);
    const uint$lanes rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return convert_$vector(select(rounded, bits >> 16 | 0x40u, value != value));
}
