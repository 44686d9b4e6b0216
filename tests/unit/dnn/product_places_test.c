/* Products of matrices that lie anyhow, as problems of cuBLASLt's: computed as the library would do
 * it, they are those of the graph. */
#include "actors/dnn/lower/product.h"
#include "dnn_graphs.h"
#include "support/reference/reference.h"
#include "support/label.h"

#include <troupe/dnn.h>

#include "support/unit.h"

#include <math.h>

TROUPE_TEST("no tsan", "foreign leaks");

static ref_rng rng;

/* Dimensions in any order, with gaps, or repeated where nothing is written. */
static void spread(trp__dnn_tensor *t, bool read)
{
    int64_t next = 1 + (int64_t)ref_rng_below(&rng, 2) * (int64_t)ref_rng_below(&rng, 2);
    uint8_t order[TRP__DNN_RANK];
    for (uint8_t i = 0; i < t->rank; i++) {
        size_t at = ref_rng_below(&rng, i + 1u);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint8_t i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        next = next * t->dim[order[i]] + (int64_t)ref_rng_below(&rng, 3);
    }
    if (read && ref_rng_below(&rng, 4) == 0)
        t->stride[ref_rng_below(&rng, t->rank)] = 0;
}

/* As the library does it. */
static void multiply(const trp__dnn_product *p, double *const at[])
{
    const trp__matmul *g = &p->problem;
    for (int64_t time = 0; time < p->times; time++) {
        uint64_t offset[TRP__MATMUL_MATRICES];
        trp__dnn_product_offsets(p, time, offset);
        for (int64_t l = 0; l < g->batch * g->m * g->n; l++) {
            int64_t i = l % g->m, j = l / g->m % g->n, z = l / g->m / g->n;
            const double *a = at[p->tensor[TRP__MATMUL_A]] + offset[TRP__MATMUL_A] / 8 +
                              z * g->stride[TRP__MATMUL_A];
            const double *b = at[p->tensor[TRP__MATMUL_B]] + offset[TRP__MATMUL_B] / 8 +
                              z * g->stride[TRP__MATMUL_B];
            double *d = at[p->tensor[TRP__MATMUL_D]] + offset[TRP__MATMUL_D] / 8 +
                        z * g->stride[TRP__MATMUL_D];
            int64_t lda = g->ld[TRP__MATMUL_A], ldb = g->ld[TRP__MATMUL_B];
            double sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += a[g->trans_a ? k + i * lda : i + k * lda] *
                       b[g->trans_b ? j + k * ldb : k + j * ldb];
            d[i + j * g->ld[TRP__MATMUL_D]] += sum; /* once */
        }
    }
}

static int64_t place_of(const trp__dnn_tensor *t, const int64_t at[])
{
    int64_t place = 0;
    for (int i = 0; i < t->rank; i++)
        place += (t->dim[i] == 1 ? 0 : at[i]) * t->stride[i];
    return place;
}

/* Element by element. */
static bool is_right(const trp__dnn_graph *g, double *const at[])
{
    const trp__dnn_tensor *a = &g->tensor[0], *b = &g->tensor[1], *y = &g->tensor[2];
    const int rank = y->rank;
    bool right = true;
    for (int64_t l = 0; l < trp__dnn_elements(y); l++) {
        int64_t of_y[TRP__DNN_RANK], in[TRP__DNN_RANK], rest = l;
        for (int i = rank; i-- > 0; rest /= y->dim[i])
            of_y[i] = rest % y->dim[i];
        double sum = 0;
        for (int64_t k = 0; k < a->dim[rank - 1]; k++) {
            memcpy(in, of_y, sizeof in);
            in[rank - 1] = k;
            double x = at[0][place_of(a, in)];
            memcpy(in, of_y, sizeof in);
            in[rank - 2] = k;
            sum += x * at[1][place_of(b, in)];
        }
        right = right && fabs(at[2][place_of(y, of_y)] - sum) <= 1e-12;
    }
    return right;
}

static void places(void **unused)
{
    (void)unused;
    int taken = 0;
    for (int round = 0; round < 4000; round++) {
        dnn_graph storage, *g = &storage;
        trp__dnn_product p;
        double *at[3];
        const uint32_t rank = 2 + (uint32_t)ref_rng_below(&rng, 3);
        int64_t dim[3][TRP__DNN_RANK];
        for (uint32_t i = 0; i < rank; i++) {
            size_t shared = ref_rng_below(&rng, 4);
            dim[2][i] = 1 + (int64_t)ref_rng_below(&rng, 4);
            dim[0][i] = shared == 1 ? 1 : dim[2][i];
            dim[1][i] = shared == 2 ? 1 : dim[2][i];
        }
        dim[0][rank - 1] = dim[1][rank - 2] = 1 + (int64_t)ref_rng_below(&rng, 4);
        dim[0][rank - 2] = dim[2][rank - 2];
        dim[1][rank - 1] = dim[2][rank - 1];
        dnn_begin(g);
        trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, TRP_F64, 0);
        for (int i = 0; i < 3; i++) {
            n->port[i] = dnn_tensor(g, TRP__DNN_BUFFER, TRP_F64, DNN_ROWS, rank, dim[i]);
            if (ref_rng_below(&rng, 2))
                spread(&g->tensor[i], i < 2);
            size_t count = (size_t)trp__dnn_extent(&g->tensor[i]);
            at[i] = calloc(count, sizeof *at[i]);
            assert_non_null(at[i]);
            for (size_t k = 0; k < count && i < 2; k++)
                at[i][k] = ref_rng_uniform(&rng, -1, 1);
        }
        trp__dnn_graph graph = dnn_finish(g);
        if (trp__dnn_product_of(&graph, 0, 1, &p)) {
            taken++;
            multiply(&p, at);
            assert_true(is_right(&graph, at));
        }
        for (int i = 0; i < 3; i++)
            free(at[i]);
        dnn_end(g);
    }
    assert_true(taken > 1000);
}

/* An operand that is promised to lie well may do so only in the first of several products. */
static void alignment(void **unused)
{
    (void)unused;
    dnn_graph storage, *g = &storage;
    trp__dnn_product p;
    dnn_begin(g);
    trp__dnn_node *n = dnn_node(g, TRP_DNN_MATMUL, 0, TRP_F32, 0);
    n->port[0] = DNN_BUFFER(TRP_F32, DNN_ROWS, 2, 1, 3, 3);
    n->port[1] = DNN_BUFFER(TRP_F32, DNN_ROWS, 1, 5, 3, 3);
    n->port[2] = dnn_tensor(g, TRP__DNN_VIRTUAL, TRP_F32, DNN_ROWS, 4, (int64_t[]){2, 5, 3, 3});
    g->tensor[1].alignment = 8;
    trp__dnn_graph graph = dnn_finish(g);
    assert_true(trp__dnn_product_of(&graph, 0, 1, &p));
    assert_int_equal(p.times, 2);
    assert_int_equal(p.alignment[TRP__MATMUL_B], 2); /* a: steps of 36 bytes */
    assert_int_equal(p.alignment[TRP__MATMUL_A], 3);
    assert_int_equal(p.alignment[TRP__MATMUL_D], 2);
    dnn_end(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT(places), UNIT(alignment)};
    ref_rng_init(&rng, ref_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
