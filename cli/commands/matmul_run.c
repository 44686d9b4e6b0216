/* Steps of a planned product: from opening the device to writing the files. */
#include "matmul.h"

#include "matmul_check.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *file_of(const operand *o)
{
    return o->path ? o->path : o->option;
}

static bool is_there(const matmul *job, int i, operand_use use)
{
    return job->operand[i].use == use;
}

static bool fits(const matmul *job)
{
    double need = 0, files = 0;
    for (int i = 0; i < MATMUL_OPERANDS; i++) {
        const operand *o = &job->operand[i];
        need += o->use == OPERAND_ABSENT ? 0 : (double)o->layout.bytes;
        files +=
            o->use == OPERAND_ABSENT || !operand_is_converted(o) ? 0 : (double)o->file.data_bytes;
    }
    return run_fits(&job->run, "matrices", need, files);
}

static bool open_run(matmul *job)
{
    ui_progress("opening the device");
    uint64_t began = ui_now();
    bool open = run_open(&job->run, &job->choice, job->plain ? "blas" : "matmul", NULL);
    if (!open || !fits(job))
        return false;
    ui_step(UI_NONE, "device", ui_now() - began, "%s, worker process %" PRIi64,
            run_device_text(&job->run.info).s, job->run.info.worker_pid);
    return true;
}

static bool convert_input(operand *o)
{
    uint64_t began = ui_now();
    if (!operand_convert(o))
        return false;
    if (o->path && o->file_data)
        ui_step(UI_NONE, "convert", ui_now() - began, "%s: %s to %s%s", o->path,
                trp_dtype_name(o->file.type), trp_dtype_name(o->layout.type),
                o->layout.row_major == o->file.fortran_order ? ", in the other order" : "");
    return true;
}

static bool read_input(matmul *job, operand *o)
{
    const matrix m = {.shape = o->file};
    ui_progress("reading %s", file_of(o));
    uint64_t began = ui_now();
    if (!operand_place(&job->run, o) || (o->path && !operand_read(o)))
        return false;
    uint64_t took = ui_now() - began;
    if (o->path)
        ui_step(UI_NONE, "read", took, "%s: %s, %s order, %s at %s", o->path, matrix_describe(&m).s,
                o->file.fortran_order ? "Fortran" : "C", ui_bytes(o->file.data_bytes).s,
                ui_byte_rate(o->file.data_bytes, took).s);
    return convert_input(o);
}

static bool read_inputs(matmul *job)
{
    for (int i = 0; i < MATMUL_OPERANDS; i++) {
        operand *o = &job->operand[i];
        if (o->use == OPERAND_INPUT ? !read_input(job, o) : !operand_place(&job->run, o))
            return false;
    }
    return true;
}

/* Transfers all operands of one direction. */
static bool transfer(matmul *job, operand_use use, const char *label)
{
    uint64_t bytes = 0, began = ui_now();
    ui_progress("%sing", label);
    for (int i = 0; i < MATMUL_OPERANDS; i++) {
        const operand *o = &job->operand[i];
        if (!is_there(job, i, use))
            continue;
        bytes += o->layout.bytes;
        if (use == OPERAND_INPUT ? !operand_upload(&job->run, o) : !operand_download(&job->run, o))
            return false;
    }
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, label, took, "%s at %s", ui_bytes(bytes).s, ui_byte_rate(bytes, took).s);
    return true;
}

/* The product. */

static trp_matmul_matrix matrix_of(const operand *o)
{
    bool bits = o->layout.type == TRP_U8;
    return (trp_matmul_matrix){.buffer = o->buffer,
                               .type = bits ? TRP_DTYPE_NONE : o->layout.type,
                               .order = o->layout.row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
                               .ld = (int64_t)o->layout.ld * (bits ? 8 : 1)};
}

static trp_matmul_vector vector_of(const operand *o)
{
    return (trp_matmul_vector){.buffer = o->buffer, .type = o->layout.type};
}

/* A file has a factor for each line; a number applies to the whole matrix. */
static trp_scale scale_of(const operand *o)
{
    return (trp_scale){.buffer = o->buffer, .mode = o->path ? TRP_SCALE_VECTOR : TRP_SCALE_TENSOR};
}

static trp_matmul_request request_of(const matmul *job)
{
    const operand *o = job->operand;
    trp_matmul_request r = {
        .m = (int64_t)job->m,
        .n = (int64_t)job->n,
        .k = (int64_t)job->k,
        .trans_a = job->trans_a,
        .trans_b = job->trans_b,
        .compute = (trp_compute)job->compute,
        .fast_accumulation = job->fast_accumulation,
        .a = matrix_of(&o[MATMUL_A]),
        .b = matrix_of(&o[MATMUL_B]),
        .d = matrix_of(&o[MATMUL_D]),
        .alpha = job->alpha,
        .beta = job->beta,
        .activation = job->activation,
        .gradient_of = job->gradient_of,
        .amax_d = o[MATMUL_AMAX].buffer,
        .workspace_bytes = (uint64_t)job->workspace,
        .tune = job->tune,
    };
    r.c.order = TRP_ROW_MAJOR;
    if (o[MATMUL_C].use != OPERAND_ABSENT)
        r.c = matrix_of(&o[MATMUL_C]);
    if (o[MATMUL_AUX].use != OPERAND_ABSENT)
        r.aux = matrix_of(&o[MATMUL_AUX]);
    if (o[MATMUL_BIAS].use != OPERAND_ABSENT)
        r.bias = vector_of(&o[MATMUL_BIAS]);
    if (o[MATMUL_GRADIENT].use != OPERAND_ABSENT)
        r.gradient = vector_of(&o[MATMUL_GRADIENT]);
    r.a.scale = scale_of(&o[MATMUL_SCALE_A]);
    r.b.scale = scale_of(&o[MATMUL_SCALE_B]);
    r.d.scale = scale_of(&o[MATMUL_SCALE_D]);
    return r;
}

static trp_gemm_request gemm_of(const matmul *job)
{
    const operand *o = job->operand;
    return (trp_gemm_request){
        .type = o[MATMUL_D].layout.type,
        .compute = (trp_compute)job->compute,
        .order = TRP_ROW_MAJOR,
        .trans_a = o[MATMUL_A].layout.row_major ? TRP_N : TRP_T,
        .trans_b = o[MATMUL_B].layout.row_major ? TRP_N : TRP_T,
        .m = (int64_t)job->m,
        .n = (int64_t)job->n,
        .k = (int64_t)job->k,
        .a = o[MATMUL_A].buffer,
        .b = o[MATMUL_B].buffer,
        .c = o[MATMUL_D].buffer,
    };
}

/* Returns the option for a message of the library, which begins with the request's field. */
static const char *option_of(const char *message)
{
    static const struct {
        const char *field, *option;
    } names[] = {
        {"a.type", "--type"},
        {"b.type", "--type-b"},
        {"d.type", "--type-d"},
        {"c.", "--add"},
        {"a.scale", "--scale-a"},
        {"b.scale", "--scale-b"},
        {"d.scale", "--scale-d"},
        {"amax_d", "--amax"},
        {"bias.", "--bias"},
        {"gradient", "--gradient"},
        {"aux.", "--aux"},
        {"activation", "--activation"},
        {"alpha", "--alpha"},
        {"beta", "--beta"},
        {"trans_a", "--trans-a"},
        {"trans_b", "--trans-b"},
        {"compute", "--compute"},
        {"fast_accumulation", "--fast-accumulation"},
        {"workspace", "--workspace"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strncmp(message, names[i].field, strlen(names[i].field)))
            return names[i].option;
    }
    return "the matrix product";
}

static bool await_product(trp_status sent, const trp_completion *done)
{
    trp_status status = sent == TRP_OK ? trp_await(done->future, TRP_FOREVER, NULL) : sent;
    const char *of = option_of(trp_error_message());
    if (sent == TRP_E_ARGUMENT && of[0] == '-') {
        ui_wrong("%s: %s (%s)", of, trp_error_message(), trp_status_name(sent));
        return false;
    }
    return run_check(status, of);
}

static bool send(matmul *job)
{
    trp_completion done = {0};
    if (job->m == 0 || job->n == 0)
        return true;
    if (job->plain) {
        trp_gemm_request gemm = gemm_of(job);
        return await_product(trp_gemm(job->run.actor, &gemm, &done), &done);
    }
    trp_matmul_request request = request_of(job);
    return await_product(trp_matmul(job->run.actor, &request, &done), &done);
}

/* Names the types: "f32", "f8e4m3 and f8e5m2". */
static void describe_types(const matmul *job, char *text, size_t size)
{
    trp_dtype a = job->operand[MATMUL_A].layout.type, b = job->operand[MATMUL_B].layout.type;
    snprintf(text, size, "%s%s%s", job->compute == TRP_COMPUTE_TF32 ? "tf32" : trp_dtype_name(a),
             a == b ? "" : " and ", a == b ? "" : trp_dtype_name(b));
}

static bool multiply(matmul *job)
{
    char types[32];
    trp_dtype type = job->operand[MATMUL_A].layout.type;
    double flops = 2.0 * (double)job->m * (double)job->n * (double)job->k;
    if (type == TRP_C64 || type == TRP_C128)
        flops *= 4;
    describe_types(job, types, sizeof types);
    ui_progress(job->tune == TRP_TUNE_OFF ? "multiplying" : "searching, and multiplying");
    uint64_t began = ui_now();
    if (!send(job))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "product", took, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " in %s at %s", job->m,
            job->k, job->n, types, ui_flop_rate(flops, took).s);
    return true;
}

/* Results. */

static check_view optional_view(const operand *o)
{
    return o->use == OPERAND_ABSENT ? (check_view){0} : operand_view(o);
}

static check_view transposed(check_view v, trp_transpose trans)
{
    if (trans == TRP_N)
        return v;
    uint64_t step = v.row_step;
    v.row_step = v.col_step;
    v.col_step = step;
    v.conjugate = trans == TRP_C;
    return v;
}

static check_view scaled(check_view v, const operand *scale)
{
    v.scale = scale->data;
    v.scale_each = scale->path != NULL;
    return v;
}

/* Views a vector as a row, however it lies in its file. */
static check_view row_view(const operand *o)
{
    check_view v = optional_view(o);
    v.row_step = v.col_step = 1;
    return v;
}

static check_matmul check_of(const matmul *job)
{
    const operand *o = job->operand;
    return (check_matmul){
        .a = scaled(transposed(operand_view(&o[MATMUL_A]), job->trans_a), &o[MATMUL_SCALE_A]),
        .b = scaled(transposed(operand_view(&o[MATMUL_B]), job->trans_b), &o[MATMUL_SCALE_B]),
        .m = job->m,
        .n = job->n,
        .k = job->k,
        .compute = (trp_compute)job->compute,
        .fast_accumulation = job->fast_accumulation,
        .on_gpu = job->run.info.backend != TRP_BACKEND_HOST,
        .alpha = job->alpha.given ? job->alpha : trp_real(1),
        .beta = job->beta,
        .c = optional_view(&o[MATMUL_C]),
        .bias = row_view(&o[MATMUL_BIAS]),
        .activation = job->activation,
        .scale_d = o[MATMUL_SCALE_D].data ? (double)*(float *)o[MATMUL_SCALE_D].data : 1,
        .d = operand_view(&o[MATMUL_D]),
        .aux = optional_view(&o[MATMUL_AUX]),
        .gradient_of = job->gradient_of,
        .gradient = row_view(&o[MATMUL_GRADIENT]),
        .amax = o[MATMUL_AMAX].data,
    };
}

/* Checks that an input was converted to the nearest values. */
static bool check_input(const operand *o)
{
    uint64_t row = 0, col = 0;
    if (o->use != OPERAND_INPUT || !o->file_data || o->layout.type == TRP_U8)
        return true;
    check_view from = operand_file_view(o), to = operand_view(o);
    uint64_t wrong = check_conversion(&from, &to, o->file.rows, o->file.cols, &row, &col);
    if (wrong == 0)
        return true;
    ui_error("%s: %s not converted to the nearest %s; the first is [%" PRIu64 ", %" PRIu64
             "]: %.9g, made %.9g",
             o->path, ui_plural(wrong, "element").s, trp_dtype_name(to.type), row, col,
             check_element(&from, row, col, 0), check_element(&to, row, col, 0));
    return false;
}

static bool check(matmul *job)
{
    if (!job->check)
        return true;
    for (int i = 0; i < MATMUL_OPERANDS; i++) {
        if (!check_input(&job->operand[i]))
            return false;
    }
    check_matmul c = check_of(job);
    return check_matmul_and_show("check", &c);
}

static bool write_output(operand *o)
{
    const matrix m = {.shape = o->file};
    ui_progress("writing %s", o->path);
    uint64_t began = ui_now();
    if (!operand_write(o))
        return false;
    uint64_t took = ui_now() - began;
    ui_step(UI_NONE, "write", took, "%s: %s, %s at %s", o->path, matrix_describe(&m).s,
            ui_bytes(o->file.data_bytes).s, ui_byte_rate(o->file.data_bytes, took).s);
    return true;
}

static bool write_outputs(matmul *job)
{
    const float *amax = job->operand[MATMUL_AMAX].data;
    if (amax)
        ui_note("amax", "%.9g, the largest absolute value before --scale-d", (double)*amax);
    for (int i = 0; i < MATMUL_OPERANDS; i++) {
        operand *o = &job->operand[i];
        if (o->use == OPERAND_OUTPUT && o->path && !write_output(o))
            return false;
    }
    return true;
}

bool matmul_run(matmul *job)
{
    return open_run(job) && read_inputs(job) && transfer(job, OPERAND_INPUT, "upload") &&
           multiply(job) && transfer(job, OPERAND_OUTPUT, "download") && check(job) &&
           write_outputs(job);
}

void matmul_close(matmul *job)
{
    for (int i = 0; i < MATMUL_OPERANDS; i++)
        operand_release(&job->run, &job->operand[i]);
    run_close(&job->run);
}
