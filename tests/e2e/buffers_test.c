/* Buffers: handles, sizes, limits, and what happens to memory that is freed while it is in use. */
#include "support/harness.h"

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no tsan");

static void sizes(void)
{
    static const uint64_t cases[] = {
        1,    2,     255,     256,       257,           4095,           4096,
        4097, 65535, 1000003, 2 * H_MIB, 2 * H_MIB + 1, 33 * H_MIB + 7, (H_TSAN ? 40 : 70) * H_MIB};
    enum { COUNT = sizeof cases / sizeof *cases };
    h_world w = h_open(NULL);
    trp_buffer buffer[COUNT];
    void *content[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        buffer[i] = h_buffer(w.device, cases[i]);
        H_EQUAL(h_buffer_info(w.device, buffer[i]).bytes, cases[i]);
        H_CHECK(!h_buffer_info(w.device, buffer[i]).lost);
        content[i] = h_random_block(h_rng(), cases[i]);
        h_write(w.device, buffer[i], 0, content[i], cases[i]);
    }
    H_EQUAL(h_info(w.device).buffers, COUNT);
    /* All at once, so that two buffers at one place would show. */
    for (size_t i = 0; i < COUNT; i++) {
        void *got = h_malloc(cases[i]);
        h_read(w.device, buffer[i], 0, got, cases[i]);
        H_SAME(got, content[i], cases[i]);
        H_OK(trp_buffer_free(w.device, buffer[i]));
        free(got);
        free(content[i]);
    }
    H_EQUAL(h_info(w.device).buffers, 0);
    H_EQUAL(h_info(w.device).memory_used, 0);
    h_close(&w);
}

static void bad_arguments(void)
{
    h_world w = h_open(NULL);
    trp_buffer b = {0};
    trp_buffer_info info;
    H_IS(trp_buffer_create(w.device, 0, &b), TRP_E_ARGUMENT);
    H_SAYS("bytes");
    H_IS(trp_buffer_create(w.device, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("out");
    H_IS(trp_buffer_create(NULL, 1, &b), TRP_E_ARGUMENT);
    H_SAYS("device");
    H_IS(trp_buffer_free(NULL, b), TRP_E_ARGUMENT);
    H_IS(trp_buffer_get_info(NULL, b, &info), TRP_E_ARGUMENT);
    b = h_buffer(w.device, 10);
    H_IS(trp_buffer_get_info(w.device, b, NULL), TRP_E_ARGUMENT);
    H_SAYS("out");
    h_close(&w);
}

/* Every call that takes a buffer must refuse this one. */
static void refused_everywhere(trp_device *device, trp_actor *blas, trp_actor *probe,
                               trp_buffer bad, const char *word)
{
    float memory[16] = {0};
    trp_buffer_info info;
    trp_buffer good = h_buffer(device, sizeof memory);
    trp_completion c = {.future = {77}};
    trp_gemm_request gemm = {.type = TRP_F32, .m = 1, .n = 1, .k = 1, .a = good, .b = good};
    H_IS(trp_buffer_free(device, bad), TRP_E_STALE);
    H_SAYS(word);
    H_IS(trp_buffer_get_info(device, bad, &info), TRP_E_STALE);
    H_SAYS(word);
    H_IS(trp_write(device, bad, 0, memory, 1, &c), TRP_E_STALE);
    H_SAYS(word);
    H_IS(trp_read(device, bad, 0, memory, 1, &c), TRP_E_STALE);
    H_SAYS(word);
    H_IS(trp_fill(device, bad, 0, 1, 1, 1, &c), TRP_E_STALE);
    H_SAYS(word);
    H_IS(trp_copy(device, bad, 0, good, 0, 1, &c), TRP_E_STALE);
    H_SAYS("source");
    H_IS(trp_copy(device, good, 0, bad, 0, 1, &c), TRP_E_STALE);
    H_SAYS("target");
    gemm.c = bad;
    H_IS(trp_gemm(blas, &gemm, &c), TRP_E_STALE);
    H_SAYS("c: ");
    gemm.c = good;
    gemm.b = bad;
    gemm.a = h_buffer(device, 64);
    H_IS(trp_gemm(blas, &gemm, &c), TRP_E_STALE);
    H_SAYS("b: ");
    H_OK(trp_buffer_free(device, gemm.a));
    if (bad.id != 0) { /* of a probe, zero means "none" */
        H_IS(trp_probe(probe, &(trp_probe_request){.inputs = {{0}, bad}}, &c), TRP_E_STALE);
        H_SAYS("inputs[1]");
        H_IS(trp_probe(probe, &(trp_probe_request){.outputs = {good, {0}, bad}}, &c), TRP_E_STALE);
        H_SAYS("outputs[2]");
    }
    H_EQUAL(c.future.id, 77); /* a call that fails gives no future */
    /* None of the refused requests may hold on to the good buffer. */
    H_OK(trp_buffer_free(device, good));
}

static void stale_handles(void)
{
    h_world w = h_open(NULL);
    trp_device_options options = h_options();
    trp_device *other = NULL;
    H_OK(trp_device_open(w.system, &options, &other));
    trp_actor *blas = h_actor(w.device, "blas"), *probe = h_actor(w.device, "probe");
    uint64_t used = h_info(w.device).memory_used;

    trp_buffer freed = h_buffer(w.device, 100);
    H_OK(trp_buffer_free(w.device, freed));
    refused_everywhere(w.device, blas, probe, freed, "freed");

    trp_buffer foreign = h_buffer(other, 100);
    refused_everywhere(w.device, blas, probe, foreign, "another device");
    H_EQUAL(h_buffer_info(other, foreign).bytes, 100);

    refused_everywhere(w.device, blas, probe, (trp_buffer){0}, "no buffer");

    trp_buffer good = h_buffer(w.device, 100);
    refused_everywhere(w.device, blas, probe, (trp_buffer){good.id + 1}, "buffer");
    refused_everywhere(w.device, blas, probe, (trp_buffer){good.id + (UINT64_C(1) << 32)},
                       "buffer");
    refused_everywhere(w.device, blas, probe, (trp_buffer){good.id & UINT32_MAX}, "buffer");
    refused_everywhere(w.device, blas, probe, (trp_buffer){UINT64_MAX}, "buffer");
    for (int i = 0; i < 20000; i++) {
        trp_buffer_info info;
        trp_buffer forged = {ref_rng_next(h_rng())};
        if (i % 2)
            forged.id = good.id ^ (UINT64_C(1) << ref_rng_below(h_rng(), 64));
        if (forged.id == good.id)
            continue;
        H_IS(trp_buffer_get_info(w.device, forged, &info), TRP_E_STALE);
        H_IS(trp_buffer_free(w.device, forged), TRP_E_STALE);
    }
    H_EQUAL(h_buffer_info(w.device, good).bytes, 100);
    H_OK(trp_buffer_free(w.device, good));
    H_EQUAL(h_info(w.device).memory_used, used);

    trp_device_close(other);
    /* The handle of a closed device, asked of a living one. */
    refused_everywhere(w.device, blas, probe, foreign, "another device");
    h_close(&w);
}

/* A slot is used again with another generation; old handles never name the new buffer. */
static void generations(void)
{
    enum { ROUNDS = 1000 };
    h_world w = h_open(NULL);
    trp_buffer old[ROUNDS];
    bool again = false;
    for (int i = 0; i < ROUNDS; i++) {
        old[i] = h_buffer(w.device, 64);
        for (int k = 0; k < i; k++)
            H_CHECK(old[k].id != old[i].id);
        again |= i > 0 && (uint32_t)old[i].id == (uint32_t)old[0].id;
        H_OK(trp_buffer_free(w.device, old[i]));
        H_IS(trp_buffer_free(w.device, old[i]), TRP_E_STALE);
    }
    H_CHECK(again); /* else this test has not seen a slot used twice */
    trp_buffer live = h_buffer(w.device, 64);
    for (int i = 0; i < ROUNDS; i++)
        H_IS(trp_buffer_free(w.device, old[i]), TRP_E_STALE);
    H_EQUAL(h_buffer_info(w.device, live).bytes, 64);
    h_close(&w);
}

static void too_large(void)
{
    h_world w = h_open(NULL);
    trp_device_info info = h_info(w.device);
    trp_buffer b = {0};
    H_IS(trp_buffer_create(w.device, info.memory_total + 1, &b), TRP_E_MEMORY);
    H_SAYS("bytes");
    H_IS(trp_buffer_create(w.device, UINT64_MAX, &b), TRP_E_MEMORY);
    H_IS(trp_buffer_create(w.device, UINT64_MAX - 255, &b), TRP_E_MEMORY);
    H_IS(trp_buffer_create(w.device, UINT64_C(1) << 63, &b), TRP_E_MEMORY);
    H_EQUAL(b.id, 0);
    H_EQUAL(h_info(w.device).buffers, 0);
    H_EQUAL(h_info(w.device).memory_used, 0);
    /* The device goes on. */
    b = h_buffer(w.device, 4096);
    H_OK(trp_buffer_free(w.device, b));
    h_close(&w);
}

/* Buffers until the device has no more; then all of it again. */
static void memory_limit(void)
{
    enum { MOST = 64 };
    trp_device_options options = h_options();
    options.memory_limit = 64 * H_MIB;
    h_world w = h_open(&options);
    H_EQUAL(h_info(w.device).memory_limit, 64 * H_MIB);
    trp_buffer b[MOST + 1] = {{0}};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MOST; i++) /* every byte of the limit can be had */
            b[i] = h_buffer(w.device, H_MIB);
        H_CHECK(h_info(w.device).memory_reserved <= 64 * H_MIB);
        H_IS(trp_buffer_create(w.device, 1, &b[MOST]), TRP_E_MEMORY);
        H_SAYS("limit");
        H_OK(trp_buffer_free(w.device, b[17]));
        H_IS(trp_buffer_create(w.device, H_MIB + 1, &b[MOST]), TRP_E_MEMORY);
        b[17] = h_buffer(w.device, H_MIB);
        for (int i = 0; i < MOST; i++)
            H_OK(trp_buffer_free(w.device, b[i]));
    }
    /* One buffer of all of it: smaller arenas must make room. */
    trp_buffer whole = h_buffer(w.device, 64 * H_MIB);
    H_IS(trp_buffer_create(w.device, 1, &b[0]), TRP_E_MEMORY);
    H_OK(trp_buffer_free(w.device, whole));
    H_IS(trp_buffer_create(w.device, 64 * H_MIB + 1, &whole), TRP_E_MEMORY);
    h_close(&w);
}

/* Limits around the sizes of arenas: never passed, and used but for less than one unit of memory of
 * the device (2 MiB at most). */
static void odd_limits(void)
{
    static const uint64_t limits[] = {2 * H_MIB,
                                      3 * H_MIB + 5,
                                      16 * H_MIB,
                                      16 * H_MIB + 64 * H_KIB,
                                      48 * H_MIB - 4096,
                                      48 * H_MIB - 64 * H_KIB,
                                      48 * H_MIB - 2 * H_MIB,
                                      64 * H_MIB - 64 * H_KIB,
                                      62 * H_MIB,
                                      112 * H_MIB - 64 * H_KIB,
                                      190 * H_MIB};
    trp_device_options options = h_options();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        options.memory_limit = limits[i];
        h_world w = h_open(&options);
        trp_buffer b;
        trp_status status;
        while ((status = trp_buffer_create(w.device, 64 * H_KIB, &b)) == TRP_OK)
            H_CHECK(h_info(w.device).memory_reserved <= limits[i]);
        H_IS(status, TRP_E_MEMORY);
        H_CHECK(h_info(w.device).memory_used <= limits[i]);
        H_CHECK(h_info(w.device).memory_used + 2 * H_MIB > limits[i]);
        h_close(&w);
    }
}

/* Nobody asks for the ends of these fills, yet their memory must come back: twenty times the limit
 * passes through. */
static void create_takes_back_what_is_done(void)
{
    trp_device_options options = h_options();
    options.memory_limit = 64 * H_MIB;
    h_world w = h_open(&options);
    for (int i = 0; i < 40; i++) {
        trp_buffer b = {0};
        trp_status status = TRP_E_MEMORY;
        /* The fill before may still run; then memory is really short, for a moment. */
        for (int64_t end = h_now() + H_LONG; status == TRP_E_MEMORY && h_now() < end;) {
            status = trp_buffer_create(w.device, 32 * H_MIB, &b);
            if (status == TRP_E_MEMORY)
                h_sleep(H_MS);
        }
        H_OK(status);
        H_OK(trp_fill(w.device, b, 0, 32 * H_MIB, 0xab, 1, NULL));
        H_OK(trp_buffer_free(w.device, b));
    }
    h_close(&w);
}

/* Freed right behind the requests that use it: they see the right bytes, although others take and
 * overwrite whatever memory is free. */
static void free_in_flight(void)
{
    enum { ROUNDS = 60, BYTES = 300 * 1024 };
    trp_device_options options = h_options();
    options.memory_limit = 32 * H_MIB; /* so that memory is used again soon */
    h_world w = h_open(&options);
    trp_actor *probe = h_actor(w.device, "probe");
    char *want = h_malloc(BYTES), *got = h_malloc(BYTES), *junk = h_malloc(BYTES);
    memset(junk, 0xee, BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        trp_completion read = {0}, copied = {0};
        trp_buffer source = h_buffer(w.device, BYTES), target = h_buffer(w.device, BYTES);
        h_random_bytes(h_rng(), want, BYTES);
        memset(got, 0, BYTES);
        h_write(w.device, source, 0, want, BYTES);
        /* The spin holds the copy back while the handle is already gone. */
        H_OK(trp_probe(probe,
                       &(trp_probe_request){
                           .action = TRP_PROBE_SPIN, .duration_ns = 2000000, .outputs = {source}},
                       NULL));
        H_OK(trp_copy(w.device, source, 0, target, 0, BYTES, &copied));
        H_OK(trp_buffer_free(w.device, source));
        H_OK(trp_read(w.device, target, 0, got, BYTES, &read));
        H_OK(trp_buffer_free(w.device, target));
        for (int i = 0; i < 4; i++) {
            trp_buffer other = h_buffer(w.device, BYTES);
            H_OK(trp_write(w.device, other, 0, junk, BYTES, NULL));
            H_OK(trp_buffer_free(w.device, other));
        }
        H_OK(h_await_any(copied));
        H_OK(h_await_any(read));
        H_SAME(got, want, BYTES);
        H_IS(trp_buffer_free(w.device, source), TRP_E_STALE);
    }
    H_OK(trp_device_drain(w.device, H_LONG));
    H_EQUAL(h_info(w.device).buffers, 0);
    H_EQUAL(h_info(w.device).memory_used, 0);
    free(want);
    free(got);
    free(junk);
    h_close(&w);
}

/* Little more is taken from the device than buffers use, whatever their sizes, also where each is
 * larger than the one before it was. */
static void little_unused(void)
{
    enum { COUNT = 160 };
    h_world w = h_open(NULL);
    trp_buffer b[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const uint64_t most = i % 3 == 0 ? 40 * H_MIB : i % 3 == 1 ? H_MIB : 64 * H_KIB;
        b[i] = h_buffer(w.device, 1 + ref_rng_next(h_rng()) % most);
        const trp_device_info info = h_info(w.device);
        H_CHECK(info.memory_reserved <= info.memory_used / 4 * 5 + 64 * H_MIB);
    }
    for (int i = 0; i < COUNT; i++)
        H_OK(trp_buffer_free(w.device, b[i]));
    H_OK(trp_device_trim(w.device));
    for (uint64_t mib = 100; mib < 140; mib++) {
        trp_buffer one = h_buffer(w.device, mib * H_MIB);
        H_OK(trp_buffer_free(w.device, one));
    }
    H_CHECK(h_info(w.device).memory_reserved <= 400 * H_MIB);
    h_close(&w);
}

static void trim(void)
{
    h_world w = h_open(NULL);
    trp_buffer keep = h_buffer(w.device, 1000);
    uint32_t mark = 0x12345678, got = 0;
    h_write(w.device, keep, 0, &mark, 4);
    uint64_t least = h_info(w.device).memory_reserved;
    for (int round = 0; round < 3; round++) {
        trp_buffer big[3];
        for (int i = 0; i < 3; i++) {
            big[i] = h_buffer(w.device, 100 * H_MIB);
            H_OK(trp_fill(w.device, big[i], 0, H_MIB, 1, 1, NULL));
        }
        H_CHECK(h_info(w.device).memory_reserved >= 300 * H_MIB);
        for (int i = 0; i < 3; i++)
            H_OK(trp_buffer_free(w.device, big[i]));
        H_OK(trp_device_drain(w.device, H_LONG));
        H_OK(trp_device_trim(w.device));
        H_CHECK(h_info(w.device).memory_reserved <= least);
    }
    h_read(w.device, keep, 0, &got, 4);
    H_EQUAL(got, mark);
    H_OK(trp_buffer_free(w.device, keep));
    H_OK(trp_device_trim(w.device));
    H_EQUAL(h_info(w.device).memory_reserved, 0);
    /* And up again from nothing. */
    keep = h_buffer(w.device, 1000);
    h_write(w.device, keep, 0, &mark, 4);
    h_close(&w);
}

/* The table of handles is bounded, and says so. */
static void all_handles(void)
{
    enum { MOST = 262144 };
    h_world w = h_open(NULL);
    trp_buffer *b = h_malloc((MOST + 1) * sizeof *b);
    for (int i = 0; i < MOST; i++)
        b[i] = h_buffer(w.device, 1);
    H_EQUAL(h_info(w.device).buffers, MOST);
    H_IS(trp_buffer_create(w.device, 1, &b[MOST]), TRP_E_BUSY);
    H_SAYS("262144");
    uint64_t used = h_info(w.device).memory_used;
    H_IS(trp_buffer_create(w.device, 1, &b[MOST]), TRP_E_BUSY);
    H_EQUAL(h_info(w.device).memory_used, used);
    H_OK(trp_buffer_free(w.device, b[1000]));
    b[1000] = h_buffer(w.device, 1);
    for (int i = 0; i < MOST; i++)
        H_OK(trp_buffer_free(w.device, b[i]));
    H_EQUAL(h_info(w.device).memory_used, 0);
    free(b);
    h_close(&w);
}

/* Memory that is not there is refused, not handed out until it is touched. */
static void host_memory_that_is_not_there(void)
{
    h_world w = h_open(NULL);
    void *memory = NULL;
    const uint64_t sizes[] = {UINT64_C(1) << 46, UINT64_C(1) << 61};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        H_IS(trp_host_alloc(w.device, sizes[i], &memory), TRP_E_MEMORY);
        H_SAYS("bytes: expected at most");
        H_CHECK(memory == NULL);
    }
    H_OK(trp_host_alloc(w.device, H_MIB, &memory));
    memset(memory, 1, H_MIB);
    H_OK(trp_host_free(w.device, memory));
    h_close(&w);
}

H_CASES(H_CASE(host_memory_that_is_not_there), H_CASE(sizes), H_CASE(bad_arguments),
        H_CASE(stale_handles), H_CASE(generations), H_CASE(too_large), H_CASE(memory_limit),
        H_CASE(odd_limits), H_CASE(create_takes_back_what_is_done), H_CASE(free_in_flight),
        H_CASE(little_unused), H_CASE(trim), H_CASE(all_handles))
