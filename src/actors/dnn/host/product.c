#include "actors/dnn/host/product.h"

#include "actors/dnn/lower/product.h"
#include "base/os/team.h"

#include <limits.h>
#include <string.h>

/* Tells whether OpenBLAS can compute the product: its integers have 32 bits. */
static bool is_taken(const trp__dnn_graph *g, int index, trp__dnn_product *p)
{
    const trp__dnn_node *n = &g->node[index];
    if (n->kind != TRP_DNN_MATMUL)
        return false;
    for (int i = TRP__DNN_MATMUL_A; i <= TRP__DNN_MATMUL_Y; i++) {
        const trp__dnn_tensor *t = &g->tensor[n->port[i]];
        if (t->role == TRP__DNN_VALUE || trp__dnn_elements(t) == 0)
            return false;
    }
    if (!trp__dnn_product_of(g, (uint32_t)index, 1, p))
        return false;
    const trp__matmul *m = &p->problem;
    for (int i = TRP__MATMUL_A; i <= TRP__MATMUL_D; i++) {
        if (m->ld[i] > INT_MAX || (i != TRP__MATMUL_C && m->type[i] != m->scalar_type))
            return false;
    }
    return m->scalar_type == TRP_F32 || m->scalar_type == TRP_F64;
}

static int cblas_trans(uint8_t trans)
{
    return trans == TRP_N ? TRP__CBLAS_NO_TRANS : TRP__CBLAS_TRANS;
}

static void multiply(const trp__openblas *blas, const trp__matmul *m, const void *a, const void *b,
                     void *d)
{
    const int trans_a = cblas_trans(m->trans_a), trans_b = cblas_trans(m->trans_b);
    const int rows = (int)m->m, columns = (int)m->n, depth = (int)m->k;
    const int lda = (int)m->ld[TRP__MATMUL_A], ldb = (int)m->ld[TRP__MATMUL_B];
    const int ldd = (int)m->ld[TRP__MATMUL_D];
    if (m->scalar_type == TRP_F64)
        blas->cblas_dgemm(TRP__CBLAS_COLUMN_MAJOR, trans_a, trans_b, rows, columns, depth, 1, a,
                          lda, b, ldb, 0, d, ldd);
    else
        blas->cblas_sgemm(TRP__CBLAS_COLUMN_MAJOR, trans_a, trans_b, rows, columns, depth, 1, a,
                          lda, b, ldb, 0, d, ldd);
}

/* Products with a matrix of comparisons, such as one-hot rows: nearly all elements are 0, and rows
 * are gathered or scattered instead. In f32: rows of Y are those of B where A is 1. If B has
 * infinities or NaN, whose product with 0 is NaN, everything is multiplied. */

typedef struct selection {
    const float *a, *b; /* element (i, k) of A, rows of B */
    float *y;
    int64_t rows, columns, depth;
    int64_t a_row, a_column, b_row, y_row; /* strides */
} selection;

enum { ROWS = 64 }; /* rows of Y per piece of a thread */

static void select_rows(void *context, int64_t piece, int worker)
{
    const selection *s = context;
    const int64_t end = (piece + 1) * ROWS < s->rows ? (piece + 1) * ROWS : s->rows;
    (void)worker;
    for (int64_t i = piece * ROWS; i < end; i++) {
        float *y = s->y + i * s->y_row;
        memset(y, 0, (size_t)s->columns * sizeof *y);
        for (int64_t k = 0; k < s->depth; k++) {
            const float factor = s->a[i * s->a_row + k * s->a_column];
            const float *b = s->b + k * s->b_row;
            for (int64_t j = 0; factor != 0 && j < s->columns; j++)
                y[j] += factor * b[j];
        }
    }
}

static bool is_of_equalities(const trp__dnn_graph *g, int index)
{
    const uint8_t a = g->node[index].port[TRP__DNN_MATMUL_A];
    for (int i = 0; i < index; i++) {
        const trp__dnn_node *n = &g->node[i];
        if (n->kind == TRP_DNN_POINTWISE && n->port[TRP__DNN_POINTWISE_Y] == a)
            return n->mode == TRP_DNN_EQUAL && g->tensor[a].role == TRP__DNN_VIRTUAL;
    }
    return false;
}

static bool is_finite(const selection *s)
{
    for (int64_t k = 0; k < s->depth; k++) {
        float sum = 0;
        for (int64_t j = 0; j < s->columns; j++)
            sum += s->b[k * s->b_row + j] * 0;
        if (sum != 0)
            return false;
    }
    return true;
}

/* Returns false if the node is not such a product. */
static bool run_selection(const trp__dnn_host_run *run, int index)
{
    const trp__dnn_graph *g = &run->graph;
    const trp__dnn_node *n = &g->node[index];
    const uint8_t *port = n->port;
    const trp__dnn_tensor *a = &g->tensor[port[TRP__DNN_MATMUL_A]];
    const trp__dnn_tensor *b = &g->tensor[port[TRP__DNN_MATMUL_B]];
    const trp__dnn_tensor *y = &g->tensor[port[TRP__DNN_MATMUL_Y]];
    if (a->rank != 2 || a->type != TRP_F32 || b->type != TRP_F32 || y->type != TRP_F32 ||
        n->compute != TRP_F32 || (b->dim[1] != 1 && b->stride[1] != 1) ||
        (y->dim[1] != 1 && y->stride[1] != 1) || !is_of_equalities(g, index))
        return false;
    selection s = {.a = run->place[port[TRP__DNN_MATMUL_A]],
                   .b = run->place[port[TRP__DNN_MATMUL_B]],
                   .y = run->place[port[TRP__DNN_MATMUL_Y]],
                   .rows = y->dim[0],
                   .columns = y->dim[1],
                   .depth = a->dim[1],
                   .a_row = a->stride[0],
                   .a_column = a->stride[1],
                   .b_row = b->stride[0],
                   .y_row = y->stride[0]};
    if (!is_finite(&s))
        return false;
    trp__team_run(select_rows, &s, (s.rows + ROWS - 1) / ROWS);
    return true;
}

bool trp__dnn_host_product(const trp__dnn_host_run *run, int index)
{
    const trp__dnn_graph *g = &run->graph;
    trp__dnn_product p;
    if (!is_taken(g, index, &p))
        return false;
    if (run_selection(run, index))
        return true;
    const trp__matmul *m = &p.problem;
    const int64_t size = m->scalar_type == TRP_F64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < p.times; i++) {
        uint64_t offset[TRP__MATMUL_MATRICES];
        const char *at[TRP__MATMUL_MATRICES];
        trp__dnn_product_offsets(&p, i, offset);
        for (int k = TRP__MATMUL_A; k <= TRP__MATMUL_D; k++)
            at[k] = k == TRP__MATMUL_C ? NULL : (const char *)run->place[p.tensor[k]] + offset[k];
        for (int64_t l = 0; l < m->batch; l++)
            multiply(run->libraries->blas, m,
                     at[TRP__MATMUL_A] + l * m->stride[TRP__MATMUL_A] * size,
                     at[TRP__MATMUL_B] + l * m->stride[TRP__MATMUL_B] * size,
                     (char *)(uintptr_t)at[TRP__MATMUL_D] + l * m->stride[TRP__MATMUL_D] * size);
    }
    return true;
}
