/* The largest elements of rows and classes drawn of them, in sizes as models have them, against a
 * sort of the whole row and sums in f64. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/field.h"
#include "support/label.h"

#include <math.h>
#include <troupe/training.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

static h_world world;
static trp_actor *dnn;

static void begin(void)
{
    world = h_open(NULL);
    dnn = h_actor(world.device, "dnn");
    f_open(world.device);
}

static void end(void)
{
    trp_actor_destroy(dnn);
    h_close(&world);
}

/* Runs a request; where a GPU has the kernel, no other may have run. */
#define RUN(call, request, wanted)                                                                 \
    do {                                                                                           \
        trp_completion done_ = {0};                                                                \
        trp_dnn_ran ran_ = {0};                                                                    \
        (request).header.wait_ns = TRP_FOREVER;                                                    \
        (request).options.ran = &ran_;                                                             \
        H_OK(call(dnn, &(request), &done_));                                                       \
        trp_error error_ = {0};                                                                    \
        if (h_await(done_.future, &error_) != TRP_OK)                                              \
            h_fail(__FILE__, __LINE__, "%s: %s", #call, error_.message);                           \
        if (h_is_cuda() && strncmp(ran_.engine, wanted, strlen(wanted)) != 0)                      \
            h_fail(__FILE__, __LINE__, "%s: by %s, expected %s", #call, ran_.engine, wanted);      \
    } while (0)

typedef enum fill {
    NORMAL,
    FEW,    /* of a few values, so that many are equal */
    EQUAL,  /* all */
    RISING, /* the largest lie together */
    FALLING,
    ODD, /* NaN, infinities, zeros of both signs */
    NO_NUMBERS,
    FILLS,
} fill;

static void fill_rows(f_field *x, fill how)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40, 6e4, -6e4};
    for (int64_t i = 0; i < x->count; i++) {
        const double draw = ref_rng_uniform(h_rng(), -1, 1), cube = 12 * draw * draw * draw;
        x->v[i] = how == FEW          ? floor(4 * draw)
                  : how == EQUAL      ? -0.5
                  : how == RISING     ? (double)i / 64
                  : how == FALLING    ? -(double)i / 64
                  : how == NO_NUMBERS ? NAN
                  : how == ODD && f_below(3) == 0
                      ? odd[f_below((int64_t)(sizeof odd / sizeof *odd))]
                      : cube;
    }
    f_write(x);
}

/* --- Order --- */

static const double *sorted_row;
static bool sorted_smallest;

static int compare(const void *left, const void *right)
{
    const int64_t i = *(const int64_t *)left, j = *(const int64_t *)right;
    const double a = sorted_row[i], b = sorted_row[j];
    if (isnan(a) != isnan(b))
        return isnan(a) == sorted_smallest ? 1 : -1;
    if (!isnan(a) && a != b)
        return (a < b) == sorted_smallest ? -1 : 1;
    return i < j ? -1 : 1;
}

static int64_t *sort_row(const double *row, int64_t n, bool smallest)
{
    int64_t *order = h_malloc((size_t)n * sizeof *order);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    sorted_row = row;
    sorted_smallest = smallest;
    qsort(order, (size_t)n, sizeof *order, compare);
    return order;
}

/* The first NaN, else the first of the order. */
static int64_t first_of(const double *row, const int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (isnan(row[i]))
            return i;
    }
    return order[0];
}

/* --- Largest elements --- */

typedef struct shape {
    int64_t rows, n, k;
} shape;

static const shape shapes[] = {
    {1, 1, 1},       {300, 10, 3},   {40, 10, 10},    {5, 50257, 40},   {1, 152064, 50},
    {2, 4097, 1024}, {2, 9000, 700}, {3, 513, 512},   {2, 1024, 1024},  {3, 4096, 128},
    {2, 4089, 129},  {1, 100003, 1}, {17, 2049, 257}, {1, 30011, 1000},
};

static trp_dtype narrow(void)
{
    static const trp_dtype types[] = {TRP_F32, TRP_F16, TRP_BF16};
    return types[f_below(3)];
}

/* `axis` 0: rows lie across. */
static void check_largest(shape s, fill how, bool smallest, int axis)
{
    const int64_t dim[] = {axis ? s.rows : s.n, axis ? s.n : s.rows};
    const int64_t one[] = {axis ? s.rows : 1, axis ? 1 : s.rows};
    const int64_t some[] = {axis ? s.rows : s.k, axis ? s.k : s.rows};
    const trp_dtype type = f_below(2) ? TRP_I32 : TRP_I64;
    const bool packed = f_below(2);
    f_field x = f_make(narrow(), 2, dim, packed, 0, 0);
    f_field arg = f_make(type, 2, one, packed, 1, 0), index = f_make(type, 2, some, packed, 1, 0);
    f_field y = f_make(f_below(2) ? x.t.type : TRP_F64, 2, some, packed, 1, 0);
    double *row = h_malloc((size_t)s.n * sizeof *row);
    fill_rows(&x, how);
    trp_top_k_request r = {.extreme = smallest ? TRP_DNN_SMALLEST : TRP_DNN_LARGEST,
                           .axis = (uint32_t)axis,
                           .x = x.t,
                           .index = arg.t};
    RUN(trp_arg, r, "select_arg");
    r.index = index.t;
    if (f_below(4))
        r.values = y.t;
    RUN(trp_top_k, r, "select_top_k");
    f_read(&arg), f_read(&index), f_read(&y);
    for (int64_t i = 0; i < s.rows; i++) {
        for (int64_t k = 0; k < s.n; k++)
            row[k] = x.v[axis ? i * s.n + k : k * s.rows + i];
        int64_t *order = sort_row(row, s.n, smallest);
        H_EQUAL(arg.v[i], first_of(row, order, s.n));
        for (int64_t k = 0; k < s.k; k++) {
            const int64_t at = axis ? i * s.k + k : k * s.rows + i;
            H_EQUAL(index.v[at], order[k]);
            const double wanted = row[order[k]];
            H_CHECK(!r.values.rank || y.v[at] == wanted || (isnan(y.v[at]) && isnan(wanted)));
        }
        free(order);
    }
    f_drop(&x), f_drop(&arg), f_drop(&index), f_drop(&y), free(row);
}

static void largest(void)
{
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    begin();
    for (int i = 0; i < SHAPES; i++) {
        for (int round = 0; round < (H_SANITIZED ? 1 : 3); round++)
            check_largest(shapes[i], round == 0 ? NORMAL : (fill)f_below(FILLS), f_below(2),
                          f_below(4) != 0);
    }
    for (int how = 0; how < FILLS; how++) {
        check_largest((shape){2, 5000, 33}, (fill)how, how % 2, 1);
        check_largest((shape){2, 5000, 900}, (fill)how, how % 2 == 0, 1);
    }
    end();
}

/* Integers, and more of them than the fast kernels select. */
static void others(void)
{
    static const trp_dtype types[] = {TRP_I8, TRP_U8, TRP_I32, TRP_BOOL};
    begin();
    for (int round = 0; round < 8; round++) {
        const trp_dtype type = types[round % 4];
        const int64_t n = f_from(1, 9000);
        f_field x = f_make(type, 2, (int64_t[]){3, n}, false, type == TRP_I32 ? -2e9 : 0,
                           type == TRP_I32    ? 2e9
                           : type == TRP_BOOL ? 1
                                              : 100);
        f_field arg = f_make(TRP_I32, 2, (int64_t[]){3, 1}, false, 1, 0);
        trp_top_k_request r = {.extreme = round < 4 ? TRP_DNN_SMALLEST : TRP_DNN_LARGEST,
                               .axis = 1,
                               .x = x.t,
                               .index = arg.t};
        RUN(trp_arg, r, "select_arg");
        f_read(&arg);
        for (int64_t i = 0; i < 3; i++) {
            int64_t *order = sort_row(x.v + i * n, n, round < 4);
            H_EQUAL(arg.v[i], order[0]);
            free(order);
        }
        f_drop(&x), f_drop(&arg);
    }
    f_field x = f_make(TRP_F32, 1, (int64_t[]){1500}, true, -1, 1);
    f_field index = f_make(TRP_I32, 1, (int64_t[]){1100}, true, 1, 0);
    trp_top_k_request r = {.x = x.t, .index = index.t};
    RUN(trp_top_k, r, "direct");
    f_read(&index);
    int64_t *order = sort_row(x.v, 1500, false);
    for (int i = 0; i < 1100; i++)
        H_EQUAL(index.v[i], order[i]);
    free(order), f_drop(&x), f_drop(&index);
    end();
}

/* --- Sampling --- */

static double *uniform(int64_t count, uint64_t seed, uint64_t offset)
{
    f_field u = f_make(TRP_F32, 1, &count, true, 1, 0);
    const trp_dnn_tensor tensors[] = {{0}, trp_dnn_integer(seed), trp_dnn_integer(offset), u.t};
    const trp_dnn_node node = {
        .kind = TRP_DNN_RANDOM, .random = TRP_DNN_UNIFORM, .seed = 1, .offset = 2, .y = 3};
    const trp_dnn_graph_request r = {
        .tensors = tensors, .tensor_count = 4, .nodes = &node, .node_count = 1};
    trp_completion done = {0};
    H_OK(trp_dnn_graph(dnn, &r, &done));
    H_OK(h_await_any(done));
    f_read(&u);
    double *out = u.v;
    u.v = NULL;
    f_drop(&u);
    return out;
}

/* Whether a class may be the one that is drawn of a row: the sums of shares, in f64, before it and
 * with it are on both sides of u times all, to within what rounding of shares may do. */
static void check_class(const double *row, int64_t n, const trp_sample_request *r, double u,
                        int64_t got)
{
    const double t = r->temperature.given ? r->temperature.re : 1;
    const double p = r->top_p.given ? r->top_p.re : 1, slack = 1e-6;
    int64_t *order = sort_row(row, n, false), best = order[0];
    int64_t some = r->top_k > 0 && (int64_t)r->top_k < n ? (int64_t)r->top_k : n, at = -1;
    H_CHECK(got >= 0 && got < n);
    if (t == 0 || !isfinite(row[best])) {
        H_EQUAL(got, best);
        free(order);
        return;
    }
    for (int64_t i = 0; i < n && r->top_k == 0 && !r->top_p.given; i++)
        order[i] = i;
    double total = 0, sum = 0, nucleus = 0;
    const double most = row[best];
    for (int64_t i = 0; i < some; i++) {
        total += exp((row[order[i]] - most) / t);
        at = order[i] == got ? i : at;
    }
    H_CHECK(at >= 0);
    for (int64_t i = 0; i < some && (i == 0 || nucleus < p * total); i++)
        nucleus += exp((row[order[i]] - most) / t);
    for (int64_t i = 0; i < at; i++)
        sum += exp((row[order[i]] - most) / t);
    const double own = exp((row[got] - most) / t), reach = u * nucleus;
    if (sum > reach + slack * total || sum + own < reach - slack * total)
        h_fail(__FILE__, __LINE__, "class %lld of %lld: sums %.17g to %.17g, expected %.17g",
               (long long)got, (long long)n, sum, sum + own, reach);
    free(order);
}

static void check_sampling(shape s, fill how, double temperature, uint64_t k, double p)
{
    const bool flat = f_below(2);
    f_field x = f_make(narrow(), 2, (int64_t[]){s.rows, s.n}, f_below(2), 0, 0);
    f_field index =
        f_make(f_below(2) ? TRP_I32 : TRP_I64, flat ? 1 : 2, (int64_t[]){s.rows, 1}, false, 1, 0);
    const uint64_t seed = (uint64_t)f_below(1 << 30), offset = (uint64_t)f_below(1 << 30);
    fill_rows(&x, how);
    trp_sample_request r = {.logits = x.t,
                            .index = index.t,
                            .top_k = k,
                            .seed = trp_dnn_integer(seed),
                            .offset = trp_dnn_integer(offset)};
    r.temperature = trp_real(temperature);
    if (p < 1)
        r.top_p = trp_real(p);
    RUN(trp_sample, r, "select_sample");
    f_read(&index);
    double *u = uniform(s.rows, seed, offset);
    for (int64_t i = 0; i < s.rows; i++)
        check_class(x.v + i * s.n, s.n, &r, u[i], (int64_t)index.v[i]);
    free(u), f_drop(&x), f_drop(&index);
}

static void sampling(void)
{
    static const shape sizes[] = {
        {1, 1, 1}, {40, 10, 0}, {6, 1000, 0}, {3, 50257, 0}, {1, 152064, 0}};
    begin();
    for (int i = 0; i < 5; i++) {
        for (int round = 0; round < (H_SANITIZED ? 2 : 6); round++) {
            const fill how = round == 0 ? NORMAL : (fill)f_below(FILLS);
            const uint64_t k = round % 3 == 1 ? (uint64_t)f_from(1, 60) : 0;
            check_sampling(sizes[i], how, round == 5 ? 1.7 : 0.8, k, round % 2 ? 0.9 : 1);
        }
    }
    /* flat rows, of which a great part is drawn */
    check_sampling((shape){2, 3000, 0}, EQUAL, 1, 0, 0.7);
    check_sampling((shape){2, 3000, 0}, NORMAL, 40, 0, 0.9);
    check_sampling((shape){2, 3000, 0}, NORMAL, 40, 1500, 1);
    check_sampling((shape){2, 3000, 0}, FEW, 3, 1500, 0.8);
    check_sampling((shape){2, 3000, 0}, NORMAL, 0, 0, 1);
    check_sampling((shape){2, 3000, 0}, NORMAL, 1e-3, 0, 0.5);
    check_sampling((shape){2, 3000, 0}, NORMAL, 1, 5000, 0);
    end();
}

static const h_case cases[] = {{"largest", largest}, {"others", others}, {"sampling", sampling}};

int main(int argc, char **argv)
{
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
