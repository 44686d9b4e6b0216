/* The prover with a library that lies: y = 2 x on a driver that is the processor's memory. */
#include "tuning/prover_parts.h"

#include <troupe/convert.h>

#include <math.h>
#include "support/unit.h"

/* A driver. */

static trp__cu_result stream_state; /* what cuStreamQuery says */
static uint64_t memory_left;        /* bytes that can be had */
static int allocations, streams;
static void *allocated; /* last */

static trp__cu_result stream_create(trp__cu_stream *stream, unsigned int flags)
{
    (void)flags;
    streams++;
    *stream = (trp__cu_stream)&streams;
    return TRP__CU_SUCCESS;
}

static trp__cu_result stream_destroy(trp__cu_stream stream)
{
    assert_ptr_equal(stream, &streams);
    streams--;
    return TRP__CU_SUCCESS;
}

static trp__cu_result stream_query(trp__cu_stream stream)
{
    assert_ptr_equal(stream, &streams);
    return stream_state;
}

static trp__cu_result stream_synchronize(trp__cu_stream stream)
{
    (void)stream;
    return TRP__CU_SUCCESS;
}

static trp__cu_result allocate(trp__cu_address *address, size_t bytes, trp__cu_stream stream)
{
    (void)stream;
    if (bytes > memory_left)
        return 2;
    allocations++;
    allocated = aligned_alloc(256, (bytes + 255) / 256 * 256);
    *address = (uintptr_t)allocated;
    return TRP__CU_SUCCESS;
}

static trp__cu_result release(trp__cu_address address, trp__cu_stream stream)
{
    (void)stream;
    allocations--;
    free((void *)(uintptr_t)address);
    return TRP__CU_SUCCESS;
}

static trp__cu_result allocate_apart(trp__cu_address *address, size_t bytes)
{
    return allocate(address, bytes, NULL);
}

static trp__cu_result release_apart(trp__cu_address address)
{
    return release(address, NULL);
}

static trp__cu_result fill(trp__cu_address to, unsigned char value, size_t count,
                           trp__cu_stream stream)
{
    (void)stream;
    memset((void *)(uintptr_t)to, value, count);
    return TRP__CU_SUCCESS;
}

static trp__cu_result upload(trp__cu_address to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return TRP__CU_SUCCESS;
}

static trp__cu_result download(void *to, trp__cu_address from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return TRP__CU_SUCCESS;
}

static trp__cu_result copy(trp__cu_address to, trp__cu_address from, size_t bytes,
                           trp__cu_stream stream)
{
    (void)stream;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return TRP__CU_SUCCESS;
}

static const trp__cuda driver = {.cuStreamCreate = stream_create,
                                 .cuStreamDestroy_v2 = stream_destroy,
                                 .cuStreamQuery = stream_query,
                                 .cuStreamSynchronize = stream_synchronize,
                                 .cuMemAllocAsync = allocate,
                                 .cuMemAlloc_v2 = allocate_apart,
                                 .cuMemFree_v2 = release_apart,
                                 .cuMemFreeAsync = release,
                                 .cuMemsetD8Async = fill,
                                 .cuMemcpyHtoD_v2 = upload,
                                 .cuMemcpyDtoH_v2 = download,
                                 .cuMemcpyAsync = copy};

/* The library. */

typedef enum lie_kind {
    HONEST,
    WRONG,       /* one element of a hundred, */
    WRONG_LAST,  /* the last one, */
    WRONG_NAN,   /* what is NaN, */
    WRONG_HUGE,  /* what overflows */
    WRONG_LATER, /* the second time */
    NOT_WRITTEN, /* nothing is */
    BESIDE,
    BEFORE,
    BETWEEN,
    BEYOND_WORKSPACE,
    REFUSES,
    REFUSES_ONCE,
    OUT_OF_MEMORY,
    BREAKS,
    NEVER_ENDS,
} lie_kind;

typedef struct library {
    trp__proof_operand operand[2];
    lie_kind lie;
    double above, above_expected; /* results are larger by such a part */
    double shifted_by;            /* results above 1, for a shift of the reference */
    uint32_t passes;              /* 0: ordinary and extreme */
    int runs, references;
    size_t sampled;
} library;

static int64_t offset_of(const trp__proof_operand *o, int64_t number)
{
    int64_t offset = 0;
    for (int i = o->rank - 1; i >= 0; i--) {
        offset += number % o->dim[i] * o->stride[i];
        number /= o->dim[i];
    }
    return offset;
}

/* A lie is another number, 0 for what is none or large. */
static void twice(const library *l, void *const at[], int64_t number, uint8_t type, double above,
                  bool lie)
{
    const trp__proof_operand *x = &l->operand[0], *y = &l->operand[1];
    const char *from =
        (const char *)at[0] + (size_t)offset_of(x, number) * trp__proof_width(x->type);
    char *to = (char *)at[1] + (size_t)offset_of(y, number) * trp__proof_width(type);
    double value = 2 * trp__proof_number(x->type, from) * (1 + above);
    if (lie)
        value = fabs(value) < 100 ? value + 1 : 0;
    assert_int_equal(trp_convert(TRP_F64, &value, (trp_dtype)type, to, 1), TRP_OK);
}

static trp_status reference(void *context, const trp__proof_place *place,
                            const trp__proof_sample samples[], uint32_t count, trp_error *error)
{
    library *l = context;
    (void)error;
    assert_int_equal(count, 1);
    assert_int_equal(samples[0].operand, 1);
    assert_true(place->pass != 0 && (place->shift == 0 || l->operand[1].shifted));
    for (size_t i = 0; i < samples[0].count; i++)
        twice(l, place->at, samples[0].number[i], trp__proof_exact(&l->operand[1]),
              l->above_expected + place->shift * l->shifted_by, false);
    l->sampled = samples[0].count;
    l->references++;
    return TRP_OK;
}

static bool is_lied_about(const library *l, const trp__proof_place *place, int64_t number)
{
    const trp__proof_operand *x = &l->operand[0];
    const double value =
        trp__proof_number(x->type, (const char *)place->at[0] +
                                       (size_t)offset_of(x, number) * trp__proof_width(x->type));
    switch (l->lie) {
    case WRONG:
        return number % 100 == 57;
    case WRONG_LAST:
        return number + 1 == trp__proof_elements(&l->operand[1]);
    case WRONG_NAN:
        return isnan(value);
    case WRONG_HUGE:
        return fabs(value) > 1e4;
    case WRONG_LATER:
        return l->runs == 2;
    default:
        return false;
    }
}

static void write_elsewhere(const library *l, const trp__proof_place *place)
{
    const trp__proof_operand *y = &l->operand[1];
    const int64_t bytes = trp__proof_extent(y) * (int64_t)trp__proof_width(y->type);
    unsigned char *at = place->at[1];
    if (l->lie == BESIDE)
        at[bytes + 3] ^= 1;
    if (l->lie == BEFORE)
        at[-1] ^= 1;
    if (l->lie == BETWEEN)
        at[trp__proof_width(y->type)] ^= 1;
    if (l->lie == BEYOND_WORKSPACE)
        ((unsigned char *)place->workspace)[100] ^= 1;
}

static trp_status run(void *context, const trp__proof_place *place, trp_error *error)
{
    library *l = context;
    l->runs++;
    if (l->lie == REFUSES || (l->lie == REFUSES_ONCE && l->runs == 2) || l->lie == OUT_OF_MEMORY) {
        *error = (trp_error){.status = TRP_E_LIBRARY, .message = "an invalid grid"};
        return l->lie == OUT_OF_MEMORY ? TRP_E_MEMORY : TRP_E_LIBRARY;
    }
    stream_state = l->lie == BREAKS ? 700 : l->lie == NEVER_ENDS ? TRP__CU_NOT_READY : 0;
    for (int64_t i = 0; i < trp__proof_elements(&l->operand[1]) && l->lie != NOT_WRITTEN; i++)
        twice(l, place->at, i, l->operand[1].type, l->above, is_lied_about(l, place, i));
    write_elsewhere(l, place);
    return TRP_OK;
}

static trp__proof_verdict prove_with(library *l, uint64_t memory)
{
    trp__proof_verdict verdict;
    const trp__proof proof = {.cu = &driver,
                              .operand = l->operand,
                              .operands = 2,
                              .workspace = 100,
                              .passes =
                                  l->passes ? l->passes : TRP__PROOF_ORDINARY | TRP__PROOF_EXTREME,
                              .special = 0x1f,
                              .limit_ns = 20000000,
                              .run = run,
                              .reference = reference,
                              .context = l};
    stream_state = TRP__CU_SUCCESS;
    memory_left = memory;
    trp__prove(&proof, &verdict);
    if (verdict.result == TRP__PROOF_BROKE) { /* the worker ends, and its memory with it */
        assert_int_equal(allocations, 1);
        free(allocated);
    } else {
        assert_int_equal(allocations, 0);
        assert_int_equal(streams, 0);
    }
    allocations = streams = 0;
    assert_int_equal(verdict.result == TRP__PROOF_GOOD, verdict.reason[0] == '\0');
    return verdict;
}

/* Of 40 x 300 elements, with gaps behind rows of y. */
static library make_library(trp_dtype type, lie_kind lie)
{
    library l = {.lie = lie};
    l.operand[0] = (trp__proof_operand){.name = "x",
                                        .role = TRP__PROOF_INPUT,
                                        .type = (uint8_t)type,
                                        .rank = 2,
                                        .dim = {40, 300},
                                        .stride = {300, 1},
                                        .low = -1,
                                        .high = 1};
    l.operand[1] = l.operand[0];
    l.operand[1].name = "y";
    l.operand[1].role = TRP__PROOF_OUTPUT;
    l.operand[1].stride[1] = 2;
    l.operand[1].stride[0] = 601;
    l.operand[1].relative = l.operand[1].of_scale = 1e-6;
    return l;
}

static void expect(trp_dtype type, lie_kind lie, trp__proof_result result, const char *reason)
{
    library l = make_library(type, lie);
    trp__proof_verdict v = prove_with(&l, UINT64_MAX);
    if (v.result != result || !strstr(v.reason, reason))
        fail_msg("lie %d of %s: result %d, %s", lie, trp_dtype_name(type), (int)v.result, v.reason);
}

static void honest(void **unused)
{
    static const trp_dtype types[] = {TRP_F64,    TRP_F32,    TRP_F16, TRP_BF16,
                                      TRP_F8E4M3, TRP_F8E5M2, TRP_I8,  TRP_I32};
    (void)unused;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        expect(types[i], HONEST, TRP__PROOF_GOOD, "");
    library l = make_library(TRP_F32, HONEST);
    trp__proof_verdict v = prove_with(&l, UINT64_MAX);
    assert_int_equal(l.runs, 4); /* two passes of two */
    assert_int_equal(l.references, 2);
    assert_int_equal(l.sampled, TRP__PROOF_SAMPLE);
    assert_int_equal(v.compared, TRP__PROOF_SAMPLE);
}

/* Results of f16 that the reference tells apart: one step from what it would be rounded to is right
 * where it lies in the middle of both, and wrong elsewhere. */
static void halfway(void **unused)
{
    static const struct {
        double above, expected;
        uint8_t exact;
        trp__proof_result result;
    } rows[] = {
        {6.5e-4, 3.2e-4, TRP_F32, TRP__PROOF_GOOD}, /* of 1.5 a step is 6.51e-4 */
        {6.5e-4, 3.2e-4, TRP_DTYPE_NONE, TRP__PROOF_WRONG},
        {6.5e-4, 0, TRP_F32, TRP__PROOF_WRONG},
        {0, 0, TRP_F32, TRP__PROOF_GOOD},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        library l = make_library(TRP_F16, HONEST);
        l.passes = TRP__PROOF_ORDINARY;
        l.operand[0].low = l.operand[0].high = 0.75;
        l.above = rows[i].above;
        l.above_expected = rows[i].expected;
        l.operand[1].exact = rows[i].exact;
        l.operand[1].relative = 5.5e-4;
        assert_int_equal(prove_with(&l, UINT64_MAX).result, rows[i].result);
    }
}

static void lies(void **unused)
{
    (void)unused;
    expect(TRP_F32, WRONG, TRP__PROOF_WRONG, "ordinary");
    expect(TRP_F32, WRONG_LAST, TRP__PROOF_WRONG, "y[39,299]");
    expect(TRP_F32, WRONG_NAN, TRP__PROOF_WRONG, "extreme");
    expect(TRP_F16, WRONG_HUGE, TRP__PROOF_WRONG, "extreme");
    expect(TRP_F32, WRONG_LATER, TRP__PROOF_WRONG, "again");
    expect(TRP_F32, NOT_WRITTEN, TRP__PROOF_WRONG, "y[0,0]");
    expect(TRP_F32, BESIDE, TRP__PROOF_WRONG, "behind y");
    expect(TRP_F32, BEFORE, TRP__PROOF_WRONG, "behind x");
    expect(TRP_F32, BETWEEN, TRP__PROOF_WRONG, "between the elements of y");
    expect(TRP_F32, BEYOND_WORKSPACE, TRP__PROOF_WRONG, "behind its workspace");
    expect(TRP_F32, REFUSES, TRP__PROOF_REFUSED, "an invalid grid");
    expect(TRP_F32, REFUSES_ONCE, TRP__PROOF_GOOD, "");
    expect(TRP_F32, OUT_OF_MEMORY, TRP__PROOF_IMPOSSIBLE, "");
    expect(TRP_F32, BREAKS, TRP__PROOF_BROKE, "context");
    expect(TRP_F32, NEVER_ENDS, TRP__PROOF_BROKE, "in time");
}

static void no_memory(void **unused)
{
    (void)unused;
    library l = make_library(TRP_F32, HONEST);
    assert_int_equal(prove_with(&l, 1000).result, TRP__PROOF_IMPOSSIBLE);
    assert_int_equal(l.runs, 0);
}

/* Samples are elements, each with its offset; all of a small tensor, and both ends of a large one.
 */
static void samples(void **unused)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1},    {1, 1, 1, 7},    {3, 5, 2, 4},
                                        {8, 64, 56, 56}, {1, 1, 4096, 1}, {2, 1, 1, 4097}};
    (void)unused;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int last = 0; last < 2; last++) { /* rows, and channels last */
            trp__proof_operand o = {.rank = 4, .type = TRP_F16};
            trp__proof_picks p;
            memcpy(o.dim, shapes[s], sizeof shapes[s]);
            const int64_t c = o.dim[1], h = o.dim[2], w = o.dim[3];
            const int64_t rows[] = {c * h * w, h * w, w, 1}, mixed[] = {c * h * w, 1, w * c, c};
            memcpy(o.stride, last ? mixed : rows, sizeof rows);
            assert_true(trp__proof_pick(&o, s, &p));
            const int64_t elements = trp__proof_elements(&o);
            assert_int_equal(p.count, elements < TRP__PROOF_SAMPLE ? elements : TRP__PROOF_SAMPLE);
            bool first = false, end = false;
            for (size_t i = 0; i < p.count; i++) {
                assert_in_range(p.number[i], 0, elements - 1);
                assert_int_equal(p.offset[i], offset_of(&o, p.number[i]));
                first = first || p.number[i] == 0;
                end = end || p.number[i] == elements - 1;
            }
            assert_true(first && end);
            trp__proof_drop_picks(&p);
        }
    }
}

/* Extreme numbers are there, each of them, where they are wanted. */
static void extremes(void **unused)
{
    enum { COUNT = 4096 };
    (void)unused;
    trp__proof_operand o = {.type = TRP_F32, .low = -1, .high = 1};
    float got[COUNT];
    bool nan = false, infinite = false, largest = false, negative_zero = false, denormal = false;
    assert_true(trp__proof_numbers(&o, TRP__PROOF_EXTREME, 0x1f, 3, got, COUNT));
    for (int i = 0; i < COUNT; i++) {
        nan = nan || isnan(got[i]);
        infinite = infinite || isinf(got[i]);
        largest = largest || fabsf(got[i]) == 0x1.fffffep127f;
        negative_zero = negative_zero || (got[i] == 0 && signbit(got[i]));
        denormal = denormal || fpclassify(got[i]) == FP_SUBNORMAL;
    }
    assert_true(nan && infinite && largest && negative_zero && denormal);
    o.ordinary_only = true;
    assert_true(trp__proof_numbers(&o, TRP__PROOF_EXTREME, 0x1f, 3, got, COUNT));
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] >= -1 && got[i] <= 1);
}

/* Whole numbers are nonzero integers of the range in every pass but the saturating one, which has
 * fractions; in the extreme pass special numbers are among them. */
static void whole_numbers(void **unused)
{
    enum { COUNT = 4096 };
    static const uint32_t passes[] = {TRP__PROOF_ORDINARY, TRP__PROOF_SATURATING,
                                      TRP__PROOF_EXTREME};
    (void)unused;
    trp__proof_operand o = {.type = TRP_F32, .low = -2.4, .high = 2.4, .whole = true};
    float got[COUNT];
    for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
        bool fractions = false, large = false, two = false;
        assert_true(trp__proof_numbers(&o, passes[p], TRP__PROOF_INFINITE, 5, got, COUNT));
        for (int i = 0; i < COUNT; i++) {
            fractions = fractions || (isfinite(got[i]) && got[i] != rintf(got[i]));
            large = large || fabsf(got[i]) > 2;
            two = two || got[i] == -2;
            assert_true(got[i] != 0 || passes[p] == TRP__PROOF_EXTREME);
        }
        assert_true(fractions == (passes[p] == TRP__PROOF_SATURATING));
        assert_true(large == (passes[p] != TRP__PROOF_ORDINARY));
        assert_true(two || passes[p] == TRP__PROOF_SATURATING);
    }
}

/* What a shift of the reference makes of each element bounds it, and no share of all. */
static void shifts(void **unused)
{
    static const struct {
        double above;
        trp__proof_result result;
    } rows[] = {{0, TRP__PROOF_GOOD},
                {0.9e-3, TRP__PROOF_GOOD},
                {-0.9e-3, TRP__PROOF_GOOD},
                {1.1e-3, TRP__PROOF_WRONG}};
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        library l = make_library(TRP_F32, HONEST);
        l.above = rows[i].above;
        l.shifted_by = 1e-3;
        l.passes = TRP__PROOF_ORDINARY | TRP__PROOF_SATURATING;
        l.operand[1].shifted = true;
        l.operand[1].of_scale = 1;
        const trp__proof_verdict v = prove_with(&l, UINT64_MAX);
        assert_int_equal(v.result, rows[i].result);
        assert_int_equal(l.references, rows[i].result == TRP__PROOF_GOOD ? 6 : 3);
    }
    library l = make_library(TRP_F32, HONEST); /* numbers that say nothing of sizes: as without */
    l.above = 1e-3;
    l.passes = TRP__PROOF_ORDINARY | TRP__PROOF_EXTREME;
    l.shifted_by = 2e-3;
    l.operand[1].shifted = true;
    assert_int_equal(prove_with(&l, UINT64_MAX).result, TRP__PROOF_WRONG);
}

/* Each operand has factors of its own for passes of spread numbers. */
static void spread(void **unused)
{
    enum { COUNT = 4096 };
    (void)unused;
    const trp__proof_operand o = {.type = TRP_F32,
                                  .low = 0.25,
                                  .high = 1,
                                  .ordinary_only = true,
                                  .wide = 0x1p-126,
                                  .tight = 0x1p100};
    float got[COUNT];
    assert_true(trp__proof_numbers(&o, TRP__PROOF_WIDE, 0x1f, 3, got, COUNT));
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] >= 0x1p-128f && got[i] <= 0x1p-126f);
    assert_true(trp__proof_numbers(&o, TRP__PROOF_TIGHT, 0x1f, 3, got, COUNT));
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] >= 0x1p98f && got[i] <= 0x1p100f);
    assert_true(trp__proof_numbers(&o, TRP__PROOF_LEAVING, 0x1f, 3, got, COUNT));
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] >= 0.25f && got[i] <= 1);
}

UNIT_MAIN(UNIT(honest), UNIT(halfway), UNIT(shifts), UNIT(spread), UNIT(lies), UNIT(no_memory),
          UNIT(samples), UNIT(extremes), UNIT(whole_numbers))
