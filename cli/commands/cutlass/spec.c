#include "spec.h"

#include "spec_read.h"
#include "ui/ui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef spec_combination combination;
typedef spec_values values;
typedef spec_reader reader;

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

/* Adds a kernel; owns it, also without memory. */
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

/* Adds a row's kernel. TRP_E_UNSUPPORTED: the row can't have the tree. Other errors are
 * reported. */
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
        spec_wrong(r, "%s", status == TRP_E_MEMORY ? "out of memory" : error.message);
    return status;
}

/* Rows. */

/* Determines types and tree with the check that requests get. */
static bool set_epilogue(reader *r)
{
    combination *x = &r->x;
    char message[512];
    trp_error error = {0};
    trp__encoder encoder = {.error = &error, .backend = TRP_BACKEND_CUDA};
    x->made = (trp__epilogue_encoding){.encoder = &encoder,
                                       .a = x->type[TRP__GEMM_A],
                                       .b = x->type[TRP__GEMM_B],
                                       .c = x->type[TRP__GEMM_C],
                                       .d = x->type[TRP__GEMM_D],
                                       .order = x->order[TRP__GEMM_D],
                                       .transpose = x->order[TRP__GEMM_D] == TRP_COL_MAJOR,
                                       .compute = x->compute,
                                       .any_type = x->operation->kind == TRP__CUTLASS_GEMM};
    if (x->epilogue) {
        if (!epilogue_parse(x->epilogue, &x->text, message, sizeof message))
            return spec_wrong(r, "epilogue: %s", message);
        cutlass_give_places(&x->text);
        x->made.has_c = true;
        x->made.epilogue = x->text.node;
        x->made.count = x->text.count;
    }
    return trp__epilogue_check(&x->made) == TRP_OK ? true : spec_wrong(r, "%s", error.message);
}

/* Rejects fields that contradict others. */
static bool check_fields(const reader *r)
{
    const combination *x = &r->x;
    const uint8_t *type = x->made.type;
    const bool conv = x->operation->kind == TRP__CUTLASS_CONV;
    if (x->group && !trp__is_mixed((trp_dtype)type[TRP__GEMM_A], (trp_dtype)type[TRP__GEMM_B]))
        return spec_wrong(
            r, "groups: expected none but for a b of 8 or 4 bits where a is f16 or bf16");
    if (x->zeros && !x->group)
        return spec_wrong(r, "zeros: expected false without groups");
    if ((x->scale[0] || x->scale[1]) && x->operation->kind != TRP__CUTLASS_GEMM)
        return spec_wrong(r, "scale_a and scale_b: expected none but for gemm");
    if (conv && x->layouts)
        return spec_wrong(r, "layouts: expected none for a convolution, which has its own");
    if (!conv && (x->dims || x->channels || x->strided))
        return spec_wrong(r, "%s: expected none but for a convolution",
                          x->dims       ? "dims"
                          : x->channels ? "channels"
                                        : "strided");
    if (x->strided && x->operation->conv != TRP_CONV_DGRAD)
        return spec_wrong(r, "strided: expected false but for dgrad");
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

/* Adds the row that the actor would choose, or all that it knows. */
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
    return any ||
           spec_wrong(r, "no kernel for %s %s on a device of %u.%u: %s",
                      trp_dtype_name((trp_dtype)r->x.made.type[TRP__GEMM_A]), kind_name(&r->x),
                      r->x.problem.capability / 10, r->x.problem.capability % 10, r->why);
}

/* Adds a named row; skips one that does not apply to the product. */
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
    v->at = v->one && cJSON_IsArray(v->one) ? v->one->child : v->one;
}

static bool advance(values *v)
{
    v->at = v->one && cJSON_IsArray(v->one) ? v->at->next : NULL;
    return v->at != NULL;
}

/* Advances to the next combination of the fields from SPEC_PRODUCTS on; false: there is none. */
static bool next_combination(values all[SPEC_FIELDS])
{
    for (int f = SPEC_FIELDS - 1; f >= SPEC_PRODUCTS; f--) {
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
    r->field = spec_fields[field].name;
    r->which = spec_fields[field].which;
    return spec_fields[field].take(r);
}

static bool add_product(reader *r, const values all[SPEC_FIELDS], const cJSON *entry,
                        uint32_t capability, size_t *any)
{
    const cJSON *rows = all[SPEC_ROWS].at;
    r->x = (combination){.operation = spec_operations,
                         .order = {[TRP__GEMM_A] = TRP_ROW_MAJOR, [TRP__GEMM_D] = TRP_ROW_MAJOR},
                         .align = 16,
                         .m = 4096,
                         .n = 4096,
                         .k = 4096,
                         .batch = 1};
    for (int f = SPEC_PRODUCTS; f < SPEC_FIELDS; f++) {
        if (!take(r, &all[f], f))
            return false;
    }
    r->x.order[TRP__GEMM_C] = r->x.order[TRP__GEMM_D];
    r->value = entry;
    r->field = NULL;
    if (r->x.type[TRP__GEMM_A] == TRP_DTYPE_NONE)
        return spec_wrong(r, "expected a type, or a");
    if (!set_problem(r, capability))
        return false;
    r->value = rows;
    r->field = "rows";
    if (!strcmp(rows->valuestring, "best") || !strcmp(rows->valuestring, "all")) {
        *any += 1;
        return add_chosen(r, !strcmp(rows->valuestring, "all"));
    }
    return add_named(r, rows->valuestring, any);
}

/* Tells whether the entry is for a device. */
static bool is_for(const values *arch, uint32_t capability)
{
    values v = *arch;
    bool found = v.one == NULL;
    for (rewind_values(&v); v.at && !found; advance(&v))
        found = spec_capability(v.at) == capability;
    return found;
}

static bool read_fields(reader *r, const cJSON *entry, values all[SPEC_FIELDS])
{
    for (const cJSON *member = entry->child; member; member = member->next) {
        int f = 0;
        while (f < SPEC_FIELDS && strcmp(spec_fields[f].name, member->string) != 0)
            f++;
        r->value = member;
        r->field = member->string;
        if (f == SPEC_FIELDS)
            return spec_wrong(r, "there is no such field");
        if (all[f].one)
            return spec_wrong(r, "it was there before");
        if (cJSON_IsArray(member) && !member->child)
            return spec_wrong(r, "expected at least one value, got an empty array");
        all[f].one = member;
        for (rewind_values(&all[f]); all[f].at; advance(&all[f])) {
            if (!take(r, &all[f], f))
                return false;
        }
        rewind_values(&all[f]);
    }
    r->value = entry;
    r->field = NULL;
    return all[SPEC_ROWS].one ? true : spec_wrong(r, "expected rows");
}

static bool read_entry(reader *r, const cJSON *entry, const uint32_t *capabilities, size_t count)
{
    values all[SPEC_FIELDS] = {{0}};
    r->value = entry;
    r->field = NULL;
    if (!cJSON_IsObject(entry))
        return spec_expected(r, "an object");
    if (!read_fields(r, entry, all))
        return false;
    do {
        size_t any = 0, asked = 0;
        for (size_t i = 0; i < count; i++) {
            if (!is_for(&all[SPEC_ARCH], capabilities[i]))
                continue;
            asked++;
            do {
                if (!add_product(r, all, entry, capabilities[i], &any))
                    return false;
            } while (next_combination(all));
        }
        if (asked > 0 && any == 0)
            return spec_wrong(r, "\"%s\" applies to none of these kernels: %s",
                              all[SPEC_ROWS].at->valuestring, r->why);
    } while (advance(&all[SPEC_ROWS]));
    return true;
}

bool spec_read(const char *path, const uint32_t *capabilities, size_t count, spec *out)
{
    cJSON *file = json_read_file(path);
    reader *r = calloc(1, sizeof *r); /* large */
    bool ok = file && r;
    *out = (spec){0};
    if (ok && !cJSON_IsArray(file)) {
        ui_error("%s: expected an array of entries, got %s", path, json_kind_name(file));
        ok = false;
    }
    if (ok)
        *r = (reader){.path = path, .out = out};
    for (const cJSON *entry = ok ? file->child : NULL; entry && ok; entry = entry->next) {
        ok = read_entry(r, entry, capabilities, count);
        r->entry++;
    }
    if (!r)
        ui_error("out of memory");
    free(r);
    cJSON_Delete(file);
    return ok;
}

void spec_end(spec *s)
{
    for (size_t i = 0; i < s->count; i++)
        end_kernel(s->kernel[i]);
    free(s->kernel);
    *s = (spec){0};
}
