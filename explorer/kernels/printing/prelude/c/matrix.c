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
#define AMX_ZEROS_int16  // zero times any filter is zero
// gcc is not told what tile instructions read, and would leave out what is written for them alone.
#define WRITTEN(place) __asm__ volatile("" : : "r"(place) : "memory")
// Seven tiles: four of sums, one of so many rows of bytes, two of filters. A function configures
// them where their rows change, which takes longer than a product of tiles.
INLINE void configure_tiles(int *configured, int rows)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes_of_row[16];
        uint8_t rows[16];
    } settings = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64}, {0, 0, 0, 0, 0, 16, 16}};
    if (*configured == rows) return;
    *configured = rows;
    for (int i = 0; i < 5; i++) settings.rows[i] = (uint8_t)rows;
    WRITTEN(&settings);
    AMX_CONFIGURE(&settings);
}

INLINE void release_tiles(int *configured)
{
    if (*configured) AMX_RELEASE();
}
#define TILE_ROWS int tile_rows __attribute__((cleanup(release_tiles))) = 0

static int has_tiles(void)
{
    static _Thread_local int answer;
    if (!answer) answer = AMX_ASK() ? 1 : -1;
    return answer > 0;
}
#else
#define TILE_ROWS int tile_rows = 0
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

//! matrix_pieces vector: matrix_group matrix_instructions
// Where in a row piece i begins, in bytes: three loops count the pieces, the last one the fastest.
INLINE long piece_$vector(long i, long stride0, long extent1, long stride1, long extent2, long stride2)
{
    return i / (extent1 * extent2) * stride0 + i / extent2 % extent1 * stride1 + i % extent2 * stride2;
}

// sums[r][v] += what is in row r times the filters of vector v, in groups of four bytes or of two
// bfloat16: of each piece from `piece` on those from `group` on. `flips` is added to every byte as 128
// is to signed ones, and 0 for bfloat16. Numbers are constants of the call; strides are in bytes.
INLINE void matrix_dots_$vector($vector *sums, int row, int rows, int vectors,
    const void *bytes, long row_stride, const void *filters, long vector_stride,
    long groups, int32_t flips, long extent0, long stride0, long extent1, long stride1,
    long extent2, long stride2, long piece, long group)
{
    const long pieces = extent0 * extent1 * extent2;
    int r = row;
    if (piece >= pieces || group >= groups) return;
    for (; vectors == 2 && r + 4 <= rows; r += 4) {  // eight sums that do not wait for each other
        $vector tile[4][2];
        UNROLL(8)
        for (int i = 0; i < 8; i++) tile[i / 2][i % 2] = sums[r * 2 + i];
        for (long p = piece; p < pieces; p++) {
            const char *left = (const char *)bytes + r * row_stride
                + piece_$vector(p, stride0, extent1, stride1, extent2, stride2);
            for (long g = group; g < groups; g++) {
                $mask all[2];
                UNROLL(2)
                for (int v = 0; v < 2; v++)
                    __builtin_memcpy(&all[v], (const char *)filters + v * vector_stride
                        + (p * groups + g) * (long)sizeof all[v], sizeof all[v]);
                UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    int32_t four;
                    __builtin_memcpy(&four, left + i * row_stride + g * 4, 4);
                    UNROLL(2)
                    for (int v = 0; v < 2; v++)
                        tile[i][v] = add_group_$vector(tile[i][v], four ^ flips, all[v]);
                }
            }
        }
        UNROLL(8)
        for (int i = 0; i < 8; i++) sums[r * 2 + i] = tile[i / 2][i % 2];
    }
    for (; r < rows; r++) {
        for (int v = 0; v < vectors; v++) {
            $vector sum = sums[r * vectors + v];
            for (long p = piece; p < pieces; p++) {
                const char *left = (const char *)bytes + r * row_stride
                    + piece_$vector(p, stride0, extent1, stride1, extent2, stride2);
                for (long g = group; g < groups; g++) {
                    int32_t four;
                    $mask all;
                    __builtin_memcpy(&four, left + g * 4, 4);
                    __builtin_memcpy(&all, (const char *)filters + v * vector_stride
                        + (p * groups + g) * (long)sizeof all, sizeof all);
                    sum = add_group_$vector(sum, four ^ flips, all);
                }
            }
            sums[r * vectors + v] = sum;
        }
    }
}

#if defined(AMX_LOAD) && defined(AMX_DOT_$vector)
// Tile 4 = 64 bytes of each row: as they lie there, or gathered from pieces of so many groups. The
// first `known` groups are zeros.
INLINE void load_rows_$vector(const char *bytes, int rows, long row_stride, long groups,
    int32_t flips, long stride0, long extent1, long stride1, long extent2, long stride2, long piece,
    long known)
{
    if (groups >= 16 && !flips && !known) {
        AMX_LOAD(4, bytes, row_stride);
        return;
    }
    typedef int32_t quad __attribute__((vector_size(16)));
    int32_t gathered[16][16] __attribute__((aligned(64)));
    const long together = groups >= 16 ? 16 : groups;
    for (long p = 0; p < 16 / together; p++) {
        const char *first = bytes;
        if (groups < 16) first += piece_$vector(piece + p, stride0, extent1, stride1, extent2, stride2);
        for (int r = 0; r < rows; r++, first += row_stride) {
            int32_t *to = gathered[r] + p * together;
            long g = 0;
            for (quad four; g + 4 <= together; g += 4) {
                __builtin_memcpy(&four, first + g * 4, sizeof four);
                four ^= flips;
                __builtin_memcpy(to + g, &four, sizeof four);
            }
            for (int32_t one; g < together; g++) {
                __builtin_memcpy(&one, first + g * 4, sizeof one);
                to[g] = one ^ flips;
            }
        }
    }
    for (int r = 0; known && r < rows; r++)
        for (long g = 0; g < known; g++) gathered[r][g] = 0;
    WRITTEN(gathered);
    AMX_LOAD(4, gathered, 64);
}

// Adds tile 4 times the filters of up to four vectors to tiles 0 to 3.
INLINE void add_tiles_$vector(int vectors, const char *filters, long vector_stride)
{
    AMX_LOAD(5, filters, 64);
    AMX_DOT_$vector(0, 4, 5);
    if (vectors > 1) {
        AMX_LOAD(6, filters + vector_stride, 64);
        AMX_DOT_$vector(1, 4, 6);
    }
    if (vectors > 2) {
        AMX_LOAD(5, filters + 2 * vector_stride, 64);
        AMX_DOT_$vector(2, 4, 5);
    }
    if (vectors > 3) {
        AMX_LOAD(6, filters + 3 * vector_stride, 64);
        AMX_DOT_$vector(3, 4, 6);
    }
}
#endif

// The whole sums of a tile, whose rows lie in extent0 * extent1 * extent2 pieces of `groups` groups.
INLINE void matrix_pieces_$vector(int *configured, $vector *sums, int rows, int vectors,
    const void *bytes, long row_stride, const void *filters, long vector_stride,
    long groups, int32_t flips, long extent0, long stride0, long extent1, long stride1,
    long extent2, long stride2)
{
    int row = 0;
    (void)configured;
#if defined(AMX_LOAD) && defined(AMX_DOT_$vector)
    const long pieces = extent0 * extent1 * extent2;
    // A tile takes 16 groups: of one piece, or of so many that 16 is filled.
    const long together = groups >= 16 ? 1 : 16 % groups ? pieces + 1 : 16 / groups;
    const long step = groups >= 16 ? 16 : groups;
    if (together <= pieces && has_tiles()) {
#ifdef AMX_ZEROS_$vector
        const long whole = pieces, most = groups;
#else  // zero times infinity is no zero
        const long whole = pieces / together * together, most = groups / step * step;
#endif
        const long pitch = vectors * (long)sizeof *sums;
        for (; row + 4 <= rows; row += 16) {
            const int height = row + 16 <= rows ? 16 : rows - row;
            configure_tiles(configured, height);
            WRITTEN(sums);
            for (int v = 0; v < vectors; v += 4) {
                char *place = (char *)(sums + row * vectors + v);
                AMX_LOAD(0, place, pitch);
                if (v + 1 < vectors) AMX_LOAD(1, place + sizeof *sums, pitch);
                if (v + 2 < vectors) AMX_LOAD(2, place + 2 * sizeof *sums, pitch);
                if (v + 3 < vectors) AMX_LOAD(3, place + 3 * sizeof *sums, pitch);
                for (long p = 0; p < whole; p += together) {
                    // What is left of the pieces, or of the groups, is the end of a whole tile.
                    const long piece = p + together <= pieces ? p : pieces - together;
                    const char *left = (const char *)bytes + row * row_stride;
                    if (groups >= 16)
                        left += piece_$vector(piece, stride0, extent1, stride1, extent2, stride2);
                    for (long g = 0; g < most; g += step) {
                        const long group = g + step <= groups ? g : groups - step;
                        load_rows_$vector(left + group * 4, height, row_stride, groups, flips,
                            stride0, extent1, stride1, extent2, stride2, piece,
                            (p - piece) * groups + g - group);
                        add_tiles_$vector(vectors - v, (const char *)filters + v * vector_stride
                            + (piece * groups + group) * 64, vector_stride);
                    }
                }
                AMX_STORE(0, place, pitch);
                if (v + 1 < vectors) AMX_STORE(1, place + sizeof *sums, pitch);
                if (v + 2 < vectors) AMX_STORE(2, place + 2 * sizeof *sums, pitch);
                if (v + 3 < vectors) AMX_STORE(3, place + 3 * sizeof *sums, pitch);
            }
        }
        row = row < rows ? row : rows;
        // What is left of the groups, or of the pieces, for the rows that the tiles had.
        matrix_dots_$vector(sums, 0, row, vectors, bytes, row_stride, filters, vector_stride,
            groups, flips, extent0, stride0, extent1, stride1, extent2, stride2,
            groups >= 16 ? 0 : whole, groups >= 16 ? most : 0);
    }
#endif
    matrix_dots_$vector(sums, row, rows, vectors, bytes, row_stride, filters, vector_stride,
        groups, flips, extent0, stride0, extent1, stride1, extent2, stride2, 0, 0);
}

//! matrix vector: matrix_pieces
// The same for rows of one piece.
INLINE void matrix_$vector(int *configured, $vector *sums, int rows, int vectors,
    const void *bytes, long row_stride, const void *filters, long vector_stride,
    long groups, int32_t flips)
{
#if defined(MMLA_$vector)
    (void)configured;
    int row = 0;
    long group = 0;
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
        groups, flips, 1, 0, 1, 0, 1, 0, 0, group);
    matrix_dots_$vector(sums, row, rows, vectors, bytes, row_stride, filters, vector_stride,
        groups, flips, 1, 0, 1, 0, 1, 0, 0, 0);
#else
    matrix_pieces_$vector(configured, sums, rows, vectors, bytes, row_stride, filters, vector_stride,
        groups, flips, 1, 0, 1, 0, 1, 0);
#endif
}
