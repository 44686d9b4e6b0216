/* Implements optimizers. */
#include "actors/dnn/layers/operands.h"
#include "base/error.h"
#include "wire/actor_class.h"

#include <troupe/training.h>

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
                                     {"grad_norm", &r->grad_norm, OPTIONAL},
                                     {"scale", &r->scale, ANY},
                                     {"found", &r->found, ANY}};
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

/* Converts the segments to the node's form; their ranges are checked with the graph. */
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
    n->rate = trp__layer_add_number(&g, TRP_F64, r->rate);
    n->decay = trp__layer_add_number(&g, TRP_F64, r->decay);
    n->limit = trp__layer_add_number(&g, TRP_F64, r->max_norm);
    n->scale = trp__layer_add_any(&g, &r->scale);
    n->found = trp__layer_add_any(&g, &r->found);
    n->skipped = trp__layer_add(&g, &r->skipped);
    n->grad_norm = trp__layer_add(&g, &r->grad_norm);
    if (r->step > 0) {
        const trp_dnn_tensor step = trp_dnn_integer(r->step);
        n->count = trp__layer_add_any(&g, &step);
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
