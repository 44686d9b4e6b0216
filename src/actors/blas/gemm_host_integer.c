/* Products of i8 on the host, which OpenBLAS lacks. Blocks of the inputs are widened to 16 bits,
 * with the elements of a sum next to each other, so that a compiler can use pairwise products. */
#include "actors/blas/gemm_host.h"

#include <troupe/blas.h>

/* Size of a block of C, and of k: sums of products of i8 are exact in 32 bits, and both blocks fit
 * in a cache. */
enum { BLOCK = 64, DEPTH = 1024 };

typedef struct blocks {
    int16_t a[BLOCK][DEPTH], b[BLOCK][DEPTH]; /* rows of op(A), columns of op(B) */
    uint32_t sum[BLOCK][BLOCK];               /* columns of the block of C */
} blocks;

_Static_assert(sizeof(blocks) <= TRP__GEMM_HOST_SCRATCH, "the blocks fit into the scratch memory");
_Static_assert(DEPTH * 128 * 128 <= INT32_MAX, "the sum over a block's depth is exact");

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* Widens lines of a stored matrix: element p of line l is x[l * line + p * step]. */
static void widen(int16_t (*to)[DEPTH], const int8_t *x, int64_t lines, int64_t line, int64_t depth,
                  int64_t step)
{
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t p = 0; p < depth; p++)
            to[l][p] = (int16_t)x[l * line + p * step];
    }
}

static int32_t sum_of_products(const int16_t *restrict x, const int16_t *restrict y, int64_t count)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Arithmetic that may overflow 32 bits is unsigned, which wraps. */
static void add_products(blocks *s, int64_t rows, int64_t columns, int64_t depth)
{
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++)
            s->sum[j][i] += (uint32_t)sum_of_products(s->a[i], s->b[j], depth);
    }
}

static void finish(const trp__gemm *g, const blocks *s, uint32_t *c, int64_t rows, int64_t columns)
{
    uint32_t alpha = (uint32_t)(int32_t)g->alpha[0], beta = (uint32_t)(int32_t)g->beta[0];
    for (int64_t j = 0; j < columns; j++, c += g->ldc) {
        for (int64_t i = 0; i < rows; i++)
            c[i] = alpha * s->sum[j][i] + (beta == 0 ? 0 : beta * c[i]);
    }
}

static void multiply_block(const trp__gemm *g, blocks *s, const int8_t *a, const int8_t *b,
                           uint32_t *c, int64_t i, int64_t j)
{
    bool a_plain = g->trans_a == TRP_N, b_plain = g->trans_b == TRP_N;
    int64_t row = a_plain ? 1 : g->lda, a_step = a_plain ? g->lda : 1;
    int64_t column = b_plain ? g->ldb : 1, b_step = b_plain ? 1 : g->ldb;
    int64_t rows = least(g->m - i, BLOCK), columns = least(g->n - j, BLOCK);
    for (int64_t l = 0; l < columns; l++) {
        for (int64_t r = 0; r < rows; r++)
            s->sum[l][r] = 0;
    }
    for (int64_t p = 0; g->alpha[0] != 0 && p < g->k; p += DEPTH) {
        int64_t depth = least(g->k - p, DEPTH);
        widen(s->a, a + i * row + p * a_step, rows, row, depth, a_step);
        widen(s->b, b + j * column + p * b_step, columns, column, depth, b_step);
        add_products(s, rows, columns, depth);
    }
    finish(g, s, c + i + j * g->ldc, rows, columns);
}

void trp__gemm_host_integer(const trp__gemm_host_job *job, const trp__gemm *g)
{
    for (int64_t l = 0; l < g->batch; l++) {
        const int8_t *a = (const int8_t *)job->a + l * g->a_stride;
        const int8_t *b = (const int8_t *)job->b + l * g->b_stride;
        uint32_t *c = (uint32_t *)(void *)job->c + l * g->c_stride;
        for (int64_t j = 0; j < g->n; j += BLOCK) {
            for (int64_t i = 0; i < g->m; i += BLOCK)
                multiply_block(g, job->state->scratch, a, b, c, i, j);
        }
    }
}
