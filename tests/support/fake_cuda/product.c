/* See product.h. Blocks of a launch run in sequence, each with one thread, which reaches exactly
 * the memory that the sizes of each operand span. */
#include "support/fake_cuda/product.h"
#include "support/fake_cuda/fake.h"

#include <string.h>

#define TRP__KERNEL             static
#define TRP__SHARED             /* each block has one thread */
#define TRP__SYNC()             ((void)0)
#define TRP__THREAD             0
#define TRP__THREADS            1
#define TRP__BLOCK              0
#define TRP__BLOCKS             1
#define TRP__AT_LEAST(to, bits) (*(to) = *(to) < (bits) ? (bits) : *(to))
#include "matrix/reference/kernels.h"

static size_t bits_of(uint8_t type)
{
    return type == TRP_DTYPE_NONE ? 1 : trp_dtype_bits((trp_dtype)type);
}

/* Returns the bytes that a matrix of rows x columns spans in the whole batch. */
static size_t span_of(const trp__matmul *g, int which, int64_t rows, int64_t columns)
{
    const int64_t last = (g->batch - 1) * g->stride[which] + (columns - 1) * g->ld[which] + rows;
    return ((size_t)last * bits_of(g->type[which]) + 7) / 8;
}

static size_t vector_bytes(const trp__matmul *g)
{
    const int64_t count = g->gradient == TRP_BIAS_GRADIENT_B ? g->n : g->m;
    return (size_t)((g->batch - 1) * g->vector_stride + count) * bits_of(g->vector_type) / 8;
}

static size_t factor_bytes(const trp__matmul *g, int which)
{
    const bool a = which == TRP__MATMUL_SCALE_A;
    const int64_t lines = a ? g->m : g->n, blocks = (g->k + 127) / 128;
    switch (a ? g->scale_a : g->scale_b) {
    case TRP_SCALE_VECTOR:
        return (size_t)lines * 4;
    case TRP_SCALE_BLOCK_128:
        return (size_t)(lines * blocks) * 4;
    case TRP_SCALE_BLOCK_128X128:
        return (size_t)((blocks + 3) / 4 * 4 * ((lines + 127) / 128)) * 4;
    default:
        return 4;
    }
}

static size_t bytes_of(const trp__matmul *g, int which)
{
    const bool a = g->trans_a == TRP_N, b = g->trans_b == TRP_N;
    switch (which) {
    case TRP__MATMUL_A:
        return span_of(g, which, a ? g->m : g->k, a ? g->k : g->m);
    case TRP__MATMUL_B:
        return span_of(g, which, b ? g->k : g->n, b ? g->n : g->k);
    case TRP__MATMUL_C:
    case TRP__MATMUL_D:
    case TRP__MATMUL_AUX:
        return span_of(g, which, g->m, g->n);
    case TRP__MATMUL_VECTOR:
        return vector_bytes(g);
    case TRP__MATMUL_SCALARS:
        return 2 * bits_of(g->scalar_type) / 8;
    case TRP__MATMUL_ALPHAS:
        return (size_t)((g->batch - 1) * g->alphas_stride + g->m) * bits_of(g->scalar_type) / 8;
    case TRP__MATMUL_SCALE_A:
    case TRP__MATMUL_SCALE_B:
        return factor_bytes(g, which);
    default:
        return 4;
    }
}

/* Reaches all operands; false: the stream has faulted. */
static bool reach_all(trp__product_launch *r, fake_pin pin[])
{
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        const bool written =
            i == (int)r->what || (i >= TRP__MATMUL_AMAX_D && r->what != TRP__MATMUL_VECTOR);
        if (!r->at[i])
            continue;
        r->at[i] = fake_cuda_reach(&pin[i], (uintptr_t)r->at[i], bytes_of(&r->g, i), written);
        if (!r->at[i])
            return false;
    }
    if (!r->sample)
        return true;
    r->sample = fake_cuda_reach(&pin[TRP__MATMUL_OPERANDS], (uintptr_t)r->sample,
                                (size_t)r->count * sizeof *r->sample, false);
    return r->sample != NULL;
}

void fake_product_reference(const uint64_t *parameter)
{
    fake_pin pin[TRP__MATMUL_OPERANDS + 1] = {{0}};
    trp__product_launch r;
    memcpy(&r, parameter, sizeof r);
    if (reach_all(&r, pin))
        trp_product_reference(r);
    for (size_t i = 0; i < sizeof pin / sizeof *pin; i++) {
        if (pin[i].at)
            fake_cuda_let_go(&pin[i]);
    }
}
