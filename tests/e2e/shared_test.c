/* Buffers mapped into the program's address space: requests see the same bytes, a mapping outlives
 * its buffer, and refusals. */
#include "support/harness.h"

#include <fcntl.h>
#include <unistd.h>

TROUPE_TEST_FAKE_GPU("no tsan");

static void need_host(void)
{
    if (h_is_cuda())
        h_skip("memory of a GPU is not mapped");
}

/* Whether a thread may write there: the kernel says so without a signal. */
static bool is_writable(void *memory)
{
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char *at = memory;
    char old = *at;
    bool writable = read(zero, at, 1) == 1;
    close(zero);
    if (writable)
        *at = old;
    return writable;
}

static void *map(trp_device *d, trp_buffer b)
{
    void *at = NULL;
    H_OK(trp_buffer_map(d, b, &at));
    H_CHECK(at);
    return at;
}

/* What requests write is seen, and what is written is seen by requests; buffers of every size, many
 * at a time. */
static void bytes(void)
{
    enum { COUNT = 40, ROUNDS = 6 };
    need_host();
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer b[COUNT];
    uint64_t size[COUNT];
    char *at[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size[i] = h_random_size(h_rng(), i % 10 == 0 ? 20 * H_MIB : 100 * H_KIB);
        b[i] = i % 7 == 3 ? h_sealable(d, size[i]) : h_buffer(d, size[i]);
        at[i] = map(d, b[i]);
        H_EQUAL((uintptr_t)at[i] % 256, 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            void *data = h_random_block(h_rng(), size[i]);
            h_write(d, b[i], 0, data, size[i]);
            H_SAME(at[i], data, size[i]);
            free(data);
        }
        for (int i = 0; i < COUNT; i++) {
            void *got = h_malloc(size[i]);
            h_random_bytes(h_rng(), at[i], size[i]);
            h_read(d, b[i], 0, got, size[i]);
            H_SAME(got, at[i], size[i]);
            free(got);
        }
        /* From one to the other on the device. */
        int from = (int)ref_rng_below(h_rng(), COUNT), to = (from + 1) % COUNT;
        uint64_t least = size[from] < size[to] ? size[from] : size[to];
        H_OK(trp_copy(d, b[from], 0, b[to], 0, least, NULL));
        H_OK(trp_device_drain(d, TRP_FOREVER));
        H_SAME(at[to], at[from], least);
        /* A second mapping is the same bytes. */
        char *again = map(d, b[to]);
        H_SAME(again, at[to], size[to]);
        H_OK(trp_buffer_unmap(d, b[to], again));
    }
    for (int i = 0; i < COUNT; i++) {
        H_OK(trp_buffer_unmap(d, b[i], at[i]));
        H_IS(trp_buffer_unmap(d, b[i], at[i]), TRP_E_STALE);
        H_SAYS("memory");
        H_OK(trp_buffer_free(d, b[i]));
    }
    h_close(&w);
}

/* The rule of order, many times over: awaited, then touched, then sent. */
static void order(void)
{
    enum { N = 64, ROUNDS = 300 };
    need_host();
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *blas = h_actor(d, "blas");
    trp_buffer a = h_buffer(d, N * N * 4), b = h_buffer(d, N * N * 4), c = h_buffer(d, N * N * 4);
    float *x = map(d, a), *y = map(d, b), *z = map(d, c);
    memset(y, 0, N * N * 4);
    for (int i = 0; i < N; i++)
        y[i * N + i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N * N; i++)
            x[i] = (float)ref_rng_below(h_rng(), 1000);
        trp_gemm_request g = {.type = TRP_F32, .m = N, .n = N, .k = N, .a = a, .b = b, .c = c};
        trp_completion done = {0};
        H_OK(trp_gemm(blas, &g, &done));
        H_OK(h_await_any(done));
        H_SAME(z, x, N * N * 4);
    }
    H_OK(trp_buffer_unmap(d, a, x));
    H_OK(trp_buffer_unmap(d, b, y));
    H_OK(trp_buffer_unmap(d, c, z));
    h_close(&w);
}

static void sealing(void)
{
    need_host();
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer s = h_sealable(d, 10000);
    char *rw = map(d, s);
    H_CHECK(is_writable(rw));
    memset(rw, 7, 10000);
    H_IS(trp_buffer_seal(d, s, TRP_FOREVER), TRP_E_BUSY);
    H_SAYS("mapped");
    H_CHECK(!h_buffer_info(d, s).sealed);
    h_write(d, s, 5, "x", 1); /* it is as before */
    H_OK(trp_buffer_unmap(d, s, rw));
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));

    char *ro = map(d, s), *second = map(d, s);
    H_CHECK(!is_writable(ro) && !is_writable(second));
    H_EQUAL(ro[4], 7);
    H_EQUAL(ro[5], 'x');
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    H_OK(trp_buffer_unseal(d, s)); /* a mapping that reads does not stand in its way */
    H_CHECK(!is_writable(ro));
    rw = map(d, s);
    H_CHECK(is_writable(rw));
    rw[4] = 9;
    H_EQUAL(ro[4], 9);
    H_OK(trp_buffer_unmap(d, s, ro));
    H_OK(trp_buffer_unmap(d, s, second));
    H_IS(trp_buffer_unmap(d, s, ro), TRP_E_STALE);
    H_OK(trp_buffer_unmap(d, s, rw));
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    h_close(&w);
}

static void lifetime(void)
{
    enum { BYTES = 100000, OTHERS = 50 };
    need_host();
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer b = h_buffer(d, BYTES), others[OTHERS];
    uint64_t used = h_info(d).memory_used;
    char *at = map(d, b), *expected = h_random_block(h_rng(), BYTES);
    memcpy(at, expected, BYTES);
    H_OK(trp_buffer_free(d, b));
    H_IS(trp_write(d, b, 0, at, 1, NULL), TRP_E_STALE);
    void *none = NULL;
    H_IS(trp_buffer_map(d, b, &none), TRP_E_STALE);
    H_EQUAL(h_info(d).memory_used, used); /* nobody else gets the bytes */
    for (int i = 0; i < OTHERS; i++) {
        others[i] = h_buffer(d, BYTES);
        h_fill(d, others[i], 0x5a5a5a5a);
    }
    H_SAME(at, expected, BYTES);
    H_IS(trp_buffer_unmap(d, b, at + 1), TRP_E_STALE);
    H_IS(trp_buffer_unmap(d, others[0], at), TRP_E_STALE);
    H_OK(trp_buffer_unmap(d, b, at));
    H_IS(trp_buffer_unmap(d, b, at), TRP_E_STALE);
    for (int i = 0; i < OTHERS; i++)
        H_OK(trp_buffer_free(d, others[i]));
    H_EQUAL(h_info(d).memory_used, 0);
    H_OK(trp_device_trim(d));
    H_EQUAL(h_info(d).memory_reserved, 0);

    /* A sealable one, whose memory goes back with the mapping. */
    trp_buffer s = h_sealable(d, BYTES);
    at = map(d, s);
    H_OK(trp_buffer_free(d, s));
    at[BYTES - 1] = 1;
    H_CHECK(h_info(d).memory_reserved > 0);
    H_OK(trp_buffer_unmap(d, s, at));
    H_EQUAL(h_info(d).memory_reserved, 0);

    /* Left to the closing of the device. */
    b = h_buffer(d, BYTES);
    at = map(d, b);
    trp_device_close(d);
    H_IS(trp_buffer_unmap(d, b, at), TRP_E_STALE);
    H_IS(trp_buffer_map(d, b, &none), TRP_E_STALE);
    trp_exported_buffer out;
    H_IS(trp_buffer_export(d, b, &out), TRP_E_STALE);
    H_OK(trp_system_destroy(w.system));
    free(expected);
}

static void refused(void)
{
    h_world w = h_open(NULL), other = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer b = h_buffer(d, 4096), far = h_buffer(other.device, 4096);
    void *at = &w;
    trp_exported_buffer out;
    memset(&out, 0x33, sizeof out);
    H_IS(trp_buffer_export(NULL, b, &out), TRP_E_ARGUMENT);
    H_SAYS("device");
    H_IS(trp_buffer_export(d, b, NULL), TRP_E_ARGUMENT);
    H_SAYS("out");
    H_IS(trp_buffer_export(d, far, &out), TRP_E_STALE);
    H_SAYS("another device");
    H_IS(trp_buffer_export(d, (trp_buffer){0}, &out), TRP_E_STALE);
    H_IS(trp_buffer_export(d, (trp_buffer){b.id + (UINT64_C(1) << 32)}, &out), TRP_E_STALE);
    H_IS(trp_buffer_map(NULL, b, &at), TRP_E_ARGUMENT);
    H_IS(trp_buffer_map(d, b, NULL), TRP_E_ARGUMENT);
    H_OK(trp_buffer_unmap(d, b, NULL));
    H_IS(trp_buffer_unmap(d, b, &w), TRP_E_STALE);
    if (h_is_cuda()) {
        H_IS(trp_buffer_map(d, b, &at), TRP_E_UNSUPPORTED);
        H_SAYS("trp_buffer_export()");
        H_SAYS("trp_read()");
    } else {
        H_IS(trp_buffer_map(d, far, &at), TRP_E_STALE);
    }

    /* A failed request should have written it. */
    trp_completion c = {0};
    H_OK(trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR, .outputs = {b}},
                   NULL));
    H_OK(trp_device_drain(d, TRP_FOREVER));
    H_IS(trp_buffer_export(d, b, &out), TRP_E_DEPENDENCY);
    H_SAYS("not written");
    if (!h_is_cuda())
        H_IS(trp_buffer_map(d, b, &at), TRP_E_DEPENDENCY);
    h_fill(d, b, 1);
    H_OK(trp_buffer_export(d, b, &out));
    close(out.fd);

    /* A fault has left it half-written. */
    if (h_isolation() == TRP_ISOLATION_PROCESS) {
        H_OK(trp_probe(
            probe, &(trp_probe_request){.action = TRP_PROBE_SEGV, .inputs = {b}, .outputs = {b}},
            &c));
        H_IS(h_await_any(c), TRP_E_FAULT);
        H_IS(trp_buffer_export(d, b, &out), TRP_E_LOST);
        H_SAYS("half-written");
        if (!h_is_cuda())
            H_IS(trp_buffer_map(d, b, &at), TRP_E_LOST);
        h_fill(d, b, 2);
        H_OK(trp_buffer_export(d, b, &out));
        close(out.fd);
    }
    H_CHECK(at == &w);
    H_OK(trp_buffer_free(d, b));
    H_IS(trp_buffer_export(d, b, &out), TRP_E_STALE);
    h_close(&other);
    h_close(&w);
}

/* The memory is the program's: no death of a worker changes the mapping, and the next worker works
 * on it; nor does the device's going down, after which a program saves what it has. */
static void deaths(void)
{
    enum { BYTES = 300000 };
    need_host();
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("the worker is a thread");
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer b = h_buffer(d, BYTES);
    char *at = map(d, b);
    for (uint32_t round = 0; round < 4; round++) {
        trp_completion c = {0};
        char *expected = h_random_block(h_rng(), BYTES), *got = h_malloc(BYTES);
        memcpy(at, expected, BYTES);
        h_probe(probe, TRP_PROBE_SEGV, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        H_SAME(at, expected, BYTES);
        h_read(d, b, 0, got, BYTES);
        H_SAME(got, expected, BYTES);
        h_fill(d, b, 0x01010101 * (round + 1));
        H_EQUAL(at[BYTES - 1], round + 1);
        free(expected);
        free(got);
    }
    trp_completion c = {0};
    h_probe(probe, TRP_PROBE_DEVICE_GONE, &c);
    H_CHECK(h_await_any(c) != TRP_OK);
    h_await_state(d, TRP_DEVICE_DOWN);
    H_EQUAL(at[0], 4);
    char *again = map(d, b);
    H_EQUAL(again[BYTES - 1], 4);
    H_OK(trp_buffer_unmap(d, b, again));
    trp_exported_buffer out;
    H_OK(trp_buffer_export(d, b, &out));
    H_EQUAL(out.wait_count, 0);
    H_EQUAL(out.timeline_fd, -1);
    close(out.fd);
    H_OK(trp_buffer_unmap(d, b, at));
    h_close(&w);
}

/* Threads that map, seal and unseal one buffer, and others that map in the same memory. */
typedef struct crowd {
    trp_device *device;
    trp_buffer sealable, plain;
    ref_rng rng;
} crowd;

static void *in_crowd(void *argument)
{
    crowd *c = argument;
    for (int i = 0; i < 300; i++) {
        void *at = NULL;
        trp_buffer b = ref_rng_below(&c->rng, 2) ? c->sealable : c->plain;
        trp_status status = TRP_OK;
        switch (ref_rng_below(&c->rng, 4)) {
        case 0:
            status = trp_buffer_seal(c->device, c->sealable, TRP_FOREVER);
            H_CHECK(status == TRP_OK || status == TRP_E_BUSY);
            break;
        case 1:
            H_OK(trp_buffer_unseal(c->device, c->sealable));
            break;
        default:
            H_OK(trp_buffer_map(c->device, b, &at));
            H_EQUAL(*(volatile char *)at, 3);
            H_OK(trp_buffer_unmap(c->device, b, at));
        }
    }
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 6 };
    need_host();
    h_world w = h_open(NULL);
    const trp_buffer sealable = h_sealable(w.device, 5000), plain = h_buffer(w.device, 5000);
    h_fill(w.device, sealable, 0x03030303);
    h_fill(w.device, plain, 0x03030303);
    crowd c[THREADS];
    h_thread *t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] =
            (crowd){.device = w.device, .sealable = sealable, .plain = plain, .rng = h_rng_fork()};
        t[i] = h_start(in_crowd, &c[i]);
    }
    for (int i = 0; i < THREADS; i++)
        h_join(t[i]);
    H_OK(trp_buffer_free(w.device, sealable));
    H_OK(trp_buffer_free(w.device, plain));
    H_EQUAL(h_info(w.device).memory_used, 0);
    h_close(&w);
}

H_CASES(H_CASE(bytes), H_CASE(order), H_CASE(sealing), H_CASE(lifetime), H_CASE(refused),
        H_CASE(deaths), H_CASE(threads))
