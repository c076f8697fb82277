//! matrix_instructions
// Tiles of AMX: 16 rows of 64 bytes. Linux gives them to processes that ask (ARCH_REQ_XCOMP_PERM of
// the state 18, Documentation/arch/x86/xstate.rst), and refuses where the machine has none.
#ifdef AMX_LOAD  // named already: what stands in for it on a processor without
#elif defined(__AMX_INT8__) && defined(__AMX_TILE__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define AMX_LOAD(tile, first, stride) _tile_loadd(tile, first, stride)
#define AMX_STORE(tile, first, stride) _tile_stored(tile, first, stride)
#define AMX_DOT_int16(sums, bytes, filters) _tile_dpbusd(sums, bytes, filters)
#if defined(__AMX_BF16__)
#define AMX_DOT_float16(sums, pairs, filters) _tile_dpbf16ps(sums, pairs, filters)
#endif
#define AMX_CONFIGURE(settings) _tile_loadconfig(settings)
#define AMX_RELEASE() _tile_release()
#define AMX_ASK() (syscall(SYS_arch_prctl, 0x1023, 18) == 0)
#endif
#ifdef AMX_LOAD
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_of_row[16];
    uint8_t rows[16];
} tile_settings = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}
};

static int has_tiles(void)
{
    static _Thread_local int answer;
    if (!answer) answer = AMX_ASK() ? 1 : -1;
    return answer > 0;
}
#endif
// 2 x 2 sums, with 8 bytes of two rows and of two columns: four numbers of bfloat16 each, or 8.
#ifdef __ARM_FEATURE_MATMUL_INT8
#include <arm_neon.h>
#define MMLA_int4(sums, left, right) (int32x4_t)vusmmlaq_s32(sums, left, (int8x16_t)(right))
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#include <arm_neon.h>
#define MMLA_float4(sums, left, right) \
    (int32x4_t)vbfmmlaq_f32((float32x4_t)(sums), (bfloat16x8_t)(left), (bfloat16x8_t)(right))
#endif

//! matrix_group vector integer: dot
// What one group of a row, four bytes, adds to the sums of a vector.
INLINE $vector add_group_$vector($vector sums, int32_t group, $mask filters)
{
    return dot_$vector(sums, group, filters);
}

//! matrix_group vector float: dot_pairs
// What one group of a row, two bfloat16, adds to the sums of a vector.
INLINE $vector add_group_$vector($vector sums, int32_t group, $mask filters)
{
    return dot_pairs_$vector(sums, group, filters);
}

//! matrix vector: matrix_group matrix_instructions
// sums[r][v] += what is in row r times the filters of vector v, in groups of four bytes or of two
// bfloat16. `flips` is added to every byte as 128 is to signed ones, and 0 for bfloat16. Rows, vectors
// and flips are constants of the call; strides are in bytes.
INLINE void matrix_dots_$vector($vector *sums, int row, int rows, int vectors,
    const void *bytes, long row_stride, const void *filters, long vector_stride,
    long group, long groups, int32_t flips)
{
    int r = row;
    for (; vectors == 2 && r + 4 <= rows; r += 4) {  // eight sums that do not wait for each other
        $vector tile[4][2];
        UNROLL(8)
        for (int i = 0; i < 8; i++) tile[i / 2][i % 2] = sums[r * 2 + i];
        for (long g = group; g < groups; g++) {
            $mask all[2];
            UNROLL(2)
            for (int v = 0; v < 2; v++)
                __builtin_memcpy(&all[v], (const char *)filters + v * vector_stride
                    + g * (long)sizeof all[v], sizeof all[v]);
            UNROLL(4)
            for (int i = 0; i < 4; i++) {
                int32_t four;
                __builtin_memcpy(&four, (const char *)bytes + (r + i) * row_stride + g * 4, 4);
                UNROLL(2)
                for (int v = 0; v < 2; v++)
                    tile[i][v] = add_group_$vector(tile[i][v], four ^ flips, all[v]);
            }
        }
        UNROLL(8)
        for (int i = 0; i < 8; i++) sums[r * 2 + i] = tile[i / 2][i % 2];
    }
    for (; r < rows; r++) {
        for (int v = 0; v < vectors; v++) {
            $vector sum = sums[r * vectors + v];
            for (long g = group; g < groups; g++) {
                int32_t four;
                $mask all;
                __builtin_memcpy(&four, (const char *)bytes + r * row_stride + g * 4, 4);
                __builtin_memcpy(&all,
                    (const char *)filters + v * vector_stride + g * (long)sizeof all, sizeof all);
                sum = add_group_$vector(sum, four ^ flips, all);
            }
            sums[r * vectors + v] = sum;
        }
    }
}

INLINE void matrix_$vector($vector *sums, int rows, int vectors,
    const void *bytes, long row_stride, const void *filters, long vector_stride,
    long groups, int32_t flips)
{
    int row = 0;
    long group = 0;
#if defined(AMX_LOAD) && defined(AMX_DOT_$vector)
    if (has_tiles() && groups >= 16) {
        const long pitch = vectors * (long)sizeof *sums;
        AMX_CONFIGURE(&tile_settings);
        for (; row + 16 <= rows; row += 16) {
            const char *left = (const char *)bytes + row * row_stride;
            for (int v = 0; v < vectors; v += 2) {
                const int is_pair = v + 1 < vectors;
                const char *right = (const char *)filters + v * vector_stride;
                char *place = (char *)(sums + row * vectors + v);
                AMX_LOAD(0, place, pitch);
                if (is_pair) AMX_LOAD(1, place + sizeof *sums, pitch);
                for (group = 0; group + 16 <= groups; group += 16) {
                    if (flips) {
                        uint64_t flipped[16][8], wide = (uint32_t)flips;
                        wide |= wide << 32;
                        for (int r = 0; r < 16; r++) {
                            __builtin_memcpy(flipped[r], left + r * row_stride + group * 4, 64);
                            for (int i = 0; i < 8; i++) flipped[r][i] ^= wide;
                        }
                        AMX_LOAD(2, flipped, 64);
                    } else {
                        AMX_LOAD(2, left + group * 4, row_stride);
                    }
                    AMX_LOAD(3, right + group * 64, 64);
                    AMX_DOT_$vector(0, 2, 3);
                    if (is_pair) {
                        AMX_LOAD(4, right + vector_stride + group * 64, 64);
                        AMX_DOT_$vector(1, 2, 4);
                    }
                }
                AMX_STORE(0, place, pitch);
                if (is_pair) AMX_STORE(1, place + sizeof *sums, pitch);
            }
        }
        AMX_RELEASE();
        // What is left of the groups, for the rows that the tiles had.
        matrix_dots_$vector(sums, 0, row, vectors, bytes, row_stride, filters, vector_stride,
            group, groups, flips);
    }
#elif defined(MMLA_$vector)
    // Sums of two rows and two columns are one vector: of two groups, 8 bytes of each row are
    // multiplied with 8 of each column's filters.
    for (; row + 8 <= rows && groups >= 2 && vectors % 2 == 0; row += 8) {
        for (int v = 0; v < vectors; v += 2) {
            int32x4_t tile[4][4];
            UNROLL(4)
            for (int r = 0; r < 4; r++) {
                UNROLL(2)
                for (int c = 0; c < 2; c++) {
                    const int64x2_t upper = (int64x2_t)sums[(row + 2 * r) * vectors + v + c];
                    const int64x2_t lower = (int64x2_t)sums[(row + 2 * r + 1) * vectors + v + c];
                    tile[r][2 * c] = (int32x4_t)vzip1q_s64(upper, lower);
                    tile[r][2 * c + 1] = (int32x4_t)vzip2q_s64(upper, lower);
                }
            }
            for (group = 0; group + 2 <= groups; group += 2) {
                int8x16_t right[4];
                UNROLL(2)
                for (int c = 0; c < 2; c++) {
                    const int8_t *first =
                        (const int8_t *)filters + (v + c) * vector_stride + group * 16;
                    const int32x4_t even = (int32x4_t)vld1q_s8(first);
                    const int32x4_t odd = (int32x4_t)vld1q_s8(first + 16);
                    right[2 * c] = (int8x16_t)vzip1q_s32(even, odd);
                    right[2 * c + 1] = (int8x16_t)vzip2q_s32(even, odd);
                }
                UNROLL(4)
                for (int r = 0; r < 4; r++) {
                    const uint8_t *first =
                        (const uint8_t *)bytes + (row + 2 * r) * row_stride + group * 4;
                    uint8x16_t left = vcombine_u8(vld1_u8(first), vld1_u8(first + row_stride));
                    left ^= (uint8x16_t)vdupq_n_s32(flips);
                    UNROLL(4)
                    for (int c = 0; c < 4; c++)
                        tile[r][c] = MMLA_$vector(tile[r][c], left, right[c]);
                }
            }
            UNROLL(4)
            for (int r = 0; r < 4; r++) {
                UNROLL(2)
                for (int c = 0; c < 2; c++) {
                    const int64x2_t first = (int64x2_t)tile[r][2 * c];
                    const int64x2_t second = (int64x2_t)tile[r][2 * c + 1];
                    sums[(row + 2 * r) * vectors + v + c] = ($vector)vzip1q_s64(first, second);
                    sums[(row + 2 * r + 1) * vectors + v + c] = ($vector)vzip2q_s64(first, second);
                }
            }
        }
    }
    matrix_dots_$vector(sums, 0, row, vectors, bytes, row_stride, filters, vector_stride,
        group, groups, flips);
#endif
    matrix_dots_$vector(sums, row, rows, vectors, bytes, row_stride, filters, vector_stride,
        0, groups, flips);
}
