/* Copies as requests: boxes of rows that lie apart, in every way that a copy can go, against loops
 * over bytes; patterns of all widths; deadlines and refusals. SPDX-License-Identifier: Apache-2.0
 */
#include "support/harness.h"

TROUPE_TEST_FAKE_GPU("no tsan", "FAKE_CUDA_ADDRESS_SHIFT=0x100000000000");

enum { GUARD = 0xa7 };

static h_world world;

typedef struct box {
    uint64_t bytes, rows, planes;
    trp_pitch here, there; /* the first side's and the second's; 0: packed */
} box;

static uint64_t at(const box *b, const trp_pitch *p, uint64_t row, uint64_t plane)
{
    uint64_t by_row = p->row ? p->row : b->bytes;
    uint64_t rows = b->rows ? b->rows : 1;
    return plane * (p->plane ? p->plane : rows * by_row) + row * by_row;
}

static uint64_t span(const box *b, const trp_pitch *p)
{
    uint64_t rows = b->rows ? b->rows : 1, planes = b->planes ? b->planes : 1;
    return b->bytes ? at(b, p, rows - 1, planes - 1) + b->bytes : 0;
}

/* What a copy shall do, a byte at a time. */
static void expect(const box *b, char *to, const trp_pitch *to_pitch, const char *from,
                   const trp_pitch *from_pitch)
{
    for (uint64_t z = 0; z < (b->planes ? b->planes : 1); z++)
        for (uint64_t y = 0; y < (b->rows ? b->rows : 1); y++)
            for (uint64_t x = 0; x < b->bytes; x++)
                to[at(b, to_pitch, y, z) + x] = from[at(b, from_pitch, y, z) + x];
}

/* Memory of the program, ordinary or the device's to reach. */
static char *host(bool pinned, uint64_t bytes)
{
    void *memory = NULL;
    if (pinned)
        H_OK(trp_host_alloc(world.device, bytes + 1, &memory));
    else
        memory = h_malloc(bytes + 1);
    return memory;
}

static void free_host(bool pinned, void *memory)
{
    if (pinned)
        H_OK(trp_host_free(world.device, memory));
    else
        free(memory);
}

static trp_status end_of(trp_status sent, const trp_completion *c)
{
    return sent == TRP_OK ? h_await(c->future, NULL) : sent;
}

/* Host to buffer, buffer to buffer, buffer to host: each changes the box and nothing else. */
static void three_ways(const box *b, bool pinned, uint64_t offset)
{
    trp_device *d = world.device;
    uint64_t here = span(b, &b->here) + offset + 40, there = span(b, &b->there) + offset + 40;
    trp_buffer one = h_buffer(d, here), two = h_buffer(d, there);
    char *source = host(pinned, there), *target = host(pinned, here);
    char *want = h_malloc(here > there ? here : there),
         *got = h_malloc(here > there ? here : there);
    trp_completion c = {0};
    h_random_bytes(h_rng(), source, there);

    /* `here` is the pitch in buffer one. */
    H_OK(trp_fill(d, one, 0, here, GUARD, 1, NULL));
    trp_write_request w = {.buffer = one,
                           .offset = offset,
                           .source = source + 1,
                           .bytes = b->bytes,
                           .rows = b->rows,
                           .planes = b->planes,
                           .pitch = b->here,
                           .source_pitch = b->there};
    H_OK(end_of(trp_write_with(d, &w, &c), &c));
    memset(want, GUARD, here);
    expect(b, want + offset, &b->here, source + 1, &b->there);
    h_read(d, one, 0, got, here);
    H_SAME(got, want, here);

    H_OK(trp_fill(d, two, 0, there, GUARD + 1, 1, NULL));
    trp_copy_request k = {.source = one,
                          .source_offset = offset,
                          .target = two,
                          .target_offset = 3,
                          .bytes = b->bytes,
                          .rows = b->rows,
                          .planes = b->planes,
                          .source_pitch = b->here,
                          .target_pitch = b->there};
    H_OK(end_of(trp_copy_with(d, &k, &c), &c));
    memset(got, GUARD + 1, there);
    expect(b, got + 3, &b->there, want + offset, &b->here);
    memcpy(want, got, there);
    h_read(d, two, 0, got, there);
    H_SAME(got, want, there);

    memset(target, GUARD + 2, here);
    trp_read_request r = {.buffer = two,
                          .offset = 3,
                          .target = target + 2,
                          .bytes = b->bytes,
                          .rows = b->rows,
                          .planes = b->planes,
                          .pitch = b->there,
                          .target_pitch = b->here};
    H_OK(end_of(trp_read_with(d, &r, &c), &c));
    memset(got, GUARD + 2, here);
    expect(b, got + 2, &b->here, want + 3, &b->there);
    H_SAME(target, got, here);

    H_OK(trp_buffer_free(d, one));
    H_OK(trp_buffer_free(d, two));
    free_host(pinned, source);
    free_host(pinned, target);
    free(want);
    free(got);
}

static void boxes(void)
{
    static const box all[] = {
        {0, 0, 0, {0, 0}, {0, 0}},
        {1, 0, 0, {0, 0}, {0, 0}},
        {0, 7, 3, {0, 0}, {0, 0}},
        {5000, 1, 1, {0, 0}, {0, 0}},
        {4, 3, 1, {8, 0}, {4, 0}},
        {4, 3, 1, {0, 0}, {9, 0}},
        {12, 8, 5, {64, 512}, {12, 96}},           /* merges on one side only */
        {12, 8, 5, {16, 128}, {16, 128}},          /* planes follow each other */
        {16, 8, 5, {16, 200}, {16, 128}},          /* rows follow each other */
        {16, 1, 100, {16, 48}, {16, 16}},          /* planes of one row */
        {1, 1000, 3, {2, 0}, {3, 3001}},           /* short rows */
        {3, 2, 700, {5, 11}, {3, 6}},              /* more planes than rows */
        {1000, 33, 1, {1024, 0}, {1000, 0}},       /* a large piece, not its size */
        {65536, 2, 1, {65537, 0}, {65536, 0}},     /* above it */
        {100000, 40, 1, {100001, 0}, {131072, 0}}, /* rows longer than chunks */
        {7777, 300, 2, {8192, 0}, {7777, 2400000}},
        {300, 2000, 4, {301, 0}, {512, 0}}, /* many chunks, of many rows */
        {1 << 20, 5, 1, {(1 << 20) + 4, 0}, {1 << 20, 0}},
    };
    world = h_open(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int pinned = 0; pinned < 2; pinned++) {
            box turned = all[i];
            turned.here = all[i].there;
            turned.there = all[i].here;
            three_ways(&all[i], pinned, 0);
            three_ways(&turned, pinned, 13);
        }
    }
    h_close(&world);
}

static void random_boxes(void)
{
    world = h_open(NULL);
    for (int i = 0; i < (H_SANITIZED ? 40 : 200); i++) {
        ref_rng *rng = h_rng();
        box b = {.bytes = h_random_size(rng, 3000),
                 .rows = ref_rng_below(rng, 60),
                 .planes = ref_rng_below(rng, 12)};
        uint64_t rows = b.rows ? b.rows : 1;
        trp_pitch *p[] = {&b.here, &b.there};
        for (int k = 0; k < 2; k++) {
            p[k]->row = ref_rng_below(rng, 3) ? b.bytes + ref_rng_below(rng, 100) : 0;
            uint64_t least = rows * (p[k]->row ? p[k]->row : b.bytes);
            p[k]->plane = ref_rng_below(rng, 3) ? least + ref_rng_below(rng, 100) : 0;
        }
        three_ways(&b, ref_rng_below(rng, 2), ref_rng_below(rng, 100));
    }
    h_close(&world);
}

/* Rows of planes that lie among each other's gaps may be as close as their last row ends. */
static void tight_planes(void)
{
    world = h_open(NULL);
    const box b = {.bytes = 3, .rows = 4, .planes = 3, .here = {10, 33}, .there = {3, 12}};
    three_ways(&b, false, 0);
    three_ways(&b, true, 5);
    h_close(&world);
}

/* Within one buffer, side by side. */
static void in_one_buffer(void)
{
    enum { N = 64 };
    world = h_open(NULL);
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

/* ---- patterns ---- */

static void patterns(void)
{
    static const uint64_t sizes[] = {0,    16,   32,   1008,  1024,    1040,
                                     2048, 4096, 4112, 65536, 1 << 20, (3 << 20) + 48};
    world = h_open(NULL);
    trp_device *d = world.device;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t bytes = sizes[i], size = bytes + 64;
        char *got = h_malloc(size), *want = h_malloc(size), pattern[16];
        trp_buffer b = h_buffer(d, size);
        for (uint32_t width = 1; width <= 16; width *= 2) {
            for (int same = 0; same < 3; same++) {
                trp_completion c = {0};
                h_random_bytes(h_rng(), pattern, sizeof pattern);
                for (int k = 0; same && k < 16; k++)
                    pattern[k] = pattern[same == 1 ? k % 8 : k % 4];
                H_OK(trp_fill(d, b, 0, size, GUARD, 1, NULL));
                const trp_fill_request r = {
                    .buffer = b, .offset = 32, .bytes = bytes, .pattern = pattern, .width = width};
                H_OK(end_of(trp_fill_with(d, &r, &c), &c));
                memset(want, GUARD, size);
                for (uint64_t k = 0; k < bytes; k++)
                    want[32 + k] = pattern[k % width];
                h_read(d, b, 0, got, size);
                H_SAME(got, want, size);
            }
        }
        H_OK(trp_buffer_free(d, b));
        free(got);
        free(want);
    }
    h_close(&world);
}

/* ---- refusals ---- */

static void refused(const char *text, trp_write_request r)
{
    static char byte[64];
    r.source = byte;
    H_IS(trp_write_with(world.device, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS(text);
}

static void refusals(void)
{
    world = h_open(NULL);
    trp_device *d = world.device;
    trp_buffer b = h_filled(d, 1 << 16, 0);
    char byte[16] = {0};
    uint64_t sent = h_info(d).requests_submitted;
    const trp_write_request good = {.buffer = b, .bytes = 8, .rows = 4};
    trp_write_request r = good;
    r.pitch.row = 7;
    refused("pitch.row: expected at least the 8 bytes of a row, got 7", r);
    r = good;
    r.source_pitch.row = 1;
    refused("source_pitch.row: expected", r);
    r = good;
    r.planes = 2;
    r.pitch.plane = 31;
    refused("pitch.plane: expected at least the 32 bytes that the rows of a plane span", r);
    r = good;
    r.rows = UINT64_MAX;
    refused("reach further than memory", r);
    r = good;
    r.rows = r.planes = UINT64_C(1) << 40;
    refused("reach further than memory", r);
    r = good;
    r.planes = 3;
    r.source_pitch.plane = INT64_MAX;
    refused("source_pitch: 3 planes of 4 rows of 8 bytes reach", r);
    r = good;
    r.offset = (1 << 16) - 31;
    refused("buffer: the request needs bytes 65505 to 65505 + 32, the buffer has 65536", r);
    r = good;
    r.pitch.row = 1 << 15;
    refused("+ 98312, the buffer has 65536", r);
    r = good;
    r.header.wait_ns = -7;
    refused("wait_ns", r);
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

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"boxes", boxes},
        {"random_boxes", random_boxes},
        {"tight_planes", tight_planes},
        {"in_one_buffer", in_one_buffer},
        {"patterns", patterns},
        {"refusals", refusals},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
