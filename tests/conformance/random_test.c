/* Random numbers in the conformance suite: tensors in any layout, from any position of a stream,
 * against the law of counters in long double. */
#include "conformance/conformance.h"
#include "support/reference/random_reference.h"

#include <math.h>

TROUPE_TEST("one isolation", "no tsan", "computes");
TROUPE_TEST_FAKE_GPU("no sanitizer");

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { RANK = TRP_RANDOM_RANK_MAX, Y = 0, STATE = 1 };

/* What a distribution has. */
enum { ALWAYS = 1, ENDS = 2, LOC = 4, SCALE = 8, P = 16, WHOLE = 32 };
enum { WAYS = 8, BY_STATE = 1, DEFAULTS = 2, FAR = 4 };

/* ---- the request ---- */

static const cf_operand operands[] = {
    {"y", offsetof(trp_random_request, y.buffer), offsetof(trp_random_request, y.offset), ALWAYS,
     ALWAYS, TRP_E_STALE},
    {"state", offsetof(trp_random_request, state), offsetof(trp_random_request, state_offset),
     ALWAYS, 0, TRP_E_STALE},
};

static const cf_field fields[] = {
    {"y.type", CF_TYPE, offsetof(trp_random_request, y.type), ALWAYS, 0, 0, 0},
    {"generator", CF_OPTION, offsetof(trp_random_request, generator), ALWAYS, 1, 0, 0},
    {"distribution", CF_OPTION, offsetof(trp_random_request, distribution), ALWAYS,
     TRP_RANDOM_DROPOUT + 1, 0, 0},
    {"ends", CF_OPTION, offsetof(trp_random_request, ends), ENDS, TRP_RANDOM_OPEN_LOW + 1, 0, 0},
    {"low", CF_SCALAR, offsetof(trp_random_request, low), ENDS, 0, ENDS, 0},
    {"high", CF_SCALAR, offsetof(trp_random_request, high), ENDS, 0, ENDS, 0},
    {"loc", CF_SCALAR, offsetof(trp_random_request, loc), LOC, 0, 0, 0},
    {"scale", CF_SCALAR, offsetof(trp_random_request, scale), SCALE, 0, SCALE, 0},
    {"p", CF_SCALAR, offsetof(trp_random_request, p), P, 0, P, 0},
};

/* ---- problems ---- */

typedef struct numbers {
    trp_random_request r; /* without buffers */
    int64_t stride[RANK]; /* also of packed ones */
    uint64_t seed, offset;
    block blocks[2];
} numbers;

static int64_t below(int64_t bound)
{
    return (int64_t)ref_rng_below(h_rng(), (size_t)bound);
}

static cf_has has(const cf_problem *p)
{
    return p->operation->has;
}

/* Strides in any order of the dimensions, with gaps, and some backwards; returns the elements that
 * the buffer has. */
static int64_t lay_out(numbers *n, cf_kind kind)
{
    trp_random_tensor *y = &n->r.y;
    const int rank = (int)n->r.rank;
    const bool packed = kind == CF_TIGHT || below(2) == 0;
    int order[RANK];
    int64_t next = packed ? 1 : 1 + below(2), first = kind == CF_TIGHT ? 0 : below(5);
    for (int i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    for (int i = rank - 1; i > 0 && !packed; i--) {
        const int k = (int)below(i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (int i = 0; i < rank; i++) {
        const int d = order[i];
        const bool back = !packed && below(6) == 0;
        n->stride[d] = back ? -next : next;
        first += back && y->dim[d] > 0 ? next * (y->dim[d] - 1) : 0;
        next *= y->dim[d] ? y->dim[d] : 1;
        next += packed || below(3) ? 0 : below(4);
    }
    if (!packed)
        memcpy(y->stride, n->stride, sizeof n->stride);
    y->offset = (uint64_t)first * (trp_dtype_bits(y->type) / 8);
    return next + first + (kind == CF_TIGHT ? 0 : below(5));
}

static void choose_integers(trp_random_request *r, cf_kind kind)
{
    const trp_dtype type = r->y.type;
    const int64_t least = type == TRP_U8    ? 0
                          : type == TRP_I8  ? INT8_MIN
                          : type == TRP_I32 ? INT32_MIN
                                            : INT64_MIN;
    const int64_t most = type == TRP_U8    ? UINT8_MAX
                         : type == TRP_I8  ? INT8_MAX
                         : type == TRP_I32 ? INT32_MAX
                                           : INT64_MAX;
    r->low_integer = 1;
    r->high_integer = kind == CF_TIGHT ? 7 : 2 + below(120);
    r->endpoint = kind == CF_RANDOM && below(2);
    if (kind == CF_TIGHT || below(2))
        return;
    r->low_integer = below(2) ? least : least / 4 * 3; /* three quarters and all of the words */
    r->high_integer = below(2) ? most : most / 4 * 3;
    r->endpoint = true;
}

static void choose_parameters(const cf_problem *p, trp_random_request *r, cf_kind kind)
{
    if (has(p) & WHOLE)
        choose_integers(r, kind);
    if (has(p) & ENDS) {
        const double low = (double)(below(64) - 32) / 4;
        r->ends = (trp_random_ends)below(4);
        r->low = trp_real(low);
        r->high = trp_real(low + (double)(1 + below(32)) / 4);
    }
    if (has(p) & LOC)
        r->loc = trp_dtype_bits(r->y.type) == 128 || r->y.type == TRP_C64
                     ? trp_complex(ref_rng_uniform(h_rng(), -3, 3), 0.25)
                     : trp_real((double)(below(64) - 32) / 16);
    if (has(p) & SCALE)
        r->scale = trp_real((double)below(64) / 16);
    if (has(p) & P)
        r->p = trp_real(below(4) ? (double)below(1000) / 1000 : (double)below(2));
}

static void make_blocks(cf_problem *p, numbers *n, int64_t count, bool state)
{
    const size_t size = trp_dtype_bits(n->r.y.type) / 8;
    int64_t index[RANK] = {0}, elements = 1;
    n->blocks[Y] = block_make((size_t)count * size, NULL);
    for (uint32_t i = 0; i < n->r.rank; i++)
        elements *= n->r.y.dim[i];
    for (int64_t e = 0; e < elements; e++) {
        int64_t at = (int64_t)(n->r.y.offset / size);
        for (uint32_t i = 0; i < n->r.rank; i++)
            at += index[i] * n->stride[i];
        memset(n->blocks[Y].writable + (size_t)at * size, true, size);
        for (int i = (int)n->r.rank - 1; i >= 0 && ++index[i] == n->r.y.dim[i]; i--)
            index[i] = 0;
    }
    p->block_count = 1;
    if (!state)
        return;
    uint64_t *words = h_malloc(16);
    words[0] = n->seed;
    words[1] = n->offset - n->r.offset;
    n->blocks[STATE] = block_make(16, words);
    n->r.seed = 0;
    p->block_count = 2;
}

static bool draw(cf_problem *p, unsigned way, cf_kind kind)
{
    const bool state = way & BY_STATE;
    if (kind == CF_TIGHT && (way & DEFAULTS))
        return false;
    numbers *n = h_malloc(sizeof *n);
    *n = (numbers){.r = {.distribution = *(const trp_random_distribution *)p->operation->row,
                         .y.type = p->operation->variants[p->variant].type},
                   .seed = ref_rng_next(h_rng()),
                   .offset = (uint64_t)below(64)};
    trp_random_request *r = &n->r;
    r->stream = way & FAR ? ref_rng_next(h_rng()) : (uint64_t)below(3);
    if (way & FAR) /* beyond what 32 bits of a block's number hold; with a state also around 2^64 */
        n->offset = state ? UINT64_MAX - (uint64_t)below(300) : ref_rng_next(h_rng()) >> 1;
    if (state && (way & FAR) && below(2))
        n->offset = n->offset / 4 * 4;
    r->seed = n->seed;
    r->offset = state ? (uint64_t)below(3) : n->offset;
    if (!(way & DEFAULTS) || (has(p) & WHOLE))
        choose_parameters(p, r, kind);
    r->rank = kind == CF_TIGHT ? 2 : below(12) == 0 ? RANK : 1 + (uint32_t)below(4);
    for (uint32_t i = 0; i < r->rank; i++)
        r->y.dim[i] = kind == CF_TIGHT ? 2 + below(4)
                      : r->rank == 1   ? below(3000)
                                       : 1 + below(r->rank <= 2   ? 40
                                                   : r->rank <= 4 ? 7
                                                                  : 3);
    make_blocks(p, n, lay_out(n, kind), state);
    p->own = n;
    p->blocks = n->blocks;
    return true;
}

static void make_request(const cf_problem *p, void *out)
{
    const numbers *n = p->own;
    trp_random_request r = n->r;
    r.y.buffer = n->blocks[Y].buffer;
    if (p->block_count > STATE)
        r.state = n->blocks[STATE].buffer;
    *(trp_random_request *)out = r;
}

static trp_status send(trp_actor *actor, const cf_problem *p, trp_completion *done)
{
    trp_random_request r;
    make_request(p, &r);
    return trp_random(actor, &r, done);
}

static bool check(cf_problem *p, cf_tally *tally)
{
    const numbers *n = p->own;
    const trp_random_request *r = &n->r;
    const size_t size = trp_dtype_bits(r->y.type) / 8;
    const int parts = r->y.type == TRP_C64 || r->y.type == TRP_C128 ? 2 : 1;
    int64_t index[RANK] = {0}, elements = 1;
    for (uint32_t i = 0; i < r->rank; i++)
        elements *= r->y.dim[i];
    for (int64_t e = 0; e < elements; e++) {
        const char *at = n->blocks[Y].after + r->y.offset;
        for (uint32_t i = 0; i < r->rank; i++)
            at += index[i] * n->stride[i] * (int64_t)size;
        for (int part = 0; part < parts; part++) {
            const ref_random_number got = ref_random_load(r->y.type, at, part);
            const ref_random_number wanted = ref_random(r, n->seed, n->offset, (uint64_t)e, part);
            const double error = ref_random_error(r, got, wanted);
            tally->worst = error > tally->worst ? error : tally->worst;
            if (!(error <= 1)) {
                fprintf(stderr,
                        "%s, offset %llu, place %lld: expected %.17Lg or %lld, got %.17Lg\n",
                        p->operation->name, (unsigned long long)n->offset, (long long)e,
                        wanted.value, (long long)wanted.whole, got.value);
                return false;
            }
        }
        for (int i = (int)r->rank - 1; i >= 0 && ++index[i] == r->y.dim[i]; i--)
            index[i] = 0;
    }
    return true;
}

static void drop(cf_problem *p)
{
    free(p->own);
}

/* ---- mistakes ---- */

typedef struct mistake {
    const char *word;
    cf_has has; /* 0: of all */
    void (*make)(trp_random_request *r);
} mistake;

#define MISTAKE(name, ...)                                                                         \
    static void name(trp_random_request *r)                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
MISTAKE(no_rank, r->rank = 0)
MISTAKE(large_rank, r->rank = RANK + 1)
MISTAKE(negative_dim, r->y.dim[0] = -1)
MISTAKE(huge_dim, r->y.dim[0] = INT64_MAX)
MISTAKE(dim_behind, r->y.dim[RANK - 1] = 2)
MISTAKE(many_elements, r->y.dim[0] = r->y.dim[1] = INT64_C(1) << 40)
MISTAKE(one_place, r->y.stride[0] = r->y.stride[1] = 1)
MISTAKE(broadcast, r->y.stride[0] = 1)
MISTAKE(huge_stride, r->y.stride[0] = INT64_MIN; r->y.stride[1] = 1)
MISTAKE(backwards_at_begin, r->y.stride[0] = -64; r->y.stride[1] = 1)
MISTAKE(odd_offset, r->y.offset += trp_dtype_bits(r->y.type) > 8 ? 1 : 1 << 20)
MISTAKE(last_word, r->state.id = 0; r->state_offset = 0; r->offset = UINT64_MAX)
MISTAKE(near_the_end, r->state.id = 0; r->state_offset = 0; r->offset = UINT64_MAX - 2)
MISTAKE(seed_and_state, r->state = r->y.buffer; r->seed = 1)
MISTAKE(place_without_state, r->state.id = 0; r->state_offset = 8)
MISTAKE(low_nan, r->low = trp_real((double)NAN))
MISTAKE(low_infinite, r->low = trp_real(-(double)INFINITY))
MISTAKE(high_nan, r->high = trp_real((double)NAN))
MISTAKE(low_not_given, r->low = (trp_scalar){.re = 1})
MISTAKE(empty_range, r->ends = TRP_RANDOM_HALF_OPEN; r->high = r->low)
MISTAKE(reversed_range, r->ends = TRP_RANDOM_CLOSED; r->high = trp_real(r->low.re - 1))
MISTAKE(wide_range, r->low = trp_real(-0x1.8p1023); r->high = trp_real(0x1.8p1023))
MISTAKE(loc_nan, r->loc = trp_real((double)NAN))
MISTAKE(loc_infinite, r->loc = trp_real((double)INFINITY))
MISTAKE(scale_nan, r->scale = trp_real((double)NAN))
MISTAKE(negative_scale, r->scale = trp_real(-1))
MISTAKE(p_nan, r->p = trp_real((double)NAN))
MISTAKE(negative_p, r->p = trp_real(-0x1p-60))
MISTAKE(large_p, r->p = trp_real(1.0000001))
MISTAKE(no_integers, r->high_integer = r->low_integer; r->endpoint = false)
MISTAKE(reversed_integers, r->high_integer = r->low_integer - 1)
MISTAKE(low_integer_without, r->low_integer = -1)
MISTAKE(integers_without, r->high_integer = 5)
MISTAKE(endpoint_without, r->endpoint = true)
MISTAKE(low_integer_beyond, r->low_integer = INT64_MIN;
        r->low_integer += r->y.type == TRP_I64 ? 10 : 0;
        r->high_integer = r->y.type == TRP_I64 ? INT64_MIN : 7)

static const mistake mistakes[] = {
    {"rank", 0, no_rank},
    {"rank", 0, large_rank},
    {"y.dim[0]", 0, negative_dim},
    {"y.dim[0]", 0, huge_dim},
    {"y.dim[7]", 0, dim_behind},
    {"y.dim", 0, many_elements},
    {"y.stride", 0, one_place},
    {"y.stride", 0, broadcast},
    {"y.stride[0]", 0, huge_stride},
    {"y.offset", 0, backwards_at_begin},
    {"y", 0, odd_offset},
    {"offset", 0, last_word},
    {"offset", 0, near_the_end},
    {"seed", 0, seed_and_state},
    {"state_offset", 0, place_without_state},
    {"low", ENDS, low_nan},
    {"low", ENDS, low_infinite},
    {"high", ENDS, high_nan},
    {"low", ENDS, low_not_given},
    {"high", ENDS, empty_range},
    {"high", ENDS, reversed_range},
    {"", ENDS, wide_range},
    {"loc", LOC, loc_nan},
    {"loc", LOC, loc_infinite},
    {"scale", SCALE, scale_nan},
    {"scale", SCALE, negative_scale},
    {"p", P, p_nan},
    {"p", P, negative_p},
    {"p", P, large_p},
    {"high_integer", WHOLE, no_integers},
    {"high_integer", WHOLE, reversed_integers},
    {"_integer", WHOLE, low_integer_beyond},
    {"low_integer", ~(cf_has)WHOLE, low_integer_without},
    {"high_integer", ~(cf_has)WHOLE, integers_without},
    {"endpoint", ~(cf_has)WHOLE, endpoint_without},
};

/* ~WHOLE stands for those without. */
static bool applies(const cf_problem *p, const mistake *m)
{
    if (m->has == ~(cf_has)WHOLE)
        return !(has(p) & WHOLE);
    return m->has == 0 || (has(p) & m->has);
}

static bool spoil(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *request)
{
    unsigned seen = 0;
    for (size_t i = 0; i < COUNT_OF(mistakes); i++) {
        if (!applies(p, &mistakes[i]) || seen++ != which)
            continue;
        mistakes[i].make(request);
        *wrong->word = mistakes[i].word;
        return true;
    }
    return false;
}

/* ---- advancing a state ---- */

enum { FROM = 1, TO = 2, ADVANCE_WAYS = 2 };

static const cf_operand advance_operands[] = {
    {"from", offsetof(trp_random_advance_request, from),
     offsetof(trp_random_advance_request, from_offset), FROM, FROM, TRP_E_STALE},
    {"to", offsetof(trp_random_advance_request, to),
     offsetof(trp_random_advance_request, to_offset), TO, TO, TRP_E_STALE},
};

/* Places are in units of 8 bytes. */
typedef struct advance {
    uint64_t words;
    size_t from, to;
    block blocks[2]; /* one in place */
} advance;

static bool draw_advance(cf_problem *p, unsigned way, cf_kind kind)
{
    const bool tight = kind == CF_TIGHT, in_place = way == 1;
    if (tight && in_place)
        return false;
    advance *a = h_malloc(sizeof *a);
    *a = (advance){.words = ref_rng_next(h_rng()) >> below(64),
                   .from = tight ? 0 : (size_t)below(4),
                   .to = tight ? 0 : (size_t)below(4)};
    for (int i = 0; i < (in_place ? 1 : 2); i++) {
        const size_t bytes = tight ? 16 : 48;
        uint64_t *words = h_malloc(bytes);
        for (size_t k = 0; k < bytes / 8; k++)
            words[k] = ref_rng_next(h_rng());
        a->blocks[i] = block_make(bytes, words);
    }
    if (in_place)
        a->to = a->from;
    memset(a->blocks[!in_place].writable + a->to * 8, true, 16);
    p->own = a;
    p->blocks = a->blocks;
    p->block_count = in_place ? 1 : 2;
    p->may_fault = in_place;
    return true;
}

static void make_advance(const cf_problem *p, void *out)
{
    const advance *a = p->own;
    *(trp_random_advance_request *)out =
        (trp_random_advance_request){.from = a->blocks[0].buffer,
                                     .from_offset = a->from * 8,
                                     .to = a->blocks[p->block_count - 1].buffer,
                                     .to_offset = a->to * 8,
                                     .words = a->words};
}

static trp_status send_advance(trp_actor *actor, const cf_problem *p, trp_completion *done)
{
    trp_random_advance_request r;
    make_advance(p, &r);
    return trp_random_advance(actor, &r, done);
}

static bool check_advance(cf_problem *p, cf_tally *tally)
{
    const advance *a = p->own;
    uint64_t before[2], after[2];
    (void)tally;
    memcpy(before, a->blocks[0].before + a->from * 8, sizeof before);
    memcpy(after, a->blocks[p->block_count - 1].after + a->to * 8, sizeof after);
    return after[0] == before[0] && after[1] == before[1] + a->words;
}

static bool spoil_advance(const cf_problem *p, unsigned which, const cf_wrong *wrong, void *request)
{
    trp_random_advance_request *r = request;
    (void)p;
    r->to = r->from;
    r->to_offset = which == 0 ? 8 : 0;
    r->from_offset = which == 1 ? 8 : 0;
    *wrong->word = "overlaps";
    return which < 2;
}

static const cf_family advance_family = {
    .operands = advance_operands,
    .operand_count = COUNT_OF(advance_operands),
    .request_bytes = sizeof(trp_random_advance_request),
    .draw = draw_advance,
    .request = make_advance,
    .send = send_advance,
    .check = check_advance,
    .drop = drop,
    .spoil = spoil_advance,
};

/* ---- the family ---- */

static const cf_family family = {
    .operands = operands,
    .operand_count = COUNT_OF(operands),
    .fields = fields,
    .field_count = COUNT_OF(fields),
    .request_bytes = sizeof(trp_random_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
    .spoil = spoil,
};

#define VARIANT(title, of)                                                                         \
    {                                                                                              \
        .name = title, .type = of                                                                  \
    }
#define FLOATING                                                                                   \
    VARIANT("f64", TRP_F64), VARIANT("f32", TRP_F32), VARIANT("f16", TRP_F16),                     \
        VARIANT("bf16", TRP_BF16)
#define WHOLE_NUMBERS                                                                              \
    VARIANT("i64", TRP_I64), VARIANT("i32", TRP_I32), VARIANT("i8", TRP_I8), VARIANT("u8", TRP_U8)
static const cf_variant word_variants[] = {VARIANT("i64", TRP_I64), VARIANT("i32", TRP_I32)};
static const cf_variant whole_variants[] = {WHOLE_NUMBERS};
static const cf_variant floating_variants[] = {FLOATING};
static const cf_variant normal_variants[] = {
    FLOATING,
    {.name = "c64", .type = TRP_C64, .is_complex = true},
    {.name = "c128", .type = TRP_C128, .is_complex = true}};
static const cf_variant all_variants[] = {FLOATING, WHOLE_NUMBERS, VARIANT("bool", TRP_BOOL)};

static const cf_variant state_variants[] = {VARIANT("u64", TRP_I64)};

static const trp_random_distribution distributions[] = {
    TRP_RANDOM_BITS,      TRP_RANDOM_INTEGERS,    TRP_RANDOM_UNIFORM, TRP_RANDOM_NORMAL,
    TRP_RANDOM_LOGNORMAL, TRP_RANDOM_EXPONENTIAL, TRP_RANDOM_LAPLACE, TRP_RANDOM_CAUCHY,
    TRP_RANDOM_GUMBEL,    TRP_RANDOM_BERNOULLI,   TRP_RANDOM_DROPOUT};

int main(int argc, char **argv)
{
#define OPERATION(title, distribution, of, bits)                                                   \
    {                                                                                              \
        .name = title, .op = TRP_OP_RANDOM, .family = &family,                                     \
        .row = &distributions[distribution], .variants = of, .variant_count = COUNT_OF(of),        \
        .ways = WAYS, .has = ALWAYS | (bits), .writes = ALWAYS, .runs_again = true                 \
    }
    static const cf_operation operations[] = {
        OPERATION("bits", TRP_RANDOM_BITS, word_variants, 0),
        OPERATION("integers", TRP_RANDOM_INTEGERS, whole_variants, WHOLE),
        OPERATION("uniform", TRP_RANDOM_UNIFORM, floating_variants, ENDS),
        OPERATION("normal", TRP_RANDOM_NORMAL, normal_variants, LOC | SCALE),
        OPERATION("lognormal", TRP_RANDOM_LOGNORMAL, floating_variants, LOC | SCALE),
        OPERATION("exponential", TRP_RANDOM_EXPONENTIAL, floating_variants, SCALE),
        OPERATION("laplace", TRP_RANDOM_LAPLACE, floating_variants, LOC | SCALE),
        OPERATION("cauchy", TRP_RANDOM_CAUCHY, floating_variants, LOC | SCALE),
        OPERATION("gumbel", TRP_RANDOM_GUMBEL, floating_variants, LOC | SCALE),
        OPERATION("bernoulli", TRP_RANDOM_BERNOULLI, all_variants, P),
        OPERATION("dropout", TRP_RANDOM_DROPOUT, floating_variants, P),
        {.name = "advance",
         .op = TRP_OP_RANDOM_ADVANCE,
         .family = &advance_family,
         .variants = state_variants,
         .variant_count = COUNT_OF(state_variants),
         .ways = ADVANCE_WAYS,
         .has = FROM | TO,
         .writes = TO,
         .in_place = FROM | TO},
    };
    const cf_actor actor = {
        .kind = "random", .operations = operations, .count = COUNT_OF(operations), .rounds = 40};
    return cf_main(argc, argv, &actor);
}
