/* Implements norms with a residual. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

#include <troupe/training.h>

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
        status = trp__layer_as_rows(matrices[i].name, matrices[i].from, &t->matrix[i]);
    if (status != TRP_OK)
        return status;
    const trp_dnn_tensor *x = &t->matrix[trp__layer_is_given(&r->x) ? NORM_X : NORM_SUM];
    for (int i = 0; i < NORM_VECTORS && status == TRP_OK; i++)
        status =
            trp__layer_as_vector(vectors[i].name, vectors[i].from, false, x->dim[1], &t->vector[i]);
    if (status == TRP_OK)
        status = trp__layer_as_vector("mean", &r->mean, true, x->dim[0], &t->mean);
    return status == TRP_OK ? trp__layer_as_vector("inv_variance", &r->inv_variance, true,
                                                   x->dim[0], &t->inv_variance)
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
    n->epsilon =
        trp__layer_add_number(&g, TRP_DTYPE_NONE, r->epsilon.given ? r->epsilon : trp_real(1e-5));
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
        trp__layer_finish_sum(&g, got, outputs[i].add, outputs[i].to);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
