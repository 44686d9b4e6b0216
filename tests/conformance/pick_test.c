/* Largest elements of rows, and classes drawn from rows, in the conformance suite: sizes as models
 * have them, compared with a sort of the whole row and with sums in f64. On a GPU the fast kernels
 * must have run. */
#include "conformance/calls.h"
#include "support/reference/dnn_reference.h"

#include <math.h>

TROUPE_TEST("one isolation", "computes");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

/* --- Rows --- */

typedef enum fill {
    NORMAL,
    FEW,    /* few values, so that many are equal */
    EQUAL,  /* all elements are equal */
    RISING, /* the largest are neighbours */
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
    f_encode(x);
}

static bool is_real(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

/* Returns whether select has kernels for a type: those of floats, without f64. */
static bool is_narrow(trp_dtype type)
{
    return is_real(type) && type != TRP_F64;
}

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

/* Returns the first NaN, or else the first in the order. */
static int64_t first_of(const double *row, const int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (isnan(row[i]))
            return i;
    }
    return order[0];
}

/* --- Largest elements --- */

/* Lines of n elements at a stride of `inner`. */
typedef struct shape {
    int64_t rows, n, inner, k;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1},       {300, 10, 1, 3},     {40, 10, 1, 10},   {5, 50257, 1, 40},
    {1, 152064, 1, 50}, {2, 4097, 1, 1024},  {2, 9000, 1, 700}, {3, 513, 1, 512},
    {2, 1024, 1, 1024}, {3, 4096, 1, 128},   {2, 4089, 1, 129}, {1, 100003, 1, 1},
    {17, 2049, 1, 257}, {1, 30011, 1, 1000}, {1, 513, 3, 512},  {2, 2000, 5, 33},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PICK_WAYS = SHAPES + 24 };

static bool pick(cf_fields *p, trp_dtype type, unsigned way, bool all)
{
    const bool known = way < SHAPES && is_narrow(type) && !p->tight, smallest = f_below(2);
    const shape s =
        known ? shapes[way] : (shape){f_from(1, 5), f_from(1, way % 8 ? 20 : 500), f_from(1, 5), 0};
    const int64_t k = !all ? 1 : known ? s.k : f_from(1, s.n);
    const int64_t dim[] = {s.rows, s.n, s.inner}, some[] = {s.rows, k, s.inner};
    const double most = type == TRP_BOOL ? 1 : type == TRP_I32 ? 2e9 : 100;
    const bool valued = all && f_below(4);
    p->packed = f_below(2);
    f_field *x = cf_in(p, type, 3, dim, type == TRP_I32 ? -2e9 : 0, most);
    if (is_real(type))
        fill_rows(x, (fill)f_below(FILLS));
    const f_field *index = cf_out(p, f_below(2) ? TRP_I32 : TRP_I64, 3, some);
    const f_field *y = cf_out(p, f_below(2) || !is_real(type) ? type : TRP_F64, 3, some);
    double *at = cf_want(p, index, 0, 0, false),
           *values = valued ? cf_want(p, y, 0, 0, true) : NULL;
    double *row = cf_zeros(s.n);
    for (int64_t line = 0; line < s.rows * s.inner; line++) {
        const int64_t from = line / s.inner * s.n * s.inner + line % s.inner;
        const int64_t to = line / s.inner * k * s.inner + line % s.inner;
        for (int64_t i = 0; i < s.n; i++)
            row[i] = x->v[from + i * s.inner];
        int64_t *order = sort_row(row, s.n, smallest);
        for (int64_t i = 0; i < k; i++) {
            const int64_t place = all ? order[i] : first_of(row, order, s.n);
            at[to + i * s.inner] = (double)place;
            if (valued)
                values[to + i * s.inner] = row[place];
        }
        free(order);
    }
    free(row);
    p->engine = is_narrow(type) ? all ? "select_top_k" : "select_arg" : NULL;
    trp_top_k_request *r = CF_REQUEST(p, top_k);
    *r = (trp_top_k_request){.extreme = smallest ? TRP_DNN_SMALLEST : TRP_DNN_LARGEST,
                             .axis = 1,
                             .x = x->t,
                             .index = index->t};
    if (valued)
        r->values = y->t;
    return true;
}

static bool arg(cf_fields *p, trp_dtype type, unsigned way)
{
    return pick(p, type, way, false);
}

static bool top_k(cf_fields *p, trp_dtype type, unsigned way)
{
    return pick(p, type, way, true);
}

/* --- Sampling --- */

/* Returns whether the draw may choose a class: u times the total lies between the sums of shares
 * before and with the class, in f64, within the rounding of shares. */
static bool is_drawn(const double *row, int64_t n, const trp_sample_request *r, double u,
                     int64_t got)
{
    const double t = r->temperature.given ? r->temperature.re : 1;
    const double share = r->top_p.given ? r->top_p.re : 1, slack = 1e-6;
    int64_t *order = sort_row(row, n, false), best = order[0], at = -1;
    const int64_t some = r->top_k > 0 && (int64_t)r->top_k < n ? (int64_t)r->top_k : n;
    const bool all = r->top_k == 0 && !r->top_p.given, one = t == 0 || !isfinite(row[best]);
    double total = 0, sum = 0, nucleus = 0;
    const double most = row[best];
    for (int64_t i = 0; i < n && all && !one; i++)
        order[i] = i;
    for (int64_t i = 0; i < some && !one; i++) {
        total += exp((row[order[i]] - most) / t);
        at = order[i] == got ? i : at;
    }
    for (int64_t i = 0; i < some && !one && (i == 0 || nucleus < share * total); i++)
        nucleus += exp((row[order[i]] - most) / t);
    for (int64_t i = 0; i < at; i++)
        sum += exp((row[order[i]] - most) / t);
    free(order);
    if (one)
        return got == best;
    const double own = at < 0 ? 0 : exp((row[got] - most) / t), reach = u * nucleus;
    if (at >= 0 && sum <= reach + slack * total && sum + own >= reach - slack * total)
        return true;
    fprintf(stderr, "class %lld of %lld: sums %.17g to %.17g, expected %.17g\n", (long long)got,
            (long long)n, sum, sum + own, reach);
    return false;
}

/* Rows as models have them, flat rows of which many classes may be drawn, and small ones. */
static const struct {
    int64_t rows, n;
    double temperature;
    uint64_t k;
    double p;
} draws[] = {
    {3, 50257, 0.8, 0, 0.9}, {1, 152064, 0.8, 40, 1}, {1, 152064, 1.7, 0, 0.9},
    {2, 3000, 1, 0, 0.7},    {2, 3000, 40, 0, 0.9},   {2, 3000, 40, 1500, 1},
    {2, 3000, 3, 1500, 0.8}, {2, 3000, 0, 0, 1},      {2, 3000, 1e-3, 0, 0.5},
    {2, 3000, 1, 5000, 0},
};
enum { DRAWS = sizeof draws / sizeof *draws, SAMPLE_WAYS = DRAWS + 30 };

static bool sample(cf_fields *p, trp_dtype type, unsigned way)
{
    static const int64_t sizes[] = {1, 10, 1000, 12};
    const bool known = way < DRAWS && is_narrow(type) && !p->tight;
    const int64_t rows = known ? draws[way].rows : f_from(1, 40);
    const int64_t n = known ? draws[way].n : sizes[f_below(4)], dim[] = {rows, n},
                  one[] = {rows, 1};
    const double share = known ? draws[way].p : way % 2 ? 0.9 : 1;
    trp_sample_request *r = CF_REQUEST(p, sample);
    p->packed = f_below(2);
    f_field *x = cf_in(p, type, 2, dim, 0, 0);
    fill_rows(x, (fill)f_below(FILLS));
    const f_field *index = cf_out(p, f_below(2) ? TRP_I32 : TRP_I64, f_below(2) ? 1 : 2, one);
    *r = (trp_sample_request){.logits = x->t,
                              .index = index->t,
                              .top_k = known          ? draws[way].k
                                       : way % 3 == 1 ? (uint64_t)f_from(1, 60)
                                                      : 0,
                              .seed = trp_dnn_integer((uint64_t)f_below(1 << 30)),
                              .offset = trp_dnn_integer((uint64_t)f_below(1 << 30))};
    r->temperature = trp_real(known ? draws[way].temperature : way % 6 == 5 ? 1.7 : 0.8);
    if (share < 1)
        r->top_p = trp_real(share);
    p->engine = is_narrow(type) ? "select_sample" : NULL;
    return true;
}

static uint64_t integer_of(const trp_dnn_tensor *t)
{
    return (uint64_t)t->value.re | (uint64_t)t->value.im << 32;
}

static bool right_classes(cf_fields *p)
{
    const trp_sample_request *r = CF_REQUEST(p, sample);
    const f_field *x = &p->field[0], *index = &p->field[1];
    const int64_t n = x->t.dim[1];
    for (int64_t i = 0; i < index->count; i++) {
        const double u =
            dr_fraction(false, integer_of(&r->seed), integer_of(&r->offset), (uint64_t)i);
        if (!is_drawn(x->v + i * n, n, r, u, (int64_t)index->v[i]))
            return false;
    }
    return true;
}

/* --- Operations --- */

CF_SEND(arg, top_k)
CF_SEND(top_k, top_k)
CF_SEND(sample, sample)

static const cf_call calls[] = {
    {CF_CALL(arg, top_k), .types = 8, .ways = PICK_WAYS, .runs_again = true,
     .tensor = {CF_TENSOR(top_k, CF_READ, x), CF_TENSOR(top_k, CF_WRITE, index)}},
    {CF_CALL(top_k, top_k), .types = 4, .ways = PICK_WAYS, .runs_again = true,
     .tensor = {CF_TENSOR(top_k, CF_READ, x), CF_TENSOR(top_k, CF_WRITE, index),
                CF_TENSOR(top_k, CF_WRITE, values)}},
    {CF_CALL(sample, sample), .types = 4, .ways = SAMPLE_WAYS, .runs_again = true,
     .check = right_classes,
     .tensor = {CF_TENSOR(sample, CF_READ, logits), CF_TENSOR(sample, CF_WRITE, index)}},
};

int main(int argc, char **argv)
{
    return cf_calls_main(argc, argv, "dnn: largest elements, sampling", calls,
                         sizeof calls / sizeof *calls);
}
