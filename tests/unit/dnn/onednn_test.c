/* Large nodes on the host: the same by oneDNN as by own loops, which compute in f64; also where
 * numbers are infinite or none, and with intermediate results that somebody else reads. */
#include "support/unit.h"

#include "actors/dnn/host/onednn/onednn.h"
#include "unit/dnn/dnn_direct.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("no tsan");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { N = 4, C = 16, H = 24, W = 32, MOST = N * C * H * W, ARRAYS = 8 };

/* What a graph reads, and what it writes by oneDNN and without. */
static float given[ARRAYS][MOST], results[2][ARRAYS][MOST];
static int written;

static const int64_t all[] = {N, C, H, W}, channels[] = {1, C, 1, 1};

static void fill(float least, float most)
{
    uint64_t random = 1;
    for (int i = 0; i < ARRAYS * MOST; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        given[i / MOST][i % MOST] = least + (most - least) * (float)(random >> 40) * 0x1p-24F;
    }
}

/* Some that are none or infinite, among the others. */
static void fill_specials(float *x)
{
    static const float specials[] = {NAN, INFINITY, -INFINITY, 3.4e38F, -3.4e38F, 0, -0.0F, 1e-42F};
    for (int i = 0; i < MOST; i += 997)
        x[i] = specials[i / 997 % (int)COUNT_OF(specials)];
}

static uint32_t result(dd_graph *g, int rank, const int64_t *dim)
{
    return dd_tensor(g, TRP_F32, results[0][written++], rank, dim);
}

/* Runs it both ways, and compares what was written; `norm`: sums are that large. */
static void compare(dd_graph *g, const char *what, double norm)
{
    trp__dnn_host_libraries *libraries = dd_libraries();
    struct trp__onednn_engine *onednn = libraries->onednn;
    for (int way = 0; way < 2; way++) {
        for (uint32_t t = 1; t <= g->tensors; t++) {
            for (int i = 0; i < written; i++) {
                if (g->array[t] == (void *)results[1 - way][i] && way == 1)
                    g->array[t] = results[way][i];
            }
        }
        libraries->onednn = way == 0 ? onednn : NULL;
        trp_status status = dd_send(g, NULL);
        libraries->onednn = onednn;
        if (status != TRP_OK)
            fail_msg("%s: %s", what, dd_error()->message);
    }
    for (uint32_t t = 1; t <= g->tensors; t++) {
        for (int i = 0; i < written; i++) {
            for (uint64_t e = 0; g->array[t] == (void *)results[1][i] && e < g->bytes[t] / 4; e++) {
                double got = (double)results[0][i][e], wanted = (double)results[1][i][e];
                bool same = got == wanted || (isnan(got) && isnan(wanted));
                if (!same && !(fabs(got - wanted) <= 4e-6 * (norm + fabs(wanted))))
                    fail_msg("%s, result %d, element %d: %.9g by oneDNN, %.9g without", what, i,
                             (int)e, got, wanted);
            }
        }
    }
    written = 0;
}

/* --- functions --- */

static const struct {
    trp_dnn_pointwise mode;
    double parameter[TRP_DNN_PARAMETERS];
    bool gradient;
} functions[] = {
    {TRP_DNN_RELU, {0}, true},
    {TRP_DNN_RELU, {0, 6}, true},
    {TRP_DNN_RELU, {0, 1e30, 0.25}, true},
    {TRP_DNN_RELU, {-1}, true},
    {TRP_DNN_RELU, {0, 0, 0.25}, true},
    {TRP_DNN_TANH, {0}, true},
    {TRP_DNN_SIGMOID, {0}, true},
    {TRP_DNN_ELU, {0.5}, true},
    {TRP_DNN_GELU, {0}, true},
    {TRP_DNN_GELU_TANH, {0}, true},
    {TRP_DNN_SOFTPLUS, {2}, true},
    {TRP_DNN_SWISH, {1.5}, true},
    {TRP_DNN_EXP, {0}, false},
    {TRP_DNN_LOG, {0}, false},
    {TRP_DNN_SQRT, {0}, false},
    {TRP_DNN_ABS, {0}, false},
    {TRP_DNN_NEGATE, {0}, false},
};

static void run_functions(bool specials, float range)
{
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        for (int backward = 0; backward <= functions[i].gradient; backward++) {
            char what[64];
            dd_graph g = {0};
            trp_dnn_node *n =
                dd_node(&g, backward ? TRP_DNN_POINTWISE_BACKWARD : TRP_DNN_POINTWISE);
            snprintf(what, sizeof what, "function %d%s, up to %g", (int)functions[i].mode,
                     backward ? " backward" : "", (double)range);
            fill(-range, range);
            if (specials)
                fill_specials(given[0]);
            n->pointwise = functions[i].mode;
            for (int p = 0; p < TRP_DNN_PARAMETERS; p++) {
                if (functions[i].parameter[p] != 0)
                    n->parameter[p] = trp_real(functions[i].parameter[p]);
            }
            n->x = dd_tensor(&g, TRP_F32, given[0], 4, all);
            if (backward) {
                n->dy = dd_tensor(&g, TRP_F32, given[1], 4, all);
                n->dx = result(&g, 4, all);
            } else {
                n->y = result(&g, 4, all);
            }
            compare(&g, what, backward ? (double)range : 1);
        }
    }
}

static void functions_are_the_same(void **state)
{
    (void)state;
    run_functions(false, 1);
    run_functions(false, 9);
    run_functions(false, 200);
    run_functions(true, 9);
}

static void arithmetic_is_the_same(void **state)
{
    static const trp_dnn_pointwise modes[] = {TRP_DNN_ADD, TRP_DNN_SUB, TRP_DNN_MUL,
                                              TRP_DNN_DIV, TRP_DNN_MIN, TRP_DNN_MAX};
    static const int64_t others[][4] = {{N, C, H, W}, {1, C, 1, 1}, {1, 1, 1, 1},
                                        {N, C, H, 1}, {1, 1, 1, W}, {N, 1, 1, 1}};
    (void)state;
    for (size_t i = 0; i < 4 * COUNT_OF(modes) * COUNT_OF(others); i++) {
        dd_graph g = {0};
        trp_dnn_node *n = dd_node(&g, TRP_DNN_POINTWISE);
        fill(-3, 3);
        fill_specials(given[0]);
        fill_specials(given[1]);
        n->pointwise = modes[i / 4 / COUNT_OF(others)];
        n->x = dd_tensor(&g, TRP_F32, given[0], 4, all);
        n->b = dd_tensor(&g, TRP_F32, given[1], 4, others[i / 4 % COUNT_OF(others)]);
        n->y = result(&g, 4, all);
        if (i & 1) {
            trp_dnn_channels_last(&g.tensor[n->x]);
            trp_dnn_channels_last(&g.tensor[n->y]);
        }
        if (i & 2)
            trp_dnn_channels_last(&g.tensor[n->b]);
        compare(&g, "arithmetic", 0);
    }
}

/* --- pooling --- */

static void pool(trp_dnn_resample mode, bool backward, int rank, bool channels_last, bool specials)
{
    const int64_t in[] = {N, C, rank == 3 ? H * W : H, rank == 5 ? 4 : W, W / 4};
    int64_t out[5] = {N, C};
    dd_graph g = {0};
    trp_dnn_node *n = dd_node(&g, backward ? TRP_DNN_RESAMPLE_BACKWARD : TRP_DNN_RESAMPLE_FORWARD);
    fill(-2, 2);
    if (specials)
        fill_specials(given[0]);
    n->resample = mode;
    for (int i = 0; i < rank - 2; i++) {
        n->window[i] = 3 - i % 2;
        n->stride[i] = 1 + (i + rank) % 2;
        n->pre_pad[i] = 1;
        n->post_pad[i] = i % 2;
        out[2 + i] = (in[2 + i] + 1 + i % 2 - n->window[i]) / n->stride[i] + 1;
    }
    uint32_t x = backward ? result(&g, rank, in) : dd_tensor(&g, TRP_F32, given[0], rank, in);
    uint32_t y = backward ? dd_tensor(&g, TRP_F32, given[1], rank, out) : result(&g, rank, out);
    if (channels_last) {
        trp_dnn_channels_last(&g.tensor[x]);
        trp_dnn_channels_last(&g.tensor[y]);
    }
    if (!backward) {
        n->x = x;
        n->y = y;
    } else {
        n->dx = x;
        n->dy = y;
    }
    if (backward && mode == TRP_DNN_POOL_MAX) {
        n->x = dd_tensor(&g, TRP_F32, given[0], rank, in);
        n->y = dd_tensor(&g, TRP_F32, given[2], rank, out);
    }
    compare(&g, "pooling", 1);
}

static void pooling_is_the_same(void **state)
{
    static const trp_dnn_resample modes[] = {TRP_DNN_POOL_MAX, TRP_DNN_POOL_AVERAGE,
                                             TRP_DNN_POOL_AVERAGE_PADDED};
    (void)state;
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
        for (int way = 0; way < 8; way++) {
            for (int rank = 3; rank <= 5; rank++)
                pool(modes[mode], way & 1, rank, way & 2, way & 4);
        }
    }
}

/* --- normalisation --- */

static void norm(trp_dnn_norm mode, trp_dnn_kind kind, float middle)
{
    static const int64_t rows[] = {N, 1, 1, 1}, line[] = {1, C, H, W}, planes[] = {N, C, 1, 1};
    const bool layer = mode == TRP_DNN_LAYER, backward = kind == TRP_DNN_NORM_BACKWARD;
    const int64_t *statistics = layer ? rows : mode == TRP_DNN_BATCH ? channels : planes;
    const int64_t *scale = layer ? line : channels;
    dd_graph g = {0};
    trp_dnn_node *n = dd_node(&g, kind);
    char what[64];
    snprintf(what, sizeof what, "norm %d of kind %d around %g", (int)mode, (int)kind,
             (double)middle);
    fill(middle - 1, middle + 1);
    for (int i = 0; i < MOST; i++) /* means, and 1 / sqrt(variance) */
        given[5][i] = 1.5F + given[5][i] - middle;
    n->norm = mode;
    n->x = dd_tensor(&g, TRP_F32, given[0], 4, all);
    n->scale = dd_tensor(&g, TRP_F32, given[1], 4, scale);
    if (!backward) {
        n->bias = dd_tensor(&g, TRP_F32, given[2], 4, scale);
        n->y = result(&g, 4, all);
    } else {
        n->dy = dd_tensor(&g, TRP_F32, given[3], 4, all);
        n->dx = result(&g, 4, all);
        n->dscale = result(&g, 4, scale);
        n->dbias = result(&g, 4, scale);
    }
    if (backward || (kind == TRP_DNN_NORM_INFERENCE && mode == TRP_DNN_BATCH)) {
        n->mean = dd_tensor(&g, TRP_F32, given[4], 4, statistics);
        n->inv_variance = dd_tensor(&g, TRP_F32, given[5], 4, statistics);
    } else {
        n->epsilon = dd_value(&g, TRP_F32, 1e-5);
    }
    if (kind == TRP_DNN_NORM_TRAINING) {
        n->mean = result(&g, 4, statistics);
        n->inv_variance = result(&g, 4, statistics);
    }
    if (kind == TRP_DNN_NORM_TRAINING && mode == TRP_DNN_BATCH) {
        n->running_mean = dd_tensor(&g, TRP_F32, given[6], 4, statistics);
        n->running_variance = dd_tensor(&g, TRP_F32, given[7], 4, statistics);
        n->average_factor = dd_value(&g, TRP_F32, 0.125);
        n->new_running_mean = result(&g, 4, statistics);
        n->new_running_variance = result(&g, 4, statistics);
    }
    /* Sums of that many terms, and a gradient's of their squares. */
    compare(&g, what, backward ? 100 * (1 + (double)middle * (double)middle) : 1 + (double)middle);
}

static void normalisation_is_the_same(void **state)
{
    static const trp_dnn_norm modes[] = {TRP_DNN_LAYER, TRP_DNN_BATCH, TRP_DNN_INSTANCE};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        for (int kind = TRP_DNN_NORM_TRAINING; kind <= TRP_DNN_NORM_BACKWARD; kind++) {
            norm(modes[i], (trp_dnn_kind)kind, 0);
            norm(modes[i], (trp_dnn_kind)kind, 3);
        }
    }
}

/* --- softmax --- */

/* `read`: somebody else reads that intermediate result too. */
static void softmax(int axis, int read, bool specials)
{
    int64_t one[] = {N, C, H, W};
    dd_graph g = {0};
    uint32_t inner[4];
    one[axis] = 1;
    fill(-20, 20);
    if (specials)
        fill_specials(given[0]);
    uint32_t x = dd_tensor(&g, TRP_F32, given[0], 4, all);
    for (int i = 0; i < 4; i++)
        inner[i] = dd_tensor(&g, TRP_F32, NULL, 4, i == 0 || i == 3 ? one : all);
    trp_dnn_node *n = dd_node(&g, TRP_DNN_REDUCTION);
    *n = (trp_dnn_node){.kind = n->kind, .reduce = TRP_DNN_MOST, .x = x, .y = inner[0]};
    n = dd_node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_SUB;
    n->x = x;
    n->b = inner[0];
    n->y = inner[1];
    n = dd_node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_EXP;
    n->x = inner[1];
    n->y = inner[2];
    n = dd_node(&g, TRP_DNN_REDUCTION);
    *n = (trp_dnn_node){.kind = n->kind, .reduce = TRP_DNN_SUM, .x = inner[2], .y = inner[3]};
    n = dd_node(&g, TRP_DNN_POINTWISE);
    n->pointwise = TRP_DNN_DIV;
    n->x = inner[2];
    n->b = inner[3];
    n->y = result(&g, 4, all);
    if (read >= 0) {
        n = dd_node(&g, TRP_DNN_POINTWISE);
        n->x = inner[read];
        n->y = result(&g, 4, g.tensor[inner[read]].dim);
    }
    compare(&g, "softmax", specials ? 0.1 : 0.01);
}

static void softmax_is_the_same(void **state)
{
    (void)state;
    for (int axis = 0; axis < 4; axis++) {
        softmax(axis, -1, false);
        softmax(axis, -1, true);
        for (int read = 0; read < 4; read++)
            softmax(axis, read, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(functions_are_the_same),    UNIT(arithmetic_is_the_same), UNIT(pooling_is_the_same),
        UNIT(normalisation_is_the_same), UNIT(softmax_is_the_same),
    };
    if (dd_open() != TRP_OK || !dd_libraries()->onednn) {
        printf("no oneDNN: skipped\n");
        return 77;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    dd_close();
    return failures;
}
