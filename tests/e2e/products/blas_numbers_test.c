/* What <troupe/blas.h> says of NaN, infinities, zeros and numbers at the ends of a type's range in
 * the operations of levels 1 to 3: as the reference BLAS has it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/reference/blas_reference.h"
#include "support/harness.h"

#include <float.h>
#include <math.h>

TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { N = 5, K = 3 };

static h_world world;
static trp_actor *blas;

static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_C64, TRP_C128};

static bool is_complex(trp_dtype type)
{
    return ref_blas_complex(type);
}

static ref_complex pair(double re, double im)
{
    ref_complex value;
    ((double *)&value)[0] = re;
    ((double *)&value)[1] = im;
    return value;
}

/* A buffer of `count` elements, values[i % of] each. */
static trp_buffer put(trp_dtype type, int64_t count, const ref_complex *values, int64_t of)
{
    const size_t bytes = (size_t)count * ref_blas_size(type);
    void *data = h_malloc(bytes);
    trp_buffer buffer = h_buffer(world.device, bytes);
    for (int64_t i = 0; i < count; i++)
        ref_blas_store(type, data, i, values[i % of]);
    h_write(world.device, buffer, 0, data, bytes);
    free(data);
    return buffer;
}

static trp_buffer put_all(trp_dtype type, int64_t count, ref_complex value)
{
    return put(type, count, &value, 1);
}

static void get(trp_dtype type, trp_buffer buffer, int64_t count, ref_complex *out)
{
    unsigned char data[N * N * 16];
    H_CHECK((size_t)count * ref_blas_size(type) <= sizeof data);
    h_read(world.device, buffer, 0, data, (size_t)count * ref_blas_size(type));
    for (int64_t i = 0; i < count; i++)
        out[i] = ref_blas_load(type, data, i);
}

static void done(trp_status sent, trp_completion completion)
{
    H_OK(sent);
    H_OK(h_await_any(completion));
}

static void begin(void)
{
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
}

static void expect_nan(const char *what, trp_dtype type, trp_buffer buffer, int64_t count,
                       int64_t step)
{
    ref_complex got[N * N];
    get(type, buffer, count, got);
    for (int64_t i = 0; i < count; i += step) {
        if (!isnan(creal(got[i])) && !isnan(cimag(got[i])))
            h_fail(__FILE__, __LINE__, "%s, %s, element %lld: got %g%+gi, expected NaN", what,
                   trp_dtype_name(type), (long long)i, creal(got[i]), cimag(got[i]));
    }
}

static bool same(double got, double want, double bound)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= bound * fabs(want);
}

static void expect(const char *what, trp_dtype type, trp_buffer buffer, int64_t count,
                   const ref_complex *want, double bound)
{
    ref_complex got[N * N];
    get(type, buffer, count, got);
    for (int64_t i = 0; i < count; i++) {
        if (!same(creal(got[i]), creal(want[i]), bound) ||
            (is_complex(type) && !same(cimag(got[i]), cimag(want[i]), bound)))
            h_fail(__FILE__, __LINE__, "%s, %s, element %lld: got %.9g%+.9gi, expected %.9g%+.9gi",
                   what, trp_dtype_name(type), (long long)i, creal(got[i]), cimag(got[i]),
                   creal(want[i]), cimag(want[i]));
    }
}

/* With beta 1 and nothing to add C stays as it is, the imaginary parts of its diagonal too; with
 * another beta they become 0. */
static void hermitian_updates_of_nothing(void)
{
    begin();
    for (int t = 2; t < 4; t++) {
        for (int i = 0; i < 16; i++) {
            bool two = i & 1, empty = i & 2, lower = i & 4, unchanged = i & 8;
            const double factor = unchanged ? 1 : 0.5;
            ref_complex before[N * N], want[N * N];
            trp_completion ended = {0};
            for (int e = 0; e < N * N; e++) {
                const int row = e % N, column = e / N;
                const bool inside = lower ? row >= column : row <= column;
                before[e] = want[e] = pair(2 + row, 1 + column);
                if (inside && !unchanged)
                    want[e] = pair(factor * (2 + row), row == column ? 0 : factor * (1 + column));
            }
            trp_blas3_request r = {
                .type = types[t],
                .uplo = lower ? TRP_LOWER : TRP_UPPER,
                .n = N,
                .k = empty ? 0 : K,
                .alpha = trp_real(empty ? 2 : 0),
                .beta = trp_real(factor),
                .a = put_all(types[t], N * K, pair(3, -1)),
                .b = two ? put_all(types[t], N * K, pair(1, 4)) : (trp_buffer){0},
                .c = put(types[t], N * N, before, N * N),
            };
            trp_status sent = two ? trp_her2k(blas, &r, &ended) : trp_herk(blas, &r, &ended);
            done(sent, ended);
            expect(two ? "her2k" : "herk", types[t], r.c, N * N, want, 0);
        }
    }
    h_close(&world);
}

/* x = alpha x multiplies: what is NaN stays so, and 0 times an infinity is NaN. */
static void scaling(void)
{
    begin();
    for (int t = 0; t < 4; t++) {
        const ref_complex x[N] = {NAN, pair(INFINITY, 0), 2, pair(-INFINITY, 0), -3};
        const double alphas[] = {0, 2, NAN};
        for (int a = 0; a < 3; a++) {
            for (int in_buffer = 0; in_buffer < 2; in_buffer++) {
                ref_complex got[N];
                trp_completion ended = {0};
                trp_blas1_request r = {.type = types[t], .n = N, .x = put(types[t], N, x, N)};
                if (in_buffer)
                    r.scalars = put_all(types[t], 1, alphas[a]);
                else
                    r.alpha = trp_real(alphas[a]);
                done(trp_scal(blas, &r, &ended), ended);
                get(types[t], r.x, N, got);
                for (int i = 0; i < N; i++) {
                    const double want = alphas[a] * creal(x[i]);
                    if (!same(creal(got[i]), want, 0))
                        h_fail(__FILE__, __LINE__, "scal by %g, %s, element %d: got %g, not %g",
                               alphas[a], trp_dtype_name(types[t]), i, creal(got[i]), want);
                }
            }
        }
    }
    h_close(&world);
}

/* A NaN in alpha or beta reaches all of the output, in whatever way it is given. */
static void scalars_of_nan_2(trp_dtype type, bool in_alpha, bool in_buffer)
{
    static const struct {
        const char *name;
        trp_status (*send)(trp_actor *, const trp_blas2_request *, trp_completion *);
        bool complex_only;
    } all[] = {
        {"gemv", trp_gemv, false},
        {"symv", trp_symv, false},
        {"hemv", trp_hemv, true},
        {"gbmv", trp_gbmv, false},
    };
    const ref_complex scalars[2] = {in_alpha ? NAN : 1, in_alpha ? 1 : NAN};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        trp_completion ended = {0};
        trp_blas2_request r = {.type = type,
                               .m = N,
                               .n = N,
                               .a = put_all(type, N * N, 1),
                               .x = put_all(type, N, 1),
                               .y = put_all(type, N, 1)};
        if (all[i].complex_only && !is_complex(type))
            continue;
        if (in_buffer)
            r.scalars = put(type, 2, scalars, 2);
        else if (in_alpha)
            r.alpha = trp_real(NAN), r.beta = trp_real(1);
        else
            r.beta = trp_real(NAN);
        done(all[i].send(blas, &r, &ended), ended);
        expect_nan(all[i].name, type, r.y, N, 1);
    }
}

static void scalars_of_nan_3(trp_dtype type, bool in_alpha)
{
    static const struct {
        const char *name;
        trp_status (*send)(trp_actor *, const trp_blas3_request *, trp_completion *);
        bool complex_only, triangle, two, has_beta, in_b;
    } all[] = {
        {"symm", trp_symm, false, false, true, true, false},
        {"hemm", trp_hemm, true, false, true, true, false},
        {"syrk", trp_syrk, false, true, false, true, false},
        {"herk", trp_herk, true, true, false, true, false},
        {"syr2k", trp_syr2k, false, true, true, true, false},
        {"her2k", trp_her2k, true, true, true, true, false},
        {"geam", trp_geam, false, false, true, true, false},
        {"trmm", trp_trmm, false, false, true, false, true},
        {"trsm", trp_trsm, false, false, true, false, true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        trp_completion ended = {0};
        trp_blas3_request r = {.type = type,
                               .m = N,
                               .n = N,
                               .k = N,
                               .alpha = trp_real(in_alpha ? NAN : 1),
                               .a = put_all(type, N * N, 1)};
        if ((all[i].complex_only && !is_complex(type)) || (!all[i].has_beta && !in_alpha))
            continue;
        if (all[i].has_beta)
            r.beta = trp_real(in_alpha ? 1 : NAN);
        if (all[i].two)
            r.b = put_all(type, N * N, 1);
        if (!all[i].in_b)
            r.c = put_all(type, N * N, 1);
        done(all[i].send(blas, &r, &ended), ended);
        /* Of a triangle the diagonal is looked at. */
        expect_nan(all[i].name, type, all[i].in_b ? r.b : r.c, N * N, all[i].triangle ? N + 1 : 1);
    }
}

static void scalars_of_nan(void)
{
    begin();
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 4; i++)
            scalars_of_nan_2(types[t], i & 1, i & 2);
        for (int i = 0; i < 2; i++) {
            trp_completion ended = {0};
            trp_gemm_request r = {.type = types[t],
                                  .m = N,
                                  .n = N,
                                  .k = K,
                                  .alpha = trp_real(i ? NAN : 1),
                                  .beta = trp_real(i ? 1 : NAN),
                                  .a = put_all(types[t], N * K, 1),
                                  .b = put_all(types[t], N * K, 1),
                                  .c = put_all(types[t], N * N, 1)};
            done(trp_gemm(blas, &r, &ended), ended);
            expect_nan("gemm", types[t], r.c, N * N, 1);
            scalars_of_nan_3(types[t], i);
        }
    }
    h_close(&world);
}

/* The ends of cuBLAS's own range are its own. */
static bool library_decides(void)
{
    if (h_is_gpu())
        printf("not judged on a GPU: the library's own\n");
    return h_is_gpu();
}

/* Of numbers whose squares a type does not hold, but r. */
static void rotations(void)
{
    begin();
    for (int t = 0; t < 4 && !library_decides(); t++) {
        const bool wide = ref_blas_real(types[t]) == TRP_F64, both = is_complex(types[t]);
        const double large = wide ? 4e307 : 4e37, small = wide ? 3e-308 : 2e-38,
                     bound = wide ? 1e-14 : 1e-6;
        const ref_complex numbers[][2] = {{large, large},
                                          {large, -small},
                                          {-small, large},
                                          {small, small},
                                          {3, 4},
                                          {-4, 3},
                                          {0, 5},
                                          {-5, 0},
                                          {pair(3, 4), large},
                                          {small, pair(3, 4)},
                                          {pair(large, large), pair(-large, large)},
                                          {pair(small, -small), pair(small, small)}};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            const ref_complex a = both ? numbers[i][0] : creal(numbers[i][0]),
                              b = both ? numbers[i][1] : creal(numbers[i][1]);
            const double size = hypot(cabs(a), cabs(b));
            ref_complex r, z, cs[2];
            trp_completion ended = {0};
            trp_blas1_request q = {.type = types[t],
                                   .x = put_all(types[t], 1, a),
                                   .y = put_all(types[t], 1, b),
                                   .result = put_all(types[t], 2, 0)};
            done(trp_rotg(blas, &q, &ended), ended);
            get(types[t], q.x, 1, &r);
            get(types[t], q.y, 1, &z);
            get(types[t], q.result, 2, cs);
            const ref_complex unit = pair(creal(a) / size, cimag(a) / size), s = cs[1],
                              other = pair(creal(b) / size, cimag(b) / size),
                              zero = creal(cs[0]) * other - conj(s) * unit;
            if (!same(cabs(r), size, bound) ||
                !(fabs(fabs(creal(cs[0])) - cabs(a) / size) <= bound) ||
                !(fabs(cabs(s) - cabs(b) / size) <= bound) || !(cabs(zero) <= bound))
                h_fail(__FILE__, __LINE__,
                       "rotg, %s, of %g%+gi and %g%+gi: got r %g%+gi, c %g, s %g%+gi",
                       trp_dtype_name(types[t]), creal(a), cimag(a), creal(b), cimag(b), creal(r),
                       cimag(r), creal(cs[0]), creal(s), cimag(s));
            if (!both && fabs(creal(a)) > fabs(creal(b)))
                H_CHECK(fabs(creal(z) - creal(s)) <= bound);
            else if (!both && fabs(creal(cs[0])) > bound)
                H_CHECK(same(creal(z), 1 / creal(cs[0]), 4 * bound));
        }
    }
    h_close(&world);
}

/* A diagonal whose reciprocal no element can hold, and all ways to look at it: x' = 1, 2, 3, ...
 * where A has d on its diagonal and off it, and x is what that gives. */
static void extreme_diagonals_of(trp_dtype type, ref_complex d, int options, bool vector)
{
    const bool lower = options & 1, right = options & 8;
    const trp_transpose trans = (trp_transpose)(options >> 1 & 3);
    const bool solves_lower = (lower != (trans != TRP_N)) != right;
    const ref_complex as_is = trans == TRP_C && is_complex(type) ? conj(d) : d;
    ref_complex a[N * N], b[N * N], want[N * N];
    trp_completion ended = {0};
    for (int e = 0; e < N * N; e++) {
        const int row = e % N, column = e / N;
        a[e] = (lower ? row >= column : row <= column) ? d : NAN;
    }
    for (int line = 0; line < N; line++) {
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = solves_lower ? 0 : i; j < (solves_lower ? i + 1 : N); j++)
                sum += j + 1;
            b[right ? line + i * N : i + line * N] = pair(sum * creal(as_is), sum * cimag(as_is));
            want[right ? line + i * N : i + line * N] = i + 1;
        }
    }
    if (vector) {
        trp_blas2_request r = {.type = type,
                               .uplo = lower ? TRP_LOWER : TRP_UPPER,
                               .trans = trans,
                               .n = N,
                               .a = put(type, N * N, a, N * N),
                               .x = put(type, N, b, N)};
        done(trp_trsv(blas, &r, &ended), ended);
        expect("trsv", type, r.x, N, want, 1e-5);
        return;
    }
    trp_blas3_request r = {.type = type,
                           .side = right ? TRP_RIGHT : TRP_LEFT,
                           .uplo = lower ? TRP_LOWER : TRP_UPPER,
                           .trans = trans,
                           .m = N,
                           .n = N,
                           .a = put(type, N * N, a, N * N),
                           .b = put(type, N * N, b, N * N)};
    done(trp_trsm(blas, &r, &ended), ended);
    expect("trsm", type, r.b, N * N, want, 1e-5);
}

/* The same of a band: one diagonal beside the main one, all of d. */
static void extreme_band_of(trp_dtype type, ref_complex d, int options)
{
    const bool lower = options & 1;
    const trp_transpose trans = (trp_transpose)(options >> 1);
    const bool from_before = lower != (trans != TRP_N);
    const ref_complex as_is = trans == TRP_C && is_complex(type) ? conj(d) : d;
    ref_complex b[N], want[N];
    trp_completion ended = {0};
    for (int i = 0; i < N; i++) {
        const int other = from_before ? i : i + 2 <= N ? i + 2 : 0; /* x' beside x'_i */
        b[i] = pair((i + 1 + other) * creal(as_is), (i + 1 + other) * cimag(as_is));
        want[i] = i + 1;
    }
    trp_blas2_request r = {.type = type,
                           .uplo = lower ? TRP_LOWER : TRP_UPPER,
                           .trans = trans,
                           .n = N,
                           .kl = 1,
                           .a = put_all(type, 2 * N, d),
                           .x = put(type, N, b, N)};
    done(trp_tbsv(blas, &r, &ended), ended);
    expect("tbsv", type, r.x, N, want, 1e-5);
}

/* The same of a packed triangle, all of d: x' is 1, 2, ... again. */
static void extreme_packed_of(trp_dtype type, ref_complex d, int options)
{
    const bool lower = options & 1;
    const trp_transpose trans = (trp_transpose)(options >> 1);
    const bool from_before = lower != (trans != TRP_N);
    const ref_complex as_is = trans == TRP_C && is_complex(type) ? conj(d) : d;
    ref_complex b[N], want[N];
    trp_completion ended = {0};
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int k = from_before ? 0 : i; k < (from_before ? i + 1 : N); k++)
            sum += k + 1;
        b[i] = pair(sum * creal(as_is), sum * cimag(as_is));
        want[i] = i + 1;
    }
    for (int rows = 0; rows < 2; rows++) {
        trp_blas2_request r = {.type = type,
                               .order = rows ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .uplo = lower ? TRP_LOWER : TRP_UPPER,
                               .trans = trans,
                               .n = N,
                               .a = put_all(type, N * (N + 1) / 2, d),
                               .x = put(type, N, b, N)};
        done(trp_tpsv(blas, &r, &ended), ended);
        expect("tpsv", type, r.x, N, want, 1e-5);
    }
}

static void extreme_diagonals(void)
{
    begin();
    for (int t = 0; t < 4 && !library_decides(); t++) {
        const bool wide = ref_blas_real(types[t]) == TRP_F64;
        /* 2^-e, so that sums are exact. */
        const double small = wide ? 0x1p-1040 : 0x1p-135, large = wide ? 0x1p1019 : 0x1p123;
        for (int i = 0; i < 16; i++) {
            if ((i >> 1 & 3) == 3)
                continue;
            extreme_diagonals_of(types[t], small, i, false);
            extreme_diagonals_of(types[t], large, i, false);
            extreme_diagonals_of(types[t], pair(small, small), i, false);
            extreme_diagonals_of(types[t], pair(small, -large / 2), i, false);
            if (i >= 8)
                continue;
            extreme_diagonals_of(types[t], pair(small, 2 * small), i, true);
            extreme_band_of(types[t], pair(small, 2 * small), i);
            extreme_band_of(types[t], pair(large, large / 2), i);
            extreme_packed_of(types[t], pair(small, 2 * small), i);
            extreme_packed_of(types[t], pair(large, large / 2), i);
        }
    }
    h_close(&world);
}

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* More systems than there are addresses to write down at a time, some of them in one request: each
 * is a x = b with a matrix of one element, or with one for all of two. */
static void many_systems(void)
{
    enum { MOST = 70000, REQUESTS = 6 };
    static float a[MOST], x[MOST], got[MOST];
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < MOST; i++) {
        a[i] = (float)(1 << below(5));
        x[i] = (float)below(1000);
    }
    trp_buffer at_a = h_buffer(world.device, sizeof a), at_x = h_buffer(world.device, sizeof x);
    h_write(world.device, at_a, 0, a, sizeof a);
    h_write(world.device, at_x, 0, x, sizeof x);
    trp_blas3_request r = {.header = {.wait_ns = H_LONG}, .type = TRP_F32, .a = at_a, .b = at_x};
    for (int i = 0; i < REQUESTS; i++) {
        bool shared = below(2);
        int64_t batch = i == 0 ? MOST : 1 + (int64_t)below(MOST);
        r.m = 1;
        r.n = 1;
        r.a_stride = shared ? 0 : 1;
        r.b_stride = 1;
        r.batch = batch;
        r.alpha = trp_real(i % 2 ? 0.5 : 4);
        H_OK(trp_trsm(blas, &r, NULL));
        for (int64_t k = 0; k < batch; k++)
            x[k] = x[k] * (i % 2 ? 0.5f : 4) / a[shared ? 0 : k];
    }
    h_read(world.device, at_x, 0, got, sizeof got);
    H_SAME(got, x, sizeof got);
    h_close(&world);
}

H_CASES(H_CASE(hermitian_updates_of_nothing), H_CASE(scaling), H_CASE(scalars_of_nan),
        H_CASE(rotations), H_CASE(extreme_diagonals), H_CASE(many_systems))
