/* Numbers in blocks with a scale each, by the definitions in dnn.h. Inputs must be exact, since a
 * scale is not a continuous function of them. */
#include "support/reference/dnn_reference.h"

#include "support/reference/elements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double dr_scale(trp_dtype type, double value)
{
    if (type == TRP_F8E8M0) {
        double power = ldexp(1, -127);
        while (power < fabs(value) && power < ldexp(1, 127))
            power *= 2;
        return power;
    }
    if (type == TRP_F8E4M3) { /* codes rise with their values */
        uint32_t code = 0;
        while (ref_element_decode(type, code) < value && code < 0x7e)
            code++;
        return ref_element_decode(type, code);
    }
    const double most = (2 - ldexp(1, -23)) * ldexp(1, 127);
    if (value >= most)
        return most;
    const double near = dr_round(TRP_F32, value);
    return near < value ? (double)nextafterf((float)near, INFINITY) : near;
}

/* Returns the index of the scale for a position. */
static size_t scale_at(const dr_work *w, const dr_tensor *scale, const int64_t *at)
{
    int64_t of_scale[TRP_DNN_RANK_MAX];
    memcpy(of_scale, at, sizeof of_scale);
    of_scale[w->n->axis] /= w->n->block ? w->n->block : 32;
    return dr_at(scale, of_scale);
}

void dr_quantize(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x);
    dr_tensor *y = dr_of(w, w->n->y), *scale = dr_of(w, w->n->scale);
    const double most = y->type == TRP_F8E4M3 ? 448 : 57344;
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        double *amax = &scale->v[scale_at(w, scale, at)];
        *amax = fmax(*amax, fabs(x->v[dr_at(x, at)]));
        if (x->e[dr_at(x, at)] != 0)
            abort();
    }
    for (size_t i = 0; i < scale->count; i++)
        scale->v[i] = dr_scale(scale->type, scale->v[i] / most);
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        const double by = scale->v[scale_at(w, scale, at)], v = x->v[dr_at(x, at)];
        y->v[dr_at(y, at)] = dr_round(y->type, by > 0 ? v / by : v);
    }
}

/* A product of a few bits and at most 24 is exact, except for the rounding to f32. */
void dr_dequantize(const dr_work *w)
{
    const dr_tensor *x = dr_of(w, w->n->x), *scale = dr_of(w, w->n->scale);
    dr_tensor *y = dr_of(w, w->n->y);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = x->count > 0; more; more = dr_next(x, at)) {
        const double v = x->v[dr_at(x, at)] * scale->v[scale_at(w, scale, at)];
        y->v[dr_at(y, at)] = w->n->compute == TRP_F64 ? v : dr_round(TRP_F32, v);
    }
}
