/* The random actor beside tests/conformance: whole tensors and parts of them, states that requests
 * share and advance, a worker that dies between, tensors of nothing, ends of streams. */
#include "support/harness.h"

#include <math.h>

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no tsan");

static h_world world;
static trp_actor *actor;

static void open_world(void)
{
    world = h_open(NULL);
    actor = h_actor(world.device, "random");
}

static trp_random_request line(trp_random_distribution distribution, trp_dtype type, trp_buffer y,
                               int64_t count)
{
    return (trp_random_request){.distribution = distribution,
                                .seed = 42,
                                .rank = 1,
                                .y = {.buffer = y, .type = type, .dim = {count}}};
}

static void fill(const trp_random_request *r)
{
    trp_completion done = {0};
    H_OK(trp_random(actor, r, &done));
    H_OK(h_await_any(done));
}

/* A matrix at once, by its columns from places of their own, and in three parts: the same bits. */
static void parts_of_a_matrix(void)
{
    enum { ROWS = 300, COLUMNS = 70, COUNT = ROWS * COLUMNS };
    static const struct {
        trp_random_distribution distribution;
        trp_dtype type;
    } kinds[] = {{TRP_RANDOM_NORMAL, TRP_F32},     {TRP_RANDOM_NORMAL, TRP_C128},
                 {TRP_RANDOM_GUMBEL, TRP_F64},     {TRP_RANDOM_UNIFORM, TRP_BF16},
                 {TRP_RANDOM_BERNOULLI, TRP_BOOL}, {TRP_RANDOM_BITS, TRP_I64}};
    open_world();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t size = trp_dtype_bits(kinds[i].type) / 8, bytes = COUNT * size;
        const uint64_t words = trp_random_words(kinds[i].distribution, kinds[i].type);
        const uint64_t base = ref_rng_next(h_rng()) >> 1;
        char *whole = h_malloc(bytes), *other = h_malloc(bytes);
        trp_buffer y = h_filled(world.device, bytes, 0);
        trp_random_request r = line(kinds[i].distribution, kinds[i].type, y, ROWS);
        r.rank = 2;
        r.y.dim[1] = COLUMNS;
        r.offset = base;
        fill(&r);
        h_read(world.device, y, 0, whole, bytes);
        H_OK(trp_buffer_free(world.device, y));
        y = h_filled(world.device, bytes, 0);
        r = line(kinds[i].distribution, kinds[i].type, y, 0);
        for (int64_t at = 0; at < COUNT; at += r.y.dim[0]) {
            r.y.dim[0] = at == 0 ? 1 : at == 1 ? 7001 : COUNT - at;
            r.y.offset = (uint64_t)at * size;
            r.offset = base + (uint64_t)at * words;
            fill(&r);
        }
        h_read(world.device, y, 0, other, bytes);
        H_SAME(other, whole, bytes);
        /* The transpose in memory has the same number at an index. */
        r.rank = 2;
        r.y.offset = 0;
        r.y.dim[0] = ROWS;
        r.y.dim[1] = COLUMNS;
        r.y.stride[0] = 1;
        r.y.stride[1] = ROWS;
        r.offset = base;
        fill(&r);
        h_read(world.device, y, 0, other, bytes);
        for (size_t k = 0; k < COUNT; k++)
            H_SAME(other + (k % COLUMNS * ROWS + k / COLUMNS) * size, whole + k * size, size);
        H_OK(trp_buffer_free(world.device, y));
        free(whole);
        free(other);
    }
    h_close(&world);
}

/* Two states in turns: ten requests without a wait between draw what one of the whole length draws.
 */
static void states_in_turns(void)
{
    enum { ROUNDS = 10, COUNT = 1001 };
    const uint64_t start[2] = {42, UINT64_MAX - 4 * 1004 + 1}; /* wraps in the fifth round */
    const uint64_t span = trp_random_span(TRP_RANDOM_NORMAL, TRP_F32, COUNT);
    static float got[ROUNDS * COUNT], wanted[COUNT];
    uint64_t after[2];
    open_world();
    H_EQUAL(span, 1004);
    trp_buffer state[2], y = h_buffer(world.device, sizeof got);
    for (int i = 0; i < 2; i++)
        state[i] = h_buffer(world.device, 16);
    h_write(world.device, state[0], 0, start, sizeof start);
    for (int i = 0; i < ROUNDS; i++) {
        trp_random_request r = line(TRP_RANDOM_NORMAL, TRP_F32, y, COUNT);
        r.seed = 0;
        r.state = state[i % 2];
        r.y.offset = (uint64_t)i * COUNT * sizeof(float);
        H_OK(trp_random(actor, &r, NULL));
        const trp_random_advance_request step = {
            .from = state[i % 2], .to = state[1 - i % 2], .words = span};
        H_OK(trp_random_advance(actor, &step, NULL));
    }
    h_read(world.device, y, 0, got, sizeof got);
    h_read(world.device, state[0], 0, after, sizeof after);
    H_EQUAL(after[0], 42);
    H_EQUAL(after[1], start[1] + ROUNDS * span);
    trp_buffer z = h_buffer(world.device, sizeof wanted);
    for (int i = 0; i < ROUNDS; i++) {
        trp_random_request r = line(TRP_RANDOM_NORMAL, TRP_F32, z, COUNT);
        r.offset = start[1] + (uint64_t)i * span;
        fill(&r);
        h_read(world.device, z, 0, wanted, sizeof wanted);
        H_SAME(got + i * COUNT, wanted, sizeof wanted);
    }
    h_close(&world);
}

/* Types of one distribution draw from the same words. */
static void types_agree(void)
{
    enum { COUNT = 4000 };
    static float narrow[COUNT];
    static double wide[COUNT];
    static uint8_t mask[COUNT];
    open_world();
    trp_buffer y = h_buffer(world.device, sizeof wide);
    trp_random_request r = line(TRP_RANDOM_DROPOUT, TRP_F32, y, COUNT);
    r.p = trp_real(0.2);
    fill(&r);
    h_read(world.device, y, 0, narrow, sizeof narrow);
    r.y.type = TRP_F64;
    fill(&r);
    h_read(world.device, y, 0, wide, sizeof wide);
    r.distribution = TRP_RANDOM_BERNOULLI;
    r.y.type = TRP_BOOL;
    fill(&r);
    h_read(world.device, y, 0, mask, sizeof mask);
    for (int i = 0; i < COUNT; i++) {
        H_CHECK(narrow[i] == (mask[i] ? 0 : 1.25F));
        H_CHECK(wide[i] == (mask[i] ? 0 : 1.25));
    }
    /* Loc and scale 0: all numbers are loc, also those of normals. */
    r = line(TRP_RANDOM_CAUCHY, TRP_F32, y, COUNT);
    r.loc = trp_real(-3);
    r.scale = trp_real(0);
    fill(&r);
    h_read(world.device, y, 0, narrow, sizeof narrow);
    for (int i = 0; i < COUNT; i++)
        H_CHECK(narrow[i] == -3);
    h_close(&world);
}

/* Nothing to fill needs no buffer; the last word of a stream is one, and the next is refused. */
static void ends_of_everything(void)
{
    int32_t last = 0, first = 0;
    open_world();
    trp_buffer y = h_buffer(world.device, 8);
    trp_random_request r = line(TRP_RANDOM_NORMAL, TRP_F64, (trp_buffer){0}, 0);
    fill(&r);
    r = line(TRP_RANDOM_BITS, TRP_I32, y, 1);
    r.offset = UINT64_MAX;
    fill(&r);
    h_read(world.device, y, 0, &last, sizeof last);
    r.y.dim[0] = 2;
    H_IS(trp_random(actor, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("offset");
    r.y.dim[0] = 1;
    r.offset = 0;
    fill(&r);
    h_read(world.device, y, 0, &first, sizeof first);
    H_CHECK(first != last);
    r = line(TRP_RANDOM_BITS, TRP_I64, y, 1);
    r.offset = UINT64_MAX - 1;
    fill(&r);
    r.offset = UINT64_MAX; /* the next even word is beyond */
    H_IS(trp_random(actor, &r, NULL), TRP_E_ARGUMENT);
    r = line(TRP_RANDOM_UNIFORM, TRP_F16, y, 1);
    r.high = trp_real(65519);
    fill(&r);
    r.high = trp_real(65520); /* rounds to infinity */
    H_IS(trp_random(actor, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("high");
    r.low = trp_real(1);
    r.high = trp_real(1.0001); /* rounds to low */
    H_IS(trp_random(actor, &r, NULL), TRP_E_ARGUMENT);
    r.high = trp_real(1.001); /* the next number of f16 */
    fill(&r);
    r.ends = TRP_RANDOM_OPEN;
    H_IS(trp_random(actor, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("between");
    r = line(TRP_RANDOM_DROPOUT, TRP_F16, y, 1);
    r.p = trp_real(0.99999);
    H_IS(trp_random(actor, &r, NULL), TRP_E_ARGUMENT);
    H_SAYS("1 / (1 - p)");
    h_close(&world);
}

/* Sends the request to a device of its own, and reads the bits. */
static trp_status draw_on(const h_world *on, trp_actor *by, trp_random_request r, char *out,
                          size_t bytes)
{
    trp_completion done = {0};
    r.y.buffer = h_filled(on->device, bytes, 0);
    const trp_status status = trp_random(by, &r, &done);
    if (status == TRP_OK) {
        H_OK(h_await_any(done));
        h_read(on->device, r.y.buffer, 0, out, bytes);
    }
    H_OK(trp_buffer_free(on->device, r.y.buffer));
    return status;
}

static trp_random_request any_request(trp_random_distribution distribution, trp_dtype type,
                                      int64_t count)
{
    trp_random_request r = line(distribution, type, (trp_buffer){0}, count);
    const bool apart = ref_rng_below(h_rng(), 3) == 0;
    r.seed = ref_rng_next(h_rng());
    r.stream = ref_rng_next(h_rng());
    r.offset = ref_rng_next(h_rng()) >> 1;
    r.y.offset = ref_rng_below(h_rng(), 5) * (trp_dtype_bits(type) / 8);
    r.y.stride[0] = apart ? 2 : 0;
    if (distribution == TRP_RANDOM_INTEGERS)
        r.high_integer = 100;
    if (distribution == TRP_RANDOM_UNIFORM)
        r.ends = (trp_random_ends)ref_rng_below(h_rng(), 4);
    if (distribution == TRP_RANDOM_UNIFORM && apart)
        r.low = trp_real(-3);
    return r;
}

/* A GPU and the host have equal bits: in packs, at odd places, apart, far into a stream. */
static void bits_of_the_host(void)
{
    enum { COUNT = 5003, ROOM = 3 * COUNT * 16, KINDS = TRP_RANDOM_DROPOUT + 1, ROUNDS = 4 };
    static const trp_dtype types[] = {TRP_F32,  TRP_F16, TRP_BF16, TRP_F64, TRP_C64,
                                      TRP_C128, TRP_I8,  TRP_I32,  TRP_I64, TRP_BOOL};
    enum { TYPES = sizeof types / sizeof *types };
    trp_device_options options = h_options();
    if (!h_is_cuda())
        h_skip("it compares a GPU with the host");
    open_world();
    options.backend = TRP_BACKEND_HOST;
    h_world other = h_open(&options);
    trp_actor *of_host = h_actor(other.device, "random");
    char *gpu = h_malloc(ROOM), *host = h_malloc(ROOM);
    int compared = 0;
    for (int i = 0; i < TYPES * KINDS * ROUNDS; i++) {
        const trp_random_request r =
            any_request((trp_random_distribution)(i % KINDS), types[i / KINDS % TYPES], COUNT);
        const trp_status status = draw_on(&other, of_host, r, host, ROOM);
        H_IS(draw_on(&world, actor, r, gpu, ROOM), status);
        if (status == TRP_E_ARGUMENT)
            continue; /* the distribution lacks the type */
        H_OK(status);
        H_SAME(gpu, host, ROOM);
        compared++;
    }
    H_EQUAL(compared, ROUNDS * (2 + 3 + 4 + 6 + 5 * 4 + 8 + 4));
    free(gpu);
    free(host);
    h_close(&other);
    h_close(&world);
}

H_CASES(H_CASE(bits_of_the_host), H_CASE(parts_of_a_matrix), H_CASE(states_in_turns),
        H_CASE(types_agree), H_CASE(ends_of_everything))
