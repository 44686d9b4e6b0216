/* The checker of `troupe matmul --check`: what is right passes in every type and with every step,
 * and one wrong value of any result is found. */
#include "cli/commands/matmul_check.h"

#include "support/reference/reference.h"

#include <troupe/convert.h>

#include <math.h>
#include "support/unit.h"

enum { M = 21, N = 37, K = 50, BITS_LD = 128 / 8, MAX_STEPS = 1000000000 };

/* A product with all of its steps, computed here in float64 and rounded at its end. */
typedef struct product {
    check_matmul x;
    trp_dtype in, out, vector;
    double a[2 * M * K], b[2 * K * N], c[2 * M * N], bias[N]; /* as float64, rounded to the types */
    double d[2 * M * N], aux[M * N], gradient[N];
    char store[8][16 * 2 * K * N]; /* the same in their types */
    unsigned char bits[M * BITS_LD];
    float amax, scale_a, scale_b;
} product;

static ref_rng rng;

static int parts_of(trp_dtype type)
{
    return type == TRP_C64 || type == TRP_C128 ? 2 : 1;
}

/* Between float64 and a type; complex ones are two numbers an element. */
static void narrow(trp_dtype type, const double *from, void *to, size_t count)
{
    trp_dtype wide = parts_of(type) == 2 ? TRP_C128 : TRP_F64;
    assert_int_equal(trp_convert(wide, from, type, to, count), TRP_OK);
}

static void widen(trp_dtype type, const void *from, double *to, size_t count)
{
    trp_dtype wide = parts_of(type) == 2 ? TRP_C128 : TRP_F64;
    assert_int_equal(trp_convert(type, from, wide, to, count), TRP_OK);
}

static check_view view(trp_dtype type, const void *data, uint64_t cols)
{
    return (check_view){.data = data, .type = type, .row_step = cols, .col_step = 1};
}

static check_view fill(trp_dtype type, double *wide, void *store, size_t rows, size_t cols)
{
    double range = type == TRP_I8 || type == TRP_I32 ? 50 : 1;
    for (size_t i = 0; i < rows * cols * (size_t)parts_of(type); i++)
        wide[i] = ref_rng_uniform(&rng, -range, range);
    narrow(type, wide, store, rows * cols);
    widen(type, store, wide, rows * cols);
    return view(type, store, cols);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double c = 0.7978845608028654, u = c * (x + 0.044715 * x * x * x);
    return (1 + tanh(u)) / 2 + x / 2 / (cosh(u) * cosh(u)) * c * (1 + 0.134145 * x * x);
}

static double act(const product *p, size_t i, size_t j, double x)
{
    switch (p->x.activation) {
    case TRP_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case TRP_ACTIVATION_GELU:
        return gelu(x);
    case TRP_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case TRP_ACTIVATION_DRELU:
        return p->bits[i * BITS_LD + j / 8] >> j % 8 & 1 ? x : 0;
    case TRP_ACTIVATION_DGELU:
        return x * gelu_slope(p->aux[i * N + j]);
    default:
        return x;
    }
}

static void before(const product *p, size_t i, size_t j, double out[2])
{
    int parts = parts_of(p->in);
    double s[2] = {0, 0};
    for (size_t l = 0; l < K; l++) {
        const double *a = p->a + (i * K + l) * (size_t)parts;
        const double *b = p->b + (l * N + j) * (size_t)parts;
        s[0] += a[0] * b[0] - (parts == 2 ? a[1] * b[1] : 0);
        s[1] += parts == 2 ? a[0] * b[1] + a[1] * b[0] : 0;
    }
    double alpha = p->x.alpha.re * (double)p->scale_a * (double)p->scale_b;
    const double *c = p->c + (i * N + j) * (size_t)parts;
    double bias = p->x.bias.data ? p->bias[j] : 0;
    for (int part = 0; part < parts; part++)
        out[part] = alpha * s[part] + (p->x.c.data ? p->x.beta.re * c[part] : 0);
    out[0] += bias;
    if (parts == 2) {
        out[0] -= p->x.alpha.im * s[1];
        out[1] += p->x.alpha.im * s[0];
    }
}

static void compute(product *p)
{
    int parts = parts_of(p->in);
    bool writes_bits = p->x.activation == TRP_ACTIVATION_RELU && p->x.aux.data;
    memset(p->gradient, 0, sizeof p->gradient);
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j < N; j++) {
            double x[2] = {0, 0};
            before(p, i, j, x);
            if (p->x.activation == TRP_ACTIVATION_GELU)
                p->aux[i * N + j] = x[0];
            if (writes_bits && x[0] > 0)
                p->bits[i * BITS_LD + j / 8] |= (unsigned char)(1u << j % 8);
            x[0] = act(p, i, j, x[0]);
            p->gradient[j] += x[0];
            if (fabs(x[0]) > (double)p->amax)
                p->amax = (float)fabs(x[0]);
            for (int part = 0; part < parts; part++)
                p->d[(i * N + j) * (size_t)parts + (size_t)part] = x[part] * p->x.scale_d;
        }
    }
    narrow(p->out, p->d, p->store[3], M * N);
    if (p->x.activation == TRP_ACTIVATION_GELU)
        narrow(p->vector, p->aux, p->store[5], M * N);
    if (p->x.gradient_of == TRP_BIAS_GRADIENT_D)
        narrow(p->vector, p->gradient, p->store[6], N);
}

enum { WITH_C = 1, WITH_BIAS = 2, WITH_SCALES = 4, WITH_SUMS = 8 };

static product *make(trp_dtype in, trp_dtype out, trp_dtype vector, trp_activation activation,
                     int with)
{
    product *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->in = in;
    p->out = out;
    p->vector = vector;
    p->scale_a = with & WITH_SCALES ? 0.5f : 1;
    p->scale_b = with & WITH_SCALES ? 3 : 1;
    p->x = (check_matmul){.a = fill(in, p->a, p->store[0], M, K),
                          .b = fill(in, p->b, p->store[1], K, N),
                          .m = M,
                          .n = N,
                          .k = K,
                          .alpha = trp_real(out == TRP_I32  ? 2
                                            : out == TRP_I8 ? 0.01
                                                            : 0.75),
                          .beta = trp_real(with & WITH_C ? -2 : 0),
                          .activation = activation,
                          .scale_d = with & WITH_SCALES ? 4 : 1,
                          .d = view(out, p->store[3], N)};
    if (parts_of(in) == 2)
        p->x.alpha = trp_complex(0.75, -0.5);
    if (with & WITH_SCALES) {
        p->x.a.scale = &p->scale_a;
        p->x.b.scale = &p->scale_b;
        p->x.amax = &p->amax;
    }
    if (with & WITH_C)
        p->x.c = fill(out == TRP_F8E4M3 ? TRP_BF16 : out, p->c, p->store[2], M, N);
    if (with & WITH_BIAS)
        p->x.bias = fill(vector, p->bias, p->store[4], 1, N);
    if (activation == TRP_ACTIVATION_DGELU)
        p->x.aux = fill(vector, p->aux, p->store[5], M, N);
    if (activation == TRP_ACTIVATION_GELU)
        p->x.aux = view(vector, p->store[5], N);
    if (activation == TRP_ACTIVATION_RELU || activation == TRP_ACTIVATION_DRELU)
        p->x.aux = (check_view){.data = p->bits, .type = TRP_U8, .row_step = BITS_LD};
    for (size_t i = 0; activation == TRP_ACTIVATION_DRELU && i < sizeof p->bits; i++)
        p->bits[i] = (unsigned char)ref_rng_next(&rng);
    if (with & WITH_SUMS) {
        p->x.gradient_of = TRP_BIAS_GRADIENT_D;
        p->x.gradient = view(vector, p->store[6], 0);
        p->x.gradient.col_step = 1;
    }
    compute(p);
    return p;
}

static check_matmul_result check(const product *p)
{
    check_matmul_result r;
    assert_true(check_matmul_run(&p->x, MAX_STEPS, &r));
    return r;
}

static void expect_right(const product *p)
{
    check_matmul_result r = check(p);
    if (r.wrong)
        fail_msg("%s to %s, activation %d: %s[%d, %d] is %g, expected %g within %g",
                 trp_dtype_name(p->in), trp_dtype_name(p->out), (int)p->x.activation, r.what,
                 (int)r.row, (int)r.col, r.got, r.expected, r.bound);
    assert_int_equal(r.rows, M);
    assert_true(r.of_bound <= 1);
}

static void expect_wrong(const product *p, const char *what, uint64_t row, uint64_t col)
{
    check_matmul_result r = check(p);
    if (r.wrong != 1 || strcmp(r.what, what) != 0 || r.row != row || r.col != col)
        fail_msg("%d wrong, the worst is %s[%d, %d]; expected %s[%d, %d] alone", (int)r.wrong,
                 r.what ? r.what : "none", (int)r.row, (int)r.col, what, (int)row, (int)col);
}

/* Sets an element of a stored array to a value, checks, and puts it back. */
static void spoil(const product *p, trp_dtype type, char *store, uint64_t i, double value,
                  const char *what, uint64_t row, uint64_t col)
{
    size_t bytes = trp_dtype_bits(type) / 8;
    char old[16];
    double wide[2] = {value, 0};
    memcpy(old, store + i * bytes, bytes);
    narrow(type, wide, store + i * bytes, 1);
    expect_wrong(p, what, row, col);
    memcpy(store + i * bytes, old, bytes);
}

static void every_type(void **state)
{
    (void)state;
    static const struct {
        trp_dtype in, out, vector;
        int with;
    } cases[] = {
        {TRP_F64, TRP_F64, TRP_F64, WITH_C | WITH_BIAS},
        {TRP_F32, TRP_F32, TRP_F32, WITH_C | WITH_BIAS},
        {TRP_F16, TRP_F16, TRP_F16, WITH_C | WITH_BIAS},
        {TRP_BF16, TRP_BF16, TRP_BF16, WITH_C | WITH_BIAS},
        {TRP_BF16, TRP_F32, TRP_F32, WITH_BIAS},
        {TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, WITH_C | WITH_BIAS | WITH_SCALES},
        {TRP_F8E5M2, TRP_BF16, TRP_BF16, WITH_BIAS},
        {TRP_I8, TRP_I32, TRP_DTYPE_NONE, WITH_C},
        {TRP_I8, TRP_I8, TRP_F32, WITH_C | WITH_BIAS},
        {TRP_C64, TRP_C64, TRP_DTYPE_NONE, WITH_C},
        {TRP_C128, TRP_C128, TRP_DTYPE_NONE, WITH_C},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int with = 0; with <= cases[i].with; with++) {
            if (with & ~cases[i].with)
                continue;
            product *p =
                make(cases[i].in, cases[i].out, cases[i].vector, TRP_ACTIVATION_NONE, with);
            expect_right(p);
            double now = p->d[(5 * N + 36) * (size_t)parts_of(p->out)];
            double far = cases[i].out == TRP_I32 ? 12345678 : now < 0 ? 100 : -100;
            spoil(p, p->out, p->store[3], 5 * N + 36, far, "D", 5, 36);
            free(p);
        }
    }
}

static void every_activation(void **state)
{
    (void)state;
    static const trp_dtype types[] = {TRP_F64, TRP_F32, TRP_BF16};
    for (size_t t = 0; t < 3; t++) {
        for (int a = TRP_ACTIVATION_RELU; a <= TRP_ACTIVATION_DGELU; a++) {
            bool back = a == TRP_ACTIVATION_DRELU || a == TRP_ACTIVATION_DGELU;
            product *p =
                make(types[t], types[t], types[t], (trp_activation)a, back ? WITH_SUMS : WITH_BIAS);
            expect_right(p);
            spoil(p, p->out, p->store[3], 20 * N, 1000, "D", 20, 0);
            if (back)
                spoil(p, p->vector, p->store[6], 7, 1000, "gradient", 0, 7);
            if (a == TRP_ACTIVATION_GELU)
                spoil(p, p->vector, p->store[5], 3 * N + 4, 1000, "aux", 3, 4);
            if (a == TRP_ACTIVATION_RELU) {
                p->bits[2 * BITS_LD + 1] ^= 4;
                expect_wrong(p, "aux", 2, 10);
            }
            free(p);
        }
    }
}

static void sums_of_inputs_and_amax(void **state)
{
    (void)state;
    product *p = make(TRP_F16, TRP_F16, TRP_F16, TRP_ACTIVATION_NONE, 0);
    double sums[N] = {0};
    for (size_t j = 0; j < N; j++)
        for (size_t l = 0; l < K; l++)
            sums[j] += p->b[l * N + j];
    narrow(TRP_F16, sums, p->store[6], N);
    p->x.gradient_of = TRP_BIAS_GRADIENT_B;
    p->x.gradient = (check_view){.data = p->store[6], .type = TRP_F16, .col_step = 1};
    expect_right(p);
    spoil(p, TRP_F16, p->store[6], 11, 99, "gradient", 0, 11);
    free(p);

    p = make(TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, TRP_ACTIVATION_NONE, WITH_SCALES);
    expect_right(p);
    p->amax *= 1.01f;
    expect_wrong(p, "amax", 0, 0);
    p->amax *= 0.98f;
    expect_wrong(p, "amax", 0, 0);
    free(p);
}

/* The last bit of a result matters where nothing but rounding can explain it. */
static void a_rounding_too_many_is_found(void **state)
{
    (void)state;
    product *p = make(TRP_F32, TRP_F32, TRP_F32, TRP_ACTIVATION_NONE, 0);
    float *d = (float *)(void *)p->store[3];
    for (size_t i = 0; i < M * N; i++) /* to bf16 */
        d[i] = (float)(int)(d[i] * 256) / 256;
    assert_true(check(p).wrong > M * N / 2);
    free(p);
    p = make(TRP_I8, TRP_I32, TRP_DTYPE_NONE, TRP_ACTIVATION_NONE, 0);
    ((int32_t *)(void *)p->store[3])[4 * N + 4]++;
    expect_wrong(p, "D", 4, 4);
    free(p);
}

static void what_is_not_finite(void **state)
{
    (void)state;
    product *p = make(TRP_F16, TRP_F16, TRP_F16, TRP_ACTIVATION_NONE, 0);
    spoil(p, TRP_F16, p->store[3], 0, NAN, "D", 0, 0);
    spoil(p, TRP_F16, p->store[3], 0, INFINITY, "D", 0, 0);
    p->x.alpha.re = 60000; /* beyond f16, for most: infinities are right */
    compute(p);
    expect_right(p);
    free(p);
    p = make(TRP_F8E4M3, TRP_F8E4M3, TRP_BF16, TRP_ACTIVATION_NONE, 0);
    p->x.alpha.re = 1e4; /* saturates */
    compute(p);
    expect_right(p);
    spoil(p, TRP_F8E4M3, p->store[3], 3, NAN, "D", 0, 3);
    free(p);
}

static void transposed_views(void **state)
{
    (void)state;
    product *p = make(TRP_C64, TRP_C64, TRP_DTYPE_NONE, TRP_ACTIVATION_NONE, 0);
    float *a = (float *)(void *)p->store[0], *conjugate = (float *)(void *)p->store[7];
    for (size_t i = 0; i < M; i++) {
        for (size_t l = 0; l < K; l++) {
            conjugate[2 * (l * M + i)] = a[2 * (i * K + l)];
            conjugate[2 * (l * M + i) + 1] = -a[2 * (i * K + l) + 1];
        }
    }
    p->x.a = (check_view){
        .data = conjugate, .type = TRP_C64, .row_step = 1, .col_step = M, .conjugate = true};
    expect_right(p);
    p->x.a.conjugate = false;
    assert_true(check(p).wrong > 100);
    free(p);
}

static void conversions(void **state)
{
    (void)state;
    static const trp_dtype types[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    double from[200];
    char to[200 * 8];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        uint64_t row = 0, col = 0;
        for (size_t i = 0; i < 200; i++)
            from[i] = ref_rng_uniform(&rng, -2, 2) * pow(10, (double)(i % 12) - 6);
        from[0] = INFINITY;
        from[1] = NAN;
        from[2] = 1e30;
        narrow(types[t], from, to, 200);
        check_view x = view(TRP_F64, from, 20), y = view(types[t], to, 20);
        assert_int_equal(check_conversion(&x, &y, 10, 20, &row, &col), 0);
        from[54] = types[t] == TRP_I8 ? from[54] + 1 : 3 * from[54];
        assert_int_equal(check_conversion(&x, &y, 10, 20, &row, &col), 1);
        assert_true(row == 2 && col == 14);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(every_type),
        UNIT(every_activation),
        UNIT(sums_of_inputs_and_amax),
        UNIT(a_rounding_too_many_is_found),
        UNIT(what_is_not_finite),
        UNIT(transposed_views),
        UNIT(conversions),
    };
    ref_rng_init(&rng, ref_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
