/* troupe cutlass --check: compares a GPU's result with the host's from the same operands: OpenBLAS
 * for the sums, the epilogue element by element. */
#include "cutlass.h"

#include "ui/ui.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A GPU's result while the operand holds the host's. */
typedef struct kept {
    trp_buffer buffer;
    void *data;
} kept;

bool cutlass_can_check(const cutlass *job)
{
    if (!job->check || job->run.info.backend != TRP_BACKEND_HOST)
        return true;
    ui_error("--check compares a GPU's results with the host's: expected a GPU, got the host");
    return false;
}

/* Returns half the distance from 1 to the next number, or 0 for other types. */
static double unit_of(trp_dtype type)
{
    switch (type) {
    case TRP_F64:
        return DBL_EPSILON / 2;
    case TRP_F32:
        return FLT_EPSILON / 2;
    case TRP_F16:
        return 0x1p-11;
    case TRP_BF16:
        return 0x1p-8;
    case TRP_F8E4M3:
        return 0x1p-4;
    case TRP_F8E5M2:
        return 0x1p-3;
    case TRP_I8:
        return 0x1p-7;
    default:
        return 0;
    }
}

/* Returns the allowed difference relative to the norm. Both round once to the type; sums in two
 * orders leave sqrt(k) of their errors, and as much may cancel of the sums themselves; tensor cores
 * truncate fp8 sums, tf32 rounds inputs; functions are accurate to a few units. */
static double bound_of(const cutlass *job, trp_dtype type)
{
    double k = (double)job->k, root = sqrt(k);
    bool fp8 = job->type == TRP_F8E4M3 || job->type == TRP_F8E5M2;
    double unit = job->type == TRP_F64 ? DBL_EPSILON / 2 : FLT_EPSILON / 2;
    double sums = job->type == TRP_I8 ? 0
                                      : (16 + 4 * root) * root * unit + (fp8 ? 0x1p-9 : 0) +
                                            (job->tf32 ? 0x1p-9 : 0);
    return type == TRP_I32 ? 0 : sums + 2 * unit_of(type) + 64 * unit;
}

static bool compare(const cutlass *job, const operand *o, const void *data, uint64_t took)
{
    check_view host = operand_view(o), gpu = host;
    double distance = 0, norm = 0, bound = bound_of(job, o->layout.type);
    uint64_t other = 0; /* infinities and NaNs on one side only */
    gpu.data = data;
    for (uint64_t i = 0; i < o->layout.rows; i++) {
        for (uint64_t j = 0; j < o->layout.cols; j++) {
            double x = check_element(&gpu, i, j, 0), y = check_element(&host, i, j, 0);
            bool same = x == y || (isnan(x) && isnan(y));
            if (isfinite(x) && isfinite(y)) {
                distance += (x - y) * (x - y);
                norm += y * y;
            } else {
                other += !same;
            }
        }
    }
    double error = distance > 0 ? sqrt(distance / norm) : 0;
    bool good = error <= bound && other == 0;
    ui_step(good ? UI_GOOD : UI_BAD, "check", took,
            "%s against the host: relative error %.2g, at most %.2g", o->option, error, bound);
    if (other > 0)
        ui_error("%s: %s on one side alone", o->option, ui_plural(other, "infinity or NaN").s);
    else if (!good)
        ui_error("%s is wrong: relative error %.3g, expected at most %.3g", o->option, error,
                 bound);
    return good;
}

/* Recreates the operands on the host's device; keeps the GPU's results. */
static bool move_to_host(cutlass *job, kept *all)
{
    for (uint32_t i = 0; i < job->count; i++) {
        operand *o = &job->operand[i];
        all[i].buffer = o->buffer;
        o->buffer = (trp_buffer){0};
        if (o->layout.bytes == 0)
            continue;
        if (o->use == OPERAND_OUTPUT) {
            all[i].data = malloc(o->layout.bytes);
            if (!all[i].data) {
                ui_error("--check: no memory for %s", o->option);
                return false;
            }
            memcpy(all[i].data, o->data, o->layout.bytes);
        }
        if (!run_check(trp_buffer_create(job->run.device, o->layout.bytes, &o->buffer),
                       "getting memory of the host's device") ||
            (o->use == OPERAND_INPUT && !operand_upload(&job->run, o)))
            return false;
    }
    return true;
}

static bool compare_all(cutlass *job, const kept *all, uint64_t began)
{
    bool good = true;
    for (uint32_t i = 0; i < job->count; i++) {
        operand *o = &job->operand[i];
        if (o->use != OPERAND_OUTPUT || !all[i].data)
            continue;
        if (!operand_download(&job->run, o))
            return false;
        good = compare(job, o, all[i].data, ui_now() - began) && good;
    }
    return good;
}

bool cutlass_check(cutlass *job)
{
    static kept all[CUTLASS_OPERANDS];
    const struct run gpu = job->run;
    const trp_buffer table = job->table;
    run_choice host = job->choice;
    uint64_t began = ui_now();
    if (!job->check || job->d_rows == 0 || job->d_cols == 0)
        return true;
    ui_progress("checking against the host");
    memset(&job->run, 0, sizeof job->run);
    memset(all, 0, sizeof all);
    job->table = (trp_buffer){0};
    host.backend = TRP_BACKEND_HOST;
    bool good = run_open(&job->run, &host, "cutlass", NULL) && move_to_host(job, all) &&
                cutlass_multiply(job) && compare_all(job, all, began);
    for (uint32_t i = 0; i < job->count; i++) {
        operand *o = &job->operand[i];
        if (job->run.device && o->buffer.id)
            run_check(trp_buffer_free(job->run.device, o->buffer), "giving memory back");
        o->buffer = all[i].buffer.id ? all[i].buffer : o->buffer;
        free(all[i].data);
    }
    if (job->table.id)
        run_check(trp_buffer_free(job->run.device, job->table), "giving memory back");
    run_close(&job->run);
    job->run = gpu;
    job->table = table;
    return good;
}
