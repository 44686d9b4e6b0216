/* A product with an epilogue: the operands that its names refer to, and its steps. */
#include "cutlass.h"

#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operands by name. */

static bool is_written(trp_epilogue_kind kind)
{
    return kind == TRP_EPILOGUE_AUX_STORE || kind == TRP_EPILOGUE_REDUCE_ROWS ||
           kind == TRP_EPILOGUE_REDUCE_COLUMNS || kind == TRP_EPILOGUE_REDUCE_ALL;
}

/* Returns a node's name; that of C is implied. */
static const char *name_of(const epilogue *tree, uint32_t node)
{
    return tree->node[node].kind == TRP_EPILOGUE_C ? "c" : tree->name[node];
}

/* Finds NAME=VALUE among the options and returns VALUE, or NULL. */
static const char *given_for(const cutlass *job, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < job->with.count; i++) {
        const char *text = job->with.text[i];
        if (!strncmp(text, name, length) && text[length] == '=' && text[length + 1])
            return text + length + 1;
    }
    return NULL;
}

/* Finds the operand of a named node: a new one, or that of an earlier node with the same name. */
static bool find_operand(cutlass *job, uint32_t node)
{
    const char *name = name_of(&job->tree, node), *value = given_for(job, name);
    trp_epilogue_node *x = &job->tree.node[node];
    double number;
    for (uint32_t i = 1; i < node; i++) {
        if (job->of_node[i] && !strcmp(name_of(&job->tree, i), name)) {
            job->of_node[node] = job->of_node[i];
            return true;
        }
    }
    if (!value) {
        ui_wrong("--epilogue: expected --with %s=%s", name,
                 x->kind == TRP_EPILOGUE_SCALAR ? "NUMBER" : "FILE");
        return false;
    }
    if (x->kind == TRP_EPILOGUE_SCALAR && options_real(value, &number)) {
        x->value = trp_real(number);
        return true;
    }
    operand *o = &job->operand[job->count];
    snprintf(job->name[job->count], sizeof job->name[0], "--with %s", name);
    *o = (operand){.use = is_written(x->kind) ? OPERAND_OUTPUT : OPERAND_INPUT,
                   .option = job->name[job->count],
                   .path = value};
    job->of_node[node] = job->count++;
    return true;
}

static bool find_operands(cutlass *job)
{
    for (uint32_t i = 1; i < job->tree.count; i++) {
        if (*name_of(&job->tree, i) && !find_operand(job, i))
            return false;
    }
    for (size_t w = 0; w < job->with.count; w++) {
        const char *text = job->with.text[w];
        bool used = false;
        for (uint32_t i = 1; i < job->tree.count && !used; i++) {
            const char *name = name_of(&job->tree, i);
            used = *name && given_for(job, name) == text + strlen(name) + 1;
        }
        if (!used) {
            ui_wrong("--with %s: the epilogue has no such name, or it was given before", text);
            return false;
        }
    }
    return true;
}

/* Types, shapes, orders. */

/* Checks that A or B is a matrix; reports if not. */
static bool is_matrix(const operand *o)
{
    if (o->file.vector)
        ui_error("%s: 1-D array: expected a matrix, 2-D", o->path);
    return !o->file.vector;
}

static bool settle_gemm(cutlass *job)
{
    const operand *a = &job->operand[CUTLASS_A], *b = &job->operand[CUTLASS_B];
    job->m = job->d_rows = a->file.rows;
    job->k = a->file.cols;
    job->n = job->d_cols = b->file.cols;
    job->flop = 2 * job->m * job->n * job->k;
    if (job->k == b->file.rows)
        return true;
    ui_error("the shapes do not agree: %s, %s; columns of the first must equal rows of the second",
             operand_describe(a).s, operand_describe(b).s);
    return false;
}

cutlass_choice cutlass_choice_of(const cutlass *job)
{
    if (job->run.info.backend == TRP_BACKEND_HOST)
        return (cutlass_choice){0}; /* the host has no kernels */
    return (cutlass_choice){.kernel = job->kernel,
                            .tune = job->tune > 0 ? (trp_tune)job->tune : TRP_TUNE_OFF};
}

trp_status cutlass_sent(const cutlass *job, const trp_cutlass_chosen *chosen, trp_status status)
{
    if (status == TRP_OK && job->run.info.backend != TRP_BACKEND_HOST)
        ui_step(UI_NONE, "kernel", 0, "%s%s", chosen->kernel,
                chosen->searching ? ", if a search finds none that is faster"
                : chosen->tuned   ? ", found by a search"
                                  : "");
    return status;
}

static trp_status send_gemm(cutlass *job, const trp_cutlass_gemm_request *r, trp_completion *done)
{
    const cutlass_choice choice = cutlass_choice_of(job);
    trp_cutlass_gemm_request own = *r;
    trp_cutlass_chosen chosen = {0};
    own.kernel = choice.kernel;
    own.tune = choice.tune;
    own.chosen = &chosen;
    return cutlass_sent(job, &chosen, trp_cutlass_gemm(job->run.actor, &own, done));
}

const cutlass_kind cutlass_gemm = {"product", "multiplying", false, settle_gemm, send_gemm};

static bool settle_sizes(cutlass *job)
{
    return is_matrix(&job->operand[CUTLASS_A]) && is_matrix(&job->operand[CUTLASS_B]) &&
           job->kind->settle(job);
}

/* Tells whether B's weights are narrower than A: then kernels want both along k. */
static bool is_narrow_b(const cutlass *job)
{
    return (job->type == TRP_F16 || job->type == TRP_BF16) && trp_dtype_bits(job->type_b) <= 8;
}

static bool settle_types(cutlass *job)
{
    bool plain = job->tree.count == 2 && job->tree.node[1].kind == TRP_EPILOGUE_ACCUMULATOR;
    if (!job->type)
        job->type = job->operand[CUTLASS_A].file.type;
    if (!job->type_b)
        job->type_b = job->type;
    bool fp8 = job->type == TRP_F8E4M3 || job->type == TRP_F8E5M2;
    if (!job->type_d)
        job->type_d = fp8 ? TRP_BF16 : job->type != TRP_I8 ? job->type : plain ? TRP_I32 : TRP_F32;
    if ((fp8 && (job->type_b == TRP_F8E4M3 || job->type_b == TRP_F8E5M2)) || is_narrow_b(job) ||
        job->type_b == job->type)
        return true;
    ui_error(
        "A and B must be of one type, two of fp8, or f16 or bf16 and 8 or 4 bits, got %s and %s; "
        "see --type and --type-b",
        trp_dtype_name(job->type), trp_dtype_name(job->type_b));
    return false;
}

/* Tells whether a vector's file has so many elements, or so many for each of `copies` groups. */
static bool fits(const operand *o, uint64_t elements, uint64_t copies)
{
    const file_matrix *f = &o->file;
    if (f->rows * f->cols == elements && (f->rows == 1 || f->cols == 1))
        return true;
    return copies > 0 && f->rows * f->cols == copies * elements &&
           (f->vector ? elements == 1 : f->rows == copies && f->cols == elements);
}

static bool lay_out_node(cutlass *job, uint32_t node)
{
    trp_epilogue_node *x = &job->tree.node[node];
    operand *o = &job->operand[job->of_node[node]];
    bool per_row = x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS ||
                   x->kind == TRP_EPILOGUE_REDUCE_ROWS;
    bool per_column = x->kind == TRP_EPILOGUE_PER_COLUMN || x->kind == TRP_EPILOGUE_SCALE_COLUMNS ||
                      x->kind == TRP_EPILOGUE_REDUCE_COLUMNS;
    bool one = x->kind == TRP_EPILOGUE_SCALAR || x->kind == TRP_EPILOGUE_REDUCE_ALL;
    bool vector = per_row || per_column || one;
    trp_dtype compute = job->type == TRP_F64 ? TRP_F64 : TRP_F32;
    trp_dtype type = x->type ? x->type : vector ? compute : job->type_d;
    uint64_t rows = per_row ? job->m : per_column ? job->n : one ? 1 : job->d_rows;
    uint64_t columns = vector ? 1 : job->d_cols;
    uint64_t copies = cutlass_copies(job, per_row, per_column);
    bool by_row = x->kind == TRP_EPILOGUE_C || x->order == TRP_ROW_MAJOR;
    if (vector && o->file.rows * o->file.cols != rows && copies)
        x->stride = (int64_t)rows;
    if (o->layout.type) /* a name that occurs twice */
        return true;
    if (o->use == OPERAND_OUTPUT) {
        if (!operand_shape_output(o, type, rows, columns, vector))
            return false;
    } else if (vector ? !fits(o, rows, copies)
                      : o->file.vector || o->file.rows != rows || o->file.cols != columns) {
        ui_error("%s: expected %" PRIu64 " x %" PRIu64 " elements; %s", o->option, rows, columns,
                 operand_describe(o).s);
        return false;
    }
    bool lines = vector && (o->file.rows == 1 || o->file.cols == 1);
    return operand_lay_out(o, type, lines ? !o->file.fortran_order : vector || by_row, 1);
}

static bool lay_out(cutlass *job)
{
    operand *a = &job->operand[CUTLASS_A], *b = &job->operand[CUTLASS_B];
    operand *d = &job->operand[CUTLASS_D];
    bool row_major = job->kind->row_major, narrow = !row_major && is_narrow_b(job);
    bool a_by_row = row_major || narrow || !a->file.fortran_order;
    bool b_by_row = row_major || (!narrow && !b->file.fortran_order);
    uint64_t unit = trp_dtype_bits(job->type_b) == 4 ? 32 : 1; /* 16 bytes */
    if (!operand_lay_out(a, job->type, a_by_row, 1) ||
        !operand_lay_out(b, job->type_b, b_by_row, unit) ||
        !operand_shape_output(d, job->type_d, job->d_rows, job->d_cols, false) ||
        !operand_lay_out(d, job->type_d, true, 1))
        return false;
    for (uint32_t i = 1; i < job->tree.count; i++) {
        if (job->of_node[i] && !lay_out_node(job, i))
            return false;
    }
    return true;
}

bool cutlass_plan(cutlass *job)
{
    if (!find_operands(job))
        return false;
    if (!operand_open_all(job->operand, job->count))
        return false;
    return settle_sizes(job) && settle_types(job) && lay_out(job);
}

/* Steps. */

static bool read_inputs(cutlass *job)
{
    uint64_t bytes = 0, began = ui_now();
    ui_progress("reading");
    for (uint32_t i = 0; i < job->count; i++) {
        operand *o = &job->operand[i];
        if (!operand_place(&job->run, o))
            return false;
        if (o->use == OPERAND_INPUT) {
            bytes += o->file.data_bytes;
            if (!operand_read(o) || !operand_convert(o) || !operand_upload(&job->run, o))
                return false;
        }
    }
    ui_step(UI_NONE, "read", ui_now() - began, "%s", ui_bytes(bytes).s);
    return true;
}

static trp_matmul_matrix matrix_of(const operand *o)
{
    return (trp_matmul_matrix){.buffer = o->buffer,
                               .type = o->layout.type,
                               .order = o->layout.row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)o->layout.ld};
}

bool cutlass_multiply(cutlass *job)
{
    trp_completion done = {0};
    trp_cutlass_gemm_request r = {.m = (int64_t)job->m,
                                  .n = (int64_t)job->n,
                                  .k = (int64_t)job->k,
                                  .compute = job->tf32 ? TRP_COMPUTE_TF32 : TRP_COMPUTE_DEFAULT,
                                  .a = matrix_of(&job->operand[CUTLASS_A]),
                                  .b = matrix_of(&job->operand[CUTLASS_B]),
                                  .d = matrix_of(&job->operand[CUTLASS_D])};
    if (job->type_d != TRP_I32) {
        r.epilogue = job->tree.node;
        r.epilogue_count = job->tree.count;
    }
    for (uint32_t i = 1; i < job->tree.count; i++) {
        const operand *o = &job->operand[job->of_node[i]];
        trp_epilogue_node *x = &job->tree.node[i];
        if (job->of_node[i] && x->kind == TRP_EPILOGUE_C)
            r.c = matrix_of(o);
        else if (job->of_node[i])
            x->buffer = o->buffer;
    }
    if (job->d_rows == 0 || job->d_cols == 0)
        return true;
    ui_progress("%s", job->kind->doing);
    uint64_t began = ui_now();
    char what[32];
    snprintf(what, sizeof what, "the %s", job->kind->name);
    if (!run_await(job->kind->send(job, &r, &done), &done, what))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, job->kind->name, took, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " in %s at %s",
            job->m, job->k, job->n, trp_dtype_name(job->type),
            ui_flop_rate((double)job->flop, took).s);
    return true;
}

static bool write_outputs(cutlass *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        operand *o = &job->operand[i];
        if (o->use != OPERAND_OUTPUT)
            continue;
        const matrix m = {.shape = o->file};
        uint64_t began = ui_now();
        ui_progress("writing %s", o->path);
        if (!operand_download(&job->run, o) || !operand_write(o))
            return false;
        ui_step(UI_NONE, "write", ui_now() - began, "%s: %s", o->path, matrix_describe(&m).s);
    }
    return true;
}

bool cutlass_run(cutlass *job)
{
    uint64_t began = ui_now();
    ui_progress("opening the device");
    if (!run_open(&job->run, &job->choice, "cutlass", NULL))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&job->run.info).s, job->run.info.worker_pid);
    return cutlass_can_check(job) && read_inputs(job) && cutlass_multiply(job) &&
           write_outputs(job) && cutlass_check(job);
}

void cutlass_close(cutlass *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        operand_release(&job->run, &job->operand[i]);
    if (job->table.id)
        run_check(trp_buffer_free(job->run.device, job->table), "giving device memory back");
    free(job->ends);
    run_close(&job->run);
}
