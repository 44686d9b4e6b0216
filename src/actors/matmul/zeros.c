#include "actors/matmul/zeros.h"

#include "matrix/plan.h"

#include <troupe/matmul.h>

/* Bytes of a line of A and B along k: the alignment for tensor cores. */
enum { LINE_BYTES = 16 };

static size_t rounded_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Returns whether the product also sums A or B, which then can't be replaced. */
static bool needs_inputs(const trp__matmul *g)
{
    return g->gradient == TRP_BIAS_GRADIENT_A || g->gradient == TRP_BIAS_GRADIENT_B;
}

size_t trp__matmul_use_zeros(trp__matmul *g)
{
    static const uint8_t unread[] = {TRP__MATMUL_A, TRP__MATMUL_B, TRP__MATMUL_SCALE_A,
                                     TRP__MATMUL_SCALE_B};
    bool in_buffer =
        trp__matmul_has(g, TRP__MATMUL_SCALARS) || trp__matmul_has(g, TRP__MATMUL_ALPHAS);
    bool skipped = !in_buffer && trp__matmul_may_be_skipped(g);
    if (needs_inputs(g) || (g->k > 0 && !skipped))
        return 0;
    g->k = 8 * LINE_BYTES / (int64_t)trp_dtype_bits((trp_dtype)g->type[TRP__MATMUL_A]);
    g->trans_a = TRP_T;
    g->trans_b = TRP_N;
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        g->access[unread[i]] = TRP__MATMUL_NO_ACCESS;
    for (int i = TRP__MATMUL_A; i <= TRP__MATMUL_B; i++) {
        g->ld[i] = g->k;
        g->stride[i] = 0;
    }
    g->scale_a = g->scale_b = TRP_SCALE_TENSOR;
    g->tune = TRP_TUNE_OFF; /* a search would measure nothing of use */
    if (!trp__matmul_has(g, TRP__MATMUL_ALPHAS)) {
        g->alpha[0] = 1;
        g->alpha[1] = 0;
    }
    return rounded_up((size_t)(g->m > g->n ? g->m : g->n) * LINE_BYTES);
}
