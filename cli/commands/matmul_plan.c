/* From options and the headers of files to operands: types, shapes, orders. */
#include "matmul.h"

#include "ui/ui.h"

#include <inttypes.h>

static bool is_fp8(trp_dtype type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static bool is_multiplied(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16 ||
           is_fp8(type) || type == TRP_I8 || type == TRP_C64 || type == TRP_C128;
}

static bool aux_is_bits(trp_activation activation)
{
    return activation == TRP_ACTIVATION_RELU || activation == TRP_ACTIVATION_DRELU;
}

static uint64_t rounded_up(uint64_t value, uint64_t unit)
{
    return value / unit * unit + (value % unit ? unit : 0);
}

/* Types of the operands, by the table in docs/actors/matmul.md. */
typedef struct types {
    trp_dtype a, b, c, d, vector, aux;
} types;

static types settle_types(const matmul *job)
{
    types t;
    t.a = job->type ? job->type : job->operand[MATMUL_A].file.type;
    t.b = job->type_b ? job->type_b : job->type ? job->type : job->operand[MATMUL_B].file.type;
    t.d = job->type_d ? job->type_d : t.a == TRP_I8 ? TRP_I32 : t.a;
    t.c = is_fp8(t.d) ? TRP_BF16 : t.d;
    t.vector = t.d;
    if (is_fp8(t.a))
        t.vector = t.d == TRP_F16 ? TRP_F16 : TRP_BF16;
    else if (t.d == TRP_I8)
        t.vector = TRP_F32;
    if (t.d == TRP_I32 || t.d == TRP_C64 || t.d == TRP_C128)
        t.vector = TRP_DTYPE_NONE;
    t.aux = is_fp8(t.d) ? t.vector : t.d;
    return t;
}

/* Checks types here, where messages can name the files. */
static bool check_types(const matmul *job, const types *t)
{
    const operand *a = &job->operand[MATMUL_A], *b = &job->operand[MATMUL_B];
    if (!is_multiplied(t->a) || !is_multiplied(t->b)) {
        const operand *o = is_multiplied(t->a) ? b : a;
        ui_error("%s: expected elements of f64, f32, f16, i8, c64 or c128, got %s; convert it with "
                 ".astype(np.float32)",
                 o->path, trp_dtype_name(o->file.type));
        return false;
    }
    if (t->a != t->b && !(is_fp8(t->a) && is_fp8(t->b))) {
        ui_error("both matrices must be of one type: %s, %s%s; or convert one with .astype(%s)",
                 operand_describe(a).s, operand_describe(b).s,
                 job->type_b ? "; --type-b is for the two types of fp8" : "; see --type",
                 array_file_numpy(t->a));
        return false;
    }
    if (job->compute == TRP_COMPUTE_TF32 && t->a != TRP_F32 && t->a != TRP_C64) {
        ui_wrong("--compute tf32 is for f32 and c64 matrices; these are multiplied as %s",
                 trp_dtype_name(t->a));
        return false;
    }
    return true;
}

/* Rejects vectors for results without an epilogue. */
static bool check_vectors(const matmul *job, const types *t)
{
    static const int vectors[] = {MATMUL_BIAS, MATMUL_GRADIENT};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const operand *o = &job->operand[vectors[i]];
        if (t->vector == TRP_DTYPE_NONE && o->use != OPERAND_ABSENT) {
            ui_wrong("%s: expected none for a result of %s", o->option, trp_dtype_name(t->d));
            return false;
        }
    }
    return true;
}

static bool settle_sizes(matmul *job)
{
    const operand *a = &job->operand[MATMUL_A], *b = &job->operand[MATMUL_B];
    bool a_is = job->trans_a == TRP_N, b_is = job->trans_b == TRP_N;
    for (int i = MATMUL_A; i <= MATMUL_B; i++) {
        const operand *o = &job->operand[i];
        if (o->file.vector) {
            ui_error("%s: 1-D array of %s: expected a matrix, 2-D", o->path,
                     ui_plural(o->file.rows, "element").s);
            return false;
        }
    }
    job->m = a_is ? a->file.rows : a->file.cols;
    job->k = a_is ? a->file.cols : a->file.rows;
    job->n = b_is ? b->file.cols : b->file.rows;
    if (job->k == (b_is ? b->file.rows : b->file.cols))
        return true;
    ui_error("the shapes do not agree: %s, %s; %s of the first must equal %s of the second",
             operand_describe(a).s, operand_describe(b).s, a_is ? "columns" : "rows",
             b_is ? "rows" : "columns");
    return false;
}

static bool has_shape(const operand *o, uint64_t rows, uint64_t cols, const char *why)
{
    if (!o->file.vector && o->file.rows == rows && o->file.cols == cols)
        return true;
    ui_error("%s: expected %" PRIu64 " x %" PRIu64 " elements%s; %s", o->option, rows, cols, why,
             operand_describe(o).s);
    return false;
}

/* Lays out an input that must have D's order. Converted inputs are copied in any case; others are
 * not. */
static bool lay_out_rows(operand *o, trp_dtype type, uint64_t unit)
{
    bool copied = o->file.type != type;
    if (o->file.fortran_order && !copied && o->file.rows > 1 && o->file.cols > 1) {
        ui_error("%s: expected a file in C order, as the result is; %s, in Fortran order",
                 o->option, operand_describe(o).s);
        return false;
    }
    return operand_lay_out(o, type, true, unit);
}

static bool lay_out_vector(operand *o, trp_dtype type, uint64_t count, const char *each)
{
    if (o->use == OPERAND_ABSENT || !o->path)
        return true;
    bool line = o->file.rows == 1 || o->file.cols == 1;
    if (!line || o->file.rows * o->file.cols != count) {
        ui_error("%s: expected %s, one for each %s; %s", o->option, ui_plural(count, "element").s,
                 each, operand_describe(o).s);
        return false;
    }
    return operand_lay_out(o, type, !o->file.fortran_order, 1);
}

/* Lays out A or B. 8-bit operands run along k in memory, as tensor cores read them; unconverted
 * ones are sent as they are. */
static bool lay_out_factor(operand *o, trp_dtype type, bool k_is_across)
{
    bool converted = o->file.type != type;
    bool row_major = converted && trp_dtype_bits(type) == 8 ? k_is_across : !o->file.fortran_order;
    return operand_lay_out(o, type, row_major, 1);
}

static bool plan_inputs(matmul *job, const types *t)
{
    operand *o = job->operand;
    if (!lay_out_factor(&o[MATMUL_A], t->a, job->trans_a == TRP_N) ||
        !lay_out_factor(&o[MATMUL_B], t->b, job->trans_b != TRP_N))
        return false;
    if (o[MATMUL_C].use != OPERAND_ABSENT &&
        (!has_shape(&o[MATMUL_C], job->m, job->n, "") || !lay_out_rows(&o[MATMUL_C], t->c, 1)))
        return false;
    return lay_out_vector(&o[MATMUL_BIAS], t->vector, job->n, "column of the result") &&
           lay_out_vector(&o[MATMUL_SCALE_A], TRP_F32, job->m, "row of the result") &&
           lay_out_vector(&o[MATMUL_SCALE_B], TRP_F32, job->n, "column of the result");
}

static bool plan_aux(matmul *job, const types *t)
{
    operand *o = &job->operand[MATMUL_AUX];
    bool bits = aux_is_bits(job->activation);
    trp_dtype type = bits ? TRP_U8 : t->aux;
    uint64_t cols = bits ? rounded_up(job->n, 128) / 8 : job->n, unit = bits ? 1 : 8;
    if (o->use == OPERAND_ABSENT)
        return true;
    if (o->use == OPERAND_OUTPUT)
        return operand_shape_output(o, type, job->m, cols, false) &&
               operand_lay_out(o, type, true, unit);
    return has_shape(o, job->m, cols,
                     bits ? ", each eight bits, rows padded to 128 bits as relu writes them"
                          : "") &&
           lay_out_rows(o, type, unit);
}

static bool plan_outputs(matmul *job, const types *t)
{
    operand *d = &job->operand[MATMUL_D], *gradient = &job->operand[MATMUL_GRADIENT];
    uint64_t sums = job->gradient_of == TRP_BIAS_GRADIENT_A ? job->m : job->n;
    if (!operand_shape_output(d, t->d, job->m, job->n, false) ||
        !operand_lay_out(d, t->d, true, 1) || !plan_aux(job, t))
        return false;
    for (int i = MATMUL_GRADIENT; i <= MATMUL_AMAX; i++) {
        if (job->operand[i].use != OPERAND_ABSENT && d->layout.bytes == 0) {
            ui_error("%s: expected none for an empty result", job->operand[i].option);
            return false;
        }
    }
    return gradient->use == OPERAND_ABSENT ||
           (operand_shape_output(gradient, t->vector, sums, 1, true) &&
            operand_lay_out(gradient, t->vector, false, 1));
}

static bool is_plain(const matmul *job, const types *t)
{
    for (int i = 0; i < MATMUL_OPERANDS; i++) {
        if (job->operand[i].use != OPERAND_ABSENT &&
            ((i != MATMUL_A && i != MATMUL_B && i != MATMUL_D) ||
             operand_is_converted(&job->operand[i])))
            return false;
    }
    return (t->a == TRP_F32 || t->a == TRP_F64) && t->d == t->a && job->trans_a == TRP_N &&
           job->trans_b == TRP_N && !job->alpha.given && !job->beta.given &&
           job->activation == TRP_ACTIVATION_NONE && !job->fast_accumulation &&
           job->workspace == 0 && job->tune == TRP_TUNE_OFF;
}

bool matmul_plan(matmul *job)
{
    if (!operand_open_all(job->operand, MATMUL_OPERANDS))
        return false;
    types t = settle_types(job);
    if (!check_types(job, &t) || !check_vectors(job, &t) || !settle_sizes(job) ||
        !plan_inputs(job, &t) || !plan_outputs(job, &t))
        return false;
    job->plain = is_plain(job, &t);
    return true;
}
