//! mma_ptx
// 16 x 8 sums of float32 += 16 x 16 halves * 16 x 8 halves, by the 32 work-items of a warp.
INLINE void mma_ptx(float *sums, const uint *a, const uint *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//! mma_emulated
// The same in OpenCL C: the items lay their fragments side by side (6 words each) and look up
// those of the others. Every item of the work-group must come here.
INLINE void mma_emulated(float *sums, const uint *a, const uint *b, __local uint *fragments)
{
    const int lane = (int)get_local_id(0) % 32;
    __local uint *warp = fragments + get_local_id(0) / 32 * 192;
    for (int i = 0; i < 4; i++) warp[lane * 6 + i] = a[i];
    for (int i = 0; i < 2; i++) warp[lane * 6 + 4 + i] = b[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; i++) {
        const int high = i / 2, column = lane % 4 * 2 + i % 2;
        float sum = sums[i];
        for (int k = 0; k < 16; k++) {
            const int pair = k % 8 / 2, further = k / 8;
            __local const uint *x = warp + (lane / 4 * 4 + pair) * 6 + high + 2 * further;
            __local const uint *w = warp + (column * 4 + pair) * 6 + 4 + further;
            sum += vload_half(k % 2, (__local const half *)x)
                * vload_half(k % 2, (__local const half *)w);
        }
        sums[i] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
