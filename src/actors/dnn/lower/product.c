#include "actors/dnn/lower/product.h"

#include "actors/dnn/lower/layout.h"

#include <troupe/dnn.h>
#include <troupe/matmul.h>

#include <math.h>
#include <string.h>

enum { ROUND = 8, VIRTUAL_ALIGNMENT = 8 /* 256 bytes */ };

/* NVIDIA's recommendation for Hopper, which its heuristic assumes; larger workspaces are used
 * without benefit. */
#define WORKSPACE (UINT64_C(32) << 20)

/* Workspace of own kernels: a split matrix of 4096 x 768 and parts of sums. */
#define OWN_WORKSPACE (UINT64_C(64) << 20)

/* D = A B, where D is m x n and A is m x k. Strides lead to the next row and to the next column.
 */
enum { A, B, D, MATRICES };

typedef struct matrices {
    int64_t m, n, k;
    uint8_t tensor[MATRICES];
    int64_t row[MATRICES], column[MATRICES];
    int batches; /* batch dimensions above 1, fastest first */
    int64_t batch[TRP__DNN_RANK], stride[MATRICES][TRP__DNN_RANK];
    int line; /* the dimension of D's tensor with its columns */
} matrices;

static bool has_one_tap(const trp__dnn_graph *g, const trp__dnn_node *node)
{
    const trp__dnn_tensor *x = &g->tensor[node->port[TRP__DNN_CONV_X]];
    const trp__dnn_tensor *w = &g->tensor[node->port[TRP__DNN_CONV_W]];
    bool one = x->dim[1] == w->dim[1]; /* group */
    for (int i = 0; i < node->spatial; i++)
        one = one && w->dim[2 + i] == 1 && node->stride[i] == 1 && node->pre_pad[i] == 0 &&
              node->post_pad[i] == 0;
    return one;
}

/* Computes the number of pixels in all images and their common stride. */
static bool count_pixels(const trp__dnn_tensor *t, int64_t *count, int64_t *stride)
{
    *count = 1;
    *stride = t->dim[1];
    for (int i = t->rank - 1; i >= 0; i -= i == 2 ? 2 : 1) {
        if (t->dim[i] == 1)
            continue;
        if (*count == 1)
            *stride = t->stride[i];
        else if (t->stride[i] != *count * *stride)
            return false;
        *count *= t->dim[i];
    }
    return true;
}

/* Describes a convolution as a product of matrices of pixels and channels: forward y = x w^T, dx =
 * dy w, dw = dy^T x. */
static bool as_convolution(const trp__dnn_graph *g, const trp__dnn_node *node,
                           const trp__dnn_tensor *d, matrices *out)
{
    const uint8_t *port = node->port;
    const bool filter = node->kind == TRP_DNN_CONV_BACKWARD_FILTER;
    const trp__dnn_tensor *x =
        node->kind == TRP_DNN_CONV_BACKWARD_DATA ? d : &g->tensor[port[TRP__DNN_CONV_X]];
    const trp__dnn_tensor *w = filter ? d : &g->tensor[port[TRP__DNN_CONV_W]];
    const trp__dnn_tensor *y =
        node->kind == TRP_DNN_CONV_FORWARD ? d : &g->tensor[port[TRP__DNN_CONV_Y]];
    int64_t pixels, of_y, x_stride, y_stride;
    if (!has_one_tap(g, node) || !count_pixels(x, &pixels, &x_stride) ||
        !count_pixels(y, &of_y, &y_stride) || pixels != of_y)
        return false;
    if (node->kind == TRP_DNN_CONV_FORWARD) {
        *out = (matrices){.m = pixels,
                          .n = w->dim[0],
                          .k = w->dim[1],
                          .tensor = {port[TRP__DNN_CONV_X], port[TRP__DNN_CONV_W]},
                          .row = {x_stride, w->stride[1], y_stride},
                          .column = {x->stride[1], w->stride[0], y->stride[1]}};
    } else if (node->kind == TRP_DNN_CONV_BACKWARD_DATA) {
        *out = (matrices){.m = pixels,
                          .n = w->dim[1],
                          .k = w->dim[0],
                          .tensor = {port[TRP__DNN_CONV_Y], port[TRP__DNN_CONV_W]},
                          .row = {y_stride, w->stride[0], x_stride},
                          .column = {y->stride[1], w->stride[1], x->stride[1]}};
    } else {
        *out = (matrices){.m = w->dim[0],
                          .n = w->dim[1],
                          .k = pixels,
                          .tensor = {port[TRP__DNN_CONV_Y], port[TRP__DNN_CONV_X]},
                          .row = {y->stride[1], x_stride, w->stride[0]},
                          .column = {y_stride, x->stride[1], w->stride[1]}};
    }
    out->line = 1;
    return true;
}

/* Merges batches that share B into one product with more rows, if their strides allow it. */
static bool fold(matrices *p, const int64_t stride[MATRICES], int64_t size)
{
    bool one_row = p->m == 1;
    if (stride[B] != 0 || stride[A] <= 0 || p->batches > 0 ||
        (!one_row && (stride[A] != p->m * p->row[A] || stride[D] != p->m * p->row[D])))
        return false;
    if (one_row) {
        p->row[A] = stride[A];
        p->row[D] = stride[D];
    }
    p->m *= size;
    return true;
}

/* Adds a batch dimension, merged with the inner one if it continues that. */
static void add_batch(matrices *p, const int64_t stride[MATRICES], int64_t size)
{
    int last = p->batches - 1;
    bool goes_on = last >= 0;
    for (int i = 0; i < MATRICES && goes_on; i++)
        goes_on = stride[i] == p->stride[i][last] * p->batch[last];
    if (goes_on) {
        p->batch[last] *= size;
        return;
    }
    for (int i = 0; i < MATRICES; i++)
        p->stride[i][p->batches] = stride[i];
    p->batch[p->batches++] = size;
}

static bool as_product(const trp__dnn_graph *g, const trp__dnn_node *node, const trp__dnn_tensor *d,
                       matrices *out)
{
    const trp__dnn_tensor *t[] = {&g->tensor[node->port[TRP__DNN_MATMUL_A]],
                                  &g->tensor[node->port[TRP__DNN_MATMUL_B]], d};
    const int rank = t[A]->rank;
    if (t[B]->rank != rank || d->rank != rank)
        return false;
    *out = (matrices){.m = t[A]->dim[rank - 2],
                      .n = t[B]->dim[rank - 1],
                      .k = t[A]->dim[rank - 1],
                      .tensor = {node->port[TRP__DNN_MATMUL_A], node->port[TRP__DNN_MATMUL_B]},
                      .line = rank - 1};
    for (int i = 0; i < MATRICES; i++) {
        out->row[i] = t[i]->stride[rank - 2];
        out->column[i] = t[i]->stride[rank - 1];
    }
    for (int i = rank - 3; i >= 0; i--) {
        int64_t stride[MATRICES];
        if (d->dim[i] == 1)
            continue;
        for (int k = 0; k < MATRICES; k++)
            stride[k] = t[k]->dim[i] == 1 ? 0 : t[k]->stride[i];
        if (!fold(out, stride, d->dim[i]))
            add_batch(out, stride, d->dim[i]);
    }
    return true;
}

/* Tells whether a matrix of rows x columns is supported: contiguous columns at distance `ld`, or
 * with `transposed` contiguous rows. */
static bool lies(int64_t rows, int64_t columns, int64_t row, int64_t column, uint8_t *transposed,
                 int64_t *ld)
{
    *transposed = TRP_N;
    *ld = columns == 1 ? rows : column;
    if ((rows == 1 || row == 1) && *ld >= rows)
        return true;
    *transposed = TRP_T;
    *ld = rows == 1 ? columns : row;
    return (columns == 1 || column == 1) && *ld >= columns;
}

/* Returns the batch dimension passed to the library: the largest whose results do not overlap, or
 * -1. */
static int choose_batch(const matrices *p, int64_t span)
{
    int best = -1;
    for (int i = 0; i < p->batches; i++) {
        if (p->stride[D][i] >= span && (best < 0 || p->batch[i] > p->batch[best]))
            best = i;
    }
    return best;
}

static bool set_batches(const matrices *p, const uint8_t from[], trp__dnn_product *out)
{
    trp__matmul *g = &out->problem;
    int64_t span = (g->n - 1) * g->ld[TRP__MATMUL_D] + g->m;
    int own = choose_batch(p, span);
    g->batch = own < 0 ? 1 : p->batch[own];
    out->times = 1;
    for (int i = 0; i < TRP__MATMUL_MATRICES; i++) {
        if (from[i] < MATRICES && own >= 0)
            g->stride[i] = p->stride[from[i]][own];
    }
    g->stride[TRP__MATMUL_C] = g->stride[TRP__MATMUL_D];
    for (int i = p->batches; i-- > 0;) { /* slowest first */
        if (i == own)
            continue;
        if (p->batch[i] > TRP__DNN_PRODUCT_TIMES)
            return false;
        out->times *= p->batch[i];
        out->loop[out->loops] = p->batch[i];
        for (int k = 0; k < TRP__MATMUL_MATRICES; k++)
            out->step[k][out->loops] = from[k] < MATRICES ? p->stride[from[k]][i] : 0;
        out->loops++;
    }
    return out->times <= TRP__DNN_PRODUCT_TIMES;
}

/* Sets the matrices: a column-major D directly, a row-major one as D' = B' A'. */
static bool set_matrices(const matrices *p, bool rows, trp__dnn_product *out)
{
    const uint8_t from[TRP__MATMUL_MATRICES] = {[TRP__MATMUL_A] = rows ? B : A,
                                                [TRP__MATMUL_B] = rows ? A : B,
                                                [TRP__MATMUL_C] = MATRICES,
                                                [TRP__MATMUL_D] = D,
                                                [TRP__MATMUL_AUX] = MATRICES};
    trp__matmul *g = &out->problem;
    uint8_t transposed;
    const int64_t *row = rows ? p->column : p->row, *column = rows ? p->row : p->column;
    const int a = from[TRP__MATMUL_A], b = from[TRP__MATMUL_B];
    g->m = rows ? p->n : p->m;
    g->n = rows ? p->m : p->n;
    g->k = p->k;
    if (!lies(g->m, g->n, row[D], column[D], &transposed, &g->ld[TRP__MATMUL_D]) ||
        transposed != TRP_N ||
        !lies(g->m, g->k, row[a], column[a], &g->trans_a, &g->ld[TRP__MATMUL_A]) ||
        !lies(g->k, g->n, row[b], column[b], &g->trans_b, &g->ld[TRP__MATMUL_B]))
        return false;
    g->ld[TRP__MATMUL_C] = g->ld[TRP__MATMUL_D];
    for (int i = 0; i < TRP__MATMUL_MATRICES; i++) {
        if (from[i] < MATRICES)
            out->tensor[i] = p->tensor[from[i]];
    }
    return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX &&
           set_batches(p, from, out) && g->batch <= INT32_MAX;
}

static bool is_half(uint8_t type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

static bool set_types(const trp__dnn_graph *g, const trp__dnn_node *node, const matrices *p,
                      trp__matmul *out)
{
    uint8_t a = g->tensor[p->tensor[A]].type, b = g->tensor[p->tensor[B]].type,
            d = g->tensor[p->tensor[D]].type;
    if (a != b || (a != TRP_F64 && a != TRP_F32 && !is_half(a)) ||
        (d != a && !(is_half(a) && d == TRP_F32)) ||
        node->compute != (a == TRP_F64 ? TRP_F64 : TRP_F32))
        return false;
    out->type[TRP__MATMUL_A] = out->type[TRP__MATMUL_B] = a;
    out->type[TRP__MATMUL_C] = out->type[TRP__MATMUL_D] = out->vector_type = d;
    out->type[TRP__MATMUL_AUX] = TRP_DTYPE_NONE;
    out->scalar_type = node->compute;
    out->compute = a == TRP_F32 && g->head->tf32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
    return true;
}

/* Returns the alignment of an operand's address. */
static uint8_t alignment_of(const trp__dnn_graph *g, const trp__dnn_product *p, int operand)
{
    const trp__dnn_tensor *t = &g->tensor[p->tensor[operand]];
    uint64_t bits = t->role == TRP__DNN_BUFFER ? t->alignment : 0;
    uint64_t width = trp_dtype_bits((trp_dtype)t->type) / 8;
    for (int i = 0; i < p->loops && operand < TRP__MATMUL_MATRICES; i++)
        bits |= (uint64_t)p->step[operand][i] * width;
    return (uint8_t)__builtin_ctzll(bits | 1u << VIRTUAL_ALIGNMENT);
}

/* Tells whether only this node uses a tensor. */
static bool goes_on_with(const trp__dnn_graph *g, const trp__dnn_node *node, uint8_t current)
{
    const uint8_t *port = node->port;
    uint32_t users = 0;
    for (uint32_t n = 0; n < g->head->nodes; n++)
        users += memchr(g->node[n].port, current, sizeof g->node[n].port) != NULL;
    bool x = port[TRP__DNN_POINTWISE_X] == current, b = port[TRP__DNN_POINTWISE_B] == current;
    return g->tensor[current].role == TRP__DNN_VIRTUAL && users == 2 && x != b;
}

/* Tells whether a tensor is a packed line that is added to each line of D. */
static bool is_bias(const trp__dnn_tensor *t, const trp__dnn_tensor *d, int line)
{
    bool good = t->role != TRP__DNN_VALUE && t->rank == d->rank && t->type == d->type &&
                t->dim[line] == d->dim[line] && (t->dim[line] == 1 || t->stride[line] == 1);
    for (int i = 0; i < t->rank && good; i++)
        good = i == line || t->dim[i] == 1;
    return good;
}

static bool is_plain_relu(const trp__dnn_node *node)
{
    return node->mode == TRP_DNN_RELU && node->parameter[0] == 0 && node->parameter[2] == 0 &&
           isinf(node->parameter[1]) && node->parameter[1] > 0;
}

/* Adds a node after the sums to the epilogue. The library never rounds `current`, the node's input,
 * so it must have the type of computation, or the result's type with only a relu following, which
 * commutes with rounding. */
static bool take_epilogue(const trp__dnn_graph *g, const trp__dnn_node *node, uint8_t current,
                          const trp__dnn_tensor *d, int line, trp__dnn_product *out)
{
    trp__matmul *m = &out->problem;
    const uint8_t *port = node->port, type = g->tensor[current].type;
    if (m->activation != TRP_ACTIVATION_NONE || node->compute != m->scalar_type ||
        !trp__dnn_same_dims(&g->tensor[current], &g->tensor[port[TRP__DNN_POINTWISE_Y]]))
        return false;
    if (is_plain_relu(node)) {
        m->activation = TRP_ACTIVATION_RELU;
        return type == node->compute || type == d->type;
    }
    if (node->mode == TRP_DNN_GELU_TANH) { /* f64's is accurate to only 9 digits */
        m->activation = TRP_ACTIVATION_GELU;
        return type == node->compute && type != TRP_F64;
    }
    uint8_t other = port[TRP__DNN_POINTWISE_X] == current ? port[TRP__DNN_POINTWISE_B]
                                                          : port[TRP__DNN_POINTWISE_X];
    if (node->mode != TRP_DNN_ADD || type != node->compute ||
        out->tensor[TRP__MATMUL_VECTOR] != TRP__DNN_NO_PORT || !is_bias(&g->tensor[other], d, line))
        return false;
    out->tensor[TRP__MATMUL_VECTOR] = other;
    m->access[TRP__MATMUL_VECTOR] = TRP__MATMUL_VECTOR;
    return true;
}

static int written_port(const trp__dnn_node *node)
{
    static const uint8_t ports[] = {[TRP_DNN_CONV_FORWARD] = TRP__DNN_CONV_Y,
                                    [TRP_DNN_CONV_BACKWARD_DATA] = TRP__DNN_CONV_X,
                                    [TRP_DNN_CONV_BACKWARD_FILTER] = TRP__DNN_CONV_W,
                                    [TRP_DNN_MATMUL] = TRP__DNN_MATMUL_Y};
    return node->kind <= TRP_DNN_MATMUL ? ports[node->kind] : TRP__DNN_POINTWISE_Y;
}

/* Tells whether the library computes a small 16-bit result with uneven sizes in two passes,
 * rounding in between. */
static bool is_rounded_twice(const trp__dnn_product *p)
{
    const trp__matmul *g = &p->problem;
    return p->count > 1 && is_half(g->type[TRP__MATMUL_D]) &&
           (g->m % ROUND != 0 || g->n % ROUND != 0 || g->k % ROUND != 0);
}

static void begin(uint64_t workspace, trp__dnn_product *out)
{
    memset(out, 0, sizeof *out);
    memset(out->tensor, TRP__DNN_NO_PORT, sizeof out->tensor);
    memset(out->problem.access, TRP__MATMUL_NO_ACCESS, sizeof out->problem.access);
    out->problem.access[TRP__MATMUL_A] = TRP__MATMUL_A;
    out->problem.access[TRP__MATMUL_B] = TRP__MATMUL_B;
    out->problem.access[TRP__MATMUL_D] = TRP__MATMUL_D;
    out->problem.workspace = workspace < WORKSPACE ? workspace : WORKSPACE;
    out->workspace = workspace < OWN_WORKSPACE ? workspace : OWN_WORKSPACE;
    out->problem.alpha[0] = 1;
}

bool trp__dnn_product_of(const trp__dnn_graph *g, uint32_t first, uint32_t count,
                         trp__dnn_product *out)
{
    const trp__dnn_node *node = &g->node[first];
    if (node->kind > TRP_DNN_MATMUL || node->kind == TRP_DNN_NONE || count == 0 ||
        count > TRP__DNN_PRODUCT_NODES || count > g->head->nodes - first)
        return false;
    for (uint32_t i = 1; i < count; i++) {
        if (g->node[first + i].kind != TRP_DNN_POINTWISE)
            return false;
    }
    const trp__dnn_node *last = &g->node[first + count - 1];
    uint8_t result = last->port[written_port(last)];
    const trp__dnn_tensor *d = &g->tensor[result];
    matrices p;
    begin(g->head->workspace, out);
    out->count = count;
    if (!(node->kind == TRP_DNN_MATMUL ? as_product : as_convolution)(g, node, d, &p))
        return false;
    p.tensor[D] = result;
    bool rows = (p.n == 1 || p.column[D] == 1) && (p.m == 1 || p.row[D] >= p.n);
    if (!set_types(g, node, &p, &out->problem) || (count > 1 && !rows) ||
        !set_matrices(&p, rows, out))
        return false;
    uint8_t current = node->port[written_port(node)];
    for (uint32_t i = 1; i < count; i++) {
        const trp__dnn_node *next = &g->node[first + i];
        if (!goes_on_with(g, next, current) || !take_epilogue(g, next, current, d, p.line, out))
            return false;
        current = next->port[TRP__DNN_POINTWISE_Y];
    }
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        out->alignment[i] = out->tensor[i] != TRP__DNN_NO_PORT ? alignment_of(g, out, i) : 0;
    return !is_rounded_twice(out);
}

bool trp__dnn_longest_product(const trp__dnn_graph *g, uint32_t first, trp__dnn_product *out)
{
    uint32_t count = TRP__DNN_PRODUCT_NODES;
    while (count > 0 && !trp__dnn_product_of(g, first, count, out))
        count--;
    return count > 0;
}

bool trp__dnn_prefers_product(const trp__dnn_graph *g, uint32_t first,
                              const trp__dnn_product *product)
{
    uint8_t type = product->problem.type[TRP__MATMUL_A];
    if (g->node[first].kind == TRP_DNN_MATMUL)
        return type == TRP_F64 || (type == TRP_F32 && !g->head->tf32);
    return product->count > 1;
}

void trp__dnn_product_offsets(const trp__dnn_product *p, int64_t index,
                              uint64_t out[TRP__MATMUL_MATRICES])
{
    memset(out, 0, TRP__MATMUL_MATRICES * sizeof *out);
    for (int i = p->loops; i-- > 0; index /= p->loop[i]) {
        for (int k = 0; k < TRP__MATMUL_MATRICES; k++)
            out[k] += (uint64_t)(index % p->loop[i] * p->step[k][i]) *
                      (trp_dtype_bits((trp_dtype)p->problem.type[k]) / 8);
    }
}
