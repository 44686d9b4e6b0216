#include "spec.h"

#include "problem.h"
#include "data/json.h"
#include "ui/ui.h"

#include "actors/cutlass/encode/gemm_run.h"
#include "actors/cutlass/request/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a kernel computes, as a file says it. */
typedef struct operation {
    const char *name;
    trp__cutlass_operation kind;
    trp_conv_operation conv;
} operation;

static const operation operations[] = {{"gemm", TRP__CUTLASS_GEMM, TRP_CONV_FPROP},
                                       {"grouped", TRP__CUTLASS_GROUPED, TRP_CONV_FPROP},
                                       {"fprop", TRP__CUTLASS_CONV, TRP_CONV_FPROP},
                                       {"dgrad", TRP__CUTLASS_CONV, TRP_CONV_DGRAD},
                                       {"wgrad", TRP__CUTLASS_CONV, TRP_CONV_WGRAD}};

/* A product in the making: one value of each field. */
typedef struct combination {
    const operation *operation;
    trp_dtype type[TRP__GEMM_MATRICES]; /* TRP_DTYPE_NONE: the default */
    trp_order order[TRP__GEMM_MATRICES];
    trp_compute compute;
    const char *epilogue; /* NULL: none */
    const char *layouts;  /* NULL: the default */
    uint32_t align;
    int64_t m, n, k, batch;
    int64_t group; /* of k, of a narrow B; 0: it has none */
    bool zeros;
    trp_scale_mode scale[2]; /* of A and B */
    int dims, channels;      /* of convolutions; 0: the default */
    bool strided;
    /* What is made of these. */
    trp__epilogue_pack made;
    epilogue text;
    trp__cutlass_problem problem;
} combination;

/* The values that an entry has for a field. */
typedef struct values {
    const json *one, *at; /* one: the whole value, NULL: not there; at: the one in hand */
} values;

typedef struct reader {
    const char *path;
    spec *out;
    size_t entry;
    const json *value; /* that is looked at, */
    const char *field; /* and its field */
    combination x;
    char why[512]; /* the last row did not apply */
} reader;

/* "FILE:12: [3].layouts: ..." */
static bool wrong(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(const reader *r, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    ui_error("%s:%d: [%zu]%s%s: %s", r->path, r->value->line, r->entry, r->field ? "." : "",
             r->field ? r->field : "", message);
    return false;
}

static bool expected(const reader *r, const char *what)
{
    const json *v = r->value;
    if (v->kind == JSON_STRING)
        return wrong(r, "expected %s, got \"%.80s\"", what, v->string);
    if (v->kind == JSON_NUMBER)
        return wrong(r, "expected %s, got %g", what, v->number);
    return wrong(r, "expected %s, got %s", what, json_kind_name(v->kind));
}

/* Fields: each takes one value into the combination. */

static bool take_type(reader *r, int first, int last)
{
    for (int type = TRP_F64; r->value->kind == JSON_STRING && trp_dtype_bits((trp_dtype)type) > 0;
         type++) {
        if (strcmp(trp_dtype_name((trp_dtype)type), r->value->string) != 0)
            continue;
        for (int i = first; i <= last; i++)
            r->x.type[i] = (trp_dtype)type;
        return true;
    }
    return expected(r, "a type, such as bf16");
}

static bool take_both(reader *r)
{
    return take_type(r, TRP__GEMM_A, TRP__GEMM_B);
}

static bool take_a(reader *r)
{
    return take_type(r, TRP__GEMM_A, TRP__GEMM_A);
}

static bool take_b(reader *r)
{
    return take_type(r, TRP__GEMM_B, TRP__GEMM_B);
}

static bool take_c(reader *r)
{
    return take_type(r, TRP__GEMM_C, TRP__GEMM_C);
}

static bool take_d(reader *r)
{
    return take_type(r, TRP__GEMM_D, TRP__GEMM_D);
}

/* As BLAS has them: t is row-major, n column-major. */
static bool take_layouts(reader *r)
{
    static const char what[] =
        "\"tn\" and the like: t (row-major) or n (column-major) for A, B and, "
        "if it is not t, D";
    static const int which[] = {TRP__GEMM_A, TRP__GEMM_B, TRP__GEMM_D};
    const char *text = r->value->kind == JSON_STRING ? r->value->string : "";
    size_t length = strlen(text);
    if ((length != 2 && length != 3) || strspn(text, "tn") != length)
        return expected(r, what);
    for (size_t i = 0; i < length; i++)
        r->x.order[which[i]] = text[i] == 't' ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    r->x.layouts = text;
    return true;
}

static bool take_compute(reader *r)
{
    const char *text = r->value->kind == JSON_STRING ? r->value->string : "";
    r->x.compute = !strcmp(text, "tf32") ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
    return r->x.compute == TRP_COMPUTE_TF32 || !strcmp(text, "default")
               ? true
               : expected(r, "\"default\" or \"tf32\"");
}

static bool take_epilogue(reader *r)
{
    if (r->value->kind == JSON_NULL)
        return true;
    if (r->value->kind != JSON_STRING)
        return expected(r, "a text, such as \"relu(acc + bias[col])\", or null");
    r->x.epilogue = r->value->string;
    return true;
}

static bool take_align(reader *r)
{
    double n = r->value->kind == JSON_NUMBER ? r->value->number : 0;
    r->x.align = n >= 1 && n <= 16 ? (uint32_t)n : 0;
    return r->x.align == n && r->x.align > 0 && (r->x.align & (r->x.align - 1)) == 0
               ? true
               : expected(r, "1, 2, 4, 8 or 16, in bytes");
}

static bool take_sizes(reader *r)
{
    long long m, n, k;
    int end = 0;
    if (r->value->kind != JSON_STRING ||
        sscanf(r->value->string, "%9lldx%9lldx%9lld%n", &m, &n, &k, &end) != 3 ||
        r->value->string[end] != '\0' || m < 1 || n < 1 || k < 1)
        return expected(r, "m, n and k as in \"4096x4096x4096\"");
    r->x.m = m;
    r->x.n = n;
    r->x.k = k;
    return true;
}

static bool take_operation(reader *r)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (r->value->kind != JSON_STRING || strcmp(r->value->string, operations[i].name) != 0)
            continue;
        r->x.operation = &operations[i];
        return true;
    }
    return expected(r, "\"gemm\", \"grouped\", \"fprop\", \"dgrad\" or \"wgrad\"");
}

/* A whole number from least to most; least - 1: it is none. */
static int64_t whole(const reader *r, int64_t least, int64_t most)
{
    const double n = r->value->kind == JSON_NUMBER ? r->value->number : -1;
    return n >= (double)least && n <= (double)most && (double)(int64_t)n == n ? (int64_t)n
                                                                              : least - 1;
}

static bool take_batch(reader *r)
{
    r->x.batch = whole(r, 1, INT32_MAX);
    return r->x.batch >= 1 ? true : expected(r, "1 or more products, or groups");
}

static bool take_dims(reader *r)
{
    r->x.dims = (int)whole(r, 2, 3);
    return r->x.dims >= 2 ? true : expected(r, "2, which one dimension is too, or 3");
}

static bool take_channels(reader *r)
{
    r->x.channels = (int)whole(r, 1, INT32_MAX);
    return r->x.channels >= 1 ? true : expected(r, "1 or more channels");
}

static bool take_bool(reader *r, bool *to)
{
    *to = r->value->kind == JSON_BOOL && r->value->number != 0;
    return r->value->kind == JSON_BOOL ? true : expected(r, "true or false");
}

static bool take_groups(reader *r)
{
    r->x.group = whole(r, 0, INT32_MAX);
    return r->x.group >= 0 ? true : expected(r, "elements along k that have one factor, 0: none");
}

static bool take_zeros(reader *r)
{
    return take_bool(r, &r->x.zeros);
}

static bool take_strided(reader *r)
{
    return take_bool(r, &r->x.strided);
}

static bool take_scale(reader *r, int which)
{
    static const char *const names[] = {[TRP_SCALE_TENSOR] = "none",
                                        [TRP_SCALE_BLOCK_16] = "block_16",
                                        [TRP_SCALE_BLOCK_32] = "block_32",
                                        [TRP_SCALE_BLOCK_128] = "block_128",
                                        [TRP_SCALE_BLOCK_128X128] = "block_128x128"};
    for (size_t i = 0; i < sizeof names / sizeof *names && r->value->kind == JSON_STRING; i++) {
        if (names[i] && !strcmp(names[i], r->value->string)) {
            r->x.scale[which] = (trp_scale_mode)i;
            return true;
        }
    }
    return expected(r, "\"none\", \"block_16\", \"block_32\", \"block_128\" or "
                       "\"block_128x128\"");
}

static bool take_scale_a(reader *r)
{
    return take_scale(r, 0);
}

static bool take_scale_b(reader *r)
{
    return take_scale(r, 1);
}

static uint32_t capability_of(const json *value)
{
    char number[32];
    snprintf(number, sizeof number, "%g", value->number);
    return value->kind == JSON_NUMBER   ? cutlass_capability(number)
           : value->kind == JSON_STRING ? cutlass_capability(value->string)
                                        : 0;
}

static bool take_arch(reader *r)
{
    return capability_of(r->value) > 0 ? true : expected(r, "\"90a\", 80 or the like");
}

static bool take_rows(reader *r)
{
    if (r->value->kind == JSON_STRING &&
        (!strcmp(r->value->string, "best") || !strcmp(r->value->string, "all") ||
         trp__cutlass_row_find(r->value->string)))
        return true;
    return expected(r, "\"best\", \"all\" or the name of a row (troupe cutlass kernels)");
}

/* Rows are the outermost loop; then, here, come those that others may overrule. */
enum { ROWS, ARCH, PRODUCTS, OPERATION = PRODUCTS, TYPE, FIELDS = TYPE + 18 };

static const struct {
    const char *name;
    bool (*take)(reader *r);
} fields[] = {
    [ROWS] = {"rows", take_rows},
    [ARCH] = {"arch", take_arch},
    [OPERATION] = {"operation", take_operation},
    [TYPE] = {"type", take_both},
    {"a", take_a},
    {"b", take_b},
    {"c", take_c},
    {"d", take_d},
    {"layouts", take_layouts},
    {"compute", take_compute},
    {"epilogue", take_epilogue},
    {"align", take_align},
    {"sizes", take_sizes},
    {"groups", take_groups},
    {"zeros", take_zeros},
    {"scale_a", take_scale_a},
    {"scale_b", take_scale_b},
    {"batch", take_batch},
    {"dims", take_dims},
    {"channels", take_channels},
    {"strided", take_strided},
};

_Static_assert(sizeof fields / sizeof *fields == FIELDS, "all of them");

/* Kernels. */

static const char *kind_name(const combination *x)
{
    if (x->operation->kind == TRP__CUTLASS_CONV)
        return x->operation->name;
    return x->layouts ? x->layouts : "tn";
}

static char *make_label(const combination *x, const spec_kernel *k, const trp__cutlass_row *row)
{
    const uint8_t *type = x->made.type;
    char *label = NULL, types[64], c[16] = "";
    const char *a = trp_dtype_name((trp_dtype)type[TRP__GEMM_A]);
    const char *b = trp_dtype_name((trp_dtype)type[TRP__GEMM_B]);
    if (type[TRP__GEMM_C] != TRP_DTYPE_NONE)
        snprintf(c, sizeof c, "+%s", trp_dtype_name((trp_dtype)type[TRP__GEMM_C]));
    snprintf(types, sizeof types, "%s%s%s%s%s>%s", a, strcmp(a, b) ? "*" : "",
             strcmp(a, b) ? b : "",
             x->problem.zeros   ? "*scale+zero"
             : x->problem.group ? "*scale"
                                : "",
             c, trp_dtype_name((trp_dtype)type[TRP__GEMM_D]));
    if (asprintf(&label, "%s %s %s %s%s%s%s%.100s", row->name, k->compile.architecture, types,
                 kind_name(x), x->dims == 3 ? " 3d" : "", x->strided ? " strided" : "",
                 x->epilogue ? " " : "", x->epilogue ? x->epilogue : "") < 0)
        return NULL;
    return label;
}

static bool is_known(const spec *s, const spec_kernel *k)
{
    for (size_t i = 0; i < s->count; i++) {
        const trp__cutlass_compile *other = &s->kernel[i]->compile;
        if (!strcmp(other->architecture, k->compile.architecture) &&
            !strcmp(other->source, k->compile.source))
            return true;
    }
    return false;
}

static void end_kernel(spec_kernel *k)
{
    if (k) {
        trp__cutlass_compile_end(&k->compile);
        free(k->label);
    }
    free(k);
}

/* Takes the kernel, which is gone if there is no memory. */
static bool keep(spec *s, spec_kernel *k)
{
    if ((s->count & (s->count - 1)) == 0) {
        spec_kernel **more =
            realloc(s->kernel, (s->count ? 2 * s->count : 1) * sizeof(spec_kernel *));
        if (!more) {
            end_kernel(k);
            return false;
        }
        s->kernel = more;
    }
    s->kernel[s->count++] = k;
    return true;
}

/* TRP_E_UNSUPPORTED: the row can't have the tree. Else an error was told. */
static trp_status add_kernel(reader *r, const trp__cutlass_row *row)
{
    trp_error error = {0};
    spec_kernel *k = calloc(1, sizeof *k);
    trp_status status = k ? TRP_OK : TRP_E_MEMORY;
    if (status == TRP_OK)
        status = trp__cutlass_compile_begin(row, &r->x.problem, &k->compile, &error);
    if (status == TRP_OK && !is_known(r->out, k)) {
        k->label = make_label(&r->x, k, row);
        bool named = k->label != NULL;
        status = keep(r->out, k) && named ? TRP_OK : TRP_E_MEMORY;
        k = NULL;
    }
    end_kernel(k);
    snprintf(r->why, sizeof r->why, "%s", error.message);
    if (status != TRP_OK && status != TRP_E_UNSUPPORTED)
        wrong(r, "%s", status == TRP_E_MEMORY ? "out of memory" : error.message);
    return status;
}

/* Rows. */

/* Types and tree, by what checks those of requests. */
static bool set_epilogue(reader *r)
{
    combination *x = &r->x;
    char message[512];
    trp_error error = {0};
    trp__pack pack = {.error = &error, .backend = TRP_BACKEND_CUDA};
    const bool product = x->operation->kind == TRP__CUTLASS_GEMM;
    x->made = (trp__epilogue_pack){.pack = &pack,
                                   .a = x->type[TRP__GEMM_A],
                                   .b = x->type[TRP__GEMM_B],
                                   .c = x->type[TRP__GEMM_C],
                                   .d = x->type[TRP__GEMM_D],
                                   .order = x->order[TRP__GEMM_D],
                                   .transpose = x->order[TRP__GEMM_D] == TRP_COL_MAJOR,
                                   .compute = x->compute,
                                   .fp4 = product,
                                   .mixed = product,
                                   .no_i8 = !product};
    if (x->epilogue) {
        if (!epilogue_parse(x->epilogue, &x->text, message, sizeof message))
            return wrong(r, "epilogue: %s", message);
        cutlass_give_places(&x->text);
        x->made.has_c = true;
        x->made.epilogue = x->text.node;
        x->made.count = x->text.count;
    }
    return trp__epilogue_check(&x->made) == TRP_OK ? true : wrong(r, "%s", error.message);
}

/* Fields that are not for what others say. */
static bool check_fields(const reader *r)
{
    const combination *x = &r->x;
    const uint8_t *type = x->made.type;
    const bool conv = x->operation->kind == TRP__CUTLASS_CONV;
    if (x->group && !trp__is_mixed((trp_dtype)type[TRP__GEMM_A], (trp_dtype)type[TRP__GEMM_B]))
        return wrong(r, "groups: expected none but for a b of 8 or 4 bits where a is f16 or bf16");
    if (x->zeros && !x->group)
        return wrong(r, "zeros: expected false without groups");
    if ((x->scale[0] || x->scale[1]) && x->operation->kind != TRP__CUTLASS_GEMM)
        return wrong(r, "scale_a and scale_b: expected none but for gemm");
    if (conv && x->layouts)
        return wrong(r, "layouts: expected none for a convolution, which has its own");
    if (!conv && (x->dims || x->channels || x->strided))
        return wrong(r, "%s: expected none but for a convolution",
                     x->dims       ? "dims"
                     : x->channels ? "channels"
                                   : "strided");
    if (x->strided && x->operation->conv != TRP_CONV_DGRAD)
        return wrong(r, "strided: expected false but for dgrad");
    return true;
}

static void set_convolution(const combination *x, trp__cutlass_problem *p)
{
    p->a_row = x->operation->conv != TRP_CONV_WGRAD;
    p->b_row = x->operation->conv != TRP_CONV_FPROP;
    p->conv =
        (trp__cutlass_convolution){.operation = (uint8_t)x->operation->conv,
                                   .dims = (uint8_t)(x->dims ? x->dims : 2),
                                   .divided = x->strided,
                                   .tma = !x->strided,
                                   .inner = x->channels ? x->channels : 128,
                                   .why_not_tma = x->strided ? "is a DGRAD with strides" : NULL};
}

static bool set_problem(reader *r, uint32_t capability)
{
    combination *x = &r->x;
    trp__cutlass_gemm g = {.m = x->m,
                           .n = x->n,
                           .k = x->k,
                           .batch = x->batch,
                           .compute = (uint8_t)x->compute,
                           .scale = {(uint8_t)x->scale[0], (uint8_t)x->scale[1]},
                           .group = x->group < x->k ? x->group : x->k};
    if (!set_epilogue(r) || !check_fields(r))
        return false;
    memcpy(g.type, x->made.type, sizeof g.type);
    for (int i = 0; i < TRP__GEMM_MATRICES; i++)
        g.order[i] = (uint8_t)x->order[i];
    x->problem = (trp__cutlass_problem){.tree = x->made.tree.count ? &x->made.tree : NULL,
                                        .zeros = x->zeros,
                                        .align_scales = x->align};
    trp__cutlass_set_types(&x->problem, &g);
    x->problem.operation = (uint8_t)x->operation->kind;
    if (x->operation->kind == TRP__CUTLASS_CONV)
        set_convolution(x, &x->problem);
    cutlass_set_device(&x->problem, capability);
    for (size_t i = 0; i < sizeof x->problem.align / sizeof *x->problem.align; i++)
        x->problem.align[i] = x->align;
    for (size_t i = 0; i < sizeof x->problem.divides / sizeof *x->problem.divides; i++)
        x->problem.divides[i] = x->align;
    return true;
}

/* The best row as the actor finds it, or all that it knows. */
static bool add_chosen(reader *r, bool all)
{
    const trp__cutlass_row *row[TRP__CUTLASS_ROWS_MAX];
    trp_error error = {0};
    trp_status status = TRP_E_UNSUPPORTED;
    bool any = false;
    uint32_t count = trp__cutlass_choose(&r->x.problem, row, TRP__CUTLASS_ROWS_MAX, &error);
    snprintf(r->why, sizeof r->why, "%s", error.message);
    for (uint32_t i = 0; i < count && (all || !any); i++) {
        status = add_kernel(r, row[i]);
        if (status != TRP_OK && status != TRP_E_UNSUPPORTED)
            return false;
        any = any || status == TRP_OK;
    }
    return any || wrong(r, "no kernel for %s %s on a device of %u.%u: %s",
                        trp_dtype_name((trp_dtype)r->x.made.type[TRP__GEMM_A]), kind_name(&r->x),
                        r->x.problem.capability / 10, r->x.problem.capability % 10, r->why);
}

/* One that is not for such a product is passed over. */
static bool add_named(reader *r, const char *name, size_t *any)
{
    const trp__cutlass_row *row = trp__cutlass_row_find(name);
    trp_error error = {0};
    trp_status status = trp__cutlass_row_applies(row, &r->x.problem, &error);
    if (status != TRP_OK)
        snprintf(r->why, sizeof r->why, "%s", error.message);
    else
        status = add_kernel(r, row);
    *any += status == TRP_OK;
    return status == TRP_OK || status == TRP_E_UNSUPPORTED || status == TRP_E_ARGUMENT;
}

/* Entries. */

static void rewind_values(values *v)
{
    v->at = v->one && v->one->kind == JSON_ARRAY ? v->one->first : v->one;
}

static bool advance(values *v)
{
    v->at = v->one && v->one->kind == JSON_ARRAY ? v->at->next : NULL;
    return v->at != NULL;
}

/* The next combination of all fields from PRODUCTS on; false: there is none. */
static bool next_combination(values all[FIELDS])
{
    for (int f = FIELDS - 1; f >= PRODUCTS; f--) {
        if (all[f].one && advance(&all[f]))
            return true;
        rewind_values(&all[f]);
    }
    return false;
}

static bool take(reader *r, const values *v, int field)
{
    if (!v->at)
        return true;
    r->value = v->at;
    r->field = fields[field].name;
    return fields[field].take(r);
}

static bool add_product(reader *r, const values all[FIELDS], const json *entry, uint32_t capability,
                        size_t *any)
{
    const json *rows = all[ROWS].at;
    r->x = (combination){.operation = operations,
                         .order = {[TRP__GEMM_A] = TRP_ROW_MAJOR, [TRP__GEMM_D] = TRP_ROW_MAJOR},
                         .align = 16,
                         .m = 4096,
                         .n = 4096,
                         .k = 4096,
                         .batch = 1};
    for (int f = PRODUCTS; f < FIELDS; f++) {
        if (!take(r, &all[f], f))
            return false;
    }
    r->x.order[TRP__GEMM_C] = r->x.order[TRP__GEMM_D];
    r->value = entry;
    r->field = NULL;
    if (r->x.type[TRP__GEMM_A] == TRP_DTYPE_NONE)
        return wrong(r, "expected a type, or a");
    if (!set_problem(r, capability))
        return false;
    r->value = rows;
    r->field = "rows";
    if (!strcmp(rows->string, "best") || !strcmp(rows->string, "all")) {
        *any += 1;
        return add_chosen(r, !strcmp(rows->string, "all"));
    }
    return add_named(r, rows->string, any);
}

/* Whether the entry is for such devices. */
static bool is_for(const values *arch, uint32_t capability)
{
    values v = *arch;
    bool found = v.one == NULL;
    for (rewind_values(&v); v.at && !found; advance(&v))
        found = capability_of(v.at) == capability;
    return found;
}

static bool read_fields(reader *r, const json *entry, values all[FIELDS])
{
    for (const json *member = entry->first; member; member = member->next) {
        int f = 0;
        while (f < FIELDS && strcmp(fields[f].name, member->key) != 0)
            f++;
        r->value = member;
        r->field = member->key;
        if (f == FIELDS)
            return wrong(r, "there is no such field");
        if (all[f].one)
            return wrong(r, "it was there before");
        if (member->kind == JSON_ARRAY && !member->first)
            return wrong(r, "expected at least one value, got an empty array");
        all[f].one = member;
        for (rewind_values(&all[f]); all[f].at; advance(&all[f])) {
            if (!take(r, &all[f], f))
                return false;
        }
        rewind_values(&all[f]);
    }
    r->value = entry;
    r->field = NULL;
    return all[ROWS].one ? true : wrong(r, "expected rows");
}

static bool read_entry(reader *r, const json *entry, const uint32_t *capabilities, size_t count)
{
    values all[FIELDS] = {{0}};
    r->value = entry;
    r->field = NULL;
    if (entry->kind != JSON_OBJECT)
        return expected(r, "an object");
    if (!read_fields(r, entry, all))
        return false;
    do {
        size_t any = 0, asked = 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_for(&all[ARCH], capabilities[i]))
                continue;
            asked++;
            do {
                if (!add_product(r, all, entry, capabilities[i], &any))
                    return false;
            } while (next_combination(all));
        }
        if (asked > 0 && any == 0)
            return wrong(r, "\"%s\" is for none of this: %s", all[ROWS].at->string, r->why);
    } while (advance(&all[ROWS]));
    return true;
}

bool spec_read(const char *path, const uint32_t *capabilities, size_t count, spec *out)
{
    json *file = json_read_file(path);
    reader *r = calloc(1, sizeof *r); /* large */
    bool ok = file && r;
    *out = (spec){0};
    if (ok && file->kind != JSON_ARRAY) {
        ui_error("%s:%d: expected an array of entries, got %s", path, file->line,
                 json_kind_name(file->kind));
        ok = false;
    }
    if (ok)
        *r = (reader){.path = path, .out = out};
    for (const json *entry = ok ? file->first : NULL; entry && ok; entry = entry->next) {
        ok = read_entry(r, entry, capabilities, count);
        r->entry++;
    }
    if (!r)
        ui_error("out of memory");
    free(r);
    json_free(file);
    return ok;
}

void spec_end(spec *s)
{
    for (size_t i = 0; i < s->count; i++)
        end_kernel(s->kernel[i]);
    free(s->kernel);
    *s = (spec){0};
}
