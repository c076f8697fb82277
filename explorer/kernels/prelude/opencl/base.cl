//! base
#define UNROLL(count) __attribute__((opencl_unroll_hint(count)))
#define INLINE static inline

//! double
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

//! maximum scalar float
// A NaN in either operand wins (fmax would drop it).
static inline $scalar maximum_$suffix($scalar a, $scalar b)
{
    return a > b || a != a ? a : b;
}

//! minimum scalar float
static inline $scalar minimum_$suffix($scalar a, $scalar b)
{
    return a < b || a != a ? a : b;
}

//! maximum scalar integer
static inline $scalar maximum_$suffix($scalar a, $scalar b)
{
    return a > b ? a : b;
}

//! minimum scalar integer
static inline $scalar minimum_$suffix($scalar a, $scalar b)
{
    return a < b ? a : b;
}

//! absolute scalar integer
static inline $scalar absolute_$suffix($scalar value)
{
    return value < 0 ? -value : value;
}

//! floor_divide scalar integer
static inline $scalar floor_divide_$suffix($scalar dividend, $scalar divisor)
{
    const $scalar quotient = dividend / divisor;
    return quotient - (dividend % divisor != 0 && (dividend < 0) != (divisor < 0));
}

//! power scalar integer
// By squaring; a negative exponent gives 0 but for the bases 1 and -1.
static inline $scalar power_$suffix($scalar base, $scalar exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    $scalar result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2)
            result *= base;
        base *= base;
    }
    return result;
}
