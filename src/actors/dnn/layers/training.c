/* The calls of <troupe/training.h>: each makes a graph and sends it. What their fields must be is
 * checked with the graph; here only what would get lost on the way. */
#include "actors/dnn/layers/layer_graph.h"
#include "base/error.h"
#include "wire/actor_class.h"

#include <troupe/training.h>

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Of the tensors of a call. */
#define CHECK(graph, all) trp__layer_check_tensors(graph, all, COUNT_OF(all))

#define NEEDED   TRP__LAYER_NEEDED
#define OPTIONAL TRP__LAYER_OPTIONAL
#define NONE     TRP__LAYER_NONE

#define SCALAR(field)                                                                              \
    {                                                                                              \
#field, &r->field                                                                          \
    }
#define CHECK_SCALAR(field) trp__layer_check_scalars(&(trp__layer_scalar)SCALAR(field), 1)

/* A tensor in memory or a number; 0 for neither. */
static uint32_t add_any(trp__layer_graph *g, const trp_dnn_tensor *t)
{
    const trp_scalar *v = &t->value; /* one that is wrong is refused with the graph */
    if (!t->buffer.id && !v->given && v->re == 0 && v->im == 0)
        return 0;
    g->tensor[++g->tensors] = *t;
    return g->tensors;
}

static uint32_t add_number(trp__layer_graph *g, trp_dtype type, trp_scalar value)
{
    if (!value.given)
        return 0;
    g->tensor[++g->tensors] = (trp_dnn_tensor){.type = type, .value = value};
    return g->tensors;
}

/* x + b, if b is there, to y. */
static void finish_sum(trp__layer_graph *g, uint32_t x, const trp_dnn_tensor *b,
                       const trp_dnn_tensor *y)
{
    if (trp__layer_is_given(b))
        trp__layer_pointwise(g, TRP_DNN_ADD, x, trp__layer_add(g, b));
    trp__layer_finish(g, y);
}

/* --- Shapes --- */

/* A tensor as rows and columns: all dimensions but the last become one. */
static trp_status as_rows(const char *name, const trp_dnn_tensor *t, trp_dnn_tensor *out)
{
    int64_t rows = 1, stride = 0, next = 0;
    *out = *t;
    if (!trp__layer_is_given(t))
        return TRP_OK;
    if (t->rank < 1 || t->rank > TRP_DNN_RANK_MAX)
        return trp__fail(TRP_E_ARGUMENT, "%s.rank: expected 1 to %d, got %u", name,
                         TRP_DNN_RANK_MAX, t->rank);
    bool packed = true;
    for (uint32_t i = 0; i < t->rank; i++)
        packed = packed && t->stride[i] == 0;
    for (uint32_t i = t->rank - 1; i-- > 0;) {
        const int64_t dim = t->dim[i];
        if (dim != 1 && stride == 0) {
            stride = t->stride[i];
            next = stride;
        }
        if (dim != 1 && !packed && t->stride[i] != next)
            return trp__fail(TRP_E_ARGUMENT,
                             "%s.stride[%u]: expected %lld, so that rows follow each other, got "
                             "%lld",
                             name, i, (long long)next, (long long)t->stride[i]);
        if (dim < 0 || __builtin_mul_overflow(rows, dim, &rows) ||
            __builtin_mul_overflow(next, dim, &next))
            return trp__fail(TRP_E_ARGUMENT, "%s.dim[%u]: expected fewer elements, got %lld", name,
                             i, (long long)dim);
    }
    const int64_t width = t->dim[t->rank - 1], step = t->stride[t->rank - 1];
    memset(out->dim, 0, sizeof out->dim);
    memset(out->stride, 0, sizeof out->stride);
    out->rank = 2;
    out->dim[0] = rows;
    out->dim[1] = width;
    if (!packed) {
        out->stride[0] = stride ? stride : width * step; /* of one row, or repeated */
        out->stride[1] = step;
    }
    return TRP_OK;
}

/* One element for each column, or each row. */
static trp_status as_vector(const char *name, const trp_dnn_tensor *t, bool column, int64_t count,
                            trp_dnn_tensor *out)
{
    int64_t elements = 1;
    *out = *t;
    if (!trp__layer_is_given(t))
        return TRP_OK;
    bool packed = true;
    for (uint32_t i = 0; i < t->rank && i < TRP_DNN_RANK_MAX; i++) {
        packed = packed && (t->stride[i] == 0 || (t->rank == 1 && t->stride[i] == 1));
        if (t->dim[i] < 0 || __builtin_mul_overflow(elements, t->dim[i], &elements))
            elements = -1;
    }
    if (t->rank > 0 && elements != count)
        return trp__fail(TRP_E_ARGUMENT, "%s.dim: expected %lld elements, got %lld", name,
                         (long long)count, (long long)elements);
    if (!packed)
        return trp__fail(TRP_E_ARGUMENT, "%s.stride: expected 0, for it is packed", name);
    memset(out->dim, 0, sizeof out->dim);
    memset(out->stride, 0, sizeof out->stride);
    out->rank = 2;
    out->dim[0] = column ? count : 1;
    out->dim[1] = column ? 1 : count;
    return TRP_OK;
}

/* The same matrix with rows for columns. */
static trp_dnn_tensor transposed(const trp_dnn_tensor *t)
{
    trp_dnn_tensor out = *t;
    const bool packed = t->stride[0] == 0 && t->stride[1] == 0;
    out.dim[0] = t->dim[1];
    out.dim[1] = t->dim[0];
    out.stride[0] = packed ? 1 : t->stride[1];
    out.stride[1] = packed ? t->dim[1] : t->stride[0];
    return out;
}

/* --- Embeddings, gathering, scattering --- */

static trp_status gather(trp_actor *dnn, const trp_gather_request *r, const trp_dnn_tensor *add,
                         trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_GATHER);
    n->gather = r->mode;
    n->axis = r->axis;
    n->x = trp__layer_add(&g, &r->x);
    n->index = trp__layer_add(&g, &r->index);
    finish_sum(&g, trp__layer_writes(&g, &n->y), add, &r->y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

static trp_status scatter(trp_actor *dnn, const trp_gather_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_SCATTER_ADD);
    n->gather = r->mode;
    n->axis = r->axis;
    n->ignore = r->ignore;
    n->dy = trp__layer_add(&g, &r->dy);
    n->index = trp__layer_add(&g, &r->index);
    n->x = trp__layer_add(&g, &r->add_dx);
    n->y = trp__layer_add(&g, &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_embedding_forward(trp_actor *dnn, const trp_embedding_request *r,
                                 trp_completion *completion)
{
    const trp__layer_tensor all[] = {{"table", &r->table, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"y", &r->y, NEEDED},
                                     {"add", &r->add, OPTIONAL},
                                     {"dy", &r->dy, NONE},
                                     {"dtable", &r->dtable, NONE},
                                     {"add_dtable", &r->add_dtable, NONE}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(padding);
    if (status == TRP_OK && r->padding.given)
        return trp__fail(TRP_E_ARGUMENT, "padding: expected none in this pass");
    if (status != TRP_OK)
        return status;
    const trp_gather_request q = {
        .header = r->header, .x = r->table, .index = r->index, .y = r->y, .options = r->options};
    return gather(dnn, &q, &r->add, completion);
}

trp_status trp_embedding_backward(trp_actor *dnn, const trp_embedding_request *r,
                                  trp_completion *completion)
{
    const trp__layer_tensor all[] = {{"dy", &r->dy, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"dtable", &r->dtable, NEEDED},
                                     {"table", &r->table, NONE},
                                     {"y", &r->y, NONE},
                                     {"add", &r->add, NONE},
                                     {"add_dtable", &r->add_dtable, OPTIONAL}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(padding);
    if (status != TRP_OK)
        return status;
    const trp_gather_request q = {.header = r->header,
                                  .index = r->index,
                                  .dy = r->dy,
                                  .dx = r->dtable,
                                  .add_dx = r->add_dtable,
                                  .ignore = r->padding,
                                  .options = r->options};
    return scatter(dnn, &q, completion);
}

trp_status trp_gather_forward(trp_actor *dnn, const trp_gather_request *r,
                              trp_completion *completion)
{
    static const trp_dnn_tensor none;
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED}, {"index", &r->index, NEEDED},
                                     {"y", &r->y, NEEDED}, {"dy", &r->dy, NONE},
                                     {"dx", &r->dx, NONE}, {"add_dx", &r->add_dx, NONE}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    if (status == TRP_OK && r->ignore.given)
        return trp__fail(TRP_E_ARGUMENT, "ignore: expected none in this pass");
    return status == TRP_OK ? gather(dnn, r, &none, completion) : status;
}

trp_status trp_gather_backward(trp_actor *dnn, const trp_gather_request *r,
                               trp_completion *completion)
{
    const trp__layer_tensor all[] = {{"dy", &r->dy, NEEDED}, {"index", &r->index, NEEDED},
                                     {"dx", &r->dx, NEEDED}, {"x", &r->x, NONE},
                                     {"y", &r->y, NONE},     {"add_dx", &r->add_dx, OPTIONAL}};
    trp__layer_graph fields = {0};
    trp_status status = CHECK(&fields, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    return status == TRP_OK ? scatter(dnn, r, completion) : status;
}

/* --- Losses --- */

trp_status trp_cross_entropy(trp_actor *dnn, const trp_cross_entropy_request *r,
                             trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {
        {"logits", &r->logits, NEEDED},    {"labels", &r->labels, OPTIONAL},
        {"target", &r->target, OPTIONAL},  {"loss", &r->loss, OPTIONAL},
        {"rows", &r->rows, OPTIONAL},      {"stats", &r->stats, OPTIONAL},
        {"dlogits", &r->dlogits, OPTIONAL}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(ignore);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_CROSS_ENTROPY);
    n->reduction = r->reduction;
    n->ignore = r->ignore;
    n->parameter[0] = trp_real(r->smoothing);
    n->parameter[1] = trp_real(r->z_loss);
    n->x = trp__layer_add(&g, &r->logits);
    n->index = trp__layer_add(&g, &r->labels);
    n->t = trp__layer_add(&g, &r->target);
    n->dy = add_any(&g, &r->dloss);
    n->y = trp__layer_add(&g, &r->loss);
    n->rows = trp__layer_add(&g, &r->rows);
    n->stats = trp__layer_add(&g, &r->stats);
    n->dx = trp__layer_add(&g, &r->dlogits);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_loss(trp_actor *dnn, const trp_loss_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"target", &r->target, NEEDED},
                                     {"loss", &r->loss, OPTIONAL},
                                     {"rows", &r->rows, OPTIONAL},
                                     {"dx", &r->dx, OPTIONAL}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(beta);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_LOSS);
    n->loss = r->mode;
    n->reduction = r->reduction;
    n->parameter[0] = r->beta;
    n->x = trp__layer_add(&g, &r->x);
    n->t = trp__layer_add(&g, &r->target);
    n->w = add_any(&g, &r->weight);
    n->b = add_any(&g, &r->positive_weight);
    n->dy = add_any(&g, &r->dloss);
    n->y = trp__layer_add(&g, &r->loss);
    n->rows = trp__layer_add(&g, &r->rows);
    n->dx = trp__layer_add(&g, &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

/* --- Linear layers --- */

trp_status trp_linear_forward(trp_actor *dnn, const trp_linear_request *r,
                              trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_dnn_tensor x, w, bias, residual, y, z;
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"w", &r->w, NEEDED},
                                     {"y", &r->y, NEEDED},
                                     {"bias", &r->bias, OPTIONAL},
                                     {"z", &r->z, OPTIONAL},
                                     {"residual", &r->residual, OPTIONAL},
                                     {"dy", &r->dy, NONE},
                                     {"dx", &r->dx, NONE},
                                     {"dw", &r->dw, NONE},
                                     {"dbias", &r->dbias, NONE},
                                     {"add_dx", &r->add_dx, NONE},
                                     {"add_dw", &r->add_dw, NONE},
                                     {"add_dbias", &r->add_dbias, NONE},
                                     {"x_z", &r->x_z, NONE}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = trp__layer_check_activation(&r->activation, true);
    if (status == TRP_OK && r->x_activation.mode != TRP_DNN_IDENTITY)
        return trp__fail(TRP_E_ARGUMENT, "x_activation.mode: expected none in this pass, got %d",
                         (int)r->x_activation.mode);
    if (status == TRP_OK && trp__layer_is_given(&r->z) && r->activation.mode == TRP_DNN_IDENTITY)
        return trp__fail(TRP_E_ARGUMENT, "z: expected none without an activation");
    if (status == TRP_OK)
        status = as_rows("x", &r->x, &x);
    if (status == TRP_OK)
        status = as_rows("w", &r->w, &w);
    if (status == TRP_OK)
        status = as_rows("y", &r->y, &y);
    if (status == TRP_OK)
        status = as_rows("z", &r->z, &z);
    if (status == TRP_OK)
        status = as_rows("residual", &r->residual, &residual);
    if (status == TRP_OK)
        status = as_vector("bias", &r->bias, false, w.dim[0], &bias);
    if (status != TRP_OK)
        return status;
    const trp_dnn_tensor right = transposed(&w);
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_MATMUL);
    n->a = trp__layer_add(&g, &x);
    n->b = trp__layer_add(&g, &right);
    uint32_t sum = trp__layer_writes(&g, &n->y);
    if (trp__layer_is_given(&bias))
        sum = trp__layer_pointwise(&g, TRP_DNN_ADD, sum, trp__layer_add(&g, &bias));
    if (trp__layer_is_given(&residual))
        sum = trp__layer_pointwise(&g, TRP_DNN_ADD, sum, trp__layer_add(&g, &residual));
    if (trp__layer_is_given(&z))
        trp__layer_finish(&g, &z);
    trp__layer_activate(&g, &r->activation, sum);
    trp__layer_finish(&g, &y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

static trp_status check_linear_backward(trp__layer_graph *g, const trp_linear_request *r)
{
    const bool dx = trp__layer_is_given(&r->dx), dw = trp__layer_is_given(&r->dw);
    const bool db = trp__layer_is_given(&r->dbias);
    const bool through = r->x_activation.mode != TRP_DNN_IDENTITY;
    const trp__layer_tensor all[] = {{"dy", &r->dy, NEEDED},
                                     {"dx", &r->dx, OPTIONAL},
                                     {"dw", &r->dw, OPTIONAL},
                                     {"dbias", &r->dbias, OPTIONAL},
                                     {"w", &r->w, dx ? NEEDED : OPTIONAL},
                                     {"x", &r->x, dw ? NEEDED : OPTIONAL},
                                     {"add_dx", &r->add_dx, dx ? OPTIONAL : NONE},
                                     {"add_dw", &r->add_dw, dw ? OPTIONAL : NONE},
                                     {"add_dbias", &r->add_dbias, db ? OPTIONAL : NONE},
                                     {"x_z", &r->x_z, through ? NEEDED : NONE},
                                     {"bias", &r->bias, NONE},
                                     {"residual", &r->residual, NONE},
                                     {"z", &r->z, NONE},
                                     {"y", &r->y, NONE}};
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = trp__layer_check_activation(&r->activation, false);
    if (status == TRP_OK && !dx && !dw && !db)
        return trp__fail(TRP_E_ARGUMENT, "dx, dw, dbias: expected at least one of them");
    if (status == TRP_OK && through && !dx)
        return trp__fail(TRP_E_ARGUMENT, "x_activation.mode: expected none without dx, got %d",
                         (int)r->x_activation.mode);
    return status == TRP_OK ? trp__layer_check_activation(&r->x_activation, through) : status;
}

/* mode'(z) * x */
static uint32_t slope(trp__layer_graph *g, const trp_layer_activation *a, uint32_t z, uint32_t x)
{
    trp_dnn_node *n = trp__layer_add_node(g, TRP_DNN_POINTWISE_BACKWARD);
    n->pointwise = a->mode;
    for (int i = 0; i < TRP_DNN_PARAMETERS; i++)
        n->parameter[i] = a->parameter[i];
    n->x = z;
    n->dy = x;
    return trp__layer_writes(g, &n->dx);
}

trp_status trp_linear_backward(trp_actor *dnn, const trp_linear_request *r,
                               trp_completion *completion)
{
    enum { X, W, DY, DX, DW, ADD_DX, ADD_DW, X_Z, MATRICES };
    const struct {
        const char *name;
        const trp_dnn_tensor *from;
    } matrices[MATRICES] = {{"x", &r->x},           {"w", &r->w},    {"dy", &r->dy},
                            {"dx", &r->dx},         {"dw", &r->dw},  {"add_dx", &r->add_dx},
                            {"add_dw", &r->add_dw}, {"x_z", &r->x_z}};
    trp__layer_graph g = {0};
    trp_dnn_tensor t[MATRICES], dbias, add_dbias;
    trp_status status = check_linear_backward(&g, r);
    for (int i = 0; i < MATRICES && status == TRP_OK; i++)
        status = as_rows(matrices[i].name, matrices[i].from, &t[i]);
    if (status == TRP_OK)
        status = as_vector("dbias", &r->dbias, false, t[DY].dim[1], &dbias);
    if (status == TRP_OK)
        status = as_vector("add_dbias", &r->add_dbias, false, t[DY].dim[1], &add_dbias);
    if (status != TRP_OK)
        return status;
    const uint32_t dy = trp__layer_add(&g, &t[DY]);
    if (trp__layer_is_given(&r->dx)) {
        trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_MATMUL);
        n->a = dy;
        n->b = trp__layer_add(&g, &t[W]);
        uint32_t dx = trp__layer_writes(&g, &n->y);
        if (r->x_activation.mode != TRP_DNN_IDENTITY)
            dx = slope(&g, &r->x_activation, trp__layer_add(&g, &t[X_Z]), dx);
        finish_sum(&g, dx, &t[ADD_DX], &t[DX]);
    }
    if (trp__layer_is_given(&r->dw)) {
        const trp_dnn_tensor left = transposed(&t[DY]);
        trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_MATMUL);
        n->a = trp__layer_add(&g, &left);
        n->b = trp__layer_add(&g, &t[X]);
        finish_sum(&g, trp__layer_writes(&g, &n->y), &t[ADD_DW], &t[DW]);
    }
    if (trp__layer_is_given(&r->dbias)) {
        trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_REDUCTION);
        n->reduce = TRP_DNN_SUM;
        n->x = dy;
        const uint32_t sum = trp__layer_writes(&g, &n->y);
        trp__layer_set_dims(&g.tensor[sum], &dbias);
        finish_sum(&g, sum, &add_dbias, &dbias);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

/* --- Norms with a residual --- */

static trp_status check_residual_norm(trp__layer_graph *g, const trp_residual_norm_request *r,
                                      bool forward)
{
    const bool rms = r->mode == TRP_DNN_RMS, more = trp__layer_is_given(&r->residual);
    const bool sum = trp__layer_is_given(&r->sum);
    const trp__layer_tensor all[] = {
        {"x", &r->x, forward || !sum ? NEEDED : OPTIONAL},
        {"residual", &r->residual, forward ? OPTIONAL : NONE},
        {"sum", &r->sum,
         !forward ? OPTIONAL
         : more   ? NEEDED
                  : NONE},
        {"scale", &r->scale, NEEDED},
        {"bias", &r->bias, rms || !forward ? NONE : OPTIONAL},
        {"y", &r->y, forward ? NEEDED : NONE},
        {"mean", &r->mean, rms ? NONE : NEEDED},
        {"inv_variance", &r->inv_variance, NEEDED},
        {"dy", &r->dy, forward ? NONE : NEEDED},
        {"dx", &r->dx, forward ? NONE : NEEDED},
        {"dscale", &r->dscale, forward ? NONE : NEEDED},
        {"dbias", &r->dbias, forward || rms ? NONE : OPTIONAL},
        {"add_dx", &r->add_dx, forward ? NONE : OPTIONAL},
        {"add_dscale", &r->add_dscale, forward ? NONE : OPTIONAL},
        {"add_dbias", &r->add_dbias, trp__layer_is_given(&r->dbias) ? OPTIONAL : NONE}};
    if (r->mode != TRP_DNN_LAYER && !rms)
        return trp__fail(TRP_E_ARGUMENT, "mode: expected TRP_DNN_LAYER or TRP_DNN_RMS, got %d",
                         (int)r->mode);
    trp_status status = CHECK_SCALAR(epsilon);
    if (status == TRP_OK && !forward && r->epsilon.given)
        return trp__fail(TRP_E_ARGUMENT, "epsilon: expected none in this pass");
    return status == TRP_OK ? CHECK(g, all) : status;
}

enum { NORM_X, NORM_RESIDUAL, NORM_SUM, NORM_Y, NORM_DY, NORM_DX, NORM_ADD_DX, NORM_MATRICES };
enum {
    NORM_SCALE,
    NORM_BIAS,
    NORM_DSCALE,
    NORM_DBIAS,
    NORM_ADD_DSCALE,
    NORM_ADD_DBIAS,
    NORM_VECTORS
};

typedef struct norm_tensors {
    trp_dnn_tensor matrix[NORM_MATRICES], vector[NORM_VECTORS], mean, inv_variance;
} norm_tensors;

static trp_status shape_norm(const trp_residual_norm_request *r, norm_tensors *t)
{
    const struct {
        const char *name;
        const trp_dnn_tensor *from;
    } matrices[] = {{"x", &r->x},          {"residual", &r->residual},
                    {"sum", &r->sum},      {"y", &r->y},
                    {"dy", &r->dy},        {"dx", &r->dx},
                    {"add_dx", &r->add_dx}},
      vectors[] = {{"scale", &r->scale},           {"bias", &r->bias},
                   {"dscale", &r->dscale},         {"dbias", &r->dbias},
                   {"add_dscale", &r->add_dscale}, {"add_dbias", &r->add_dbias}};
    trp_status status = TRP_OK;
    for (int i = 0; i < NORM_MATRICES && status == TRP_OK; i++)
        status = as_rows(matrices[i].name, matrices[i].from, &t->matrix[i]);
    if (status != TRP_OK)
        return status;
    const trp_dnn_tensor *x = &t->matrix[trp__layer_is_given(&r->x) ? NORM_X : NORM_SUM];
    for (int i = 0; i < NORM_VECTORS && status == TRP_OK; i++)
        status = as_vector(vectors[i].name, vectors[i].from, false, x->dim[1], &t->vector[i]);
    if (status == TRP_OK)
        status = as_vector("mean", &r->mean, true, x->dim[0], &t->mean);
    return status == TRP_OK
               ? as_vector("inv_variance", &r->inv_variance, true, x->dim[0], &t->inv_variance)
               : status;
}

trp_status trp_residual_norm_forward(trp_actor *dnn, const trp_residual_norm_request *r,
                                     trp_completion *completion)
{
    trp__layer_graph g = {0};
    norm_tensors t;
    trp_status status = check_residual_norm(&g, r, true);
    if (status == TRP_OK)
        status = shape_norm(r, &t);
    if (status != TRP_OK)
        return status;
    uint32_t x = trp__layer_add(&g, &t.matrix[NORM_X]);
    if (trp__layer_is_given(&r->residual)) {
        x = trp__layer_pointwise(&g, TRP_DNN_ADD, x, trp__layer_add(&g, &t.matrix[NORM_RESIDUAL]));
        trp__layer_finish(&g, &t.matrix[NORM_SUM]);
    }
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_NORM_TRAINING);
    n->norm = r->mode;
    n->x = x;
    n->scale = trp__layer_add(&g, &t.vector[NORM_SCALE]);
    n->bias = trp__layer_add(&g, &t.vector[NORM_BIAS]);
    n->epsilon = add_number(&g, TRP_DTYPE_NONE, r->epsilon.given ? r->epsilon : trp_real(1e-5));
    n->mean = trp__layer_add(&g, &t.mean);
    n->inv_variance = trp__layer_add(&g, &t.inv_variance);
    n->y = trp__layer_add(&g, &t.matrix[NORM_Y]);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_residual_norm_backward(trp_actor *dnn, const trp_residual_norm_request *r,
                                      trp_completion *completion)
{
    trp__layer_graph g = {0};
    norm_tensors t;
    trp_status status = check_residual_norm(&g, r, false);
    if (status == TRP_OK)
        status = shape_norm(r, &t);
    if (status != TRP_OK)
        return status;
    const bool sum = trp__layer_is_given(&r->sum);
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_NORM_BACKWARD);
    n->norm = r->mode;
    n->dy = trp__layer_add(&g, &t.matrix[NORM_DY]);
    n->x = trp__layer_add(&g, &t.matrix[sum ? NORM_SUM : NORM_X]);
    n->scale = trp__layer_add(&g, &t.vector[NORM_SCALE]);
    n->mean = trp__layer_add(&g, &t.mean);
    n->inv_variance = trp__layer_add(&g, &t.inv_variance);
    const struct {
        uint32_t *field;
        const trp_dnn_tensor *add, *to;
    } outputs[] = {
        {&n->dx, &t.matrix[NORM_ADD_DX], &t.matrix[NORM_DX]},
        {&n->dscale, &t.vector[NORM_ADD_DSCALE], &t.vector[NORM_DSCALE]},
        {&n->dbias, &t.vector[NORM_ADD_DBIAS], &t.vector[NORM_DBIAS]},
    };
    for (size_t i = 0; i < COUNT_OF(outputs); i++) {
        if (!trp__layer_is_given(outputs[i].to))
            continue;
        const uint32_t got = trp__layer_writes(&g, outputs[i].field);
        if (trp__layer_is_given(outputs[i].add))
            trp__layer_set_dims(&g.tensor[got], outputs[i].to);
        finish_sum(&g, got, outputs[i].add, outputs[i].to);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

/* --- Rotary embedding, gated activations --- */

static trp_status rotary(trp_actor *dnn, const trp_rotary_request *r, bool forward,
                         trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {
        {"x", &r->x, forward ? NEEDED : NONE},   {"y", &r->y, forward ? NEEDED : NONE},
        {"dy", &r->dy, forward ? NONE : NEEDED}, {"dx", &r->dx, forward ? NONE : NEEDED},
        {"cosines", &r->cosines, OPTIONAL},      {"sines", &r->sines, OPTIONAL},
        {"positions", &r->positions, OPTIONAL}};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = CHECK_SCALAR(base);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, forward ? TRP_DNN_ROTARY : TRP_DNN_ROTARY_BACKWARD);
    n->rotary = r->mode;
    n->parameter[0] = r->base;
    if (r->turning != 0)
        n->parameter[1] = trp_real((double)r->turning);
    n->a = trp__layer_add(&g, &r->cosines);
    n->b = trp__layer_add(&g, &r->sines);
    n->index = trp__layer_add(&g, &r->positions);
    n->offset = add_any(&g, &r->start);
    *(forward ? &n->x : &n->dy) = trp__layer_add(&g, forward ? &r->x : &r->dy);
    *(forward ? &n->y : &n->dx) = trp__layer_add(&g, forward ? &r->y : &r->dx);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_rotary_forward(trp_actor *dnn, const trp_rotary_request *r,
                              trp_completion *completion)
{
    return rotary(dnn, r, true, completion);
}

trp_status trp_rotary_backward(trp_actor *dnn, const trp_rotary_request *r,
                               trp_completion *completion)
{
    return rotary(dnn, r, false, completion);
}

static trp_status check_glu(trp__layer_graph *g, const trp_glu_request *r, bool forward)
{
    const trp__layer_tensor all[] = {
        {"gate", &r->gate, NEEDED},
        {"up", &r->up, NEEDED},
        {"y", &r->y, forward ? NEEDED : NONE},
        {"dy", &r->dy, forward ? NONE : NEEDED},
        {"dgate", &r->dgate, forward ? NONE : NEEDED},
        {"dup", &r->dup, forward ? NONE : NEEDED},
    };
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = trp__layer_check_activation(&r->activation, true);
    if (status == TRP_OK && r->activation.mode == TRP_DNN_IDENTITY)
        return trp__fail(TRP_E_ARGUMENT, "activation.mode: expected one, got none");
    return status;
}

trp_status trp_glu_forward(trp_actor *dnn, const trp_glu_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_glu(&g, r, true);
    if (status != TRP_OK)
        return status;
    const uint32_t gate = trp__layer_activate(&g, &r->activation, trp__layer_add(&g, &r->gate));
    trp__layer_pointwise(&g, TRP_DNN_MUL, gate, trp__layer_add(&g, &r->up));
    trp__layer_finish(&g, &r->y);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_glu_backward(trp_actor *dnn, const trp_glu_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    trp_status status = check_glu(&g, r, false);
    if (status != TRP_OK)
        return status;
    const uint32_t gate = trp__layer_add(&g, &r->gate), up = trp__layer_add(&g, &r->up);
    const uint32_t dy = trp__layer_add(&g, &r->dy);
    trp__layer_pointwise(&g, TRP_DNN_MUL, dy, trp__layer_activate(&g, &r->activation, gate));
    trp__layer_finish(&g, &r->dup);
    slope(&g, &r->activation, gate, trp__layer_pointwise(&g, TRP_DNN_MUL, dy, up));
    trp__layer_finish(&g, &r->dgate);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

/* --- Largest elements, sampling --- */

static trp_status pick(trp_actor *dnn, const trp_top_k_request *r, trp_dnn_kind kind,
                       trp_completion *completion)
{
    trp__layer_graph g = {0};
    const bool arg = kind == TRP_DNN_ARG;
    const trp__layer_tensor all[] = {{"x", &r->x, NEEDED},
                                     {"index", &r->index, NEEDED},
                                     {"values", &r->values, arg ? NONE : OPTIONAL}};
    trp_status status = CHECK(&g, all);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, kind);
    n->extreme = r->extreme;
    n->axis = r->axis;
    n->x = trp__layer_add(&g, &r->x);
    n->index = trp__layer_add(&g, &r->index);
    n->y = trp__layer_add(&g, &r->values);
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

trp_status trp_arg(trp_actor *dnn, const trp_top_k_request *r, trp_completion *completion)
{
    return pick(dnn, r, TRP_DNN_ARG, completion);
}

trp_status trp_top_k(trp_actor *dnn, const trp_top_k_request *r, trp_completion *completion)
{
    return pick(dnn, r, TRP_DNN_TOP_K, completion);
}

trp_status trp_sample(trp_actor *dnn, const trp_sample_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    const trp__layer_tensor all[] = {{"logits", &r->logits, NEEDED}, {"index", &r->index, NEEDED}};
    const trp__layer_scalar scalars[] = {SCALAR(temperature), SCALAR(top_p)};
    trp_status status = CHECK(&g, all);
    if (status == TRP_OK)
        status = trp__layer_check_scalars(scalars, sizeof scalars / sizeof *scalars);
    if (status == TRP_OK && !r->seed.buffer.id && !r->seed.value.given)
        return trp__fail(TRP_E_ARGUMENT, "seed: expected a number, trp_dnn_integer(), or a buffer");
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_SAMPLE);
    n->x = trp__layer_add(&g, &r->logits);
    n->index = trp__layer_add(&g, &r->index);
    n->seed = add_any(&g, &r->seed);
    n->offset = add_any(&g, &r->offset);
    n->scale = add_number(&g, TRP_F64, r->temperature);
    n->limit = add_number(&g, TRP_F64, r->top_p);
    if (r->top_k > 0) {
        const trp_dnn_tensor count = trp_dnn_integer(r->top_k);
        n->count = add_any(&g, &count);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}

/* --- Optimizers --- */

enum { SEGMENT_COLUMNS = 4 };

static trp_status check_optimizer(trp__layer_graph *g, const trp_optimizer_request *r)
{
    const bool apart = trp__layer_is_given(&r->new_w);
    const trp__layer_tensor all[] = {{"w", &r->w, NEEDED},
                                     {"dw", &r->dw, NEEDED},
                                     {"moment[0]", &r->moment[0], OPTIONAL},
                                     {"moment[1]", &r->moment[1], OPTIONAL},
                                     {"new_w", &r->new_w, OPTIONAL},
                                     {"new_moment[0]", &r->new_moment[0], OPTIONAL},
                                     {"new_moment[1]", &r->new_moment[1], OPTIONAL},
                                     {"narrow", &r->narrow, OPTIONAL},
                                     {"skipped", &r->skipped, OPTIONAL},
                                     {"grad_norm", &r->grad_norm, OPTIONAL}};
    const bool sgd = r->optimizer == TRP_DNN_SGD;
    const bool adam = r->optimizer == TRP_DNN_ADAM || r->optimizer == TRP_DNN_ADAMW;
    const trp__layer_scalar scalars[] = {SCALAR(rate),     SCALAR(decay),     SCALAR(max_norm),
                                         SCALAR(momentum), SCALAR(dampening), SCALAR(beta1),
                                         SCALAR(beta2),    SCALAR(epsilon)};
    trp_status status = CHECK(g, all);
    if (status == TRP_OK)
        status = trp__layer_check_scalars(scalars, sizeof scalars / sizeof *scalars);
    if (status != TRP_OK)
        return status;
    for (int i = 0; i < 2; i++) {
        if (trp__layer_is_given(&r->new_moment[i]) != (apart && trp__layer_is_given(&r->moment[i])))
            return trp__fail(TRP_E_ARGUMENT, "new_moment[%d]: expected %s", i,
                             apart && trp__layer_is_given(&r->moment[i])
                                 ? "a tensor with a buffer beside new_w"
                                 : "none");
    }
    if (!r->rate.given)
        return trp__fail(TRP_E_ARGUMENT, "rate: expected the learning rate");
    if (!sgd && (r->momentum.given || r->dampening.given || r->nesterov))
        return trp__fail(TRP_E_ARGUMENT,
                         "momentum, dampening, nesterov: expected none without TRP_DNN_SGD");
    if (sgd && (r->beta1.given || r->beta2.given))
        return trp__fail(TRP_E_ARGUMENT, "beta1, beta2: expected none with TRP_DNN_SGD");
    if (!adam && r->epsilon.given)
        return trp__fail(TRP_E_ARGUMENT,
                         "epsilon: expected none without TRP_DNN_ADAM or TRP_DNN_ADAMW");
    if (adam && r->step == 0)
        return trp__fail(TRP_E_ARGUMENT, "step: expected the number of the step, from 1 on, got 0");
    if (r->max_norm.given && !(r->max_norm.re >= 0))
        return trp__fail(TRP_E_ARGUMENT, "max_norm: expected at least 0, got %g", r->max_norm.re);
    if (r->segment_count > TRP_SEGMENTS_MAX || (r->segment_count > 0) != (r->segments != NULL))
        return trp__fail(TRP_E_ARGUMENT, "segments: expected up to %d, got %u%s", TRP_SEGMENTS_MAX,
                         r->segment_count, r->segments ? "" : " at NULL");
    return TRP_OK;
}

/* The segments as the node wants them; the checks of their ranges are made with the graph. */
static trp_status put_segments(const trp_optimizer_request *r, double *to)
{
    const double decay = r->decay.given ? r->decay.re : 0;
    for (uint32_t i = 0; i < r->segment_count; i++, to += SEGMENT_COLUMNS) {
        const trp_parameter_segment *s = &r->segments[i];
        trp_error error;
        if (trp__scalar_check(&error, "rate", &s->rate) != TRP_OK ||
            trp__scalar_check(&error, "decay", &s->decay) != TRP_OK)
            return trp__fail(TRP_E_ARGUMENT, "segments[%u].%s", i, error.message);
        if (s->rate.im != 0 || s->decay.im != 0)
            return trp__fail(TRP_E_ARGUMENT, "segments[%u]: expected real numbers", i);
        to[0] = (double)s->offset;
        to[1] = (double)s->count;
        to[2] = s->rate.given ? s->rate.re : 1;
        to[3] = s->decay.given ? s->decay.re : decay;
    }
    return TRP_OK;
}

trp_status trp_optimizer(trp_actor *dnn, const trp_optimizer_request *r, trp_completion *completion)
{
    trp__layer_graph g = {0};
    double segments[TRP_SEGMENTS_MAX * SEGMENT_COLUMNS];
    const bool apart = trp__layer_is_given(&r->new_w);
    trp_status status = check_optimizer(&g, r);
    if (status == TRP_OK)
        status = put_segments(r, segments);
    if (status != TRP_OK)
        return status;
    trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_OPTIMIZER);
    const bool sgd = r->optimizer == TRP_DNN_SGD;
    n->optimizer = r->optimizer;
    n->parameter[0] = sgd ? r->momentum : r->beta1;
    n->parameter[1] = sgd ? r->dampening : r->beta2;
    n->parameter[2] = sgd && r->nesterov ? trp_real(1) : r->epsilon;
    n->w = trp__layer_add(&g, &r->w);
    n->dw = trp__layer_add(&g, &r->dw);
    n->new_w = trp__layer_add(&g, apart ? &r->new_w : &r->w);
    for (int i = 0; i < 2; i++) {
        n->moment[i] = trp__layer_add(&g, &r->moment[i]);
        n->new_moment[i] = trp__layer_add(&g, apart ? &r->new_moment[i] : &r->moment[i]);
    }
    n->narrow = trp__layer_add(&g, &r->narrow);
    n->rate = add_number(&g, TRP_F64, r->rate);
    n->decay = add_number(&g, TRP_F64, r->decay);
    n->limit = add_number(&g, TRP_F64, r->max_norm);
    n->scale = add_any(&g, &r->scale);
    n->found = add_any(&g, &r->found);
    n->skipped = trp__layer_add(&g, &r->skipped);
    n->grad_norm = trp__layer_add(&g, &r->grad_norm);
    if (r->step > 0) {
        const trp_dnn_tensor step = trp_dnn_integer(r->step);
        n->count = add_any(&g, &step);
    }
    if (r->segment_count > 0) {
        g.tensor[++g.tensors] = (trp_dnn_tensor){.type = TRP_F64,
                                                 .rank = 2,
                                                 .dim = {r->segment_count, SEGMENT_COLUMNS},
                                                 .data = segments};
        n->segments = g.tensors;
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
