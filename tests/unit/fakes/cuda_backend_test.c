/* The CUDA backend and its actors by themselves, without a worker: memory of the application mapped
 * and used, streams ordered by words, products of cuBLAS against float64, and at last a fault that
 * health() must tell. Skipped where there is no GPU. */
#include "support/unit.h"

#include "actors/blas/blas.h"
#include "actors/blas/blas_wire.h"
#include "actors/probe/probe.h"
#include "actors/probe/probe_wire.h"
#include "backend/cuda/cuda_backend.h"
#include "base/os/clock.h"
#include "base/os/shm.h"
#include "driver/device_memory.h"
#include "support/reference/reference.h"
#include "support/faults/sleeper.h"
#include "worker/actor.h"
#include "support/label.h"

#include <troupe/troupe.h>

#include <unistd.h>

TROUPE_TEST_FAKE_GPU("FAKE_CUDA_ADDRESS_SHIFT=0x100000000000", "FAKE_CUDA_REPORT_MS=20");

static const trp__backend *const backend = &trp__cuda_backend;

enum { HOST_BYTES = 8 << 20, WORDS = 64 };

static trp__accel *accel;
static trp__stream *stream;
static unsigned char *device; /* an arena of `arena_bytes` */
static uint64_t arena_bytes, handle;
static unsigned char *host; /* registered; begins with words for signals */
static int host_fd = -1;

#define OK(call)                                                                                   \
    do {                                                                                           \
        trp_error error_ = {0};                                                                    \
        trp_error *error = &error_;                                                                \
        if ((call) != TRP_OK)                                                                      \
            fail_msg("%s: %s", #call, error->message);                                             \
    } while (0)

static _Atomic uint64_t *word(int index)
{
    return (_Atomic uint64_t *)(void *)(host + 8 * index);
}

static void wait_until(const _Atomic uint64_t *at, uint64_t value)
{
    int64_t end = trp__now_ns() + 20 * TRP__SECOND;
    while (atomic_load(at) < value) {
        if (trp__now_ns() > end)
            fail_msg("the word is %llu and does not become %llu",
                     (unsigned long long)atomic_load(at), (unsigned long long)value);
        trp__relax();
    }
}

static void finish(trp__stream *s)
{
    static uint64_t value;
    OK(backend->stream_signal(s, word(0), ++value, error));
    wait_until(word(0), value);
}

static void devices(void **state)
{
    (void)state;
    trp__cuda_device_info info;
    trp_error error;
    uint32_t count = 0;
    assert_int_equal(trp__cuda_device_count(&count, NULL), TRP_OK);
    assert_true(count >= 1);
    assert_int_equal(trp__cuda_device_describe(0, &info, NULL), TRP_OK);
    assert_true(info.name[0] != '\0' && info.compute_major >= 8 && info.processors > 0 &&
                info.memory_total > UINT64_C(1) << 30);
    assert_int_equal(trp__cuda_device_describe(count, &info, &error), TRP_E_MISSING);
    assert_int_equal(trp__cuda_device_check(0, NULL), TRP_OK);
    assert_int_equal(trp__cuda_error(&error, TRP__CU_ILLEGAL_ADDRESS, "a call"), TRP_E_FAULT);
    assert_int_equal(error.fault, TRP_FAULT_GPU);
    assert_non_null(strstr(error.message, "CUDA_ERROR_ILLEGAL_ADDRESS (700): "));
    assert_non_null(strstr(error.message, ", in a call"));
}

static void copies_and_fills(void **state)
{
    (void)state;
    unsigned char *back = host + 4096;
    unsigned char *from = host + 8192;
    for (int i = 0; i < 1000; i++)
        from[i] = (unsigned char)(i * 7);
    OK(backend->stream_copy(stream, device + 3, from, 1000, error));
    OK(backend->stream_copy(stream, device + 5001, device + 3, 1000, error));
    OK(backend->stream_fill(stream, device + 5001, 0x12345678 & 0xff, 1, 3, error));
    OK(backend->stream_fill(stream, device + 5004, 0xabcd, 2, 2, error));
    OK(backend->stream_fill(stream, device + 5008, 0x89abcdef, 4, 1, error));
    OK(backend->stream_copy(stream, back, device + 5001, 1000, error));
    finish(stream);
    const unsigned char expected[] = {0x78, 0x78, 0x78, 0xcd, 0xab, 0xcd,
                                      0xab, 0xef, 0xcd, 0xab, 0x89};
    assert_memory_equal(back, expected, sizeof expected);
    assert_memory_equal(back + 11, from + 11, 1000 - 11);
    /* To the arena's last byte. */
    OK(backend->stream_fill(stream, device + arena_bytes - 1, 0x5a, 1, 1, error));
    OK(backend->stream_copy(stream, back, device + arena_bytes - 1, 1, error));
    finish(stream);
    assert_int_equal(back[0], 0x5a);
}

/* Rows at a pitch: in, across, and out again; what lies between them stays. A pitch that the driver
 * does not take is taken a row at a time. */
static void rows(void **state)
{
    (void)state;
    unsigned char *back = host + 4096;
    unsigned char *from = host + 8192;
    for (int i = 0; i < 1000; i++)
        from[i] = (unsigned char)(i * 11);
    OK(backend->stream_fill(stream, device, 0xee, 1, 8192, error));
    OK(backend->stream_copy_rows(stream, device + 5, 33, from, 20, 7, 30, error));
    OK(backend->stream_copy_rows(stream, device + 4096, 7, device + 5, 33, 7, 30, error));
    OK(backend->stream_copy_rows(stream, back, 9, device + 4096, 7, 7, 30, error));
    OK(backend->stream_copy_rows(stream, back + 500, (uint64_t)INT32_MAX + 1, from, 1, 1, 1,
                                 error));
    OK(backend->stream_copy(stream, back + 600, device, 200, error));
    finish(stream);
    for (int i = 0; i < 30; i++)
        assert_memory_equal(back + i * 9, from + i * 20, 7);
    for (int i = 0; i < 200; i++) {
        int in_row = i >= 5 ? (i - 5) % 33 : 33;
        assert_int_equal(back[600 + i], in_row < 7 ? from[(i - 5) / 33 * 20 + in_row] : 0xee);
    }
    assert_int_equal(back[500], from[0]);
}

/* The memory is the application's: another mapping of it shows the same bytes. */
static void second_mapping(void **state)
{
    (void)state;
    void *base = NULL;
    uint64_t other;
    int fd = -1;
    OK(trp__cuda_memory_create(0, arena_bytes, &other, &fd, error));
    OK(backend->arena_map(accel, fd, arena_bytes, false, &base, error));
    OK(backend->stream_fill(stream, base, 0x77, 1, 64, error));
    finish(stream);
    backend->arena_unmap(accel, base, arena_bytes);
    OK(backend->arena_map(accel, fd, arena_bytes, false, &base, error));
    close(fd);
    trp__cuda_memory_release(other);
    OK(backend->stream_copy(stream, host + 4096, base, 64, error));
    finish(stream);
    assert_int_equal(host[4096 + 63], 0x77);
    backend->arena_unmap(accel, base, arena_bytes);
}

/* What is read-only can be read; made writable, written; and its content stays. That a write faults
 * is for tests/gpu, since it ends the context. */
static void read_only_mapping(void **state)
{
    (void)state;
    void *base = NULL;
    uint64_t other;
    int fd = -1;
    OK(trp__cuda_memory_create(0, arena_bytes, &other, &fd, error));
    OK(backend->arena_map(accel, fd, arena_bytes, true, &base, error));
    for (int i = 1; i < 20; i++) {
        OK(backend->arena_protect(accel, base, arena_bytes, false, error));
        OK(backend->stream_fill(stream, base, (uint32_t)i, 1, arena_bytes, error));
        finish(stream);
        OK(backend->arena_protect(accel, base, arena_bytes, true, error));
        OK(backend->stream_copy(stream, host + 4096, base, 64, error));
        OK(backend->stream_copy(stream, host + 8192, (char *)base + arena_bytes - 64, 64, error));
        finish(stream);
        assert_int_equal(host[4096], i);
        assert_int_equal(host[8192 + 63], i);
    }
    OK(backend->health(accel, error));
    backend->arena_unmap(accel, base, arena_bytes);
    close(fd);
    trp__cuda_memory_release(other);
}

static void streams_wait_for_each_other(void **state)
{
    enum { ROUNDS = 200 };
    (void)state;
    trp__stream *other = NULL;
    OK(backend->stream_create(accel, &other, error));
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        OK(backend->stream_signal(stream, word(1), i, error));
        OK(backend->stream_wait(other, word(1), i, error));
        OK(backend->stream_signal(other, word(2), i, error));
        OK(backend->stream_wait(stream, word(2), i, error));
    }
    finish(stream);
    assert_int_equal(atomic_load(word(1)), ROUNDS);
    assert_int_equal(atomic_load(word(2)), ROUNDS);
    OK(backend->health(accel, error));
    backend->stream_destroy(other);
}

/* A sleeper on a futex is woken by the stream, and not before the work in front is done. */
static void a_futex_is_woken(void **state)
{
    static h_sleeper s;
    (void)state;
    trp__stream *other = NULL;
    OK(backend->stream_create(accel, &other, error));
    atomic_store(word(3), 0);
    h_sleeper_start(&s);
    OK(backend->stream_wait(other, word(3), 1, error));
    OK(backend->stream_wake(other, &s.word, error));
    assert_int_equal(backend->stream_wake(other, &s.word, NULL), TRP__AGAIN);
    trp__sleep_ns(5 * TRP__MS);
    assert_false(atomic_load(&s.awake));
    atomic_store(word(3), 1);
    while (!atomic_load(&s.awake)) { /* it may not have slept yet when it was woken */
        trp_status status = backend->stream_wake(other, &s.word, NULL);
        assert_true(status == TRP_OK || status == TRP__AGAIN);
        trp__sleep_ns(TRP__MS);
    }
    h_sleeper_join(&s);
    backend->stream_destroy(other);
    OK(backend->health(accel, error));
}

/* Actors. */

static void start(trp__instance *instance, const trp_actor_impl *impl)
{
    *instance = (trp__instance){.impl = impl, .backend = backend, .accel = accel, .stream = stream};
    instance->api.state = calloc(1, impl->state_bytes);
    assert_non_null(instance->api.state);
    trp__instance_begin(instance, TRP_BACKEND_CUDA, 0, 1);
    OK(impl->init(&instance->api, error));
}

static void end(trp__instance *instance)
{
    backend->stream_drain(instance->stream);
    instance->impl->stop(&instance->api);
    free(instance->api.state);
}

/* Buffer i + 1 is the i-th of four equal parts of the arena. */
static trp_status acquire(trp__encoder *encoder, const char *name, trp_buffer buffer,
                          trp__access *access, uint64_t *bytes)
{
    (void)encoder;
    (void)name;
    access->slot = (uint32_t)buffer.id - 1;
    *bytes = arena_bytes / 4;
    return TRP_OK;
}

static trp_status send(trp__instance *instance, const trp__actor_class *class,
                       const trp_request *request, uint32_t op, trp_error *error)
{
    trp__record record = {.op = op};
    trp__encoder encoder = {
        .record = &record, .error = error, .backend = TRP_BACKEND_CUDA, .acquire = acquire};
    trp__job job;
    trp_status status = class->ops[0].encode(&encoder, request);
    trp__job_begin(&job, &record);
    for (uint32_t i = 0; i < record.access_count; i++) {
        job.api.access[i] = (trp_job_access){
            .address = device + record.access[i].slot * (arena_bytes / 4) + record.access[i].offset,
            .guard = device + arena_bytes,
            .bytes = record.access[i].bytes,
            .mode = (trp_access_mode)record.access[i].mode};
    }
    job.api.access_count = record.access_count;
    return status != TRP_OK ? status : instance->impl->handle(&instance->api, &job.api, error);
}

/* A product of packed matrices of up to 128 x 128, in the registered memory's second half. */
static void check_product(trp__instance *blas, ref_rng *rng, trp_dtype type, ref_dtype dtype,
                          trp_compute compute, double alpha, double beta)
{
    size_t size = ref_dtype_size(dtype);
    size_t m = 1 + ref_rng_below(rng, 128), n = 1 + ref_rng_below(rng, 128);
    size_t k = ref_rng_below(rng, 10) ? 1 + ref_rng_below(rng, 128) : 0;
    size_t batch = 1 + ref_rng_below(rng, 3);
    bool ta = ref_rng_below(rng, 2), tb = ref_rng_below(rng, 2);
    size_t a_ld = ta ? k : m, b_ld = tb ? n : k;
    unsigned char *at = host + HOST_BYTES / 2;
    ref_matrix x[3] = {{.dtype = dtype, .ld = a_ld, .stride = m * k},
                       {.dtype = dtype, .ld = b_ld, .stride = k * n},
                       {.dtype = dtype, .ld = m, .stride = m * n}};
    const size_t count[3] = {m * k * batch, k * n * batch, m * n * batch};
    for (int i = 0; i < 3; i++) {
        x[i].data = at;
        ref_fill_uniform(dtype, at, count[i], rng);
        if (i == 2 && beta == 0)
            ref_poison(at, count[i] * size);
        if (count[i] > 0)
            OK(backend->stream_copy(stream, device + (size_t)i * (arena_bytes / 4), at,
                                    count[i] * size, error));
        at += (count[i] * size + 255) / 256 * 256;
    }
    double *expected = calloc(count[2], sizeof *expected);
    assert_non_null(expected);
    ref_gemm_problem problem = {.m = m,
                                .n = n,
                                .k = k,
                                .batch = batch,
                                .transpose_a = ta,
                                .transpose_b = tb,
                                .alpha = alpha,
                                .beta = beta,
                                .a = x[0],
                                .b = x[1],
                                .c = x[2]};
    ref_gemm(&problem, expected);
    trp_gemm_request r = {.type = type,
                          .compute = compute,
                          .trans_a = ta ? TRP_T : TRP_N,
                          .trans_b = tb ? TRP_T : TRP_N,
                          .m = (int64_t)m,
                          .n = (int64_t)n,
                          .k = (int64_t)k,
                          .batch = (int64_t)batch,
                          .a_stride = (int64_t)(m * k),
                          .b_stride = (int64_t)(k * n),
                          .c_stride = (int64_t)(m * n),
                          .alpha = trp_real(alpha),
                          .beta = trp_real(beta),
                          .a = {1},
                          .b = {2},
                          .c = {3}};
    OK(send(blas, &trp__blas_class, &r.header, TRP_OP_GEMM, error));
    OK(backend->stream_copy(stream, (void *)(uintptr_t)x[2].data, device + 2 * (arena_bytes / 4),
                            count[2] * size, error));
    finish(stream);
    double got = ref_relative_error(&x[2], m, n, batch, expected);
    double allowed = ref_gemm_tolerance(dtype, k, compute == TRP_COMPUTE_TF32) *
                     ref_gemm_cancellation(k, alpha, beta, expected, m * n * batch);
    free(expected);
    if (!(got <= allowed))
        fail_msg("%s%s %s%s m %zu n %zu k %zu batch %zu alpha %g beta %g: error %g, allowed %g",
                 ref_dtype_name(dtype), compute ? " tf32" : "", ta ? "T" : "N", tb ? "T" : "N", m,
                 n, k, batch, alpha, beta, got, allowed);
}

static void products(void **state)
{
    static const struct {
        trp_dtype type;
        ref_dtype ref;
        trp_compute compute;
    } types[] = {{TRP_F64, REF_F64, 0},
                 {TRP_F32, REF_F32, 0},
                 {TRP_F32, REF_F32, TRP_COMPUTE_TF32},
                 {TRP_F16, REF_F16, 0},
                 {TRP_BF16, REF_BF16, 0}};
    static const double alphas[] = {1, -0.5, 0}, betas[] = {0, 1, -2};
    (void)state;
    ref_rng rng;
    trp__instance blas;
    ref_rng_init(&rng, ref_seed());
    start(&blas, &trp__blas_cuda);
    for (size_t i = 0; i < 200; i++)
        check_product(&blas, &rng, types[i % 5].type, types[i % 5].ref, types[i % 5].compute,
                      alphas[ref_rng_below(&rng, 3)], betas[ref_rng_below(&rng, 3)]);
    end(&blas);
}

static void harmless_probes(void **state)
{
    (void)state;
    trp__instance probe;
    trp_error told;
    start(&probe, &trp__probe_cuda);
    trp_probe_request r = {.action = TRP_PROBE_NOP};
    assert_int_equal(send(&probe, &trp__probe_class, &r.header, TRP_OP_PROBE, &told), TRP_OK);
    finish(stream);
    r = (trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = 30 * TRP__MS};
    int64_t begun = trp__now_ns();
    assert_int_equal(send(&probe, &trp__probe_class, &r.header, TRP_OP_PROBE, &told), TRP_OK);
    finish(stream);
    int64_t took = trp__now_ns() - begun;
    assert_in_range(took, 29 * TRP__MS, 3 * TRP__SECOND);
    r = (trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR};
    assert_int_equal(send(&probe, &trp__probe_class, &r.header, TRP_OP_PROBE, &told),
                     TRP_E_LIBRARY);
    OK(backend->health(accel, error));
    end(&probe);
}

/* The last test: the context is of no use after it. The guard behind the arena stops the write. */
static void fault_is_reported(void **state)
{
    (void)state;
    trp__instance probe;
    trp_error error = {0};
    start(&probe, &trp__probe_cuda);
    trp_probe_request r = {.action = TRP_PROBE_OUT_OF_BOUNDS, .outputs = {{1}}};
    assert_int_equal(send(&probe, &trp__probe_class, &r.header, TRP_OP_PROBE, &error), TRP_OK);
    int64_t deadline = trp__now_ns() + 20 * TRP__SECOND;
    while (backend->health(accel, &error) == TRP_OK) {
        assert_true(trp__now_ns() < deadline);
        trp__sleep_ns(TRP__MS);
    }
    print_message("%s\n", error.message);
    assert_int_equal(error.status, TRP_E_FAULT);
    assert_int_equal(error.fault, TRP_FAULT_GPU);
    assert_string_equal(error.domain, "cuda");
    assert_int_equal(error.code, TRP__CU_ILLEGAL_ADDRESS);
    assert_int_equal(backend->health(accel, &error), TRP_E_FAULT); /* it is remembered */
}

/* What needs no context, then what does. */
static trp_status set_up(trp_error *error)
{
    void *at = NULL;
    int fd = -1;
    uint64_t granule = 0;
    trp_status status = trp__cuda_memory_granularity(0, &granule, error);
    arena_bytes = granule ? ((UINT64_C(16) << 20) + granule - 1) / granule * granule : 0;
    if (status == TRP_OK)
        status = trp__cuda_memory_create(0, arena_bytes, &handle, &fd, error);
    if (status == TRP_OK)
        status = trp__shm_create("test-host", HOST_BYTES, false, &host_fd, &at, error);
    host = at;
    if (status == TRP_OK)
        status = backend->open(0, &accel, error);
    if (status == TRP_OK)
        status = backend->host_register(accel, host, HOST_BYTES, error);
    if (status == TRP_OK)
        status = backend->arena_map(accel, fd, arena_bytes, false, &at, error);
    device = at;
    if (status == TRP_OK)
        status = backend->stream_create(accel, &stream, error);
    if (fd >= 0)
        close(fd);
    return status;
}

/* No stack is held for kernels of which nothing is known, unless some may come. */
static void stack_of_deep_kernels(void **state)
{
    const trp__cuda *cu;
    size_t least, own, again;
    (void)state;
    OK(trp__cuda_load(&cu, error));
    assert_int_equal(cu->cuCtxGetLimit(&own, TRP__CU_LIMIT_STACK_SIZE), 0);
    backend->expect_deep_kernels(accel, false);
    assert_int_equal(cu->cuCtxGetLimit(&least, TRP__CU_LIMIT_STACK_SIZE), 0);
    assert_true(least < own);
    backend->expect_deep_kernels(accel, true);
    assert_int_equal(cu->cuCtxGetLimit(&again, TRP__CU_LIMIT_STACK_SIZE), 0);
    assert_int_equal(again, own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(devices),           UNIT(copies_and_fills),      UNIT(rows),
        UNIT(read_only_mapping), UNIT(second_mapping),        UNIT(streams_wait_for_each_other),
        UNIT(a_futex_is_woken),  UNIT(stack_of_deep_kernels), UNIT(products),
        UNIT(harmless_probes),   UNIT(fault_is_reported),
    };
    trp_error error = {0};
    uint32_t count;
    if (trp__cuda_device_count(&count, &error) != TRP_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 77;
    }
    if (set_up(&error) != TRP_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    fflush(NULL);
    _exit(result); /* a broken context can't be torn down, only left */
}
