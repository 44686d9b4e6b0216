/* Sealed buffers without any fault: who is refused, who is waited for, who may still read, and
 * that memory and numbers come back. */
#include "support/harness.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNIT_HOST = 64 << 10, UNIT_CUDA = 2 << 20 };

static void check_info(trp_device *device, trp_buffer b, bool is_sealable, bool sealed)
{
    trp_buffer_info info = h_buffer_info(device, b);
    H_EQUAL(info.sealable, is_sealable);
    H_EQUAL(info.sealed, sealed);
    H_CHECK(!info.lost);
}

static void arguments(void)
{
    h_world w = h_open(NULL), other = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer b = {0};
    const trp_buffer_options plain = {.bytes = 1000}, own = {.bytes = 1000, .sealable = true};
    H_IS(trp_buffer_create_with(NULL, &plain, &b), TRP_E_ARGUMENT);
    H_IS(trp_buffer_create_with(d, NULL, &b), TRP_E_ARGUMENT);
    H_SAYS("options");
    H_IS(trp_buffer_create_with(d, &own, NULL), TRP_E_ARGUMENT);
    H_SAYS("out");
    H_IS(trp_buffer_create_with(d, &(trp_buffer_options){.sealable = true}, &b), TRP_E_ARGUMENT);
    H_SAYS("bytes");
    H_IS(trp_buffer_create_with(d, &(trp_buffer_options){.bytes = UINT64_MAX - 5, .sealable = true},
                                &b),
         TRP_E_MEMORY);
    H_EQUAL(h_info(d).memory_reserved, 0);

    H_OK(trp_buffer_create_with(d, &plain, &b));
    check_info(d, b, false, false);
    H_IS(trp_buffer_seal(d, b, TRP_FOREVER), TRP_E_ARGUMENT);
    H_SAYS("sealable");
    H_IS(trp_buffer_unseal(d, b), TRP_E_ARGUMENT);
    H_SAYS("sealable");
    h_write(d, b, 0, "abc", 3);

    trp_buffer s = h_sealable(d, 1000), far = h_sealable(other.device, 1000);
    check_info(d, s, true, false);
    H_IS(trp_buffer_seal(NULL, s, 0), TRP_E_ARGUMENT);
    H_IS(trp_buffer_unseal(NULL, s), TRP_E_ARGUMENT);
    H_IS(trp_buffer_seal(d, (trp_buffer){0}, 0), TRP_E_STALE);
    H_IS(trp_buffer_seal(d, far, 0), TRP_E_STALE);
    H_IS(trp_buffer_unseal(d, far), TRP_E_STALE);
    H_OK(trp_buffer_seal(d, s, 0));
    check_info(d, s, true, true);
    check_info(other.device, far, true, false);
    H_OK(trp_buffer_free(d, s));
    H_IS(trp_buffer_seal(d, s, 0), TRP_E_STALE);
    H_IS(trp_buffer_unseal(d, s), TRP_E_STALE);
    H_IS(trp_buffer_free(d, s), TRP_E_STALE);
    h_close(&other);
    h_close(&w);
}

/* Every request that writes is refused by name; every one that reads works as before. */
static void who_may_what(void)
{
    enum { N = 512, BYTES = N * N * 4 }; /* larger than a small copy */
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe"), *blas = h_actor(d, "blas");
    trp_buffer s = h_sealable(d, BYTES), x = h_buffer(d, BYTES);
    float *data = h_malloc(BYTES), *got = h_malloc(BYTES);
    void *host = NULL;
    H_OK(trp_host_alloc(d, BYTES, &host));
    for (int i = 0; i < N * N; i++)
        data[i] = (float)ref_rng_below(h_rng(), 3);
    h_write(d, s, 0, data, BYTES);
    h_write(d, x, 0, data, BYTES);
    for (int round = 0; round < 3; round++) {
        trp_completion c = {0};
        H_OK(trp_buffer_seal(d, s, 0));
        check_info(d, s, true, true);
        H_OK(trp_buffer_seal(d, s, 0)); /* it is */
        uint64_t sent = h_info(d).requests_submitted;

        H_IS(trp_write(d, s, 0, data, 8, &c), TRP_E_ARGUMENT);
        H_SAYS("buffer: ");
        H_SAYS("sealed");
        H_IS(trp_write(d, s, 0, data, BYTES, &c), TRP_E_ARGUMENT);
        H_IS(trp_write(d, s, 0, host, BYTES, &c), TRP_E_ARGUMENT);
        H_IS(trp_fill(d, s, 0, BYTES, 0, 4, &c), TRP_E_ARGUMENT);
        H_SAYS("buffer: ");
        H_IS(trp_copy(d, x, 0, s, 0, 8, &c), TRP_E_ARGUMENT);
        H_SAYS("target: ");
        H_SAYS("sealed");
        H_IS(trp_copy(d, s, 0, s, 512, 8, &c), TRP_E_ARGUMENT);
        trp_gemm_request g = {.type = TRP_F32, .m = N, .n = N, .k = N, .a = x, .b = x, .c = s};
        H_IS(trp_gemm(blas, &g, &c), TRP_E_ARGUMENT);
        H_SAYS("c: ");
        H_SAYS("sealed");
        H_IS(trp_probe(probe, &(trp_probe_request){.outputs = {x, s}}, &c), TRP_E_ARGUMENT);
        H_SAYS("outputs[1]: ");
        H_EQUAL(h_info(d).requests_submitted, sent);

        memset(got, 0, BYTES);
        h_read(d, s, 0, got, BYTES);
        H_SAME(got, data, BYTES);
        memset(host, 0, BYTES);
        h_read(d, s, 0, host, BYTES);
        H_SAME(host, data, BYTES);
        h_read(d, s, 12, got, 100);
        H_SAME(got, (char *)data + 12, 100);
        H_OK(trp_copy(d, s, 0, x, 0, BYTES, NULL));
        h_read(d, x, 0, got, BYTES);
        H_SAME(got, data, BYTES);
        H_OK(trp_probe(probe, &(trp_probe_request){.inputs = {s, s}, .outputs = {x}}, NULL));
        g = (trp_gemm_request){
            .type = TRP_F32, .m = 1, .n = 1, .k = 2, .a = s, .b = s, .c = x, .lda = N, .ldb = N};
        H_OK(trp_gemm(blas, &g, &c));
        H_OK(h_await_any(c));
        h_read(d, x, 0, got, 4);
        H_CHECK(got[0] == data[0] * data[0] + data[N] * data[1]);

        H_OK(trp_buffer_unseal(d, s));
        check_info(d, s, true, false);
        H_OK(trp_buffer_unseal(d, s)); /* it is not */
        for (int i = 0; i < N * N; i++)
            data[i] = (float)ref_rng_below(h_rng(), 3);
        h_write(d, s, 0, data, BYTES);
        H_OK(trp_fill(d, s, 4, 4, 0, 4, NULL));
        data[1] = 0;
        h_read(d, s, 0, got, BYTES);
        H_SAME(got, data, BYTES);
    }
    free(data);
    free(got);
    h_close(&w);
}

/* A writer that runs for a while. Its end is not an input's business: it writes nothing. */
static trp_completion spin_writing(trp_actor *probe, trp_buffer b, int64_t ns)
{
    trp_completion c = {0};
    H_OK(trp_probe(
        probe,
        &(trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)ns, .outputs = {b}},
        &c));
    return c;
}

typedef struct sealer {
    trp_device *device;
    trp_buffer buffer;
    _Atomic bool done;
} sealer;

static void *seal_it(void *argument)
{
    sealer *s = argument;
    H_OK(trp_buffer_seal(s->device, s->buffer, TRP_FOREVER));
    atomic_store(&s->done, true);
    return NULL;
}

/* Sealing ends after everything that was sent before, and nothing is sent in between. */
static void waits_for_writers(void)
{
    enum { BYTES = 3 << 20, BEHIND = 20 };
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, BYTES);
    char *data = h_malloc(BYTES), *got = h_malloc(BYTES);
    bool timed_out = false;
    for (int64_t ns = 50 * H_MS; !timed_out; ns *= 2) {
        trp_completion c = spin_writing(probe, s, ns);
        trp_status status = trp_buffer_seal(d, s, 0);
        timed_out = status == TRP_E_TIMEOUT;
        if (timed_out) {
            H_SAYS("not ended");
            check_info(d, s, true, false);
            H_OK(trp_fill(d, s, 0, 4, 0, 4, NULL)); /* it can be written */
            H_IS(trp_buffer_seal(d, s, H_MS / 10), TRP_E_TIMEOUT);
        } else { /* a slow machine: the writer has ended */
            H_OK(status);
            H_OK(trp_await(c.future, 0, NULL));
            H_OK(trp_buffer_unseal(d, s));
        }
        trp_future_drop(c.future);
    }

    for (int round = 0; round < (H_SANITIZED ? 4 : 10); round++) {
        trp_completion c[BEHIND + 1], read = {0};
        sealer sealing = {.device = d, .buffer = s};
        uint32_t accepted = 0, word = (uint32_t)ref_rng_next(h_rng());
        h_random_bytes(h_rng(), data, BYTES);
        c[0] = spin_writing(probe, s, 20 * H_MS);
        for (int i = 1; i < BEHIND; i++) {
            c[i] = (trp_completion){0};
            H_OK(trp_fill(d, s, 0, BYTES, (uint32_t)i, 4, &c[i]));
        }
        c[BEHIND] = (trp_completion){0};
        H_OK(trp_write(d, s, 0, data, BYTES, &c[BEHIND]));
        h_thread *thread = h_start(seal_it, &sealing);
        trp_status status = TRP_OK;
        while (status == TRP_OK || status == TRP_E_BUSY) { /* until it has closed the buffer */
            status = trp_fill(d, s, 0, 4, word, 4, NULL);
            accepted += status == TRP_OK;
            h_sleep(20000);
        }
        H_IS(status, TRP_E_ARGUMENT);
        H_SAYS("sealed");
        H_OK(trp_read(d, s, 0, got, BYTES, &read)); /* reading goes on */
        h_join(thread);
        for (int i = 0; i <= BEHIND; i++)
            H_OK(trp_await(c[i].future, 0, NULL));
        H_OK(h_await_any(read));
        if (accepted > 0)
            memcpy(data, &word, 4);
        H_SAME(got, data, BYTES);
        check_info(d, s, true, true);
        H_OK(trp_buffer_unseal(d, s));
    }
    free(data);
    free(got);
    h_close(&w);
}

/* A write that was never sent, for want of a good argument, is nobody to wait for. */
static void refused_writers_are_not_waited_for(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_actor *blas = h_actor(d, "blas"), *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, 4096), input = h_buffer(d, 64), stale = h_buffer(d, 8);
    H_OK(trp_buffer_free(d, stale));
    for (int i = 0; i < 100; i++) {
        H_IS(trp_fill(d, s, 4096, 4, 0, 4, NULL), TRP_E_ARGUMENT);
        H_IS(trp_copy(d, stale, 0, s, 0, 4, NULL), TRP_E_STALE);
        H_IS(trp_copy(d, s, 0, s, 2, 4, NULL), TRP_E_ARGUMENT);
        H_IS(trp_gemm(blas,
                      &(trp_gemm_request){
                          .type = TRP_F32, .m = 2, .n = 2, .k = 2, .c = s, .a = input, .b = stale},
                      NULL),
             TRP_E_STALE);
        H_IS(trp_probe(probe, &(trp_probe_request){.outputs = {s, s, s, stale}}, NULL),
             TRP_E_STALE);
        trp_completion c = {0}; /* fails in the worker */
        H_OK(trp_probe(
            probe, &(trp_probe_request){.action = TRP_PROBE_LIBRARY_ERROR, .outputs = {s, s}}, &c));
        H_IS(h_await_any(c), TRP_E_LIBRARY);
        H_OK(trp_buffer_seal(d, s, 0));
        H_OK(trp_buffer_unseal(d, s));
    }
    h_close(&w);
}

/* The probe that writes to its input, where it may. */
static void undeclared_write(void)
{
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer s = h_sealable(w.device, 16), small = h_buffer(w.device, 7);
    const trp_buffer plain = h_buffer(w.device, 8), list[] = {s, plain};
    trp_completion c = {0};
    trp_probe_request r = {.action = TRP_PROBE_WRITE_SEALED};
    H_CHECK(strcmp(trp_probe_action_name(r.action), "write-input") == 0);
    H_IS(trp_probe(probe, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("inputs[0]");
    r.inputs[0] = small;
    H_IS(trp_probe(probe, &r, &c), TRP_E_ARGUMENT);
    H_SAYS("8 bytes, got 7");
    r.inputs[0] = (trp_buffer){0};
    r.inputs[1] = plain;
    H_IS(trp_probe(probe, &r, &c), TRP_E_ARGUMENT);
    H_OK(trp_fill(w.device, s, 0, 16, 0x11111111, 4, NULL));
    for (int i = 0; i < 2; i++) {
        uint64_t got[2] = {0};
        H_OK(trp_probe(probe, &(trp_probe_request){.action = r.action, .inputs = {list[i]}}, &c));
        H_OK(h_await_any(c));
        h_read(w.device, list[i], 0, got, i == 0 ? 16 : 8);
        H_EQUAL(got[0], 0xdead);
        if (i == 0)
            H_EQUAL(got[1], UINT64_C(0x1111111111111111));
    }
    h_close(&w);
}

/* ---- memory ---- */

static void memory_comes_back(void)
{
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    const uint64_t unit = h_is_cuda() ? UNIT_CUDA : UNIT_HOST;
    trp_actor *probe = h_actor(d, "probe");
    trp_buffer s = h_sealable(d, 1);
    uint64_t reserved = h_info(d).memory_reserved;
    H_CHECK(reserved > 0 && reserved % unit == 0);
    H_EQUAL(h_info(d).memory_used, reserved);
    H_EQUAL(h_info(d).buffers, 1);
    /* An ordinary buffer does not come into it. */
    trp_buffer plain = h_buffer(d, 256);
    H_EQUAL(h_info(d).memory_used, reserved + 256);
    H_OK(trp_buffer_free(d, plain));
    H_OK(trp_device_trim(d));
    H_EQUAL(h_info(d).memory_reserved, reserved);

    /* Freed and sealed, while it is read: it stays until the reader has ended. */
    trp_completion c = {0};
    H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.action = TRP_PROBE_SPIN,
                                        .duration_ns = (uint64_t)(200 * H_MS),
                                        .inputs = {s}},
                   &c));
    H_OK(trp_buffer_free(d, s));
    trp_device_info info = h_info(d);
    trp_buffer_info gone;
    H_IS(trp_buffer_get_info(d, s, &gone), TRP_E_STALE);
    if (trp_await(c.future, 0, NULL) == TRP_E_TIMEOUT) {
        H_EQUAL(info.memory_reserved, reserved);
        H_OK(h_await_any(c));
    }
    H_EQUAL(h_info(d).memory_reserved, 0);
    H_EQUAL(h_info(d).memory_used, 0);
    H_EQUAL(h_info(d).buffers, 0);

    /* What comes after it at the same place is not sealed. */
    for (int i = 0; i < 20; i++) {
        uint32_t got = 0;
        s = h_sealable(d, 100000);
        check_info(d, s, true, false);
        plain = h_buffer(d, 100);
        H_OK(trp_fill(d, plain, 0, 4, (uint32_t)i, 4, NULL));
        H_OK(trp_fill(d, s, 0, 100000, (uint32_t)i, 4, NULL));
        H_OK(trp_buffer_seal(d, s, TRP_FOREVER));
        h_read(d, s, 99996, &got, 4);
        H_EQUAL(got, i);
        if (i % 2)
            H_OK(trp_buffer_unseal(d, s));
        H_OK(trp_buffer_free(d, s));
        h_read(d, plain, 0, &got, 4);
        H_EQUAL(got, i);
        H_OK(trp_buffer_free(d, plain));
        H_OK(trp_device_trim(d));
        H_EQUAL(h_info(d).memory_reserved, 0);
    }
    h_close(&w);
}

/* More buffers than a device has numbers, one after the other, and as many as it has at once. */
static void numbers(void)
{
    enum { LEAST = 1000, NUMBERS = 1024 };
    struct rlimit files;
    H_CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_max < 4 * NUMBERS)
        h_skip("too few descriptors are allowed");
    files.rlim_cur = 4 * NUMBERS;
    H_CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    h_world w = h_open(NULL);
    static trp_buffer b[NUMBERS + 1];
    int count = 0;
    trp_status status = TRP_OK;
    while (status == TRP_OK && count <= NUMBERS) {
        status = trp_buffer_create_with(
            w.device, &(trp_buffer_options){.bytes = 8, .sealable = true}, &b[count]);
        count += status == TRP_OK;
    }
    H_IS(status, TRP_E_MEMORY);
    H_CHECK(count >= LEAST);
    for (int i = 0; i < count; i++)
        H_OK(trp_fill(w.device, b[i], 0, 8, (uint32_t)i, 4, NULL));
    for (int i = 0; i < count; i += 37) {
        uint32_t got = 0;
        H_OK(trp_buffer_seal(w.device, b[i], TRP_FOREVER));
        h_read(w.device, b[i], 4, &got, 4);
        H_EQUAL(got, i);
    }
    for (int i = 0; i < count; i++)
        H_OK(trp_buffer_free(w.device, b[i]));
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).memory_reserved, 0);
    for (int i = 0; i < NUMBERS + 200; i++)
        H_OK(trp_buffer_free(w.device, h_sealable(w.device, 8)));
    H_EQUAL(h_info(w.device).memory_reserved, 0);
    h_close(&w);
}

static void within_the_limit(void)
{
    const uint64_t unit = h_is_cuda() ? UNIT_CUDA : UNIT_HOST;
    trp_device_options options = h_options();
    options.memory_limit = 4 * unit;
    h_world w = h_open(&options);
    trp_buffer b[4], more;
    const trp_buffer_options own = {.bytes = unit, .sealable = true};
    for (int i = 0; i < 4; i++)
        b[i] = h_sealable(w.device, unit);
    H_IS(trp_buffer_create_with(w.device, &own, &more), TRP_E_MEMORY);
    H_IS(trp_buffer_create(w.device, 1, &more), TRP_E_MEMORY);
    H_OK(trp_fill(w.device, b[2], 0, unit, 7, 4, NULL)); /* in use when it is freed */
    H_OK(trp_buffer_free(w.device, b[2]));
    H_OK(trp_buffer_create_with(w.device, &own, &b[2]));
    H_OK(trp_buffer_free(w.device, b[0]));
    H_OK(trp_buffer_create(w.device, 1, &more)); /* from what the other gave back */
    h_close(&w);
}

/* ---- the rest ---- */

static void forked(void)
{
    h_world w = h_open(NULL);
    trp_buffer s = h_sealable(w.device, 1000);
    fflush(NULL);
    pid_t pid = fork();
    H_CHECK(pid >= 0);
    if (pid == 0) {
        trp_buffer b;
        H_IS(trp_buffer_seal(w.device, s, TRP_FOREVER), TRP_E_FORKED);
        H_IS(trp_buffer_unseal(w.device, s), TRP_E_FORKED);
        H_IS(trp_buffer_create_with(w.device, &(trp_buffer_options){.bytes = 1}, &b), TRP_E_FORKED);
        _exit(0);
    }
    int status = -1;
    H_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    H_OK(trp_buffer_seal(w.device, s, TRP_FOREVER));
    h_close(&w);
}

/* A device closes with sealed buffers in it, and with work that reads them. */
static void close_while_sealed(void)
{
    for (int i = 0; i < 4; i++) {
        h_world w = h_open(NULL);
        trp_actor *probe = h_actor(w.device, "probe");
        trp_buffer s = h_sealable(w.device, 1 << 20), other = h_sealable(w.device, 5);
        H_OK(trp_fill(w.device, s, 0, 1 << 20, 1, 4, NULL));
        H_OK(trp_buffer_seal(w.device, s, TRP_FOREVER));
        H_OK(trp_probe(probe, &(trp_probe_request){.inputs = {s}, .outputs = {other}}, NULL));
        if (i % 2)
            H_OK(trp_buffer_free(w.device, s));
        h_close(&w);
    }
}

static void options(void)
{
    trp_device *device = NULL;
    trp_system *system = h_system_create(NULL);
    trp_device_options o = h_options();
    o.fault_scope = (trp_fault_scope)2;
    H_IS(trp_device_open(system, &o, &device), TRP_E_ARGUMENT);
    H_SAYS("fault_scope");
    o.fault_scope = TRP_FAULT_SCOPE_ALL;
    H_OK(trp_device_open(system, &o, &device));
    trp_device_close(device);
    H_OK(trp_system_destroy(system));
}

H_CASES(H_CASE(forked), /* first: it forks */
        H_CASE(arguments), H_CASE(options), H_CASE(who_may_what), H_CASE(waits_for_writers),
        H_CASE(refused_writers_are_not_waited_for), H_CASE(undeclared_write),
        H_CASE(memory_comes_back), H_CASE(numbers), H_CASE(within_the_limit),
        H_CASE(close_while_sealed))
