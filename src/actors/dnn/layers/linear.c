/* Implements linear layers. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"

#include <troupe/training.h>

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
        status = trp__layer_as_rows("x", &r->x, &x);
    if (status == TRP_OK)
        status = trp__layer_as_rows("w", &r->w, &w);
    if (status == TRP_OK)
        status = trp__layer_as_rows("y", &r->y, &y);
    if (status == TRP_OK)
        status = trp__layer_as_rows("z", &r->z, &z);
    if (status == TRP_OK)
        status = trp__layer_as_rows("residual", &r->residual, &residual);
    if (status == TRP_OK)
        status = trp__layer_as_vector("bias", &r->bias, false, w.dim[0], &bias);
    if (status != TRP_OK)
        return status;
    const trp_dnn_tensor right = trp__layer_transposed(&w);
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
        status = trp__layer_as_rows(matrices[i].name, matrices[i].from, &t[i]);
    if (status == TRP_OK)
        status = trp__layer_as_vector("dbias", &r->dbias, false, t[DY].dim[1], &dbias);
    if (status == TRP_OK)
        status = trp__layer_as_vector("add_dbias", &r->add_dbias, false, t[DY].dim[1], &add_dbias);
    if (status != TRP_OK)
        return status;
    const uint32_t dy = trp__layer_add(&g, &t[DY]);
    if (trp__layer_is_given(&r->dx)) {
        trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_MATMUL);
        n->a = dy;
        n->b = trp__layer_add(&g, &t[W]);
        uint32_t dx = trp__layer_writes(&g, &n->y);
        if (r->x_activation.mode != TRP_DNN_IDENTITY)
            dx = trp__layer_slope(&g, &r->x_activation, trp__layer_add(&g, &t[X_Z]), dx);
        trp__layer_finish_sum(&g, dx, &t[ADD_DX], &t[DX]);
    }
    if (trp__layer_is_given(&r->dw)) {
        const trp_dnn_tensor left = trp__layer_transposed(&t[DY]);
        trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_MATMUL);
        n->a = trp__layer_add(&g, &left);
        n->b = trp__layer_add(&g, &t[X]);
        trp__layer_finish_sum(&g, trp__layer_writes(&g, &n->y), &t[ADD_DW], &t[DW]);
    }
    if (trp__layer_is_given(&r->dbias)) {
        trp_dnn_node *n = trp__layer_add_node(&g, TRP_DNN_REDUCTION);
        n->reduce = TRP_DNN_SUM;
        n->x = dy;
        const uint32_t sum = trp__layer_writes(&g, &n->y);
        trp__layer_set_dims(&g.tensor[sum], &dbias);
        trp__layer_finish_sum(&g, sum, &add_dbias, &dbias);
    }
    return trp__layer_send(dnn, &g, &r->header, &r->options, completion);
}
