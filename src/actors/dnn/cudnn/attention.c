#include "actors/dnn/cudnn/attention.h"

#include "actors/dnn/cudnn/descriptors.h"
#include "actors/dnn/lower/layout.h"
#include "base/error.h"

#include <troupe/dnn.h>

#include <string.h>

enum {
    RANK = 4,
    ALIGNMENT = 16,
    FIRST_UID = 1 << 16 /* ids of tensors without a number in the
                         * graph */
};

#define OP(name)  TRP__CUDNN_ATTR_OPERATION_##name
#define PW(name)  TRP__CUDNN_POINTWISE_##name
#define SUM(name) TRP__CUDNN_REDUCE_TENSOR_##name

typedef trp__cudnn_descriptor descriptor;

typedef struct composer {
    const trp__cudnn *lib;
    const trp__dnn_graph *graph;
    const trp__dnn_node *node;
    trp__dnn_composed *out;
    trp_status status; /* the first error; afterwards nothing is created */
    trp_error *error;
    descriptor given[TRP__DNN_ATTENTION_PORTS];
    int64_t batches, heads, rows, columns, depth, width;
    uint8_t type;      /* type of q, the operands of products */
    trp__dnn_tensor k; /* as given, not transposed */
} composer;

static const trp__dnn_tensor *tensor_at(const composer *c, int port)
{
    uint8_t number = c->node->port[port];
    return number == TRP__DNN_NO_PORT ? NULL : &c->graph->tensor[number];
}

static trp__cudnn_builder begin(const composer *c, trp__cudnn_descriptor_type type)
{
    trp__cudnn_builder m = {.lib = c->lib, .error = c->error, .status = c->status};
    return c->status == TRP_OK ? trp__cudnn_begin(c->lib, type, c->error) : m;
}

static descriptor finish(composer *c, trp__cudnn_builder *m, bool operation)
{
    trp__dnn_composed *out = c->out;
    descriptor made = NULL;
    if (c->status != TRP_OK)
        return NULL;
    if (out->operations == TRP__DNN_COMPOSED_MOST || out->parts == TRP__DNN_COMPOSED_MOST) {
        m->status = trp__error_set(c->error, TRP_E_INTERNAL, "attention of too many operations");
        c->status = m->status;
        trp__cudnn_drop(c->lib, &m->descriptor);
        return NULL;
    }
    c->status = trp__cudnn_finish(m, &made);
    if (made && operation)
        out->operation[out->operations++] = made;
    else if (made)
        out->part[out->parts++] = made;
    return made;
}

static descriptor tensor(composer *c, uint8_t type, int64_t uid, uint32_t alignment,
                         trp__dnn_place place, const int64_t dim[RANK], const int64_t stride[RANK])
{
    trp__cudnn_builder m = begin(c, TRP__CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_TENSOR_DATA_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(type));
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_TENSOR_DIMENSIONS, TRP__CUDNN_TYPE_INT64, RANK, dim);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_TENSOR_STRIDES, TRP__CUDNN_TYPE_INT64, RANK, stride);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
    trp__cudnn_set_flag(&m, TRP__CUDNN_ATTR_TENSOR_IS_VIRTUAL, place == TRP__DNN_PLACE_INSIDE);
    trp__cudnn_set_flag(&m, TRP__CUDNN_ATTR_TENSOR_IS_BY_VALUE, place == TRP__DNN_PLACE_VALUE);
    return finish(c, &m, false);
}

/* Sets the strides of dimensions of 1, which do not matter but which the library reads. */
static trp__dnn_tensor with_strides(const trp__dnn_tensor *given)
{
    trp__dnn_tensor t = *given;
    int64_t whole = 1;
    if (trp__dnn_layouts(&t) & 1u << TRP__DNN_ROWS) {
        trp__dnn_lay_out(&t, TRP__DNN_ROWS);
        return t;
    }
    for (int i = 0; i < RANK; i++)
        whole = t.dim[i] > 1 && t.dim[i] * t.stride[i] > whole ? t.dim[i] * t.stride[i] : whole;
    for (int i = 0; i < RANK - 1; i++)
        t.stride[i] = t.dim[i] > 1 ? t.stride[i] : whole;
    return t;
}

/* Returns the descriptor of the tensor at a port, created once. The library gets k, and for the
 * gradient also v, with rows and columns exchanged. */
static descriptor given(composer *c, int port)
{
    const trp__dnn_tensor *t = tensor_at(c, port);
    bool turned = port == TRP__DNN_ATTENTION_K ||
                  (port == TRP__DNN_ATTENTION_V && c->node->kind == TRP_DNN_ATTENTION_BACKWARD);
    bool value = t && t->role == TRP__DNN_VALUE;
    int64_t dim[RANK] = {1, 1, 1, 1}, stride[RANK] = {1, 1, 1, 1};
    if (!t || c->given[port])
        return c->given[port];
    const trp__dnn_tensor lies = with_strides(t);
    for (int i = 0; i < RANK && !value; i++) {
        int from = !turned || i < 2 ? i : 5 - i;
        dim[i] = lies.dim[from];
        stride[i] = lies.stride[from];
    }
    return c->given[port] =
               tensor(c, t->type, trp__dnn_uid(c->node->port[port]),
                      t->role == TRP__DNN_BUFFER && t->alignment ? t->alignment : ALIGNMENT,
                      value ? TRP__DNN_PLACE_VALUE : TRP__DNN_PLACE_MEMORY, dim, stride);
}

static descriptor inner_of(composer *c, uint8_t type, const int64_t dim[RANK],
                           const int64_t stride[RANK])
{
    return tensor(c, type, FIRST_UID + c->out->parts, ALIGNMENT, TRP__DNN_PLACE_INSIDE, dim,
                  stride);
}

/* Returns a packed intermediate tensor for all heads of q with the given rows and columns. */
static descriptor inner(composer *c, uint8_t type, int64_t rows, int64_t columns)
{
    const int64_t dim[RANK] = {c->batches, c->heads, rows, columns};
    const int64_t stride[RANK] = {c->heads * rows * columns, rows * columns, columns, 1};
    return inner_of(c, type, dim, stride);
}

static descriptor scores(composer *c, uint8_t type)
{
    return inner(c, type, c->rows, c->columns);
}

/* Adds operations. Each function returns its output. */

typedef struct pointwise {
    int mode;
    uint8_t compute;
    int axis; /* -1: none */
} pointwise;

static descriptor element_wise(composer *c, pointwise how, descriptor x, descriptor b, descriptor t,
                               descriptor y)
{
    trp__cudnn_builder m = begin(c, TRP__CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_POINTWISE_MODE, TRP__CUDNN_TYPE_POINTWISE_MODE,
                        how.mode);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_POINTWISE_MATH_PREC, TRP__CUDNN_TYPE_DATA_TYPE,
                        trp__dnn_cudnn_type(how.compute));
    if (how.axis >= 0)
        trp__cudnn_set_int(&m, TRP__CUDNN_ATTR_POINTWISE_AXIS, how.axis);
    descriptor made = finish(c, &m, false);
    m = begin(c, TRP__CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    trp__cudnn_set_descriptor(&m, OP(POINTWISE_PW_DESCRIPTOR), made);
    trp__cudnn_set_descriptor(&m, OP(POINTWISE_XDESC), x);
    if (b)
        trp__cudnn_set_descriptor(&m, OP(POINTWISE_BDESC), b);
    if (t)
        trp__cudnn_set_descriptor(&m, OP(POINTWISE_TDESC), t);
    trp__cudnn_set_descriptor(&m, OP(POINTWISE_YDESC), y);
    finish(c, &m, true);
    return y;
}

/* Operates on f32. */
static descriptor real(composer *c, int mode, descriptor x, descriptor b, descriptor y)
{
    return element_wise(c, (pointwise){mode, TRP_F32, -1}, x, b, NULL, y);
}

static descriptor index_of(composer *c, descriptor like, int axis)
{
    return element_wise(c, (pointwise){PW(GEN_INDEX), TRP_F32, axis}, like, NULL, NULL,
                        scores(c, TRP_I32));
}

/* Operates on indices and lengths. */
static descriptor whole(composer *c, int mode, descriptor x, descriptor b)
{
    return element_wise(c, (pointwise){mode, TRP_I32, -1}, x, b, NULL, scores(c, TRP_I32));
}

static descriptor truth(composer *c, int mode, descriptor x, descriptor b)
{
    return element_wise(c, (pointwise){mode, TRP_BOOL, -1}, x, b, NULL, scores(c, TRP_BOOL));
}

static descriptor where(composer *c, descriptor x, descriptor seen)
{
    return element_wise(c, (pointwise){PW(BINARY_SELECT), TRP_F32, -1}, x,
                        given(c, TRP__DNN_ATTENTION_MASKED), seen, scores(c, TRP_F32));
}

/* Multiplies matrices. Lengths may limit rows, columns and the sums: ports, -1 for none. */
static descriptor multiply(composer *c, descriptor a, descriptor b, int m_port, int n_port,
                           int k_port, descriptor y)
{
    const struct {
        int port;
        trp__cudnn_attribute name;
    } lengths[] = {{m_port, OP(MATMUL_GEMM_M_OVERRIDE_DESC)},
                   {n_port, OP(MATMUL_GEMM_N_OVERRIDE_DESC)},
                   {k_port, OP(MATMUL_GEMM_K_OVERRIDE_DESC)}};
    trp__cudnn_builder m = begin(c, TRP__CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_MATMUL_COMP_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        TRP__CUDNN_DATA_FLOAT);
    descriptor made = finish(c, &m, false);
    m = begin(c, TRP__CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    trp__cudnn_set_descriptor(&m, OP(MATMUL_DESC), made);
    trp__cudnn_set_descriptor(&m, OP(MATMUL_ADESC), a);
    trp__cudnn_set_descriptor(&m, OP(MATMUL_BDESC), b);
    trp__cudnn_set_descriptor(&m, OP(MATMUL_CDESC), y);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (lengths[i].port >= 0 && tensor_at(c, lengths[i].port))
            trp__cudnn_set_descriptor(&m, lengths[i].name, given(c, lengths[i].port));
    }
    finish(c, &m, true);
    return y;
}

static descriptor reduce(composer *c, int mode, descriptor x, descriptor y)
{
    trp__cudnn_builder m = begin(c, TRP__CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_REDUCTION_OPERATOR,
                        TRP__CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
    trp__cudnn_set_enum(&m, TRP__CUDNN_ATTR_REDUCTION_COMP_TYPE, TRP__CUDNN_TYPE_DATA_TYPE,
                        TRP__CUDNN_DATA_FLOAT);
    descriptor made = finish(c, &m, false);
    m = begin(c, TRP__CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    trp__cudnn_set_descriptor(&m, OP(REDUCTION_DESC), made);
    trp__cudnn_set_descriptor(&m, OP(REDUCTION_XDESC), x);
    trp__cudnn_set_descriptor(&m, OP(REDUCTION_YDESC), y);
    finish(c, &m, true);
    return y;
}

static descriptor reshape(composer *c, descriptor x, descriptor y)
{
    trp__cudnn_builder m = begin(c, TRP__CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    trp__cudnn_set_descriptor(&m, OP(RESHAPE_XDESC), x);
    trp__cudnn_set_descriptor(&m, OP(RESHAPE_YDESC), y);
    finish(c, &m, true);
    return y;
}

/* Computes the scores, forward and backward. */

static descriptor products(composer *c)
{
    descriptor s =
        multiply(c, given(c, TRP__DNN_ATTENTION_Q), given(c, TRP__DNN_ATTENTION_K),
                 TRP__DNN_ATTENTION_SEQ_Q, TRP__DNN_ATTENTION_SEQ_KV, -1, scores(c, TRP_F32));
    s = real(c, PW(MUL), s, given(c, TRP__DNN_ATTENTION_SCALE), scores(c, TRP_F32));
    if (tensor_at(c, TRP__DNN_ATTENTION_BIAS))
        s = real(c, PW(ADD), s, given(c, TRP__DNN_ATTENTION_BIAS), scores(c, TRP_F32));
    if (tensor_at(c, TRP__DNN_ATTENTION_SLOPES)) {
        descriptor row = index_of(c, s, 2), column = index_of(c, s, 3);
        descriptor apart = whole(c, PW(SUB), column, row);
        descriptor by =
            real(c, PW(MUL), apart, given(c, TRP__DNN_ATTENTION_SLOPES), scores(c, TRP_F32));
        s = real(c, PW(ADD), s, by, scores(c, TRP_F32));
    }
    return s;
}

/* Masks scores beyond the lengths of a batch. */
static descriptor without_padding(composer *c, descriptor s)
{
    if (!tensor_at(c, TRP__DNN_ATTENTION_SEQ_Q))
        return s;
    descriptor row = index_of(c, s, 2), column = index_of(c, s, 3);
    row = truth(c, PW(CMP_LT), row, given(c, TRP__DNN_ATTENTION_SEQ_Q));
    column = truth(c, PW(CMP_LT), column, given(c, TRP__DNN_ATTENTION_SEQ_KV));
    return where(c, s, truth(c, PW(LOGICAL_AND), row, column));
}

static bool ends_bottom_right(const composer *c)
{
    return c->node->mode == TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT;
}

static descriptor length_of(composer *c, int port, int size_port)
{
    return given(c, tensor_at(c, port) ? port : size_port);
}

/* Masks scores beyond the diagonal and outside the window. */
static descriptor without_masked(composer *c, descriptor s)
{
    bool lengths = tensor_at(c, TRP__DNN_ATTENTION_SEQ_Q) != NULL;
    if (c->node->mode != TRP_DNN_MASK_NONE) {
        descriptor row = index_of(c, s, 2), column = index_of(c, s, 3);
        if (ends_bottom_right(c)) {
            row = whole(c, PW(ADD), row,
                        length_of(c, TRP__DNN_ATTENTION_SEQ_KV, TRP__DNN_ATTENTION_SIZE_KV));
            row = whole(c, PW(SUB), row,
                        length_of(c, TRP__DNN_ATTENTION_SEQ_Q, TRP__DNN_ATTENTION_SIZE_Q));
        }
        s = where(c, s, truth(c, PW(CMP_GE), row, column));
    }
    if (c->node->window[0] != 0) {
        descriptor row = index_of(c, s, 2), column = index_of(c, s, 3);
        descriptor reach = given(c, TRP__DNN_ATTENTION_REACH);
        if (ends_bottom_right(c) && lengths) {
            column = whole(c, PW(ADD), column, reach);
            column = whole(c, PW(SUB), column, given(c, TRP__DNN_ATTENTION_SEQ_KV));
            column = whole(c, PW(ADD), column, given(c, TRP__DNN_ATTENTION_SEQ_Q));
        } else {
            column = real(c, PW(ADD), column, reach, scores(c, TRP_F32));
        }
        s = where(c, s, truth(c, PW(CMP_GT), column, row));
    }
    return s;
}

static void compose_forward(composer *c)
{
    descriptor s = without_masked(c, without_padding(c, products(c)));
    descriptor most = reduce(c, SUM(MAX), s, inner(c, TRP_F32, c->rows, 1));
    descriptor power = real(c, PW(SUB), s, most, scores(c, TRP_F32));
    power = real(c, PW(EXP), power, NULL, scores(c, TRP_F32));
    descriptor sum = reduce(c, SUM(ADD), power, inner(c, TRP_F32, c->rows, 1));
    /* Its engines match the graph only with these two outputs, requested or not. */
    bool wanted = tensor_at(c, TRP__DNN_ATTENTION_STATS) != NULL;
    descriptor log = real(c, PW(LOG), sum, NULL, inner(c, TRP_F32, c->rows, 1));
    real(c, PW(ADD), most, log,
         wanted ? given(c, TRP__DNN_ATTENTION_STATS) : inner(c, TRP_F32, c->rows, 1));
    descriptor weights = real(c, PW(DIV), power, sum, scores(c, c->type));
    multiply(c, weights, given(c, TRP__DNN_ATTENTION_V), TRP__DNN_ATTENTION_SEQ_Q, -1,
             TRP__DNN_ATTENTION_SEQ_KV, given(c, TRP__DNN_ATTENTION_Y));
}

/* Transposes rows and columns. */
static descriptor turned(composer *c, descriptor x)
{
    const int64_t dim[RANK] = {c->batches, c->heads, c->columns, c->rows};
    const int64_t stride[RANK] = {c->heads * c->rows * c->columns, c->rows * c->columns, 1,
                                  c->columns};
    return reshape(c, x, inner_of(c, c->type, dim, stride));
}

/* Sums over the rows of all heads of q that share one head of k and v. */
static void sum_over_rows(composer *c, descriptor weights, int port, int64_t depth, int to)
{
    bool shared = tensor_at(c, to)->dim[1] != c->heads;
    descriptor y = shared ? inner(c, c->type, c->columns, depth) : given(c, to);
    multiply(c, turned(c, weights), given(c, port), TRP__DNN_ATTENTION_SEQ_KV, -1,
             TRP__DNN_ATTENTION_SEQ_Q, y);
    if (shared)
        reduce(c, SUM(ADD), y, given(c, to));
}

static void compose_dq(composer *c, descriptor slopes)
{
    bool added_up = tensor_at(c, TRP__DNN_ATTENTION_SUM_DQ) != NULL;
    descriptor turned_keys = given(c, TRP__DNN_ATTENTION_K);
    descriptor keys = reshape(c, turned_keys, inner_of(c, c->k.type, c->k.dim, c->k.stride));
    descriptor to = given(c, added_up ? TRP__DNN_ATTENTION_SUM_DQ : TRP__DNN_ATTENTION_DQ);
    multiply(c, slopes, keys, TRP__DNN_ATTENTION_SEQ_Q, -1, TRP__DNN_ATTENTION_SEQ_KV, to);
    if (added_up)
        real(c, PW(IDENTITY), to, NULL, given(c, TRP__DNN_ATTENTION_DQ));
}

static void compose_backward(composer *c)
{
    descriptor means = real(c, PW(MUL), given(c, TRP__DNN_ATTENTION_DY),
                            given(c, TRP__DNN_ATTENTION_Y), inner(c, TRP_F32, c->rows, c->width));
    means = reduce(c, SUM(ADD), means, inner(c, TRP_F32, c->rows, 1));
    means = real(c, PW(MUL), means, given(c, TRP__DNN_ATTENTION_ONE),
                 given(c, TRP__DNN_ATTENTION_MEANS));
    descriptor s = without_padding(c, products(c));
    s = real(c, PW(SUB), s, given(c, TRP__DNN_ATTENTION_STATS), scores(c, TRP_F32));
    s = without_masked(c, s);
    descriptor weights = real(c, PW(EXP), s, NULL, scores(c, TRP_F32));
    sum_over_rows(c, weights, TRP__DNN_ATTENTION_DY, c->width, TRP__DNN_ATTENTION_DV);
    descriptor slopes =
        multiply(c, given(c, TRP__DNN_ATTENTION_DY), given(c, TRP__DNN_ATTENTION_V),
                 TRP__DNN_ATTENTION_SEQ_Q, TRP__DNN_ATTENTION_SEQ_KV, -1, scores(c, TRP_F32));
    slopes = real(c, PW(SUB), slopes, means, scores(c, TRP_F32));
    slopes = real(c, PW(MUL), slopes, weights, scores(c, TRP_F32));
    if (tensor_at(c, TRP__DNN_ATTENTION_DBIAS))
        reduce(c, SUM(ADD), slopes, given(c, TRP__DNN_ATTENTION_DBIAS));
    slopes = real(c, PW(MUL), slopes, given(c, TRP__DNN_ATTENTION_SCALE), scores(c, TRP_F32));
    sum_over_rows(c, slopes, TRP__DNN_ATTENTION_Q, c->depth, TRP__DNN_ATTENTION_DK);
    compose_dq(c, slopes);
}

trp_status trp__dnn_compose_attention(const trp__cudnn *lib, const trp__dnn_graph *graph,
                                      const trp__dnn_node *node, trp__dnn_composed *out,
                                      trp_error *error)
{
    composer c = {.lib = lib, .graph = graph, .node = node, .out = out, .error = error};
    const trp__dnn_tensor *q = tensor_at(&c, TRP__DNN_ATTENTION_Q);
    *out = (trp__dnn_composed){0};
    c.batches = q->dim[0];
    c.heads = q->dim[1];
    c.rows = q->dim[2];
    c.depth = q->dim[3];
    c.k = with_strides(tensor_at(&c, TRP__DNN_ATTENTION_K));
    c.columns = c.k.dim[2];
    c.width = tensor_at(&c, TRP__DNN_ATTENTION_V)->dim[3];
    c.type = q->type;
    const char *refusal = lib->cudnnGetVersion() < TRP__CUDNN_VERSION_ATTENTION
                              ? "before version 9.16"
                              : trp__dnn_attention_refusal(graph->tensor, node);
    if (refusal)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "cuDNN has no attention %s", refusal);
    if (node->kind == TRP_DNN_ATTENTION)
        compose_forward(&c);
    else
        compose_backward(&c);
    return c.status;
}

void trp__dnn_composed_drop(const trp__cudnn *lib, trp__dnn_composed *composed)
{
    while (composed->operations > 0)
        trp__cudnn_drop(lib, &composed->operation[--composed->operations]);
    while (composed->parts > 0)
        trp__cudnn_drop(lib, &composed->part[--composed->parts]);
}
