/* Copies: every size class and offset, each kind of host memory, many at once, and bad ranges. What
 * boxes and patterns come to is in tests/conformance. */
#include "support/harness.h"

#include <stdatomic.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer", "FAKE_CUDA_ADDRESS_SHIFT=0x100000000000");

/* Below, at and above each way that a copy can go: one small piece (64 KiB), one large piece (2
 * MiB), the ring of 16 large pieces. */
static const uint64_t size_classes[] = {
    0,
    1,
    2,
    255,
    256,
    4095,
    4096,
    4097,
    64 * H_KIB - 1,
    64 * H_KIB,
    64 * H_KIB + 1,
    2 * H_MIB - 1,
    2 * H_MIB,
    2 * H_MIB + 1,
    4 * H_MIB + 12345,
    33 * H_MIB + 4321,
};
enum { SIZE_CLASSES = sizeof size_classes / sizeof *size_classes };

/* Writes and reads back a range of a buffer; what lies around it must stay as it was, in the buffer
 * and around the target. */
static void there_and_back(trp_device *device, const char *source, char *target, uint64_t bytes,
                           uint64_t offset)
{
    enum { MARGIN = 300, GUARD = 0xa7 };
    uint64_t size = offset + bytes + MARGIN;
    trp_buffer b = h_buffer(device, size);
    char *all = h_malloc(size), *want = h_malloc(size);
    H_OK(trp_fill(device, b, 0, size, GUARD, 1, NULL));
    h_write(device, b, offset, source, bytes);
    memset(want, GUARD, size);
    memcpy(want + offset, source, bytes);
    memset(all, 0, size);
    h_read(device, b, 0, all, size);
    H_SAME(all, want, size);
    memset(target, 0x11, bytes);
    h_read(device, b, offset, target, bytes);
    H_SAME(target, source, bytes);
    H_OK(trp_buffer_free(device, b));
    free(all);
    free(want);
}

static void size_and_offset(void)
{
    static const uint64_t offsets[] = {0, 1, 3, 255, 4096, 65537};
    h_world w = h_open(NULL);
    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        uint64_t bytes = size_classes[i];
        char *source = h_random_block(h_rng(), bytes), *target = h_malloc(bytes + 1);
        size_t most = bytes > 3 * H_MIB ? (H_TSAN ? 1 : 2) : sizeof offsets / sizeof *offsets;
        for (size_t k = 0; k < most; k++) {
            target[bytes] = 0x5c;
            there_and_back(w.device, source, target, bytes, offsets[k]);
            H_EQUAL((unsigned char)target[bytes], 0x5c);
        }
        free(source);
        free(target);
    }
    h_close(&w);
}

static void large(void)
{
    const uint64_t bytes = (H_TSAN ? 40 : 130) * H_MIB + 77;
    h_world w = h_open(NULL);
    char *source = h_random_block(h_rng(), bytes), *target = h_malloc(bytes);
    trp_buffer b = h_buffer(w.device, bytes);
    for (int round = 0; round < (H_TSAN ? 1 : 2); round++) {
        memset(target, 0, bytes);
        h_write(w.device, b, 0, source, bytes);
        h_read(w.device, b, 0, target, bytes);
        H_SAME(target, source, bytes);
        source[round]++;
    }
    free(source);
    free(target);
    h_close(&w);
}

static void host_memory(void)
{
    const uint64_t region = 5 * H_MIB;
    h_world w = h_open(NULL);
    char *a = NULL, *b = NULL;
    H_OK(trp_host_alloc(w.device, region, (void **)&a));
    H_OK(trp_host_alloc(w.device, region, (void **)&b));
    H_CHECK(a != b);
    H_EQUAL((uintptr_t)a % 4096, 0);
    for (uint64_t i = 0; i < region; i++)
        H_CHECK(a[i] == 0);
    h_random_bytes(h_rng(), a, region);
    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        uint64_t bytes = size_classes[i];
        if (bytes > region)
            continue;
        there_and_back(w.device, a, b, bytes, 0);
        /* The last bytes of both. */
        there_and_back(w.device, a + region - bytes, b + region - bytes, bytes, 7);
        if (bytes + 1000 < region)
            there_and_back(w.device, a + 999, b + 333, bytes, 1);
    }
    H_OK(trp_host_free(w.device, a));
    H_OK(trp_host_free(w.device, b));
    h_close(&w);
}

/* A range that begins in a region and ends in the next is no region's: it must be copied all the
 * same. Regions are mapped side by side often enough; else there is nothing to test. */
static void across_two_regions(void)
{
    enum { REGIONS = 8 };
    const uint64_t region = 256 * H_KIB;
    h_world w = h_open(NULL);
    char *r[REGIONS];
    bool found = false;
    for (int i = 0; i < REGIONS; i++) {
        H_OK(trp_host_alloc(w.device, region, (void **)&r[i]));
        h_random_bytes(h_rng(), r[i], region);
    }
    for (int i = 0; i < REGIONS; i++) {
        for (int k = 0; k < REGIONS; k++) {
            static const uint64_t sizes[] = {2, 4096, 100 * H_KIB, 400 * H_KIB};
            if (r[i] + region != r[k])
                continue;
            found = true;
            for (int s = 0; s < 4; s++) {
                char *start = r[k] - sizes[s] / 2;
                char *target = h_malloc(sizes[s]);
                there_and_back(w.device, start, target, sizes[s], 3);
                memcpy(target, start, sizes[s]);
                trp_buffer b = h_buffer(w.device, sizes[s]);
                h_write(w.device, b, 0, target, sizes[s]);
                memset(start, 0, sizes[s]);
                h_read(w.device, b, 0, start, sizes[s]);
                H_SAME(start, target, sizes[s]);
                H_OK(trp_buffer_free(w.device, b));
                free(target);
            }
        }
    }
    for (int i = 0; i < REGIONS; i++)
        H_OK(trp_host_free(w.device, r[i]));
    h_close(&w);
    if (!found)
        printf("  (no two regions lie side by side here)\n");
}

static void host_free_while_copying(void)
{
    const uint64_t bytes = 8 * H_MIB;
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    char *want = h_malloc(bytes), *got = h_malloc(bytes);
    trp_buffer b = h_buffer(w.device, bytes);
    for (int round = 0; round < 5; round++) {
        void *memory = NULL;
        trp_completion c = {0};
        H_OK(trp_host_alloc(w.device, bytes, &memory));
        h_random_bytes(h_rng(), memory, bytes);
        memcpy(want, memory, bytes);
        H_OK(trp_probe(
            probe,
            &(trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = 20000000, .outputs = {b}},
            NULL));
        H_OK(trp_write(w.device, b, 0, memory, bytes, &c));
        H_OK(trp_host_free(w.device, memory));
        H_IS(trp_host_free(w.device, memory), TRP_E_STALE);
        H_OK(h_await_any(c));
        h_read(w.device, b, 0, got, bytes);
        H_SAME(got, want, bytes);
    }
    free(want);
    free(got);
    h_close(&w);
}

static void host_memory_bounds(void)
{
    enum { MOST = 256 };
    h_world w = h_open(NULL);
    void *r[MOST + 1] = {NULL};
    char other;
    H_IS(trp_host_alloc(w.device, 0, &r[0]), TRP_E_ARGUMENT);
    H_SAYS("bytes");
    H_IS(trp_host_alloc(w.device, UINT64_MAX, &r[0]), TRP_E_ARGUMENT);
    H_IS(trp_host_alloc(w.device, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("out");
    H_OK(trp_host_free(w.device, NULL));
    H_IS(trp_host_free(w.device, &other), TRP_E_STALE);
    for (int i = 0; i < MOST; i++) {
        H_OK(trp_host_alloc(w.device, 1, &r[i]));
        memset(r[i], i, 4096); /* whole pages */
    }
    H_IS(trp_host_alloc(w.device, 1, &r[MOST]), TRP_E_BUSY);
    H_SAYS("256");
    H_IS(trp_host_free(w.device, (char *)r[7] + 1), TRP_E_STALE);
    H_OK(trp_host_free(w.device, r[7]));
    /* The number of a freed region comes back once the worker has let go of it. */
    trp_status status = TRP_E_BUSY;
    for (int i = 0; i < 5000 && status == TRP_E_BUSY; i++) {
        status = trp_host_alloc(w.device, 1, &r[7]);
        h_sleep(H_MS);
    }
    H_OK(status);
    for (int i = 0; i < MOST; i += 2)
        H_OK(trp_host_free(w.device, r[i]));
    h_close(&w); /* the rest goes with the device */
}

typedef struct mover {
    trp_device *device;
    ref_rng rng;
    uint64_t bytes;
    int rounds;
} mover;

/* One upload and one download at a time, checked. */
static void *move(void *argument)
{
    mover *m = argument;
    trp_buffer b = h_buffer(m->device, m->bytes);
    char *source = h_malloc(m->bytes), *target = h_malloc(m->bytes);
    for (int i = 0; i < m->rounds; i++) {
        trp_completion up = {0}, down = {0};
        uint64_t at = ref_rng_below(&m->rng, 5000);
        uint64_t bytes = m->bytes - at - ref_rng_below(&m->rng, 5000);
        h_random_bytes(&m->rng, source, bytes);
        H_OK(trp_write(m->device, b, at, source, bytes, &up));
        H_OK(trp_read(m->device, b, at, target, bytes, &down));
        H_OK(h_await_any(up));
        H_OK(h_await_any(down));
        H_EQUAL(h_hash(target, bytes), h_hash(source, bytes));
    }
    H_OK(trp_buffer_free(m->device, b));
    free(source);
    free(target);
    return NULL;
}

static void many_large_at_once(void)
{
    enum { THREADS = 6 };
    h_world w = h_open(NULL);
    mover m[THREADS];
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        m[i] = (mover){.device = w.device,
                       .rng = h_rng_fork(),
                       .bytes = i % 2 ? 35 * H_MIB : 3 * H_MIB + (uint64_t)i * 100001,
                       .rounds = H_TSAN        ? 1
                                 : H_SANITIZED ? 3
                                               : 8};
        thread[i] = h_start(move, &m[i]);
    }
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    h_close(&w);
}

/* Many in flight from one thread, of all sizes; ended in an order of their own. */
static void many_in_flight(void)
{
    enum { COUNT = H_TSAN ? 60 : 150 };
    h_world w = h_open(NULL);
    trp_buffer b[COUNT];
    char *source[COUNT], *target[COUNT];
    uint64_t bytes[COUNT];
    trp_completion up[COUNT] = {{0}}, down[COUNT] = {{0}};
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = h_random_size(h_rng(), 5 * H_MIB);
        b[i] = h_buffer(w.device, bytes[i]);
        source[i] = h_random_block(h_rng(), bytes[i]);
        target[i] = h_malloc(bytes[i]);
        H_OK(trp_write(w.device, b[i], 0, source[i], bytes[i], &up[i]));
        H_OK(trp_read(w.device, b[i], 0, target[i], bytes[i], &down[i]));
    }
    for (int i = COUNT; i-- > 0;) {
        H_OK(h_await_any(down[i]));
        H_OK(h_await_any(up[i]));
        H_SAME(target[i], source[i], bytes[i]);
        free(source[i]);
        free(target[i]);
    }
    h_close(&w);
}

/* The source of a small copy is looked at during the call only, as is allowed: it must stay
 * unchanged until the end. That of the target: nothing is touched after the end. */
static void target_is_left_alone_afterwards(void)
{
    const uint64_t bytes = 9 * H_MIB;
    h_world w = h_open(NULL);
    trp_buffer b = h_buffer(w.device, bytes);
    char *source = h_random_block(h_rng(), bytes), *target = h_malloc(bytes);
    char *poison = h_malloc(bytes);
    h_write(w.device, b, 0, source, bytes);
    memset(poison, 0x3c, bytes);
    for (int i = 0; i < (H_TSAN ? 6 : 20); i++) {
        uint64_t n = i % 2 ? bytes : 60000;
        h_read(w.device, b, 0, target, n);
        H_SAME(target, source, n);
        memset(target, 0x3c, n);
        H_OK(trp_device_drain(w.device, H_LONG));
        H_SAME(target, poison, n);
    }
    free(source);
    free(target);
    free(poison);
    h_close(&w);
}

static void bad_ranges(void)
{
    enum { BYTES = 1000 };
    h_world w = h_open(NULL);
    trp_device *d = w.device;
    trp_buffer a = h_buffer(d, BYTES), b = h_buffer(d, BYTES);
    char memory[2 * BYTES], want[BYTES], got[BYTES];
    trp_completion c = {.future = {5}};
    memset(want, 0x42, sizeof want);
    memset(memory, 0x99, sizeof memory);
    h_write(d, a, 0, want, BYTES);
    h_write(d, b, 0, want, BYTES);
    static const struct {
        uint64_t offset, bytes;
    } outside[] = {{0, 1001},           {1, 1000},
                   {1000, 1},           {1001, 0},
                   {UINT64_MAX, 1},     {UINT64_MAX, 0},
                   {1, UINT64_MAX},     {0, UINT64_MAX},
                   {UINT64_MAX - 3, 8}, {500, UINT64_MAX - 499}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        uint64_t at = outside[i].offset, n = outside[i].bytes;
        H_IS(trp_write(d, a, at, memory, n, &c), TRP_E_ARGUMENT);
        H_SAYS("buffer");
        H_IS(trp_read(d, a, at, memory, n, &c), TRP_E_ARGUMENT);
        H_SAYS("buffer");
        H_IS(trp_fill(d, a, at, n, 7, 1, &c), TRP_E_ARGUMENT);
        H_SAYS("buffer");
        H_IS(trp_copy(d, a, at, b, 0, n, &c), TRP_E_ARGUMENT);
        H_SAYS("source");
        if (n <= BYTES) {
            H_IS(trp_copy(d, a, 0, b, at, n, &c), TRP_E_ARGUMENT);
            H_SAYS("target");
        }
    }
    H_IS(trp_write(d, a, 0, NULL, 1, &c), TRP_E_ARGUMENT);
    H_SAYS("source");
    H_IS(trp_read(d, a, 0, NULL, 1, &c), TRP_E_ARGUMENT);
    H_SAYS("target");
    H_IS(trp_write(NULL, a, 0, memory, 1, &c), TRP_E_ARGUMENT);
    H_IS(trp_read(NULL, a, 0, memory, 1, &c), TRP_E_ARGUMENT);
    H_IS(trp_copy(NULL, a, 0, b, 0, 1, &c), TRP_E_ARGUMENT);
    H_IS(trp_fill(NULL, a, 0, 1, 1, 1, &c), TRP_E_ARGUMENT);
    for (uint32_t width = 0; width < 10; width++) {
        if (width == 1 || width == 2 || width == 4)
            continue;
        H_IS(trp_fill(d, a, 0, 8 * width, 1, width, &c), TRP_E_ARGUMENT);
        H_SAYS("width");
    }
    H_IS(trp_fill(d, a, 0, 7, 1, 2, &c), TRP_E_ARGUMENT);
    H_SAYS("bytes");
    H_IS(trp_fill(d, a, 2, 8, 1, 4, &c), TRP_E_ARGUMENT);
    H_SAYS("offset");
    /* Ranges of one buffer that meet. */
    H_IS(trp_copy(d, a, 0, a, 0, 1, &c), TRP_E_ARGUMENT);
    H_SAYS("overlap");
    H_IS(trp_copy(d, a, 0, a, 99, 100, &c), TRP_E_ARGUMENT);
    H_IS(trp_copy(d, a, 99, a, 0, 100, &c), TRP_E_ARGUMENT);
    H_IS(trp_copy(d, a, 100, a, 50, 100, &c), TRP_E_ARGUMENT);
    H_OK(trp_copy(d, a, 0, a, 100, 100, NULL));
    H_OK(trp_copy(d, a, 5, a, 5, 0, NULL));
    H_EQUAL(c.future.id, 5);
    /* Refused means: nothing was touched. */
    h_read(d, a, 0, got, BYTES);
    H_SAME(got, want, BYTES);
    h_read(d, b, 0, got, BYTES);
    H_SAME(got, want, BYTES);
    /* And nothing holds the buffers. */
    H_OK(trp_buffer_free(d, a));
    H_OK(trp_buffer_free(d, b));
    H_OK(trp_device_drain(d, H_LONG));
    H_EQUAL(h_info(d).buffers, 0);
    h_close(&w);
}

/* Nothing to copy: still a request, with an end. */
static void zero_bytes(void)
{
    h_world w = h_open(NULL);
    trp_buffer a = h_buffer(w.device, 16), b = h_buffer(w.device, 16);
    char byte = 1;
    for (uint64_t at = 0; at <= 16; at += 8) {
        trp_completion c[6] = {{0}};
        H_OK(trp_write(w.device, a, at, NULL, 0, &c[0]));
        H_OK(trp_write(w.device, a, at, &byte, 0, &c[1]));
        H_OK(trp_read(w.device, a, at, NULL, 0, &c[2]));
        H_OK(trp_read(w.device, a, at, &byte, 0, &c[3]));
        H_OK(trp_copy(w.device, a, at, b, at, 0, &c[4]));
        H_OK(trp_fill(w.device, a, at, 0, 1, 4, &c[5]));
        for (int i = 0; i < 6; i++)
            H_OK(h_await_any(c[i]));
    }
    h_close(&w);
}

typedef struct churn {
    trp_device *device;
    _Atomic bool stop;
} churn;

static void *alloc_and_free(void *argument)
{
    churn *c = argument;
    for (uint64_t i = 0; !atomic_load(&c->stop); i++) {
        void *memory = NULL;
        H_OK(trp_host_alloc(c->device, UINT64_C(4096) << (i % 6), &memory));
        memset(memory, 1, 4096);
        H_OK(trp_host_free(c->device, memory));
    }
    return NULL;
}

/* Regions come and go in other threads while ordinary memory is copied: each copy looks at all
 * regions. */
static void host_memory_churn(void)
{
    enum { THREADS = 3 };
    h_world w = h_open(NULL);
    churn c = {.device = w.device};
    h_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        thread[i] = h_start(alloc_and_free, &c);
    mover m = {.device = w.device, .rng = h_rng_fork(), .bytes = 20000, .rounds = 1500};
    move(&m);
    m.bytes = 3 * H_MIB;
    m.rounds = 10;
    move(&m);
    atomic_store(&c.stop, true);
    for (int i = 0; i < THREADS; i++)
        h_join(thread[i]);
    h_close(&w);
}

static trp_status end_of(trp_status sent, const trp_completion *c)
{
    return sent == TRP_OK ? h_await(c->future, NULL) : sent;
}

/* Within one buffer, side by side. */
static void boxes_in_one_buffer(void)
{
    enum { N = 64 };
    h_world world = h_open(NULL);
    trp_device *d = world.device;
    trp_buffer b = h_filled(d, N * N * 2, 0x01020304);
    char got[N * N * 2], want[N * N * 2];
    h_read(d, b, 0, want, sizeof want);
    for (int i = 0; i < N * N; i++)
        want[i] = (char)i;
    h_write(d, b, 0, want, N * N);
    trp_completion c = {0};
    trp_copy_request r = {.source = b,
                          .source_offset = 8,
                          .target = b,
                          .target_offset = N * N,
                          .bytes = 16,
                          .rows = N - 1,
                          .source_pitch.row = N,
                          .target_pitch.row = 20};
    H_OK(end_of(trp_copy_with(d, &r, &c), &c));
    for (int y = 0; y < N - 1; y++)
        memcpy(want + N * N + y * 20, want + 8 + y * N, 16);
    h_read(d, b, 0, got, sizeof got);
    H_SAME(got, want, sizeof got);
    r.target_offset = 8 + N * (N - 2) + 15;
    H_IS(trp_copy_with(d, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("overlap");
    h_close(&world);
}

static void refused(trp_device *device, const char *text, trp_write_request r)
{
    static char byte[64];
    r.source = byte;
    H_IS(trp_write_with(device, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS(text);
}

static void bad_boxes(void)
{
    h_world world = h_open(NULL);
    trp_device *d = world.device;
    trp_buffer b = h_filled(d, 1 << 16, 0);
    char byte[16] = {0};
    uint64_t sent = h_info(d).requests_submitted;
    const trp_write_request good = {.buffer = b, .bytes = 8, .rows = 4};
    trp_write_request r = good;
    r.pitch.row = 7;
    refused(d, "pitch.row: expected at least the 8 bytes of a row, got 7", r);
    r = good;
    r.source_pitch.row = 1;
    refused(d, "source_pitch.row: expected", r);
    r = good;
    r.planes = 2;
    r.pitch.plane = 31;
    refused(d, "pitch.plane: expected at least the 32 bytes that the rows of a plane span", r);
    r = good;
    r.rows = UINT64_MAX;
    refused(d, "reach further than memory", r);
    r = good;
    r.rows = r.planes = UINT64_C(1) << 40;
    refused(d, "reach further than memory", r);
    r = good;
    r.planes = 3;
    r.source_pitch.plane = INT64_MAX;
    refused(d, "source_pitch: 3 planes of 4 rows of 8 bytes reach", r);
    r = good;
    r.offset = (1 << 16) - 31;
    refused(d, "buffer: the request needs bytes 65505 to 65505 + 32, the buffer has 65536", r);
    r = good;
    r.pitch.row = 1 << 15;
    refused(d, "+ 98312, the buffer has 65536", r);
    r = good;
    r.header.wait_ns = -7;
    refused(d, "wait_ns", r);
    H_IS(trp_write_with(d, &good, NULL), TRP_E_ARGUMENT);
    H_SAYS("source: expected a pointer");
    H_IS(trp_read_with(d, &(trp_read_request){.buffer = b, .bytes = 1}, NULL), TRP_E_ARGUMENT);
    H_SAYS("target: expected a pointer");
    trp_fill_request f = {.buffer = b, .bytes = 32, .width = 16};
    H_IS(trp_fill_with(d, &f, NULL), TRP_E_ARGUMENT);
    H_SAYS("pattern: expected a pointer");
    f.pattern = byte;
    static const uint32_t widths[] = {0, 3, 5, 12, 32, UINT32_MAX};
    for (int i = 0; i < 6; i++) {
        f.width = widths[i];
        H_IS(trp_fill_with(d, &f, NULL), TRP_E_ARGUMENT);
        H_SAYS("width: expected 1, 2, 4, 8 or 16");
    }
    f.width = 16;
    f.offset = 8;
    H_IS(trp_fill_with(d, &f, NULL), TRP_E_ARGUMENT);
    H_SAYS("offset: expected a multiple of width 16, got 8");
    H_IS(trp_fill(d, b, 0, 32, 0, 8, NULL), TRP_E_ARGUMENT);
    H_SAYS("width: expected 1, 2 or 4, got 8");
    H_IS(trp_device_submit(d, NULL, NULL), TRP_E_ARGUMENT);
    H_IS(trp_device_submit(NULL, &good.header, NULL), TRP_E_ARGUMENT);
    H_IS(trp_device_submit(d, &(trp_request){.op = 3}, NULL), TRP_E_UNSUPPORTED);
    H_IS(trp_device_submit(d, &(trp_request){.op = 0x0101}, NULL), TRP_E_UNSUPPORTED);
    H_IS(trp_device_submit(d, &(trp_request){.op = TRP_OP_COPY, .size = 8}, NULL), TRP_E_VERSION);
    const trp_read_request late = {
        .header.deadline_ns = 1000 * H_SEC, .buffer = b, .target = byte, .bytes = 16};
    trp_completion c = {0};
    if (h_isolation() == TRP_ISOLATION_THREAD) {
        H_IS(trp_read_with(d, &late, NULL), TRP_E_UNSUPPORTED);
        H_SAYS("deadline_ns");
        H_EQUAL(h_info(d).requests_submitted, sent);
    } else {
        H_EQUAL(h_info(d).requests_submitted, sent);
        H_OK(end_of(trp_read_with(d, &late, &c), &c));
    }
    h_close(&world);
}

H_CASES(H_CASE(size_and_offset), H_CASE(large), H_CASE(host_memory), H_CASE(across_two_regions),
        H_CASE(host_free_while_copying), H_CASE(host_memory_bounds), H_CASE(many_large_at_once),
        H_CASE(many_in_flight), H_CASE(target_is_left_alone_afterwards), H_CASE(bad_ranges),
        H_CASE(zero_bytes), H_CASE(host_memory_churn), H_CASE(boxes_in_one_buffer),
        H_CASE(bad_boxes))
