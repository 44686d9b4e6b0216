#include "spec_read.h"

#include "ui/ui.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef spec_operation operation;
typedef spec_reader reader;

const operation spec_operations[] = {{"gemm", TRP__CUTLASS_GEMM, TRP_CONV_FPROP},
                                     {"grouped", TRP__CUTLASS_GROUPED, TRP_CONV_FPROP},
                                     {"fprop", TRP__CUTLASS_CONV, TRP_CONV_FPROP},
                                     {"dgrad", TRP__CUTLASS_CONV, TRP_CONV_DGRAD},
                                     {"wgrad", TRP__CUTLASS_CONV, TRP_CONV_WGRAD}};

bool spec_wrong(const reader *r, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    ui_error("%s: [%zu]%s%s: %s", r->path, r->entry, r->field ? "." : "", r->field ? r->field : "",
             message);
    return false;
}

bool spec_expected(const reader *r, const char *what)
{
    const cJSON *v = r->value;
    if (cJSON_IsString(v))
        return spec_wrong(r, "expected %s, got \"%.80s\"", what, v->valuestring);
    if (cJSON_IsNumber(v))
        return spec_wrong(r, "expected %s, got %g", what, v->valuedouble);
    return spec_wrong(r, "expected %s, got %s", what, json_kind_name(v));
}

/* Fields: each takes one value into the combination. */

/* `which`: a bit for each matrix that the type is of. */
static bool take_type(reader *r)
{
    const trp_dtype type =
        cJSON_IsString(r->value) ? operand_named_type(r->value->valuestring) : TRP_DTYPE_NONE;
    if (type == TRP_DTYPE_NONE)
        return spec_expected(r, "a type, such as bf16");
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        if (r->which >> i & 1)
            r->x.type[i] = type;
    }
    return true;
}

/* Letters as in BLAS: t is row-major, n column-major. */
static bool take_layouts(reader *r)
{
    static const char what[] =
        "\"tn\" and the like: t (row-major) or n (column-major) for A, B and, "
        "if it is not t, D";
    static const int which[] = {TRP__GEMM_A, TRP__GEMM_B, TRP__GEMM_D};
    const char *text = cJSON_IsString(r->value) ? r->value->valuestring : "";
    size_t length = strlen(text);
    if ((length != 2 && length != 3) || strspn(text, "tn") != length)
        return spec_expected(r, what);
    for (size_t i = 0; i < length; i++)
        r->x.order[which[i]] = text[i] == 't' ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
    r->x.layouts = text;
    return true;
}

static bool take_compute(reader *r)
{
    const char *text = cJSON_IsString(r->value) ? r->value->valuestring : "";
    r->x.compute = !strcmp(text, "tf32") ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT;
    return r->x.compute == TRP_COMPUTE_TF32 || !strcmp(text, "default")
               ? true
               : spec_expected(r, "\"default\" or \"tf32\"");
}

static bool take_epilogue(reader *r)
{
    if (cJSON_IsNull(r->value))
        return true;
    if (!cJSON_IsString(r->value))
        return spec_expected(r, "a text, such as \"relu(acc + bias[col])\", or null");
    r->x.epilogue = r->value->valuestring;
    return true;
}

static bool take_align(reader *r)
{
    double n = cJSON_IsNumber(r->value) ? r->value->valuedouble : 0;
    r->x.align = n >= 1 && n <= 16 ? (uint32_t)n : 0;
    return r->x.align == n && r->x.align > 0 && (r->x.align & (r->x.align - 1)) == 0
               ? true
               : spec_expected(r, "1, 2, 4, 8 or 16, in bytes");
}

static bool take_sizes(reader *r)
{
    long long m, n, k;
    int end = 0;
    if (!cJSON_IsString(r->value) ||
        sscanf(r->value->valuestring, "%9lldx%9lldx%9lld%n", &m, &n, &k, &end) != 3 ||
        r->value->valuestring[end] != '\0' || m < 1 || n < 1 || k < 1)
        return spec_expected(r, "m, n and k as in \"4096x4096x4096\"");
    r->x.m = m;
    r->x.n = n;
    r->x.k = k;
    return true;
}

static bool take_operation(reader *r)
{
    for (size_t i = 0; i < sizeof spec_operations / sizeof *spec_operations; i++) {
        if (!cJSON_IsString(r->value) ||
            strcmp(r->value->valuestring, spec_operations[i].name) != 0)
            continue;
        r->x.operation = &spec_operations[i];
        return true;
    }
    return spec_expected(r, "\"gemm\", \"grouped\", \"fprop\", \"dgrad\" or \"wgrad\"");
}

/* Reads an integer from least to most; least - 1: it is none. */
static int64_t whole(const reader *r, int64_t least, int64_t most)
{
    const double n = cJSON_IsNumber(r->value) ? r->value->valuedouble : -1;
    return n >= (double)least && n <= (double)most && (double)(int64_t)n == n ? (int64_t)n
                                                                              : least - 1;
}

static bool take_batch(reader *r)
{
    r->x.batch = whole(r, 1, INT32_MAX);
    return r->x.batch >= 1 ? true : spec_expected(r, "1 or more products, or groups");
}

static bool take_dims(reader *r)
{
    r->x.dims = (int)whole(r, 2, 3);
    return r->x.dims >= 2 ? true : spec_expected(r, "2, which one dimension is too, or 3");
}

static bool take_channels(reader *r)
{
    r->x.channels = (int)whole(r, 1, INT32_MAX);
    return r->x.channels >= 1 ? true : spec_expected(r, "1 or more channels");
}

static bool take_bool(reader *r, bool *to)
{
    *to = cJSON_IsBool(r->value) && cJSON_IsTrue(r->value);
    return cJSON_IsBool(r->value) ? true : spec_expected(r, "true or false");
}

static bool take_groups(reader *r)
{
    r->x.group = whole(r, 0, INT32_MAX);
    return r->x.group >= 0 ? true
                           : spec_expected(r, "elements along k that have one factor, 0: none");
}

static bool take_zeros(reader *r)
{
    return take_bool(r, &r->x.zeros);
}

static bool take_strided(reader *r)
{
    return take_bool(r, &r->x.strided);
}

/* `which`: 0 for the factors of A, 1 for those of B. */
static bool take_scale(reader *r)
{
    static const char *const names[] = {[TRP_SCALE_TENSOR] = "none",
                                        [TRP_SCALE_BLOCK_16] = "block_16",
                                        [TRP_SCALE_BLOCK_32] = "block_32",
                                        [TRP_SCALE_BLOCK_128] = "block_128",
                                        [TRP_SCALE_BLOCK_128X128] = "block_128x128"};
    for (size_t i = 0; i < sizeof names / sizeof *names && cJSON_IsString(r->value); i++) {
        if (names[i] && !strcmp(names[i], r->value->valuestring)) {
            r->x.scale[r->which] = (trp_scale_mode)i;
            return true;
        }
    }
    return spec_expected(r, "\"none\", \"block_16\", \"block_32\", \"block_128\" or "
                            "\"block_128x128\"");
}

uint32_t spec_capability(const cJSON *value)
{
    char number[32];
    snprintf(number, sizeof number, "%g", value->valuedouble);
    return cJSON_IsNumber(value)   ? cutlass_capability(number)
           : cJSON_IsString(value) ? cutlass_capability(value->valuestring)
                                   : 0;
}

static bool take_arch(reader *r)
{
    return spec_capability(r->value) > 0 ? true : spec_expected(r, "\"90a\", 80 or the like");
}

static bool take_rows(reader *r)
{
    if (cJSON_IsString(r->value) &&
        (!strcmp(r->value->valuestring, "best") || !strcmp(r->value->valuestring, "all") ||
         trp__cutlass_row_find(r->value->valuestring)))
        return true;
    return spec_expected(r, "\"best\", \"all\" or the name of a row (troupe cutlass kernels)");
}

const spec_field spec_fields[SPEC_FIELDS] = {
    [SPEC_ROWS] = {"rows", take_rows, 0},
    [SPEC_ARCH] = {"arch", take_arch, 0},
    [SPEC_OPERATION] = {"operation", take_operation, 0},
    [SPEC_TYPE] = {"type", take_type, 1 << TRP__GEMM_A | 1 << TRP__GEMM_B},
    {"a", take_type, 1 << TRP__GEMM_A},
    {"b", take_type, 1 << TRP__GEMM_B},
    {"c", take_type, 1 << TRP__GEMM_C},
    {"d", take_type, 1 << TRP__GEMM_D},
    {"layouts", take_layouts, 0},
    {"compute", take_compute, 0},
    {"epilogue", take_epilogue, 0},
    {"align", take_align, 0},
    {"sizes", take_sizes, 0},
    {"groups", take_groups, 0},
    {"zeros", take_zeros, 0},
    {"scale_a", take_scale, 0},
    {"scale_b", take_scale, 1},
    {"batch", take_batch, 0},
    {"dims", take_dims, 0},
    {"channels", take_channels, 0},
    {"strided", take_strided, 0},
};
