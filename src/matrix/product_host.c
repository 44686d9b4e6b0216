/* Products are computed in tiles: inputs are widened to the type of the sums, multiplied by
 * OpenBLAS, and the epilogue is applied line by line. Complex products have no epilogue, so
 * OpenBLAS computes them alone. */
#include "matrix/product_host.h"

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/numbers/types.h"
#include "base/numbers/narrow.h"
#include "base/os/team.h"
#include "base/numbers/vmath.h"

#include <troupe/matmul.h>
#include <troupe/worker.h>

#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

enum { TILE = TRP__HOST_TILE };

typedef trp__host_product product; /* used on the thread of the stream */

/* The memory of an actor. */

void trp__host_room_close(trp__host_room *room)
{
    if (room->scratch)
        munmap(room->scratch, TRP__HOST_SCRATCH_BYTES);
    if (room->ring)
        munmap(room->ring, room->ring_bytes);
    if (room->team)
        trp__team_close();
    *room = (trp__host_room){0};
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

trp_status trp__host_room_open(trp__host_room *room, size_t place, trp_error *error)
{
    *room = (trp__host_room){.ring_bytes = TRP_ACTOR_CALLS_MAX * place};
    trp_status status = trp__openblas_load(&room->blas, error);
    if (status != TRP_OK)
        return status;
    trp__team_open();
    room->team = true;
    room->scratch = map(TRP__HOST_SCRATCH_BYTES);
    room->ring = map(room->ring_bytes);
    if (room->scratch && room->ring)
        return TRP_OK;
    status = trp__error_set_errno(error, "scratch memory of an actor for products");
    trp__host_room_close(room);
    return status;
}

void trp__host_room_trim(trp__host_room *room)
{
    madvise(room->scratch, TRP__HOST_SCRATCH_BYTES, MADV_DONTNEED);
}

/* Elements. */

static int64_t at_most_a_tile(int64_t rest)
{
    return rest < TILE ? rest : TILE;
}

/* Widens `count` elements from number `first` on to f32, from types that f32 represents exactly. */
static void widen_some(uint8_t type, const char *from, int64_t first, int64_t count, float *to)
{
    size_t n = (size_t)count;
    const uint8_t *bytes = (const uint8_t *)from + first;
    const uint16_t *pairs = (const uint16_t *)(const void *)from + first;
    switch (type) {
    case TRP_F32:
        memcpy(to, (const float *)(const void *)from + first, n * sizeof *to);
        break;
    case TRP_F16:
        trp__f16_to_f32_array(pairs, to, n);
        break;
    case TRP_BF16:
        trp__bf16_to_f32_array(pairs, to, n);
        break;
    case TRP_F8E4M3:
        trp__f8e4m3_to_f32_array(bytes, to, n);
        break;
    case TRP_F8E5M2:
        trp__f8e5m2_to_f32_array(bytes, to, n);
        break;
    case TRP_F4E2M1:
        for (size_t i = 0; i < n; i++)
            to[i] = trp__f4e2m1_load((const uint8_t *)from, (size_t)first + i);
        break;
    case TRP_I4:
        for (size_t i = 0; i < n; i++)
            to[i] = trp__i4_load((const uint8_t *)from, (size_t)first + i);
        break;
    case TRP_I8:
        for (size_t i = 0; i < n; i++)
            to[i] = (int8_t)bytes[i];
        break;
    }
}

static int8_t to_i8(float value)
{
    float rounded = nearbyintf(value);
    return rounded >= 127 ? 127 : rounded <= -128 ? -128 : rounded != rounded ? 0 : (int8_t)rounded;
}

static void narrow_some(uint8_t type, const float *from, char *to, int64_t first, int64_t count)
{
    size_t n = (size_t)count;
    uint8_t *bytes = (uint8_t *)to + first;
    uint16_t *pairs = (uint16_t *)(void *)to + first;
    switch (type) {
    case TRP_F32:
        memcpy((float *)(void *)to + first, from, n * sizeof *from);
        break;
    case TRP_F16:
        trp__f32_to_f16_array(from, pairs, n);
        break;
    case TRP_BF16:
        trp__f32_to_bf16_array(from, pairs, n);
        break;
    case TRP_F8E4M3:
        trp__f32_to_f8e4m3_array(from, bytes, n);
        break;
    case TRP_F8E5M2:
        trp__f32_to_f8e5m2_array(from, bytes, n);
        break;
    case TRP_F4E2M1:
        for (size_t i = 0; i < n; i++)
            trp__f4e2m1_store((uint8_t *)to, (size_t)first + i, from[i]);
        break;
    case TRP_I8:
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)to_i8(from[i]);
        break;
    }
}

static bool get_bit(const char *bits, int64_t place)
{
    return (uint8_t)bits[place / 8] >> place % 8 & 1;
}

static void set_bit(char *bits, int64_t place, bool value)
{
    uint8_t mask = (uint8_t)(1u << place % 8);
    uint8_t old = (uint8_t)bits[place / 8];
    bits[place / 8] = (char)(value ? old | mask : old & ~mask);
}

/* Returns whether the contiguous dimension of A or B is k. */
static bool lines_along_k(const trp__matmul *g, int which)
{
    return which == TRP__MATMUL_A ? g->trans_a != TRP_N : g->trans_b == TRP_N;
}

/* The scale factors of A or B. */
typedef struct scales {
    bool per_line;
    trp_scale_mode mode;
    const void *at;
    int64_t lines, blocks; /* blocks along k */
} scales;

static scales scales_of(const product *x, int which, int64_t batch)
{
    const trp__matmul *g = &x->g;
    bool a = which == TRP__MATMUL_A;
    trp_scale_mode mode = (trp_scale_mode)(a ? g->scale_a : g->scale_b);
    int64_t width = mode == TRP_SCALE_BLOCK_16 ? 16 : mode == TRP_SCALE_BLOCK_32 ? 32 : 128;
    const char *at = x->at[a ? TRP__MATMUL_SCALE_A : TRP__MATMUL_SCALE_B];
    if (at)
        at += batch * x->scale_stride[a ? 0 : 1] * (width < 128 ? 1 : 4);
    return (scales){.per_line = at && mode != TRP_SCALE_TENSOR,
                    .mode = mode,
                    .at = at,
                    .lines = a ? g->m : g->n,
                    .blocks = (g->k + width - 1) / width};
}

/* Returns the index of a factor in the layout of tiles of 128 lines and 4 blocks (matmul.h). */
static int64_t in_tiles(int64_t line, int64_t block, int64_t blocks)
{
    int64_t tile = line / 128 * ((blocks + 3) / 4) + block / 4;
    return tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
}

static float scale_at(const scales *s, int64_t line, int64_t p)
{
    const float *f32 = s->at;
    const uint8_t *bytes = s->at;
    switch (s->mode) {
    case TRP_SCALE_VECTOR:
        return f32[line];
    case TRP_SCALE_BLOCK_16:
        return trp__ue4m3_to_f32(bytes[in_tiles(line, p / 16, s->blocks)]);
    case TRP_SCALE_BLOCK_32:
        return trp__ue8m0_to_f32(bytes[in_tiles(line, p / 32, s->blocks)]);
    case TRP_SCALE_BLOCK_128:
        return f32[p / 128 * s->lines + line];
    case TRP_SCALE_BLOCK_128X128:
        return f32[line / 128 * ((s->blocks + 3) / 4 * 4) + p / 128];
    default:
        return f32[0];
    }
}

/* Scales blocks of a column of D to the range of its type, and writes their factors. `row` is the
 * first of a tile, so blocks are whole but at the end of the column. */
static void scale_blocks(const product *x, int64_t row, int64_t column, int64_t rows, float *line)
{
    const uint8_t type = x->g.type[TRP__MATMUL_D];
    const bool fp4 = type == TRP_F4E2M1;
    const int64_t width = fp4 ? 16 : 32, blocks = (x->g.m + width - 1) / width;
    const float most = fp4 ? 6 : type == TRP_F8E4M3 ? 448 : 57344;
    uint8_t *factors = x->at[TRP__MATMUL_OUT_SCALE];
    for (int64_t at = 0; at < rows; at += width) {
        const int64_t end = rows - at < width ? rows : at + width;
        float largest = 0;
        for (int64_t i = at; i < end; i++) {
            const float size = fabsf(line[i]);
            if (size > largest || size != size) /* a NaN stays */
                largest = size;
        }
        const uint8_t narrow =
            fp4 ? trp__f32_to_ue4m3(largest / most) : trp__f32_to_ue8m0(largest / most);
        const float factor = fp4 ? trp__ue4m3_to_f32(narrow) : trp__ue8m0_to_f32(narrow);
        const float inverse = factor == 0 ? 0 : 1 / factor;
        factors[in_tiles(column, (row + at) / width, blocks)] = narrow;
        for (int64_t i = at; i < end; i++)
            line[i] *= inverse;
    }
}

/* Applies the factor and the zero point of its group to an element of B. */
static float of_group(const product *x, int64_t batch, int64_t line, int64_t p, float value)
{
    uint8_t type = x->g.type[TRP__MATMUL_A];
    int64_t at = batch * x->scale_stride[1] + p / x->group * x->g.n + line;
    const void *from[] = {x->group_scale, x->group_zero};
    uint16_t rounded[2] = {0}; /* the type has 16 bits, but the compiler sees narrow_some() write
                                * other ones */
    for (int i = 0; i < 2 && from[i]; i++) {
        float y;
        widen_some(type, from[i], at, 1, &y);
        value = i == 0 ? value * y : value + y;
        narrow_some(type, &value, (char *)rounded, 0, 1);
        widen_some(type, (const char *)rounded, 0, 1, &value);
    }
    return value;
}

/* Products. */

/* Computes D in i32, whose arithmetic wraps. The sums are integers of less than 53 bits. */
static void finish_integers(const product *x, int64_t batch, int64_t row, int64_t column,
                            int64_t rows, const double *sum)
{
    const int32_t *alphas = x->at[TRP__MATMUL_ALPHAS];
    const trp__matmul *g = &x->g;
    const int32_t *c = x->at[TRP__MATMUL_C];
    int32_t *d = x->at[TRP__MATMUL_D];
    uint64_t alpha = (uint64_t)(int64_t)x->alpha, beta = (uint64_t)(int64_t)x->beta;
    if (beta != 0)
        c += batch * g->stride[TRP__MATMUL_C] + row + column * g->ld[TRP__MATMUL_C];
    d += batch * g->stride[TRP__MATMUL_D] + row + column * g->ld[TRP__MATMUL_D];
    for (int64_t i = 0; i < rows; i++) {
        if (alphas && x->g.k > 0)
            alpha = (uint64_t)(int64_t)alphas[batch * g->alphas_stride + row + i];
        uint64_t value = alpha != 0 ? alpha * (uint64_t)(int64_t)sum[i] : 0;
        if (beta != 0)
            value += beta * (uint64_t)(int64_t)c[i];
        d[i] = (int32_t)(uint32_t)value;
    }
}

static void silu_array(const float *in, float *out, size_t count)
{
    trp__vswish(in, 1, out, count);
}

/* The smallest D whose epilogue is shared among threads. */
enum { WHOLE_SHARED = 1 << 14 };

/* Returns whether OpenBLAS can read and write all matrices in place. */
static bool is_whole(const product *x, uint8_t type)
{
    const trp__matmul *g = &x->g;
    bool fits = g->m <= INT_MAX && g->n <= INT_MAX && g->k > 0 && g->k <= INT_MAX &&
                x->alpha != 0 && !x->at[TRP__MATMUL_ALPHAS] && x->group == 0 &&
                g->scale_a == TRP_SCALE_TENSOR && g->scale_b == TRP_SCALE_TENSOR &&
                (x->beta == 0 || g->type[TRP__MATMUL_C] == type);
    for (int i = TRP__MATMUL_A; i <= TRP__MATMUL_D; i++)
        fits = fits && g->ld[i] <= INT_MAX && (i == TRP__MATMUL_C || g->type[i] == type);
    return fits;
}

#define T           float
#define MY_TYPE     TRP_F32
#define NAME(x)     x##_f32
#define GEMM        cblas_sgemm
#define FUNCTION(x) x
#include "matrix/product_host_real.h"

#define T           double
#define MY_TYPE     TRP_F64
#define NAME(x)     x##_f64
#define GEMM        cblas_dgemm
#define FUNCTION(x) NULL
#include "matrix/product_host_real.h"

const void *trp__host_product_sums(const product *x, int64_t batch, int64_t row, int64_t column,
                                   int64_t rows, int64_t columns)
{
    uint8_t type = x->g.type[TRP__MATMUL_A];
    return type == TRP_F64 || type == TRP_I8
               ? (const void *)sums_f64(x, batch, row, column, rows, columns)
               : (const void *)sums_f32(x, batch, row, column, rows, columns);
}

void trp__host_widen(uint8_t type, const void *from, int64_t first, int64_t count, bool wide,
                     void *to)
{
    if (wide)
        widen_f64(type, from, first, count, to);
    else
        widen_f32(type, from, first, count, to);
}

/* D = C, unless C is D. */
static void copy_c(const product *x, int64_t batch, size_t element)
{
    const trp__matmul *g = &x->g;
    const char *c = x->at[TRP__MATMUL_C];
    char *d = x->at[TRP__MATMUL_D];
    for (int64_t j = 0; c != d && j < g->n; j++) {
        int64_t from = batch * g->stride[TRP__MATMUL_C] + j * g->ld[TRP__MATMUL_C];
        int64_t to = batch * g->stride[TRP__MATMUL_D] + j * g->ld[TRP__MATMUL_D];
        memcpy(d + to * (int64_t)element, c + from * (int64_t)element, (size_t)g->m * element);
    }
}

static void run_complex(product *x)
{
    const trp__matmul *g = &x->g;
    bool wide = g->type[TRP__MATMUL_D] == TRP_C128;
    int64_t size = wide ? 16 : 8;
    const int64_t *ld = g->ld, *stride = g->stride;
    float alpha[2] = {(float)g->alpha[0], (float)g->alpha[1]};
    float beta[2] = {(float)g->beta[0], (float)g->beta[1]};
    void (*multiply)(int, int, int, int, int, int, const void *, const void *, int, const void *,
                     int, const void *, void *, int) =
        wide ? x->blas->cblas_zgemm : x->blas->cblas_cgemm;
    for (int64_t l = 0; l < g->batch; l++) {
        const char *a = x->at[TRP__MATMUL_A], *b = x->at[TRP__MATMUL_B];
        char *d = x->at[TRP__MATMUL_D];
        if (g->beta[0] != 0 || g->beta[1] != 0)
            copy_c(x, l, (size_t)size);
        multiply(TRP__CBLAS_COLUMN_MAJOR, trp__cblas_trans(g->trans_a),
                 trp__cblas_trans(g->trans_b), (int)g->m, (int)g->n, (int)g->k,
                 wide ? (const void *)g->alpha : alpha, a + l * stride[TRP__MATMUL_A] * size,
                 (int)ld[TRP__MATMUL_A], b + l * stride[TRP__MATMUL_B] * size,
                 (int)ld[TRP__MATMUL_B], wide ? (const void *)g->beta : beta,
                 d + l * stride[TRP__MATMUL_D] * size, (int)ld[TRP__MATMUL_D]);
    }
}

/* Reads alpha and beta, which may be in a buffer, and includes the scale factors of tensors. */
static void read_scalars(product *x)
{
    trp__matmul *g = &x->g;
    const void *at = x->at[TRP__MATMUL_SCALARS];
    int parts = trp__is_complex(g->scalar_type) ? 2 : 1;
    for (int i = 0; at && i < parts; i++) {
        for (int which = 0; which < 2; which++) {
            int place = which * parts + i;
            double value = g->scalar_type == TRP_F64 || g->scalar_type == TRP_C128
                               ? ((const double *)at)[place]
                           : g->scalar_type == TRP_I32 ? ((const int32_t *)at)[place]
                                                       : (double)((const float *)at)[place];
            *(which == 0 ? &g->alpha[i] : &g->beta[i]) = value;
        }
    }
    x->alpha = x->at[TRP__MATMUL_ALPHAS]   ? 1
               : g->scalar_type == TRP_F32 ? (double)(float)g->alpha[0]
                                           : g->alpha[0];
    x->beta = g->scalar_type == TRP_F32 ? (double)(float)g->beta[0] : g->beta[0];
    if (g->k == 0)
        x->alpha = 0; /* even if alpha is NaN, nothing is added */
    if (x->at[TRP__MATMUL_SCALE_A] && g->scale_a == TRP_SCALE_TENSOR)
        x->alpha *= (double)*(const float *)x->at[TRP__MATMUL_SCALE_A];
    if (x->at[TRP__MATMUL_SCALE_B] && g->scale_b == TRP_SCALE_TENSOR)
        x->alpha *= (double)*(const float *)x->at[TRP__MATMUL_SCALE_B];
}

void trp__host_product_run(product *x)
{
    uint8_t type = x->g.type[TRP__MATMUL_A];
    read_scalars(x);
    x->largest_d = x->largest_aux = 0;
    if (trp__is_complex(type))
        run_complex(x);
    else if (type == TRP_F64 || type == TRP_I8)
        run_f64(x);
    else
        run_f32(x);
    if (x->at[TRP__MATMUL_AMAX_D])
        *(float *)x->at[TRP__MATMUL_AMAX_D] = x->largest_d;
    if (x->at[TRP__MATMUL_AMAX_AUX])
        *(float *)x->at[TRP__MATMUL_AMAX_AUX] = x->largest_aux;
}
