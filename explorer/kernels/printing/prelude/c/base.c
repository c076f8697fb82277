//! base
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
// How wide vectors are passed matters to nobody: every function that takes them is inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#define ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#define PRAGMA(text) _Pragma(#text)
#else
#define ATTRIBUTE(...)
#endif
// SMALL_CODE is 1 where no loop of scalars is to become vectors, and 2 where there are no vectors:
// then the compiler decides what is inlined.
#if defined(SMALL_CODE) && SMALL_CODE > 1
#define INLINE static inline ATTRIBUTE(unused)
#else
#define INLINE static inline ATTRIBUTE(always_inline, unused)
#endif
#if !defined(__GNUC__)
#define UNROLL(count)
#elif defined(__clang__)
#define UNROLL(count) PRAGMA(unroll count)
#else
#define UNROLL(count) PRAGMA(GCC unroll count)
#endif
#if defined(SMALL_CODE) || !defined(__GNUC__) || defined(__clang__)
#define VECTORIZE_LOOPS
#else
// For plain loops: the compiler may find vectors where the schedule made none. Where zeros had no
// sign, gcc (12) would make c ? x * y : 0 of x * (c ? y : 0), which is another number for infinite x.
#define VECTORIZE_LOOPS \
    ATTRIBUTE(optimize("tree-vectorize", "vect-cost-model=dynamic", "signed-zeros"))
#endif
#if defined(__SSE__) && defined(__GNUC__) && !defined(__clang__)
#define GCC_INSTRUCTIONS  // gcc's names of the instructions
#endif

//! prefetch
// Asks for a line that something reads later; beyond the end of an array it asks for nothing.
INLINE void prefetch(const void *place)
{
    __builtin_prefetch(place, 0, 3);
}

// For the second cache: line number `line` of a block, or its last one.
INLINE void prefetch_line(const void *block, long line, long last)
{
    __builtin_prefetch((const char *)block + 64 * (line < last ? line : last), 0, 2);
}

//! dot_product
// gcc (12) computes all products of a tile before it adds the first one, and spills them, unless
// each sum has to be in a register.
#if defined(__x86_64__) && !defined(__clang__)
#define IN_REGISTER(vector) __asm__("" : "+x"(vector))
#else
#define IN_REGISTER(vector)
#endif
#if defined(__ARM_FEATURE_DOTPROD) || defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>
#endif
#ifdef VPDPBUSD_512  // named already: what stands in for it on a processor without
#elif defined(__clang__)
#define VPDPBUSD_512(sums, bytes, filters) __builtin_ia32_vpdpbusd512(sums, bytes, filters)
#define VPDPBUSD_256(sums, bytes, filters) __builtin_ia32_vpdpbusd256(sums, bytes, filters)
#define VPDPBUSD_128(sums, bytes, filters) __builtin_ia32_vpdpbusd128(sums, bytes, filters)
#else
#define VPDPBUSD_512(sums, bytes, filters) __builtin_ia32_vpdpbusd_v16si(sums, bytes, filters)
#define VPDPBUSD_256(sums, bytes, filters) __builtin_ia32_vpdpbusd_v8si(sums, bytes, filters)
#define VPDPBUSD_128(sums, bytes, filters) __builtin_ia32_vpdpbusd_v4si(sums, bytes, filters)
#endif

//! bits
INLINE float as_float(uint32_t bits)
{
    const union { uint32_t bits; float value; } both = {bits};
    return both.value;
}

INLINE uint32_t as_uint(float value)
{
    const union { float value; uint32_t bits; } both = {value};
    return both.bits;
}

INLINE int32_t as_int(float value)
{
    return (int32_t)as_uint(value);
}

INLINE double as_double(uint64_t bits)
{
    const union { uint64_t bits; double value; } both = {bits};
    return both.value;
}

INLINE uint64_t as_ulong(double value)
{
    const union { double value; uint64_t bits; } both = {value};
    return both.bits;
}

INLINE int64_t as_long(double value)
{
    return (int64_t)as_ulong(value);
}

//! splat scalar
INLINE $scalar splat_$suffix($scalar value)
{
    return value;
}

//! select scalar
INLINE $scalar select_$suffix(int condition, $scalar if_true, $scalar if_false)
{
    return condition ? if_true : if_false;
}

//! as scalar: bits

//! convert scalar float
INLINE $scalar convert_$suffix($mask whole)
{
    return ($scalar)whole;
}

//! larger scalar float
// a > b ? a : b, so b where one of them is a NaN.
INLINE $scalar larger_$suffix($scalar a, $scalar b)
{
    return a > b ? a : b;
}

//! smaller scalar float
INLINE $scalar smaller_$suffix($scalar a, $scalar b)
{
    return a < b ? a : b;
}

//! erfc scalar double
INLINE double erfc_double(double x)
{
    return erfc(x);
}

//! maximum scalar float
// A NaN in either operand wins: the comparison is false for one in b, a != a finds one in a.
INLINE $scalar maximum_$suffix($scalar a, $scalar b)
{
    return a > b || a != a ? a : b;
}

//! minimum scalar float
INLINE $scalar minimum_$suffix($scalar a, $scalar b)
{
    return a < b || a != a ? a : b;
}

//! maximum scalar integer
INLINE $scalar maximum_$suffix($scalar a, $scalar b)
{
    return a > b ? a : b;
}

//! minimum scalar integer
INLINE $scalar minimum_$suffix($scalar a, $scalar b)
{
    return a < b ? a : b;
}

//! absolute scalar integer
INLINE $scalar absolute_$suffix($scalar value)
{
    return value < 0 ? -value : value;
}

//! high_product scalar integer
INLINE $scalar high_product_$suffix($scalar a, $scalar b)
{
    return ($scalar)(((int64_t)a * b + 0x40000000) >> 31);
}

//! upper_product scalar integer
INLINE $scalar upper_product_$suffix($scalar a, $scalar b)
{
    return ($scalar)((int64_t)a * b >> 32);
}

//! floor_divide scalar integer
INLINE $scalar floor_divide_$suffix($scalar dividend, $scalar divisor)
{
    const $scalar quotient = dividend / divisor;
    return quotient - (dividend % divisor != 0 && (dividend < 0) != (divisor < 0));
}

//! power scalar integer
// By squaring; a negative exponent gives 0 but for the bases 1 and -1.
INLINE $scalar power_$suffix($scalar base, $scalar exponent)
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
