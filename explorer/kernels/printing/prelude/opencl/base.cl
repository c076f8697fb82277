//! base
#define UNROLL(count) __attribute__((opencl_unroll_hint(count)))
#define INLINE static inline

//! task
// With PHASES every phase is a kernel of its own, so that values in between can be read. Without,
// one kernel runs them all: a function of its own for each keeps compiling linear.
#ifdef PHASES
#define TASK INLINE
#else
#define TASK static __attribute__((noinline))
#endif

//! chain
// Progress of a section: claims that were taken and claims that are done, each on a cache line of
// its own. Both count on from run to run, modulo 2^32, so that nothing is reset between runs; a
// work-item of an earlier run finds nothing to take and nothing to wait for. Every access that
// orders others is a read-modify-write of the same number, which is a full barrier on processors.
#define PROGRESS_UINTS 32
#define SPINS 300  // pauses at the end of a section before the processor is yielded

// The next claim of a section, or `claims` where all are taken.
INLINE uint chain_claim(volatile __global uint *taken, const uint begin, const uint claims)
{
    for (;;) {
        const uint known = *taken;
        if (known - begin >= claims)
            return claims;
        if (atomic_cmpxchg(taken, known, known + 1) == known)
            return known - begin;
    }
}

// Waits until all claims are done. Whoever holds one is running, so that this ends.
INLINE void chain_wait(volatile __global uint *done, const uint begin, const uint claims)
{
    for (int spins = 0; *done - begin < claims; spins++) {
#if defined(__x86_64__) && defined(__linux__)
        long number = 24;  // sched_yield
        if (spins < SPINS)
            __builtin_ia32_pause();
        else
            __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    atomic_add(done, 0);
}

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

//! high_product scalar integer
static inline $scalar high_product_$suffix($scalar a, $scalar b)
{
    return ($scalar)(((long)a * b + 0x40000000) >> 31);
}

//! upper_product scalar integer
static inline $scalar upper_product_$suffix($scalar a, $scalar b)
{
    return mul_hi(a, b);
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
