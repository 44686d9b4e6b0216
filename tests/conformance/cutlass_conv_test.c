/* Convolutions of the cutlass actor in the conformance suite: each operation, of every type and
 * layout. Inputs are small integers, so that results are exact. */
#include "conformance/conformance.h"
#include "support/problems/conv_problem.h"

TROUPE_TEST("computes", "one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

static int checked, gathered; /* gathered: by kernels that gather by TMA */

static const cf_variant variants[] = {
    {.name = "f64", .type = TRP_F64},       {.name = "f32", .type = TRP_F32},
    {.name = "f16", .type = TRP_F16},       {.name = "bf16", .type = TRP_BF16},
    {.name = "f8e4m3", .type = TRP_F8E4M3}, {.name = "f8e5m2", .type = TRP_F8E5M2},
};

/* ---- problems ---- */

/* Ways below LARGE have more than a tile of pixels, of channels, or of terms; those below ALIGNED
 * suit kernels that gather by TMA. */
enum { LARGE = 3, ALIGNED = 6, WAYS = 25 };

static void draw_sizes(cv_problem *p, size_t most)
{
    p->dims = 1 + cv_below(3);
    p->groups = cv_below(3) ? 1 : 1 + cv_below(3);
    p->images = cv_below(8) == 0 ? 0 : 1 + cv_below(3);
    p->channels = p->groups * (1 + cv_below(most));
    p->filters = p->groups * (1 + cv_below(most));
    for (size_t i = 0; i < p->dims; i++) {
        p->filter[i] = 1 + cv_below(3);
        p->stride[i] = 1 + cv_below(3);
        p->dilation[i] = 1 + cv_below(3);
        p->pad[i] = cv_below(3);
        p->pad_after[i] = cv_below(3);
        size_t wide = (p->filter[i] - 1) * p->dilation[i] + 1, pads = p->pad[i] + p->pad_after[i];
        p->input[i] = (wide > pads ? wide - pads : 0) + cv_below(6);
        p->input[i] += p->input[i] == 0;
    }
}

static void align(cv_problem *p)
{
    p->unit = 16;
    p->channels = p->groups * 64;
    p->filters = p->groups * (p->operation == TRP_CONV_DGRAD ? 64 : 16);
    for (size_t i = 0; i < p->dims && p->operation == TRP_CONV_DGRAD; i++)
        p->stride[i] = 1;
}

static void set_sizes(cv_problem *p, size_t dims, size_t width, size_t channels, size_t filters)
{
    p->dims = dims;
    p->images = 2;
    p->groups = 1;
    p->channels = channels;
    p->filters = filters;
    for (size_t i = 0; i < dims; i++) {
        p->input[i] = width;
        p->filter[i] = 2;
        p->stride[i] = p->dilation[i] = p->pad[i] = 1;
    }
}

static void draw_types(cv_problem *p, trp_dtype a)
{
    static const trp_dtype narrow[] = {TRP_F32, TRP_F16, TRP_BF16, TRP_F8E4M3, TRP_F8E5M2, TRP_I8};
    const bool fp8 = a == TRP_F8E4M3 || a == TRP_F8E5M2;
    p->tensor[CV_A].type = a;
    p->tensor[CV_B].type = fp8 ? (cv_below(2) ? TRP_F8E4M3 : TRP_F8E5M2) : a;
    for (int i = CV_C; i <= CV_D; i++)
        p->tensor[i].type = a == TRP_F64 ? (cv_below(2) ? TRP_F64 : TRP_F32) : narrow[cv_below(6)];
}

static bool draw(cf_problem *problem, unsigned way, cf_kind kind)
{
    static const size_t large[LARGE][3] = {{1100, 3, 2}, {3, 600, 2}, {3, 2, 600}};
    static const double alphas[] = {1, 1, -2, 3}, betas[] = {0, 1, -3, 2};
    const trp_dtype type = variants[problem->variant].type;
    const bool tight = kind == CF_TIGHT;
    cv_problem *p = h_malloc(sizeof *p);
    *p = (cv_problem){.operation = *(const trp_conv_operation *)problem->operation->row,
                      .flip = cv_below(2),
                      .packed = tight,
                      .in_place = !tight && cv_below(3) == 0,
                      .tree = !tight && cv_below(2),
                      .alpha = alphas[cv_below(4)],
                      .beta = tight ? 1 : betas[cv_below(4)]};
    draw_types(p, type);
    if (tight) {
        set_sizes(p, 2, 2 + cv_below(6), 2 + cv_below(6), 2 + cv_below(6));
    } else if (way < LARGE && type == TRP_F32) {
        set_sizes(p, 1, large[way][0], large[way][1], large[way][2]);
    } else {
        draw_sizes(p, way % 8 == 7 ? 12 : 4);
        if (way < ALIGNED)
            align(p);
    }
    /* a D without elements is lost, too, after a fault */
    p->in_place = p->in_place && p->images > 0;
    cv_set_output(p);
    cv_draw(p);
    problem->own = p;
    problem->blocks = p->blocks;
    problem->block_count = CV_BLOCKS;
    problem->may_fault = p->in_place && (p->tree || p->beta != 0);
    /* bad_input changes the type or the distance of rows */
    problem->may_refuse = tight ? "" : NULL;
    return true;
}

static void make_request(const cf_problem *problem, void *out)
{
    cv_request(problem->own, out);
}

static trp_status send(trp_actor *cutlass, const cf_problem *problem, trp_completion *done)
{
    trp_cutlass_conv_request r;
    make_request(problem, &r);
    return trp_cutlass_conv(cutlass, &r, done);
}

static bool check(cf_problem *problem, cf_tally *tally)
{
    cv_problem *p = problem->own;
    (void)tally;
    checked++;
    gathered += strncmp(p->chosen.kernel, "s90_", 4) == 0;
    return cv_right(p);
}

static void drop(cf_problem *problem)
{
    free(problem->own);
}

/* ---- the operations ---- */

enum { HAS_A = 1, HAS_B = 2, HAS_C = 4, HAS_D = 8 };

#define AT(field) offsetof(trp_cutlass_conv_request, field)
#define TENSOR(x, bit)                                                                             \
    {                                                                                              \
#x, AT(x.buffer), AT(x.offset), bit, (bit) & ~HAS_C, TRP_E_STALE                           \
    }
#define FIELD(field, what, ...)                                                                    \
    {                                                                                              \
        .name = #field, .role = what, .at = AT(field), .has = HAS_A, __VA_ARGS__                   \
    }
static const cf_operand operands[] = {TENSOR(a, HAS_A), TENSOR(b, HAS_B), TENSOR(c, HAS_C),
                                      TENSOR(d, HAS_D)};
static const cf_field fields[] = {
    FIELD(a.type, CF_TYPE),
    FIELD(operation, CF_OPTION, .limit = 3),
    FIELD(dims, CF_OPTION, .limit = 4),
    FIELD(compute, CF_OPTION, .limit = 3),
    FIELD(first, CF_OPTION, .limit = 2),
    FIELD(a.stride[2], CF_LD),
    FIELD(b.stride[2], CF_LD),
    FIELD(d.stride[2], CF_LD),
    FIELD(images, CF_COUNT),
    FIELD(channels, CF_COUNT),
    FIELD(filters, CF_COUNT),
    FIELD(input[1], CF_COUNT),
    FIELD(filter[0], CF_COUNT),
    FIELD(output[1], CF_FORWARD),
    FIELD(pad[0], CF_FORWARD),
    FIELD(pad_after[1], CF_FORWARD),
    FIELD(stride[1], CF_FORWARD),
    FIELD(dilation[0], CF_FORWARD),
    FIELD(groups, CF_FORWARD),
    FIELD(alpha, CF_SCALAR),
    FIELD(beta, CF_SCALAR),
};
static const cf_family family = {
    .operands = operands,
    .operand_count = sizeof operands / sizeof *operands,
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .request_bytes = sizeof(trp_cutlass_conv_request),
    .draw = draw,
    .request = make_request,
    .send = send,
    .check = check,
    .drop = drop,
};

/* Checks that kernels that gather by TMA (compute capability 9.0) ran some of many problems. */
static void end(void)
{
    H_CHECK(!h_is_cuda() || checked < 400 || gathered > 4);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"conv_fprop", "conv_dgrad", "conv_wgrad"};
    static const trp_conv_operation kinds[] = {TRP_CONV_FPROP, TRP_CONV_DGRAD, TRP_CONV_WGRAD};
    enum { COUNT = sizeof kinds / sizeof *kinds };
    const unsigned ways = h_is_gpu() ? WAYS / 2 : WAYS; /* each kernel takes seconds to compile */
    static cf_operation operations[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        operations[i] = (cf_operation){.name = names[i],
                                       .op = TRP_OP_CUTLASS_CONV,
                                       .family = &family,
                                       .row = &kinds[i],
                                       .variants = variants,
                                       .variant_count = sizeof variants / sizeof *variants,
                                       .ways = ways,
                                       .has = HAS_A | HAS_B | HAS_C | HAS_D,
                                       .writes = HAS_D,
                                       .in_place = HAS_C | HAS_D};
    const cf_actor cutlass = {.kind = "cutlass",
                              .title = "cutlass: convolutions",
                              .operations = operations,
                              .count = COUNT,
                              .rounds = (int)ways,
                              .keeps = true,
                              .end = end};
    return cf_main(argc, argv, &cutlass);
}
