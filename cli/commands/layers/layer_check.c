#include "layer_check.h"

#include "ui/ui.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Widens a bound by rounding; a type that saturates has no infinity, others may overflow. */
static check_number rounded_to(check_number v, check_type t)
{
    v.bound += t.unit * (fabs(v.x) + v.bound) + t.smallest;
    if (t.saturates)
        v.x = check_saturated(v.x, t);
    else if (fabs(v.x) + v.bound > t.largest)
        v.bound = INFINITY;
    return v;
}

/* Adds one comparison; rounding to `type` widens the bound. */
static void compare(check_tally *tally, trp_dtype type, uint64_t at, double got, check_number v)
{
    v = rounded_to(v, check_type_of(type));
    double off = fabs(got - v.x);
    double part = got == v.x || isinf(v.bound) || isnan(v.bound) ? 0 : off / v.bound;
    if (isnan(v.x))
        part = isnan(got) || check_type_of(type).unit == 0 ? 0 : DBL_MAX;
    if (isfinite(off)) {
        tally->error2 += off * off;
        tally->norm2 += v.x * v.x;
    }
    tally->compared++;
    tally->wrong += !(part <= 1);
    if (!(part <= DBL_MAX)) /* not finite, or a bound of 0 */
        part = DBL_MAX;
    if (part <= tally->worst)
        return;
    tally->worst = part;
    tally->at = at;
    tally->got = got;
    tally->expected = v;
}

bool check_elements(check_tally *tally, const tensor *result, double terms,
                    check_number (*element)(const void *user, uint64_t at), const void *user)
{
    uint64_t all = tensor_elements(result), count = all;
    double most = CHECK_LAYER_STEPS / (terms > 1 ? terms : 1);
    if ((double)all > most)
        count = most < 2 ? 2 : (uint64_t)most;
    double *got = tensor_values(result, false);
    if (!got)
        return false;
    tally->all = all;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at =
            count == all ? i : (uint64_t)((double)i * (double)(all - 1) / (double)(count - 1));
        compare(tally, result->device.type, at, got[at], element(user, at));
    }
    free(got);
    return true;
}

typedef struct place_text {
    char s[192];
} place_text;

/* Returns the indices of an element: "1, 0, 3". */
static place_text place_of(const file_array *array, uint64_t at)
{
    place_text text = {""};
    uint64_t index[FILE_RANK_MAX];
    size_t used = 0;
    for (uint32_t i = array->rank; i-- > 0;) {
        index[i] = at % array->dim[i];
        at /= array->dim[i];
    }
    for (uint32_t i = 0; i < array->rank; i++)
        used += (size_t)snprintf(text.s + used, sizeof text.s - used, "%s%" PRIu64, i ? ", " : "",
                                 index[i]);
    return text;
}

bool check_show(const check_tally *tally, const tensor *result, uint64_t began)
{
    char compared[96];
    double error = sqrt(tally->norm2 > 0 ? tally->error2 / tally->norm2 : tally->error2);
    if (tally->compared < tally->all)
        snprintf(compared, sizeof compared, "a sample: %" PRIu64 " of %" PRIu64 " elements",
                 tally->compared, tally->all);
    else
        snprintf(compared, sizeof compared, "%s compared", ui_plural(tally->all, "element").s);
    if (tally->wrong == 0) {
        ui_step(UI_GOOD, "check", ui_now() - began,
                "against float64: relative error %.2g, %.2g of the bound at most; %s", error,
                tally->worst, compared);
        return true;
    }
    ui_step(UI_BAD, "check", ui_now() - began, "against float64: relative error %.2g; %s", error,
            compared);
    ui_error("the result is wrong: %s beyond its bound; the worst, at [%s], is %.9g, expected %.9g "
             "within %.2g",
             ui_plural(tally->wrong, "value").s, place_of(&result->file, tally->at).s, tally->got,
             tally->expected.x, tally->expected.bound);
    return false;
}

bool check_result(const tensor *result, double terms,
                  check_number (*element)(const void *user, uint64_t at), const void *user,
                  uint64_t began)
{
    check_tally tally = {0};
    return result->use != OPERAND_OUTPUT || !result->data ||
           (check_elements(&tally, result, terms, element, user) &&
            check_show(&tally, result, began));
}

static bool check_input(const tensor *t)
{
    double *from = tensor_values(t, true), *to = from ? tensor_values(t, false) : NULL;
    uint64_t count = tensor_elements(t), wrong = 0, first = 0;
    for (uint64_t i = 0; to && i < count; i++) {
        if (!check_is_nearest(from[i], to[i], t->device.type) && wrong++ == 0)
            first = i;
    }
    if (wrong)
        ui_error("%s: %s not converted to the nearest %s; the first is [%s]: %.9g, made %.9g",
                 t->path, ui_plural(wrong, "element").s, trp_dtype_name(t->device.type),
                 place_of(&t->file, first).s, from[first], to[first]);
    bool ok = to && wrong == 0;
    free(from);
    free(to);
    return ok;
}

bool check_inputs(const layer *job)
{
    for (int i = 0; i < LAYER_TENSORS; i++) {
        const tensor *t = &job->tensor[i];
        if (t->use == OPERAND_INPUT && t->file_data && !check_input(t))
            return false;
    }
    return true;
}

double check_unit(trp_dtype compute)
{
    return compute == TRP_F64 ? 0x1p-53 : 0x1p-24;
}

/* Activations, by their definitions. */

static double parameter(const trp_layer_activation *a, int i, double missing)
{
    return a->parameter[i].given ? a->parameter[i].re : missing;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double relu(const trp_layer_activation *a, double x)
{
    double lower = parameter(a, 0, 0), upper = parameter(a, 1, INFINITY);
    if (x <= lower)
        return lower + parameter(a, 2, 0) * (x - lower);
    return x > upper ? upper : x;
}

static double activation(const trp_layer_activation *a, double x)
{
    double p = parameter(a, 0, 1);
    switch (a->mode) {
    case TRP_DNN_RELU:
        return relu(a, x);
    case TRP_DNN_TANH:
        return tanh(x);
    case TRP_DNN_SIGMOID:
        return sigmoid(x);
    case TRP_DNN_ELU:
        return x > 0 ? x : p * expm1(x);
    case TRP_DNN_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case TRP_DNN_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case TRP_DNN_SOFTPLUS: /* log(1 + exp(p x)) / p */
        return p * x > 30 ? x + exp(-p * x) / p : log1p(exp(p * x)) / p;
    case TRP_DNN_SWISH:
        return x * sigmoid(p * x);
    default:
        return x;
    }
}

/* Returns the largest slope of an activation, at least 1. */
static double steepest(const trp_layer_activation *a)
{
    double slope = a->mode == TRP_DNN_RELU  ? fabs(parameter(a, 2, 0))
                   : a->mode == TRP_DNN_ELU ? fabs(parameter(a, 0, 1))
                                            : 1.2;
    return slope > 1 ? slope : 1;
}

check_number check_activation(const trp_layer_activation *a, check_number v, double unit)
{
    if (a->mode == TRP_DNN_IDENTITY || isnan(v.x))
        return v;
    double x = v.x, steep = steepest(a);
    bool curve = a->mode != TRP_DNN_RELU;
    v.x = activation(a, x);
    /* Exponentials lose some digits of their value, and of 1 where they are subtracted from it. */
    v.bound = steep * v.bound + unit * steep * (curve ? 16 * (1 + fabs(x)) : 4 * fabs(x));
    if (a->mode == TRP_DNN_RELU)
        v.bound += 4 * unit * fabs(parameter(a, 0, 0));
    if (a->mode == TRP_DNN_SOFTPLUS)
        v.bound += 16 * unit / parameter(a, 0, 1);
    return v;
}
