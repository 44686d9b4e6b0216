/* troupe cutlass kernels: lists the catalogue, explains which kernels a problem would get and why
 * not others, and prints sources. Compiles and runs nothing. */
#include "commands/commands.h"
#include "problem.h"
#include "ui/ui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

spell_text cutlass_kernel_hint(const char *name)
{
    spell s = spell_begin(name, strlen(name));
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++)
        spell_try(&s, trp__cutlass_row_at(i)->name);
    return spell_hint(&s, "");
}

bool cutlass_kernel_known(const char *name)
{
    return trp__cutlass_row_find(name) != NULL;
}

void cutlass_give_places(epilogue *text)
{
    for (uint32_t i = 1; i < text->count; i++) {
        if (text->name[i][0])
            text->node[i].buffer.id = text->node[i].kind == TRP_EPILOGUE_SCALAR ? 0 : i;
    }
}

void cutlass_set_device(trp__cutlass_problem *p, uint32_t capability)
{
    p->capability = capability;
    p->processors = capability / 10 == 10 ? 148
                    : capability == 90    ? 132
                    : capability == 80    ? 108
                                          : 84;
    p->shared_bytes = trp__run_shared_bytes(capability);
}

uint32_t cutlass_capability(const char *text)
{
    char *end;
    if (!strncmp(text, "sm_", 3))
        text += 3;
    unsigned long number = *text >= '1' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (number < 80 || number > 200 || (*end && (strcmp(end, "a") != 0 || number < 90)))
        return 0;
    return (uint32_t)number;
}

/* A problem as the options describe it. */
typedef struct asked {
    int64_t m, n, k, batch, groups, align, capability, group;
    int type, type_b, type_c, type_d; /* indices of types, -1: not given */
    int order_a, order_b;             /* of orders, likewise */
    int factors_a, factors_b;         /* of factors, likewise */
    int conv;                         /* trp_conv_operation, likewise */
    bool tf32, fast, zeros, explain;
    const char *epilogue, *source;
    epilogue text;
    trp__tree tree;
    trp__cutlass_problem problem;
} asked;

static const char *const types[] = {"f64",    "f32", "f16", "bf16", "f8e4m3", "f8e5m2",
                                    "f4e2m1", "i8",  "i32", "i4",   NULL};
static const char *const factors[] = {"16", "32", "128", "128x128", NULL};
static const char *const orders[] = {"row", "column", NULL};
static const char *const convolutions[] = {"fprop", "dgrad", "wgrad", NULL};

static trp_dtype type_at(int choice, trp_dtype otherwise)
{
    return choice < 0 ? otherwise : operand_chosen_type(types, choice);
}

/* Sets types and tree of a problem; false after reporting a mistake. */
static bool set_tree(asked *x)
{
    trp__cutlass_problem *p = &x->problem;
    trp_error error;
    char message[512];
    const trp__tree_types given = {.accumulator = (trp_dtype)p->accumulator,
                                   .c = (trp_dtype)p->c,
                                   .d = (trp_dtype)p->d,
                                   .order = TRP_ROW_MAJOR};
    if (p->d == TRP_I32 && !x->epilogue) /* alpha * sums in integers, with no tree */
        return true;
    if (!epilogue_parse(x->epilogue ? x->epilogue : "1 * acc", &x->text, message, sizeof message)) {
        ui_wrong("--epilogue: %s", message);
        return false;
    }
    cutlass_give_places(&x->text);
    if (trp__tree_build(x->text.node, x->text.count, &given, &x->tree, &error) != TRP_OK) {
        ui_wrong("--epilogue: %s", error.message);
        return false;
    }
    p->c = x->tree.c;
    p->tree = &x->tree;
    return true;
}

/* Makes the problem a convolution of two dimensions that all kernels can compute, whose product has
 * the requested sizes. */
static void set_convolution(const asked *x, trp__cutlass_problem *p)
{
    p->operation = TRP__CUTLASS_CONV;
    p->a_row = x->conv != TRP_CONV_WGRAD;
    p->b_row = x->conv != TRP_CONV_FPROP;
    p->conv = (trp__cutlass_convolution){
        .operation = (uint8_t)x->conv, .dims = 2, .tma = true, .inner = 128};
}

/* Returns the largest power of two up to 16 that divides a number. */
static uint32_t divides(int64_t size)
{
    return (uint32_t)(((uint64_t)size | 16) & (~((uint64_t)size | 16) + 1));
}

static uint8_t mode_at(int choice)
{
    return (uint8_t)(choice < 0 ? TRP_SCALE_TENSOR : TRP_SCALE_BLOCK_16 + choice);
}

static bool set_problem(asked *x)
{
    trp__cutlass_problem *p = &x->problem;
    const trp_dtype a = type_at(x->type, TRP_BF16);
    const trp_dtype d = type_at(x->type_d, trp_dtype_bits(a) > 8 ? a
                                           : a == TRP_I8         ? TRP_I32
                                                                 : TRP_BF16);
    const trp__cutlass_row *row = x->source ? trp__cutlass_row_find(x->source) : NULL;
    *p = (trp__cutlass_problem){
        .operation = row         ? row->operation
                     : x->groups ? TRP__CUTLASS_GROUPED
                                 : TRP__CUTLASS_GEMM,
        .m = x->m,
        .n = x->n,
        .k = x->k,
        .batch = x->groups ? x->groups : x->batch,
        .divides = {divides(x->m), divides(x->n), divides(x->k)},
        .a = (uint8_t)a,
        .b = (uint8_t)type_at(x->type_b, a),
        .c = (uint8_t)type_at(x->type_c, x->epilogue ? d : TRP_DTYPE_NONE),
        .d = (uint8_t)d,
        .accumulator = a == TRP_F64  ? TRP_F64
                       : a == TRP_I8 ? TRP_I32
                                     : TRP_F32,
        .a_row = x->order_a != 1,
        .b_row = x->order_b == 0,
        .scale_a = mode_at(x->factors_a),
        .scale_b = mode_at(x->factors_b < 0 ? x->factors_a : x->factors_b),
        .align_scales = (uint32_t)x->align,
        .group = x->group > x->k ? x->k : x->group,
        .zeros = x->zeros,
        .fast = x->fast,
        .compute = x->tf32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT,
    };
    if (x->conv < 0 && row && row->operation == TRP__CUTLASS_CONV)
        x->conv = TRP_CONV_FPROP;
    if (x->conv >= 0)
        set_convolution(x, p);
    cutlass_set_device(p, (uint32_t)x->capability);
    for (size_t i = 0; i < sizeof p->align / sizeof *p->align; i++)
        p->align[i] = (uint32_t)x->align;
    return set_tree(x);
}

/* Returns the devices that a kernel is compiled for. */
static const char *devices_of(const trp__cutlass_row *row)
{
    static const char *const devices[] = {[TRP__CUTLASS_SM90] = "sm_90a",
                                          [TRP__CUTLASS_SM100] = "sm_100a",
                                          [TRP__CUTLASS_SM120] = "sm_120a"};
    if (trp__cutlass_row_3x(row))
        return devices[row->family];
    return row->inputs != TRP__CUTLASS_FP8 || trp__cutlass_row_simt(row) ? "sm_80 and above"
                                                                         : "sm_89 and above";
}

static void list(void)
{
    static const char *const inputs[] = {[TRP__CUTLASS_HALF] = "f16, bf16",
                                         [TRP__CUTLASS_TF32] = "f32 as tf32",
                                         [TRP__CUTLASS_F32] = "f32",
                                         [TRP__CUTLASS_F64] = "f64",
                                         [TRP__CUTLASS_MIXED] = "bf16, i8 or f8",
                                         [TRP__CUTLASS_MIXED_I4] = "bf16, i4",
                                         [TRP__CUTLASS_I8] = "i8",
                                         [TRP__CUTLASS_FP8] = "f8e4m3, f8e5m2",
                                         [TRP__CUTLASS_FP8_BLOCKS] = "f8e4m3, f8e5m2 / 128",
                                         [TRP__CUTLASS_MXFP8] = "f8e4m3, f8e5m2 / 32",
                                         [TRP__CUTLASS_NVFP4] = "f4e2m1 / 16"};
    printf("%-42s %-20s %-12s %-7s %-11s %6s %5s  %s\n", "name", "A, B", "tile", "cluster",
           "schedule", "stages", "align", "for");
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        const trp__cutlass_row *row = trp__cutlass_row_at(i);
        char tile[32], cluster[16], stages[8] = "fit";
        snprintf(tile, sizeof tile, "%ux%ux%u", row->tile[0], row->tile[1], row->tile[2]);
        snprintf(cluster, sizeof cluster, "%ux%u", row->cluster[0], row->cluster[1]);
        if (row->stages)
            snprintf(stages, sizeof stages, "%u", row->stages);
        printf("%-42s %-20s %-12s %-7s %-11s %6s %5u  %s%s\n", row->name, inputs[row->inputs], tile,
               cluster,
               row->stream_k                       ? "stream-K"
               : row->pingpong                     ? "pingpong"
               : row->single                       ? "single"
               : row->family == TRP__CUTLASS_SM100 ? "one sm"
               : trp__cutlass_row_3x(row)          ? "cooperative"
               : trp__cutlass_row_simt(row)        ? "simt"
                                                   : "mma",
               stages, row->align, devices_of(row), row->fast ? ", less exact sums (--fast)" : "");
    }
}

static int explain(const asked *x)
{
    const trp__cutlass_row *row[TRP__CUTLASS_ROWS_MAX];
    trp_error error = {0};
    const uint32_t count = trp__cutlass_choose(&x->problem, row, TRP__CUTLASS_ROWS_MAX, &error);
    for (uint32_t i = 0; i < count; i++)
        printf("%10.1f us  %s\n", 1e6 * trp__cutlass_row_cost(row[i], &x->problem), row[i]->name);
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        const trp__cutlass_row *other = trp__cutlass_row_at(i);
        if (trp__cutlass_row_applies(other, &x->problem, &error) != TRP_OK)
            printf("%13s  %s\n", "-", error.message);
        else if (other->fast && !x->problem.fast)
            printf("%13s  %s: less exact than asked for, see --fast\n", "-", other->name);
    }
    return count > 0 ? EXIT_DONE : EXIT_FAILED;
}

static int print_source(const asked *x)
{
    const trp__cutlass_row *row = trp__cutlass_row_find(x->source);
    trp_error error = {0};
    if (!row) {
        ui_wrong("--source: no kernel is called '%s'%s", x->source,
                 cutlass_kernel_hint(x->source).s);
        return EXIT_USAGE;
    }
    trp_status status = trp__cutlass_row_applies(row, &x->problem, &error);
    trp__text text = {0};
    if (status == TRP_OK)
        status = trp__cutlass_row_render(row, &x->problem, &text, &error);
    if (status != TRP_OK) {
        ui_error("%s", error.message);
        return EXIT_FAILED;
    }
    text = (trp__text){.out = malloc(text.length + 1), .size = text.length + 1};
    if (!text.out) {
        ui_error("out of memory");
        return EXIT_FAILED;
    }
    trp__cutlass_row_render(row, &x->problem, &text, &error);
    char arch[16];
    trp__cutlass_row_architecture(row, &x->problem, arch);
    printf("/* --gpu-architecture=%s */\n%s", arch, text.out);
    free(text.out);
    return EXIT_DONE;
}

int cutlass_kernels(int argc, char **argv)
{
    static asked x; /* large */
    int status;
    x = (asked){.m = 4096, .n = 4096, .k = 4096, .batch = 1, .align = 16, .capability = 90};
    x.type = x.type_b = x.type_c = x.type_d = x.order_a = x.order_b = x.conv = -1;
    x.factors_a = x.factors_b = -1;
    const option options[] = {
        {0, "explain", NULL, "the kernels for a problem, the best first, and why not the others",
         OPTION_FLAG, &x.explain, NULL},
        {0, "source", "NAME", "the source of a kernel for a problem", OPTION_TEXT, &x.source, NULL},
        {'m', "rows", "M", "of A and D (default 4096)", OPTION_NUMBER, &x.m, NULL},
        {'n', "columns", "N", "of B and D (default 4096)", OPTION_NUMBER, &x.n, NULL},
        {'k', "sums", "K", "columns of A, rows of B (default 4096)", OPTION_NUMBER, &x.k, NULL},
        {0, "batch", "N", "how many products (default 1)", OPTION_NUMBER, &x.batch, NULL},
        {0, "groups", "N", "that many grouped products instead, of that size in the mean",
         OPTION_NUMBER, &x.groups, NULL},
        {0, "conv", "fprop|dgrad|wgrad",
         "a convolution as the product that it is: 2 dimensions, 128 channels", OPTION_CHOICE,
         &x.conv, convolutions},
        {0, "type", "f64|f32|f16|bf16|f8e4m3|f8e5m2|f4e2m1|i8", "of A (default bf16)",
         OPTION_CHOICE, &x.type, types},
        {0, "type-b", "TYPE", "type of B, also i4 (default: of A)", OPTION_CHOICE, &x.type_b,
         types},
        {0, "type-c", "TYPE", "of C, where the epilogue reads one (default D's)", OPTION_CHOICE,
         &x.type_c, types},
        {0, "type-d", "TYPE", "of D (default A's, of fp8 bf16, of i8 i32)", OPTION_CHOICE,
         &x.type_d, types},
        {0, "order-a", "row|column", "of A (default row)", OPTION_CHOICE, &x.order_a, orders},
        {0, "order-b", "row|column", "of B (default column)", OPTION_CHOICE, &x.order_b, orders},
        {0, "tf32", NULL, "allow f32 inputs to be rounded to 3 digits", OPTION_FLAG, &x.tf32, NULL},
        {0, "fast", NULL, "allow sums of fp8 to be less exact", OPTION_FLAG, &x.fast, NULL},
        {0, "factors-a", "16|32|128|128x128",
         "of A, one for a block of so many elements along k, or k and rows (default none)",
         OPTION_CHOICE, &x.factors_a, factors},
        {0, "factors-b", "16|32|128|128x128", "of B (default as A)", OPTION_CHOICE, &x.factors_b,
         factors},
        {0, "group", "K", "factors of a narrow B, one for so many elements along k (default none)",
         OPTION_NUMBER, &x.group, NULL},
        {0, "zeros", NULL, "with a zero point for each group", OPTION_FLAG, &x.zeros, NULL},
        {0, "align", "1|2|4|8|16", "bytes that divide all places and strides (default 16)",
         OPTION_NUMBER, &x.align, NULL},
        {0, "capability", "80|86|89|90|100|120", "of the device (default 90)", OPTION_NUMBER,
         &x.capability, NULL},
        {'e', "epilogue", "TEXT", "the result from the sums (default 1 * acc)", OPTION_TEXT,
         &x.epilogue, NULL},
    };
    const struct command command = {
        .name = "cutlass kernels",
        .operands = "",
        .about = "Lists the kernels that products on a GPU can have, says which of them a problem\n"
                 "would get, or prints one's source. Needs no GPU.",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &status))
        return status;
    if (x.align < 1 || x.align > 16 || (x.align & (x.align - 1)) != 0)
        return options_reject(&command, "--align: expected 1, 2, 4, 8 or 16, got %lld",
                              (long long)x.align);
    if (x.capability < 50 || x.capability > 200)
        return options_reject(&command, "--capability: expected 50 to 200, got %lld",
                              (long long)x.capability);
    if (x.group < 0 || (x.zeros && !x.group))
        return options_reject(&command, "--group: expected 1 or more%s, got %lld",
                              x.zeros ? " with --zeros" : "", (long long)x.group);
    if (x.explain && x.source)
        return options_reject(&command, "--explain and --source contradict each other");
    if (!x.explain && !x.source) {
        list();
        return EXIT_DONE;
    }
    if (!set_problem(&x))
        return EXIT_USAGE;
    return x.source ? print_source(&x) : explain(&x);
}
