/* The dnn actor on the host where neither a random problem goes nor e2e/dnn/number*: functions with
 * parameters at infinity, results that saturate, windows of nothing but padding, and requests whose
 * sizes do not fit together. */
#include "support/unit.h"

#include "actors/dnn/dnn.h"
#include "unit/dnn/dnn_direct.h"
#include "support/label.h"

#include <math.h>

TROUPE_TEST("no tsan");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void send(const dd_graph *g)
{
    if (dd_send(g, NULL) != TRP_OK)
        fail_msg("%s", dd_error()->message);
}

/* The same number, or both none. */
static void expect(const char *what, int64_t i, double got, double wanted)
{
    if (got != wanted && !(isnan(got) && isnan(wanted)))
        fail_msg("%s, element %lld: %g, expected %g", what, (long long)i, got, wanted);
}

/* --- values --- */

/* A function of a float, forward and backward. */
static float function(trp_dnn_pointwise mode, const double *parameter, float x, bool backward)
{
    dd_graph g = {0};
    float y = 7, dy = 1;
    trp_dnn_node *n = dd_node(&g, backward ? TRP_DNN_POINTWISE_BACKWARD : TRP_DNN_POINTWISE);
    n->pointwise = mode;
    for (int i = 0; parameter && i < TRP_DNN_PARAMETERS; i++)
        n->parameter[i] = trp_real(parameter[i]);
    n->x = dd_line(&g, TRP_F32, &x, 1);
    if (backward) {
        n->dy = dd_line(&g, TRP_F32, &dy, 1);
        n->dx = dd_line(&g, TRP_F32, &y, 1);
    } else {
        n->y = dd_line(&g, TRP_F32, &y, 1);
    }
    send(&g);
    return y;
}

static void activations_of_infinity(void **state)
{
    static const double leaky[] = {0, 1e30, 0.25}, six[] = {0, 6, 0};
    static const struct {
        trp_dnn_pointwise mode;
        const double *parameter;
        double least, most, slope_least, slope_most;
    } cases[] = {
        {TRP_DNN_RELU, NULL, 0, INFINITY, 0, 1},
        {TRP_DNN_RELU, six, 0, 6, 0, 0},
        {TRP_DNN_RELU, leaky, -INFINITY, (double)1e30F, 0.25, 0},
        {TRP_DNN_TANH, NULL, -1, 1, 0, 0},
        {TRP_DNN_SIGMOID, NULL, 0, 1, 0, 0},
        {TRP_DNN_ELU, NULL, -1, INFINITY, 0, 1},
        {TRP_DNN_SOFTPLUS, NULL, 0, INFINITY, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const trp_dnn_pointwise mode = cases[i].mode;
        const double *p = cases[i].parameter;
        int64_t at = (int64_t)i;
        expect("-inf", at, (double)function(mode, p, -INFINITY, false), cases[i].least);
        expect("inf", at, (double)function(mode, p, INFINITY, false), cases[i].most);
        expect("slope at -inf", at, (double)function(mode, p, -INFINITY, true),
               cases[i].slope_least);
        expect("slope at inf", at, (double)function(mode, p, INFINITY, true), cases[i].slope_most);
    }
}

/* What does not fit becomes the nearest that does; halves go to the even one. */
static void results_saturate(void **state)
{
    double x[] = {-1e30, -128.5, -0.5, 0.5, 0.75, 1.5, 2.5, 127.5, 255.5, 1e30};
    enum { N = COUNT_OF(x) };
    float narrow[N];
    static const double i8[N] = {-128, -128, 0, 0, 1, 2, 2, 127, 127, 127};
    static const double u8[N] = {0, 0, 0, 0, 1, 2, 2, 128, 255, 255};
    static const double i32[N] = {INT32_MIN, -128, 0, 0, 1, 2, 2, 128, 256, INT32_MAX};
    int8_t to_i8[N];
    uint8_t to_u8[N];
    int32_t to_i32[N];
    uint8_t to_f8[N];
    const struct {
        trp_dtype type;
        void *to;
    } outputs[] = {{TRP_I8, to_i8}, {TRP_U8, to_u8}, {TRP_I32, to_i32}, {TRP_F8E4M3, to_f8}};
    (void)state;
    for (int i = 0; i < N; i++)
        narrow[i] = (float)x[i];
    for (int wide = 0; wide < 2; wide++) {
        dd_graph g = {0};
        uint32_t from = wide ? dd_line(&g, TRP_F64, x, N) : dd_line(&g, TRP_F32, narrow, N);
        for (size_t i = 0; i < COUNT_OF(outputs); i++) {
            trp_dnn_node *n = dd_node(&g, TRP_DNN_POINTWISE);
            n->x = from;
            n->y = dd_line(&g, outputs[i].type, outputs[i].to, N);
        }
        send(&g);
        for (int64_t i = 0; i < N; i++) {
            expect("i8", i, to_i8[i], i8[i]);
            expect("u8", i, to_u8[i], u8[i]);
            expect("i32", i, to_i32[i], i32[i]);
        }
        assert_int_equal(to_f8[0], 0xfe); /* -448 */
        assert_int_equal(to_f8[N - 1], 0x7e);
    }
}

/* An intermediate result, or a number, of a narrow type is what that type holds. */
static void what_is_between_is_rounded(void **state)
{
    dd_graph g = {0};
    double x = 1 + 1.0 / 1024, y = 0;
    int64_t one = 1;
    (void)state;
    trp_dnn_node *n = dd_node(&g, TRP_DNN_POINTWISE);
    n->x = dd_line(&g, TRP_F64, &x, 1);
    n->y = dd_tensor(&g, TRP_BF16, NULL, 1, &one);
    trp_dnn_node *m = dd_node(&g, TRP_DNN_POINTWISE);
    m->pointwise = TRP_DNN_ADD;
    m->x = n->y;
    m->b = dd_value(&g, TRP_BF16, 2 + 1.0 / 1024);
    m->y = dd_line(&g, TRP_F64, &y, 1);
    m->compute = TRP_F64;
    send(&g);
    expect("sum of two that are rounded", 0, y, 3);
}

/* Sums of i32 are exact where f32 has no more place for them. */
static void integers_are_exact(void **state)
{
    enum { CHANNELS = 2049 };
    static int8_t x[CHANNELS], w[2 * CHANNELS];
    static const int64_t x_dim[] = {1, CHANNELS, 1}, w_dim[] = {2, CHANNELS, 1};
    static const int64_t y_dim[] = {1, 2, 1}, b_dim[] = {CHANNELS, 1}, z_dim[] = {2, 1};
    int32_t y[2] = {0}, z[2] = {0};
    int8_t clipped[2] = {0};
    dd_graph g = {0};
    (void)state;
    for (int i = 0; i < CHANNELS; i++) {
        x[i] = 127;
        w[i] = i ? 127 : 126;
        w[CHANNELS + i] = i ? -127 : 1;
    }
    const int32_t wanted[] = {2048 * 127 * 127 + 127 * 126, -2048 * 127 * 127 + 127};
    for (int i = 0; i < 2; i++) {
        trp_dnn_node *n = dd_node(&g, TRP_DNN_CONV_FORWARD);
        n->compute = TRP_I32;
        n->x = dd_tensor(&g, TRP_I8, x, 3, x_dim);
        n->w = dd_tensor(&g, TRP_I8, w, 3, w_dim);
        n->y = i ? dd_tensor(&g, TRP_I8, clipped, 3, y_dim) : dd_tensor(&g, TRP_I32, y, 3, y_dim);
    }
    trp_dnn_node *n = dd_node(&g, TRP_DNN_MATMUL);
    static const int64_t a_dim[] = {2, CHANNELS};
    n->compute = TRP_I32;
    n->a = dd_tensor(&g, TRP_I8, w, 2, a_dim);
    n->b = dd_tensor(&g, TRP_I8, x, 2, b_dim);
    n->y = dd_tensor(&g, TRP_I32, z, 2, z_dim);
    send(&g);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(y[i], wanted[i]);
        assert_int_equal(z[i], wanted[i]);
        assert_int_equal(clipped[i], i ? INT8_MIN : INT8_MAX);
    }
}

/* --- pooling --- */

/* Windows of 3, 2 apart, with a pad of 1 on each side. */
typedef struct pool {
    dd_graph g;
    float y[4], dx[8], dy[4];
    int8_t index[4];
} pool;

static void run_pool(pool *p, trp_dnn_resample mode, float *x, int64_t count)
{
    const int64_t places = (count + 2 - 3) / 2 + 1;
    const int64_t in[] = {1, 1, count}, out[] = {1, 1, places};
    *p = (pool){.y = {9, 9, 9, 9}, .index = {9, 9, 9, 9}, .dy = {1, 2, 4, 8}};
    trp_dnn_node *n = dd_node(&p->g, TRP_DNN_RESAMPLE_FORWARD);
    *n = (trp_dnn_node){.kind = TRP_DNN_RESAMPLE_FORWARD,
                        .resample = mode,
                        .window = {3},
                        .stride = {2},
                        .pre_pad = {1},
                        .post_pad = {1}};
    n->x = dd_tensor(&p->g, TRP_F32, x, 3, in);
    n->y = dd_tensor(&p->g, TRP_F32, p->y, 3, out);
    if (mode == TRP_DNN_POOL_MAX)
        n->index = dd_tensor(&p->g, TRP_I8, p->index, 3, out);
    send(&p->g);
    dd_graph back = {.node = {*n}, .nodes = 1};
    trp_dnn_node *b = back.node;
    b->kind = TRP_DNN_RESAMPLE_BACKWARD;
    b->x = b->y = 0;
    b->index = n->index ? dd_tensor(&back, TRP_I8, p->index, 3, out) : 0;
    b->dy = dd_tensor(&back, TRP_F32, p->dy, 3, out);
    b->dx = dd_tensor(&back, TRP_F32, p->dx, 3, in);
    send(&back);
}

static void the_largest_of_a_window(void **state)
{
    static const struct {
        float x[5];
        float y[3];
        int8_t index[3];
        float dx[5];
    } cases[] = {
        /* padding never wins, the first of several does */
        {{-3, -3, -3, -3, -3}, {-3, -3, -3}, {1, 0, 0}, {1, 2, 0, 4, 0}},
        {{1, 5, 5, 5, 2}, {5, 5, 5}, {2, 0, 0}, {0, 3, 0, 4, 0}},
        {{-INFINITY, -INFINITY, -INFINITY, 1, INFINITY},
         {-INFINITY, 1, INFINITY},
         {1, 2, 1},
         {1, 0, 0, 2, 4}},
        /* and the first NaN */
        {{1, NAN, 3, NAN, 9}, {NAN, NAN, NAN}, {2, 0, 0}, {0, 3, 0, 4, 0}},
        {{NAN, 1, 2, INFINITY, 3}, {NAN, INFINITY, INFINITY}, {1, 2, 0}, {1, 0, 0, 6, 0}},
    };
    (void)state;
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        float x[5];
        pool p;
        memcpy(x, cases[c].x, sizeof x);
        run_pool(&p, TRP_DNN_POOL_MAX, x, 5);
        for (int i = 0; i < 5; i++)
            expect("dx", i, (double)p.dx[i], (double)cases[c].dx[i]);
        for (int i = 0; i < 3; i++) {
            expect("y", i, (double)p.y[i], (double)cases[c].y[i]);
            assert_int_equal(p.index[i], cases[c].index[i]);
        }
    }
}

/* One pixel, which each window has at another of its places; and places that no window has. */
static void places_in_windows(void **state)
{
    enum { PLACES = 2 * 3 * 4 };
    static const int64_t in[] = {1, 1, 1, 1, 1}, out[] = {1, 1, 2, 3, 4};
    float x = -2, y[PLACES], dy[PLACES], dx[3] = {9, 9, 9};
    int8_t index[PLACES];
    dd_graph g = {0}, back = {0};
    (void)state;
    trp_dnn_node *n = dd_node(&g, TRP_DNN_RESAMPLE_FORWARD);
    for (int i = 0; i < 3; i++) {
        n->window[i] = i + 2;
        n->pre_pad[i] = n->post_pad[i] = i + 1;
    }
    trp_dnn_node *b = dd_node(&back, TRP_DNN_RESAMPLE_BACKWARD);
    *b = *n;
    b->kind = TRP_DNN_RESAMPLE_BACKWARD;
    n->x = dd_tensor(&g, TRP_F32, &x, 5, in);
    n->y = dd_tensor(&g, TRP_F32, y, 5, out);
    n->index = dd_tensor(&g, TRP_I8, index, 5, out);
    send(&g);
    for (int i = 0; i < PLACES; i++) {
        assert_int_equal(index[i], PLACES - 1 - i);
        dy[i] = 1;
    }
    b->dy = dd_tensor(&back, TRP_F32, dy, 5, out);
    b->index = dd_tensor(&back, TRP_I8, index, 5, out);
    b->dx = dd_tensor(&back, TRP_F32, &dx[1], 5, in);
    send(&back);
    expect("each adds to it", 0, (double)dx[1], PLACES);
    for (int i = 0; i < PLACES; i++)
        index[i] = (int8_t)(i % 2 ? 2 * PLACES - 1 - i : -1 - 5 * i);
    send(&back);
    for (int i = 0; i < 3; i++)
        expect("none does", i, (double)dx[i], i == 1 ? 0 : 9);
}

/* An image of no pixels between two pads that a window of 2 fits into. */
static void windows_of_padding_alone(void **state)
{
    static const double wanted[] = {-INFINITY, 0, 0};
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        dd_graph g = {0};
        float x[2] = {5, 5}, y[4] = {9, 9, 9, 9};
        static const int64_t in[] = {1, 2, 0}, out[] = {1, 2, 1};
        trp_dnn_node *n = dd_node(&g, TRP_DNN_RESAMPLE_FORWARD);
        n->resample = (trp_dnn_resample)mode;
        n->window[0] = 2;
        n->pre_pad[0] = n->post_pad[0] = 1;
        n->x = dd_tensor(&g, TRP_F32, x, 3, in);
        n->y = dd_tensor(&g, TRP_F32, y, 3, out);
        send(&g);
        for (int i = 0; i < 4; i++)
            expect("a window of padding", i, (double)y[i], i < 2 ? wanted[mode] : 9);
    }
}

/* --- one --- */

/* Of one element there is no variance with n - 1. */
static void running_variance_of_one(void **state)
{
    static const int64_t dim[] = {1, 2};
    float x[] = {3, 5}, scale[] = {1, 1}, old_mean[] = {1, 1}, old_variance[] = {4, 4};
    float y[2], mean[2], inverse[2], new_mean[2] = {9, 9}, new_variance[2] = {9, 9};
    dd_graph g = {0};
    (void)state;
    trp_dnn_node *n = dd_node(&g, TRP_DNN_NORM_TRAINING);
    n->norm = TRP_DNN_BATCH;
    n->x = dd_tensor(&g, TRP_F32, x, 2, dim);
    n->scale = dd_tensor(&g, TRP_F32, scale, 2, dim);
    n->epsilon = dd_value(&g, TRP_DTYPE_NONE, 0.25);
    n->y = dd_tensor(&g, TRP_F32, y, 2, dim);
    n->mean = dd_tensor(&g, TRP_F32, mean, 2, dim);
    n->inv_variance = dd_tensor(&g, TRP_F32, inverse, 2, dim);
    n->running_mean = dd_tensor(&g, TRP_F32, old_mean, 2, dim);
    n->running_variance = dd_tensor(&g, TRP_F32, old_variance, 2, dim);
    n->average_factor = dd_value(&g, TRP_DTYPE_NONE, 0.5);
    n->new_running_mean = dd_tensor(&g, TRP_F32, new_mean, 2, dim);
    n->new_running_variance = dd_tensor(&g, TRP_F32, new_variance, 2, dim);
    send(&g);
    for (int i = 0; i < 2; i++) {
        expect("y", i, (double)y[i], 0);
        expect("1 / sqrt(variance + epsilon)", i, (double)inverse[i], 2);
        expect("mean", i, (double)new_mean[i], 0.5 + 0.5 * (double)x[i]);
        expect("variance", i, (double)new_variance[i], 2);
    }
}

/* --- what does not fit --- */

static void make_small(dd_graph *g)
{
    static float x[8], y[8];
    trp_dnn_node *n = dd_node(g, TRP_DNN_POINTWISE);
    n->x = dd_line(g, TRP_F32, x, 8);
    n->y = dd_line(g, TRP_F32, y, 8);
}

static void shorten_first(trp_job *job)
{
    job->access[0].bytes -= 1;
}

static void shorten_piece(trp_job *job)
{
    job->access[job->access_count - 1].bytes -= 1;
}

static void drop_piece(trp_job *job)
{
    job->access_count = 0;
}

static void drop_access(trp_job *job)
{
    job->access[1] = job->access[job->access_count - 1];
    job->access_count = 2;
}

static trp__dnn_head *head_of(trp_job *job)
{
    return (trp__dnn_head *)((trp_dnn_ran *)job->access[job->access_count - 1].address + 1);
}

static void add_tensor(trp_job *job)
{
    head_of(job)->tensors++;
}

static trp__dnn_node *node_of(trp_job *job)
{
    trp__dnn_head *head = head_of(job);
    return (trp__dnn_node *)((trp__dnn_tensor *)(head + 1) + head->tensors);
}

static void spoil_kind(trp_job *job)
{
    node_of(job)->kind = 99;
}

static void spoil_port(trp_job *job)
{
    node_of(job)->port[0] = 7;
}

static void sizes_that_disagree(void **state)
{
    static void (*const meddlers[])(trp_job *) = {
        shorten_first, shorten_piece, drop_piece, drop_access, add_tensor, spoil_kind, spoil_port};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(meddlers); i++) {
        dd_graph g = {0};
        make_small(&g);
        send(&g);
        assert_string_equal(dd_ran()->engine, "host");
        assert_int_equal(dd_ran()->parts, 1);
        trp_status status = dd_send(&g, meddlers[i]);
        if (status != TRP_E_INTERNAL)
            fail_msg("meddler %zu: %d, %s", i, (int)status, dd_error()->message);
    }
}

/* An index of i8 has room for windows of 128. */
static void windows_too_large_for_an_index(void **state)
{
    (void)state;
    for (int64_t window = 128; window <= 129; window++) {
        static float x[129], y[1];
        int8_t index[1] = {9};
        const int64_t in[] = {1, 1, window}, out[] = {1, 1, 1};
        dd_graph g = {0};
        trp_dnn_node *n = dd_node(&g, TRP_DNN_RESAMPLE_FORWARD);
        n->window[0] = window;
        n->x = dd_tensor(&g, TRP_F32, x, 3, in);
        n->y = dd_tensor(&g, TRP_F32, y, 3, out);
        n->index = dd_tensor(&g, TRP_I8, index, 3, out);
        x[127] = 1;
        trp_status status = dd_send(&g, NULL);
        assert_int_equal(status, window == 128 ? TRP_OK : TRP_E_ARGUMENT);
        assert_int_equal(index[0], window == 128 ? 127 : 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(activations_of_infinity),    UNIT(results_saturate),
        UNIT(what_is_between_is_rounded), UNIT(integers_are_exact),
        UNIT(the_largest_of_a_window),    UNIT(places_in_windows),
        UNIT(windows_of_padding_alone),   UNIT(running_variance_of_one),
        UNIT(sizes_that_disagree),        UNIT(windows_too_large_for_an_index),
    };
    trp_status status = dd_open();
    if (status != TRP_OK) {
        print_error("%s\n", dd_error()->message);
        return status == TRP_E_MISSING ? 77 : 1;
    }
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    dd_close();
    return result;
}
