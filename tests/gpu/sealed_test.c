/* Sealed buffers on a GPU: the hardware keeps kernels from writing to them, in every worker; work
 * that reads one goes on while it is sealed and unsealed. Prints how long that takes; time decides
 * nothing. */
#include "support/gpu.h"

#include <stdatomic.h>

static trp_status write_input(trp_actor *probe, trp_buffer input, trp_error *error)
{
    trp_completion c = {0};
    H_OK(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_WRITE_SEALED, .inputs = {input}},
                   &c));
    return h_await(c.future, error);
}

static double milliseconds(int64_t since)
{
    return (double)(h_now() - since) / (double)H_MS;
}

/* A gigabyte, sealed; a kernel that writes to it faults, in the first worker, in the standby that
 * takes over, in those that start later; nothing has changed. */
static void kernel_write_faults(void)
{
    enum { FAULTS = 6 };
    const uint64_t bytes = 1024 * H_MIB;
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, bytes), plain = h_buffer(d, 4096);
    void *host = NULL;
    H_OK(trp_host_alloc(d, bytes, &host));
    h_random_bytes(h_rng(), host, bytes);
    uint64_t hash = h_hash(host, bytes);
    h_write(d, s, 0, host, bytes);
    h_await_standby(d);
    int64_t start = h_now();
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    printf("  sealing 1 GiB in two workers: %.2f ms\n", milliseconds(start));
    for (int i = 0; i < FAULTS; i++) {
        trp_error error;
        uint32_t incarnation = h_info(d).incarnation;
        if (i % 2)
            h_await_standby(d);
        H_IS(write_input(probe, s, &error), TRP_E_FAULT);
        H_EQUAL(error.fault, TRP_FAULT_GPU);
        H_EQUAL(error.incarnation, incarnation);
        printf("  %s\n", error.message);
        trp_buffer_info info = h_buffer_info(d, s);
        H_CHECK(info.sealed && !info.lost);
        memset(host, 0, bytes);
        h_read(d, s, 0, host, bytes);
        H_EQUAL(h_hash(host, bytes), hash);
        H_IS(trp_fill(d, s, 0, 4, 0, 4, NULL), TRP_E_ARGUMENT);
    }
    H_OK(trp_fill(d, plain, 0, 4096, 1, 4, NULL));
    H_OK(write_input(probe, plain, NULL)); /* what is not sealed is as writable as ever */
    start = h_now();
    H_OK(trp_buffer_unseal(d, s));
    printf("  unsealing: %.2f ms\n", milliseconds(start));
    H_OK(write_input(probe, s, NULL));
    uint64_t word = 0;
    h_read(d, s, 0, &word, 8);
    H_EQUAL(word, 0xdead);
    h_write(d, s, 0, host, 8);
    h_read(d, s, 0, host, bytes);
    H_EQUAL(h_hash(host, bytes), hash);
    H_OK(trp_host_free(d, host));
    h_close(&w);
}

typedef struct reader {
    trp_device *device;
    trp_buffer weights;
    _Atomic bool stop;
    _Atomic uint64_t products;
} reader;

enum { N = 1024 };

/* Products whose inputs lie in the buffer, queued a few deep, so that the GPU is always at one. */
static void *multiply(void *argument)
{
    enum { DEEP = 8 };
    reader *r = argument;
    trp_actor *blas = h_actor(r->device, "blas");
    trp_buffer out = h_buffer(r->device, N * N * 4);
    float *got = h_malloc(N * N * 4);
    while (!atomic_load(&r->stop)) {
        trp_completion c = {0};
        for (int i = 0; i < DEEP; i++) {
            if (c.future.id)
                trp_future_drop(c.future);
            H_OK(trp_gemm(blas,
                          &(trp_gemm_request){.type = TRP_F32,
                                              .m = N,
                                              .n = N,
                                              .k = N,
                                              .a = r->weights,
                                              .b = r->weights,
                                              .c = out},
                          &c));
        }
        H_OK(h_await_any(c));
        atomic_fetch_add(&r->products, DEEP);
        h_read(r->device, out, 0, got, N * N * 4);
        for (int i = 0; i < N * N; i++)
            H_CHECK(got[i] == N);
    }
    free(got);
    return NULL;
}

static void changes_under_readers(void)
{
    enum { CHANGES = 200, READERS = 2 };
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    reader r = {.device = d, .weights = h_sealable(d, 64 * H_MIB)};
    reader bystander = {.device = d, .weights = h_buffer(d, 64 * H_MIB)};
    union {
        float f;
        uint32_t u;
    } one = {.f = 1};
    H_OK(trp_fill(d, r.weights, 0, 64 * H_MIB, one.u, 4, NULL));
    H_OK(trp_fill(d, bystander.weights, 0, 64 * H_MIB, one.u, 4, NULL));
    h_await_standby(d);
    h_thread *other = h_start(multiply, &bystander);
    h_thread *thread[READERS];
    for (int i = 0; i < READERS; i++)
        thread[i] = h_start(multiply, &r);
    while (atomic_load(&r.products) == 0)
        h_sleep(H_MS);
    double seals = 0, unseals = 0;
    for (int i = 0; i < CHANGES; i++) {
        int64_t start = h_now();
        H_OK(trp_buffer_seal(d, r.weights, TRP_FOREVER));
        seals += milliseconds(start);
        start = h_now();
        H_OK(trp_buffer_unseal(d, r.weights));
        unseals += milliseconds(start);
        if (i % 20 == 0) /* writable indeed: the same number again, as a writer among the readers */
            H_OK(trp_fill(d, r.weights, 0, 64 * H_MIB, one.u, 4, NULL));
    }
    H_OK(trp_buffer_seal(d, r.weights, TRP_FOREVER));
    uint64_t before = atomic_load(&r.products);
    while (atomic_load(&r.products) < before + 32)
        h_sleep(H_MS);
    atomic_store(&r.stop, true);
    atomic_store(&bystander.stop, true);
    for (int i = 0; i < READERS; i++)
        h_join(thread[i]);
    h_join(other);
    printf("  %d changes each way under %" PRIu64 " products: %.3f ms a seal, %.3f ms an unseal\n",
           CHANGES, atomic_load(&r.products), seals / CHANGES, unseals / CHANGES);
    H_EQUAL(h_info(d).restarts, 0);
    H_IS(write_input(probe, r.weights, NULL), TRP_E_FAULT);
    h_close(&w);
}

/* The units that the header names. */
static void memory(void)
{
    enum { MANY = 300 };
    h_world w = h_open(NULL);
    static trp_buffer b[MANY];
    int64_t start = h_now();
    for (int i = 0; i < MANY; i++)
        b[i] = h_sealable(w.device, 1);
    printf("  %d sealable buffers: %.3f ms each\n", MANY, milliseconds(start) / MANY);
    H_EQUAL(h_info(w.device).memory_reserved, MANY * 2 * H_MIB);
    H_EQUAL(h_info(w.device).memory_used, MANY * 2 * H_MIB);
    for (int i = 0; i < MANY; i++) {
        H_OK(trp_fill(w.device, b[i], 0, 1, (uint32_t)i & 0xff, 1, NULL));
        if (i % 3 == 0)
            H_OK(trp_buffer_seal(w.device, b[i], TRP_FOREVER));
    }
    for (int i = 0; i < MANY; i++) {
        unsigned char got = 0;
        h_read(w.device, b[i], 0, &got, 1);
        H_EQUAL(got, i & 0xff);
        H_OK(trp_buffer_free(w.device, b[i]));
    }
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).memory_reserved, 0);
    /* The device's own memory is back: a buffer of nearly all of it can be had, twice. */
    H_OK(trp_device_trim(w.device));
    const uint64_t large = h_info(w.device).memory_total / 5 * 3;
    for (int i = 0; i < 2; i++) {
        trp_buffer s = h_sealable(w.device, large);
        H_OK(trp_fill(w.device, s, large - 4, 4, 7, 4, NULL));
        H_OK(trp_buffer_seal(w.device, s, TRP_FOREVER));
        H_OK(trp_buffer_free(w.device, s));
    }
    h_close(&w);
}

static void scope_all(void)
{
    trp_device_options options = h_options();
    options.fault_scope = TRP_FAULT_SCOPE_ALL;
    h_world w = h_open(&options);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, 1 << 20), x = h_buffer(d, 1 << 20);
    static const trp_probe_action actions[] = {TRP_PROBE_ILLEGAL_ADDRESS, TRP_PROBE_MISALIGNED,
                                               TRP_PROBE_TRAP, TRP_PROBE_KILL};
    H_OK(trp_fill(d, s, 0, 1 << 20, 3, 4, NULL));
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        trp_completion c = {0};
        uint32_t word = 0;
        H_OK(trp_fill(d, x, 0, 1 << 20, 4, 4, NULL));
        H_OK(trp_device_drain(d, H_LONG));
        h_probe(probe, actions[i], &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        H_CHECK(h_buffer_info(d, x).lost);
        H_CHECK(!h_buffer_info(d, s).lost);
        H_IS(trp_read(d, x, 0, &word, 4, NULL), TRP_E_LOST);
        h_read(d, s, (1 << 20) - 4, &word, 4);
        H_EQUAL(word, 3);
        H_OK(trp_copy(d, s, 0, x, 0, 1 << 20, NULL));
        h_read(d, x, 0, &word, 4);
        H_EQUAL(word, 3);
    }
    h_close(&w);
}

GPU_CASES(H_CASE(kernel_write_faults), H_CASE(changes_under_readers), H_CASE(memory),
          H_CASE(scope_all))
