/* Requests on a device's memory in the conformance suite: copies of boxes of rows in every
 * direction, compared with loops over bytes, and fills with patterns of all widths. */
#include "conformance/conformance.h"

TROUPE_TEST_FAKE_GPU("no tsan", "FAKE_CUDA_ADDRESS_SHIFT=0x100000000000");

/* ---- boxes ---- */

typedef struct box {
    uint64_t bytes, rows, planes;
    /* pitches on one side, in the buffer or at the source, and on the other; 0: packed */
    trp_pitch here, there;
} box;

static const box boxes[] = {
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
    {3, 4, 3, {10, 33}, {3, 12}},              /* planes as close as their last rows end */
    {1, 1000, 3, {2, 0}, {3, 3001}},           /* short rows */
    {3, 2, 700, {5, 11}, {3, 6}},              /* more planes than rows */
    {1000, 33, 1, {1024, 0}, {1000, 0}},       /* below 64 KiB */
    {65536, 2, 1, {65537, 0}, {65536, 0}},     /* above 64 KiB */
    {100000, 40, 1, {100001, 0}, {131072, 0}}, /* rows longer than chunks */
    {7777, 300, 2, {8192, 0}, {7777, 2400000}},
    {300, 2000, 4, {301, 0}, {512, 0}}, /* many chunks, of many rows */
    {1 << 20, 5, 1, {(1 << 20) + 4, 0}, {1 << 20, 0}},
};
enum { BOXES = sizeof boxes / sizeof *boxes, WAYS = 2 * BOXES + 60 };

static uint64_t below(uint64_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static uint64_t at_least(uint64_t count)
{
    return count ? count : 1;
}

static uint64_t at(const box *b, const trp_pitch *p, uint64_t row, uint64_t plane)
{
    const uint64_t by_row = p->row ? p->row : b->bytes;
    return plane * (p->plane ? p->plane : at_least(b->rows) * by_row) + row * by_row;
}

static uint64_t span(const box *b, const trp_pitch *p)
{
    return b->bytes ? at(b, p, at_least(b->rows) - 1, at_least(b->planes) - 1) + b->bytes : 0;
}

static box draw_box(unsigned way, bool tight)
{
    box b = {.bytes = tight ? 2 + below(100) : h_random_size(h_rng(), 3000),
             .rows = tight ? 2 + below(9) : below(60),
             .planes = tight ? 2 + below(5) : below(12)};
    trp_pitch *p[] = {&b.here, &b.there};
    if (way < 2 * BOXES && !tight) {
        b = boxes[way / 2];
        if (way % 2) {
            b.here = boxes[way / 2].there;
            b.there = boxes[way / 2].here;
        }
        return b;
    }
    for (int k = 0; k < 2; k++) {
        p[k]->row = below(3) ? b.bytes + below(100) : 0;
        const uint64_t least = at_least(b.rows) * (p[k]->row ? p[k]->row : b.bytes);
        p[k]->plane = below(3) ? least + below(100) : 0;
    }
    return b;
}

/* ---- problems ---- */

enum { HERE, THERE, BUFFERS };

typedef struct problem {
    box box;
    uint32_t op, width;
    uint64_t offset[BUFFERS]; /* offsets in the buffers, or in the application's memory */
    bool one_buffer;          /* source and target are in the same buffer */
    block blocks[BUFFERS];
    /* the bytes that the target must hold: of a block, or of the memory that a read fills */
    char *wanted;
    char pattern[16];
    /* Memory of the application, ordinary or pinned by the device. */
    bool pinned;
    char *memory;
    uint64_t bytes;
    trp_device *device; /* the device that pinned it */
} problem;

static char *random_bytes(uint64_t bytes)
{
    return h_random_block(h_rng(), bytes ? bytes : 1);
}

static void make_block(problem *p, int side, const trp_pitch *pitch, bool tight)
{
    const uint64_t bytes = p->offset[side] + span(&p->box, pitch) + (tight ? 0 : 1 + below(40));
    p->blocks[side] = block_make(bytes, random_bytes(bytes));
}

/* Computes a copy byte by byte, and marks the bytes that it writes. */
static void expect(const problem *p, char *to, const trp_pitch *to_pitch, const char *from,
                   const trp_pitch *from_pitch, bool *writable)
{
    const box *b = &p->box;
    for (uint64_t z = 0; z < at_least(b->planes); z++) {
        for (uint64_t y = 0; y < at_least(b->rows); y++) {
            const uint64_t into = at(b, to_pitch, y, z);
            memcpy(to + into, from + at(b, from_pitch, y, z), b->bytes);
            if (writable)
                memset(writable + into, true, b->bytes);
        }
    }
}

static char *copy_of(const void *bytes, uint64_t count)
{
    char *copy = h_malloc(count ? count : 1);
    memcpy(copy, bytes, count);
    return copy;
}

static void draw_fill(problem *p, unsigned way, bool tight)
{
    static const uint64_t sizes[] = {16,   32,   1008,  1024,    1040,
                                     2048, 4096, 65536, 1 << 20, (3 << 20) + 48};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const unsigned same = way / 5 % 3;
    p->width = 1U << way % 5;
    p->box = (box){.bytes = way % 4 == 3  ? 0
                            : way % 4 > 0 ? sizes[way / 4 % SIZES]
                                          : p->width * below(3000)};
    if (tight) { /* at any offset */
        p->width = 1;
        p->box.bytes = 2 + below(9);
    }
    p->offset[HERE] = p->width * p->offset[HERE];
    for (int k = 0; same && k < 16; k++)
        p->pattern[k] = p->pattern[same == 1 ? k % 8 : k % 4];
    make_block(p, HERE, &p->box.here, tight);
    const block *b = &p->blocks[HERE];
    p->wanted = copy_of(b->before, b->bytes);
    for (uint64_t k = 0; k < p->box.bytes; k++)
        p->wanted[p->offset[HERE] + k] = p->pattern[k % p->width];
    memset(b->writable + p->offset[HERE], true, p->box.bytes);
}

/* Draws a copy from HERE, which may be the target as well. */
static void draw_copy(problem *p, bool tight)
{
    const box *b = &p->box;
    p->one_buffer = !tight && below(4) == 0;
    make_block(p, HERE, &b->here, tight);
    const block *from = &p->blocks[HERE], *to = from;
    if (p->one_buffer) {
        problem both = *p;
        both.offset[HERE] += span(b, &b->here) + below(9);
        p->offset[THERE] = both.offset[HERE];
        block_free(&p->blocks[HERE]);
        make_block(&both, HERE, &b->there, false);
        p->blocks[HERE] = both.blocks[HERE];
    } else {
        make_block(p, THERE, &b->there, tight);
        to = &p->blocks[THERE];
    }
    p->wanted = copy_of(to->before, to->bytes);
    expect(p, p->wanted + p->offset[THERE], &b->there, from->before + p->offset[HERE], &b->here,
           to->writable + p->offset[THERE]);
}

/* Draws a copy between a buffer and memory of the application. */
static void draw_transfer(problem *p, bool tight)
{
    const box *b = &p->box;
    make_block(p, HERE, &b->here, tight);
    const block *own = &p->blocks[HERE];
    p->pinned = below(2);
    p->bytes = p->offset[THERE] + span(b, &b->there) + 1;
    p->memory = random_bytes(p->bytes);
    if (p->op == TRP_OP_READ) {
        p->wanted = copy_of(p->memory, p->bytes);
        expect(p, p->wanted + p->offset[THERE], &b->there, own->before + p->offset[HERE], &b->here,
               NULL);
        return;
    }
    p->wanted = copy_of(own->before, own->bytes);
    expect(p, p->wanted + p->offset[HERE], &b->here, p->memory + p->offset[THERE], &b->there,
           own->writable + p->offset[HERE]);
}

static bool draw(cf_problem *problem_, unsigned way, cf_kind kind)
{
    const bool tight = kind == CF_TIGHT;
    problem *p = h_malloc(sizeof *p);
    *p = (problem){.op = problem_->operation->op, .box = draw_box(way, tight)};
    for (int side = 0; side < BUFFERS && !tight; side++)
        p->offset[side] = below(2) * below(100);
    h_random_bytes(h_rng(), p->pattern, sizeof p->pattern);
    if (p->op == TRP_OP_FILL)
        draw_fill(p, way, tight);
    else if (p->op == TRP_OP_COPY)
        draw_copy(p, tight);
    else
        draw_transfer(p, tight);
    problem_->own = p;
    problem_->blocks = p->blocks;
    problem_->block_count = BUFFERS;
    return true;
}

static void drop(cf_problem *problem_)
{
    problem *p = problem_->own;
    if (p->device)
        H_OK(trp_host_free(p->device, p->memory));
    else
        free(p->memory);
    free(p->wanted);
    free(p);
}

/* ---- requests ---- */

static void make_request(const cf_problem *problem_, void *out)
{
    const problem *p = problem_->own;
    const trp_buffer here = p->blocks[HERE].buffer,
                     there = p->one_buffer ? here : p->blocks[THERE].buffer;
    char *memory = p->memory + p->offset[THERE];
#define BOX .bytes = p->box.bytes, .rows = p->box.rows, .planes = p->box.planes
    switch (p->op) {
    case TRP_OP_WRITE:
        *(trp_write_request *)out = (trp_write_request){.buffer = here,
                                                        .offset = p->offset[HERE],
                                                        .source = memory,
                                                        BOX,
                                                        .pitch = p->box.here,
                                                        .source_pitch = p->box.there};
        break;
    case TRP_OP_READ:
        *(trp_read_request *)out = (trp_read_request){.buffer = here,
                                                      .offset = p->offset[HERE],
                                                      .target = memory,
                                                      BOX,
                                                      .pitch = p->box.here,
                                                      .target_pitch = p->box.there};
        break;
    case TRP_OP_COPY:
        *(trp_copy_request *)out = (trp_copy_request){.source = here,
                                                      .source_offset = p->offset[HERE],
                                                      .target = there,
                                                      .target_offset = p->offset[THERE],
                                                      BOX,
                                                      .source_pitch = p->box.here,
                                                      .target_pitch = p->box.there};
        break;
    default:
        *(trp_fill_request *)out = (trp_fill_request){.buffer = here,
                                                      .offset = p->offset[HERE],
                                                      .bytes = p->box.bytes,
                                                      .pattern = p->pattern,
                                                      .width = p->width};
    }
#undef BOX
}

static trp_status submit(trp_actor *any, const cf_problem *problem_, void *request,
                         trp_completion *done)
{
    (void)problem_;
    return trp_device_submit(trp_actor_device(any), request, done);
}

static trp_status send(trp_actor *any, const cf_problem *problem_, trp_completion *done)
{
    problem *p = problem_->own;
    _Alignas(16) unsigned char request[CF_REQUEST_BYTES];
    trp_request *header = (trp_request *)(void *)request;
    if (p->pinned && !p->device) {
        void *taken;
        p->device = trp_actor_device(any);
        H_OK(trp_host_alloc(p->device, p->bytes, &taken));
        memcpy(taken, p->memory, p->bytes);
        free(p->memory);
        p->memory = taken;
    }
    make_request(problem_, request);
    header->op = p->op;
    header->size = (uint32_t)problem_->operation->family->request_bytes;
    return submit(any, problem_, request, done);
}

static bool check(cf_problem *problem_, cf_tally *tally)
{
    const problem *p = problem_->own;
    const block *target = &p->blocks[p->op == TRP_OP_COPY && !p->one_buffer ? THERE : HERE];
    const bool reads = p->op == TRP_OP_READ;
    (void)tally;
    if (memcmp(reads ? p->memory : target->after, p->wanted, reads ? p->bytes : target->bytes) == 0)
        return true;
    fprintf(stderr,
            "%llu bytes x %llu x %llu, pitches %llu %llu and %llu %llu, offsets %llu and %llu\n",
            (unsigned long long)p->box.bytes, (unsigned long long)p->box.rows,
            (unsigned long long)p->box.planes, (unsigned long long)p->box.here.row,
            (unsigned long long)p->box.here.plane, (unsigned long long)p->box.there.row,
            (unsigned long long)p->box.there.plane, (unsigned long long)p->offset[HERE],
            (unsigned long long)p->offset[THERE]);
    return false;
}

/* ---- operations ---- */

enum { FIRST = 1, SECOND = 2 };

#define BUFFER(of, x, at_offset, bit)                                                              \
    {                                                                                              \
#x, offsetof(trp_##of##_request, x), offsetof(trp_##of##_request, at_offset), bit, bit,    \
            TRP_E_STALE                                                                            \
    }
#define FIELD(of, field, text, what)                                                               \
    {                                                                                              \
        .name = text, .role = what, .at = offsetof(trp_##of##_request, field), .has = FIRST        \
    }
#define BOX(of, one, other)                                                                        \
    FIELD(of, bytes, "bytes", CF_COUNT), FIELD(of, rows, "rows", CF_COUNT),                        \
        FIELD(of, planes, "planes", CF_COUNT), FIELD(of, one.row, "pitch", CF_LD),                 \
        FIELD(of, other.row, "pitch", CF_LD), FIELD(of, one.plane, "pitch", CF_LD),                \
        FIELD(of, other.plane, "pitch", CF_LD)

static const cf_operand write_operands[] = {BUFFER(write, buffer, offset, FIRST)},
                        read_operands[] = {BUFFER(read, buffer, offset, FIRST)},
                        copy_operands[] = {BUFFER(copy, source, source_offset, FIRST),
                                           BUFFER(copy, target, target_offset, SECOND)},
                        fill_operands[] = {BUFFER(fill, buffer, offset, FIRST)};
static const cf_field write_fields[] = {BOX(write, pitch, source_pitch)},
                      read_fields[] = {BOX(read, pitch, target_pitch)},
                      copy_fields[] = {BOX(copy, source_pitch, target_pitch)},
                      fill_fields[] = {FIELD(fill, bytes, "bytes", CF_COUNT)};

#define FAMILY(of)                                                                                 \
    &(const cf_family)                                                                             \
    {                                                                                              \
        .operands = of##_operands, .fields = of##_fields,                                          \
        .operand_count = sizeof of##_operands / sizeof *of##_operands,                             \
        .field_count = sizeof of##_fields / sizeof *of##_fields,                                   \
        .request_bytes = sizeof(trp_##of##_request), .draw = draw, .request = make_request,        \
        .send = send, .submit = submit, .check = check, .drop = drop, .again = true                \
    }
#define OPERATION(of, code, written)                                                               \
    {                                                                                              \
        .name = #of, .op = code, .family = FAMILY(of), .variants = bytes, .variant_count = 1,      \
        .ways = WAYS, .has = FIRST | SECOND, .writes = written, .runs_again = true                 \
    }

int main(int argc, char **argv)
{
    static const cf_variant bytes[] = {{.name = "bytes", .type = TRP_U8}};
    const cf_operation operations[] = {
        OPERATION(write, TRP_OP_WRITE, FIRST),
        OPERATION(read, TRP_OP_READ, 0),
        OPERATION(copy, TRP_OP_COPY, SECOND),
        OPERATION(fill, TRP_OP_FILL, FIRST),
    };
    const cf_actor memory = {
        .kind = "probe", .title = "memory", .operations = operations, .count = 4, .rounds = WAYS};
    return cf_main(argc, argv, &memory);
}
