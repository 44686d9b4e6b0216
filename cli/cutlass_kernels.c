/* troupe cutlass kernels: what the catalogue of kernels has, which of them a problem would get and
 * why not the others, and a kernel's source. Nothing is compiled or run. */
#include "commands.h"
#include "cutlass.h"
#include "ui.h"

#include "actors/cutlass/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 256 };

/* A problem in the making. */
typedef struct asked {
    int64_t m, n, k, batch, align, capability;
    int type, type_b, type_c, type_d; /* indices of types, -1: not given */
    int order_a, order_b;             /* of orders, likewise */
    bool tf32, explain;
    const char *epilogue, *source;
    epilogue text;
    trp__tree tree;
    trp__cutlass_problem problem;
} asked;

static const char *const types[] = {"f64",    "f32", "f16", "bf16", "f8e4m3",
                                    "f8e5m2", "i8",  "i32", NULL};
static const trp_dtype type_of[] = {TRP_F64,    TRP_F32,    TRP_F16, TRP_BF16,
                                    TRP_F8E4M3, TRP_F8E5M2, TRP_I8,  TRP_I32};
static const char *const orders[] = {"row", "column", NULL};

static trp_dtype type_at(int choice, trp_dtype otherwise)
{
    return choice < 0 ? otherwise : type_of[choice];
}

/* The types and the tree of a problem; false after telling what is wrong. */
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
        ui_error("--epilogue: %s", message);
        return false;
    }
    for (uint32_t i = 1; i < x->text.count; i++) {
        if (x->text.name[i][0]) /* a place, which is not looked at; a number is by value */
            x->text.node[i].buffer.id = x->text.node[i].kind == TRP_EPILOGUE_SCALAR ? 0 : i;
    }
    if (trp__tree_build(x->text.node, x->text.count, &given, &x->tree, &error) != TRP_OK) {
        ui_error("--epilogue: %s", error.message);
        return false;
    }
    p->c = x->tree.c;
    p->tree = &x->tree;
    return true;
}

static bool set_problem(asked *x)
{
    trp__cutlass_problem *p = &x->problem;
    const trp_dtype a = type_at(x->type, TRP_BF16);
    const trp_dtype d = type_at(x->type_d, trp_dtype_bits(a) > 8 ? a
                                           : a == TRP_I8         ? TRP_I32
                                                                 : TRP_BF16);
    *p = (trp__cutlass_problem){
        .m = x->m,
        .n = x->n,
        .k = x->k,
        .batch = x->batch,
        .a = (uint8_t)a,
        .b = (uint8_t)type_at(x->type_b, a),
        .c = (uint8_t)type_at(x->type_c, x->epilogue ? d : TRP_DTYPE_NONE),
        .d = (uint8_t)d,
        .accumulator = a == TRP_F64  ? TRP_F64
                       : a == TRP_I8 ? TRP_I32
                                     : TRP_F32,
        .a_row = x->order_a != 1,
        .b_row = x->order_b == 0,
        .compute = x->tf32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT,
        .capability = (uint32_t)x->capability,
        .processors = x->capability == 90   ? 132
                      : x->capability == 80 ? 108
                                            : 84,
        .shared_bytes = x->capability == 90   ? 232448
                        : x->capability == 80 ? 166912
                                              : 101376,
    };
    for (size_t i = 0; i < sizeof p->align / sizeof *p->align; i++)
        p->align[i] = (uint32_t)x->align;
    return set_tree(x);
}

static void list(void)
{
    static const char *const inputs[] = {
        [TRP__CUTLASS_HALF] = "f16, bf16", [TRP__CUTLASS_TF32] = "f32 as tf32",
        [TRP__CUTLASS_F32] = "f32",        [TRP__CUTLASS_F64] = "f64",
        [TRP__CUTLASS_I8] = "i8",          [TRP__CUTLASS_FP8] = "f8e4m3, f8e5m2"};
    printf("%-38s %-14s %-12s %-7s %-11s %6s %5s  %s\n", "name", "A, B", "tile", "cluster",
           "schedule", "stages", "align", "for");
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        const trp__cutlass_row *row = trp__cutlass_row_at(i);
        bool sm90 = row->family == TRP__CUTLASS_SM90;
        char tile[32], cluster[16], stages[8] = "fit";
        snprintf(tile, sizeof tile, "%ux%ux%u", row->tile[0], row->tile[1], row->tile[2]);
        snprintf(cluster, sizeof cluster, "%ux%u", row->cluster[0], row->cluster[1]);
        if (row->stages)
            snprintf(stages, sizeof stages, "%u", row->stages);
        printf("%-38s %-14s %-12s %-7s %-11s %6s %5u  %s\n", row->name, inputs[row->inputs], tile,
               cluster,
               row->stream_k                ? "stream-K"
               : row->pingpong              ? "pingpong"
               : sm90                       ? "cooperative"
               : trp__cutlass_row_simt(row) ? "simt"
                                            : "mma",
               stages, row->align,
               sm90 ? row->by_name ? "sm_90a, by name only" : "sm_90a"
               : row->inputs != TRP__CUTLASS_FP8 || trp__cutlass_row_simt(row) ? "sm_80 and above"
                                                                               : "sm_89 and above");
    }
}

static int explain(const asked *x)
{
    const trp__cutlass_row *row[ROWS_MAX];
    trp_error error = {0};
    const uint32_t count = trp__cutlass_choose(&x->problem, row, ROWS_MAX, &error);
    for (uint32_t i = 0; i < count; i++)
        printf("%10.1f us  %s\n", 1e6 * trp__cutlass_row_cost(row[i], &x->problem), row[i]->name);
    for (uint32_t i = 0; i < trp__cutlass_row_count(); i++) {
        const trp__cutlass_row *other = trp__cutlass_row_at(i);
        if (trp__cutlass_row_applies(other, &x->problem, &error) != TRP_OK)
            printf("%13s  %s\n", "-", error.message);
        else if (other->by_name)
            printf("%13s  %s: less exact than asked for, by name only\n", "-", other->name);
    }
    return count > 0 ? EXIT_DONE : EXIT_FAILED;
}

static int print_source(const asked *x)
{
    const trp__cutlass_row *row = trp__cutlass_row_find(x->source);
    trp_error error = {0};
    if (!row) {
        ui_error("--source: no kernel is called '%s'", x->source);
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
    x.type = x.type_b = x.type_c = x.type_d = x.order_a = x.order_b = -1;
    const option options[] = {
        {0, "explain", NULL, "the kernels for a problem, the best first, and why not the others",
         OPTION_FLAG, &x.explain, NULL},
        {0, "source", "NAME", "the source of a kernel for a problem", OPTION_TEXT, &x.source, NULL},
        {'m', "rows", "M", "of A and D (default 4096)", OPTION_NUMBER, &x.m, NULL},
        {'n', "columns", "N", "of B and D (default 4096)", OPTION_NUMBER, &x.n, NULL},
        {'k', "sums", "K", "columns of A, rows of B (default 4096)", OPTION_NUMBER, &x.k, NULL},
        {0, "batch", "N", "how many products (default 1)", OPTION_NUMBER, &x.batch, NULL},
        {0, "type", "f64|f32|f16|bf16|f8e4m3|f8e5m2|i8", "of A (default bf16)", OPTION_CHOICE,
         &x.type, types},
        {0, "type-b", "TYPE", "of B (default A's)", OPTION_CHOICE, &x.type_b, types},
        {0, "type-c", "TYPE", "of C, where the epilogue reads one (default D's)", OPTION_CHOICE,
         &x.type_c, types},
        {0, "type-d", "TYPE", "of D (default A's, of fp8 bf16, of i8 i32)", OPTION_CHOICE,
         &x.type_d, types},
        {0, "order-a", "row|column", "of A (default row)", OPTION_CHOICE, &x.order_a, orders},
        {0, "order-b", "row|column", "of B (default column)", OPTION_CHOICE, &x.order_b, orders},
        {0, "tf32", NULL, "allow f32 inputs to be rounded to 3 digits", OPTION_FLAG, &x.tf32, NULL},
        {0, "align", "1|2|4|8|16", "bytes that divide all places and strides (default 16)",
         OPTION_NUMBER, &x.align, NULL},
        {0, "capability", "80|86|89|90", "of the device (default 90)", OPTION_NUMBER, &x.capability,
         NULL},
        {'e', "epilogue", "TEXT", "what becomes of the sums (default 1 * acc)", OPTION_TEXT,
         &x.epilogue, NULL},
    };
    const struct command command = {
        .name = "cutlass kernels",
        .operands = "",
        .about = "Lists the kernels that products on a GPU can have, says which of them a problem\n"
                 "would get, or prints one's source. Needs no GPU.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
    };
    if (!options_parse(&command, argc, argv, &status))
        return status;
    if (x.align < 1 || x.align > 16 || (x.align & (x.align - 1)) != 0)
        return options_reject(&command, "--align: expected 1, 2, 4, 8 or 16, got %lld",
                              (long long)x.align);
    if (x.capability < 50 || x.capability > 200)
        return options_reject(&command, "--capability: expected 50 to 200, got %lld",
                              (long long)x.capability);
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
