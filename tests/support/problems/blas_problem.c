/* Layouts and contents of the operands of a problem. See blas_problem.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/blas_problem.h"

#include <math.h>
#include <stdarg.h>

size_t blas_below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

double blas_uniform(void)
{
    return ref_rng_uniform(h_rng(), -1, 1);
}

bool blas_has(const problem *p, unsigned option)
{
    return p->op->options & option;
}

bool blas_is_half(trp_dtype type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

bool blas_is_exact(const problem *p)
{
    return p->type == TRP_I8;
}

trp_dtype blas_scalar_type(const problem *p)
{
    if (blas_is_exact(p))
        return p->type_c;
    return blas_is_half(p->type) && blas_has(p, ALPHA) ? TRP_F32 : p->type;
}

ref_complex blas_value_of(const problem *p, trp_scalar x, double standard)
{
    return ref_blas_rounded(blas_scalar_type(p), x.given ? x.re + x.im * I : standard);
}

ref_complex blas_alpha_of(const problem *p)
{
    return blas_value_of(p, p->alpha, 1);
}

ref_complex blas_beta_of(const problem *p)
{
    return blas_value_of(p, p->beta, 0);
}

bool blas_reads(const problem *p, ref_place place)
{
    int use = p->operands[place].use;
    if (p->op->op == TRP_OP_GEAM && place == REF_X)
        return blas_beta_of(p) != 0;
    return use == IN || use == INOUT || (use == BY_BETA && blas_beta_of(p) != 0);
}

bool blas_writes(const problem *p, ref_place place)
{
    int use = p->operands[place].use;
    return use == OUT || use == INOUT || use == BY_BETA;
}

bool blas_wrong(const problem *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s %s: ", p->op->name, trp_dtype_name(p->type));
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr,
            "\n  order %d side %d uplo %d trans %d %d diag %d, m n k %lld %lld %lld, kl ku %lld "
            "%lld, batch %lld, alpha %g%+gi beta %g%+gi%s%s%s%s\n",
            p->row_major, (int)p->side, (int)p->uplo, (int)p->trans, (int)p->trans_b, (int)p->diag,
            (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->kl, (long long)p->ku,
            (long long)p->batch, creal(blas_alpha_of(p)), cimag(blas_alpha_of(p)),
            creal(blas_beta_of(p)), cimag(blas_beta_of(p)),
            p->on_device ? ", scalars on the device" : "", p->one_block ? ", in one buffer" : "",
            p->in_place ? ", in place" : "", p->interleaved ? ", interleaved" : "");
    for (int i = 0; i < PLACES; i++) {
        const operand *x = &p->operands[i];
        if (x->use != UNUSED)
            fprintf(stderr,
                    "  operand %d: %lld x %lld, ld or inc %lld, stride %lld, %lld elements before "
                    "it in buffer %d\n",
                    i, (long long)x->view.rows, (long long)x->view.columns, (long long)x->ld,
                    (long long)x->stride, (long long)x->start, x->block);
    }
    return false;
}

/* ---- where operands lie ---- */

static int64_t count_of(const problem *p, int dimension)
{
    const int64_t counts[] = {
        [ONE] = 1,  [THREE] = 3, [M] = p->m,
        [N] = p->n, [K] = p->k,  [SIDED] = p->side == TRP_LEFT ? p->m : p->n,
    };
    return counts[dimension];
}

static bool flipped(const problem *p, const rule *r)
{
    return (r->flip == BY_TRANS && p->trans != TRP_N) ||
           (r->flip == BY_TRANS_B && p->trans_b != TRP_N);
}

static void lay_out_vector(const problem *p, operand *x)
{
    int64_t step = (int64_t)blas_below(4);
    bool backward = step > 0 && !blas_has(p, POSITIVE) && blas_below(3) == 0;
    x->ld = backward ? -step : step;
    if (p->interleaved)
        x->ld = p->op->options & POSITIVE ? 3 : backward ? -3 : 3;
    x->view.down = x->ld == 0 ? 1 : x->ld;
    if (x->view.rows == 0)
        return;
    int64_t length = (x->view.rows - 1) * llabs(x->view.down);
    x->view.base = x->view.down < 0 ? length : 0;
    x->extent = length + 1;
}

static int64_t rounded_up(const problem *p, int64_t count)
{
    return p->step > 0 ? (count + p->step - 1) / p->step * p->step : count;
}

static void lay_out_matrix(const problem *p, operand *x)
{
    bool band = x->view.shape == REF_BAND;
    int64_t lines = p->row_major ? x->view.rows : x->view.columns;
    bool half = x->view.banded;
    int64_t run = half           ? p->kl + 1
                  : band         ? p->kl + p->ku + 1
                  : p->row_major ? x->view.columns
                                 : x->view.rows;
    int64_t smallest = run > 0 ? run : 1;
    int64_t ld = rounded_up(p, smallest + (p->gaps ? (int64_t)blas_below(6) : 0));
    if (p->like) {
        const ref_operand *same = &p->like->operands[x - p->operands].view;
        ld = p->row_major ? same->down : same->right;
    }
    x->ld = ld == smallest && blas_below(2) ? 0 : ld;
    if (x->view.rows > 0 && x->view.columns > 0)
        x->extent = (lines - 1) * ld + run;
    /* A step along the diagonal of a band is a step from line to line. */
    int64_t across = band || half ? ld - 1 : ld;
    x->view.base = half   ? (x->view.lower == p->row_major ? p->kl : 0)
                   : band ? (p->row_major ? p->kl : p->ku)
                          : 0;
    x->view.down = p->row_major ? across : 1;
    x->view.right = p->row_major ? 1 : across;
}

static void lay_out_packed(const problem *p, operand *x)
{
    x->extent = x->view.rows * (x->view.rows + 1) / 2;
    x->view.packed = true;
    x->view.by_rows = p->row_major;
}

void blas_lay_out(problem *p, ref_place place)
{
    const rule *r = &p->op->rules[place];
    operand *x = &p->operands[place];
    bool flip = flipped(p, r);
    x->use = r->use;
    if (p->in_place && place == REF_X)
        x->use = INOUT;
    if (p->in_place && place == REF_Y)
        x->use = UNUSED;
    if (x->use == UNUSED)
        return;
    x->view = (ref_operand){
        .type = place == REF_Y && p->type_c ? p->type_c : p->type,
        .rows = count_of(p, flip ? r->columns : r->rows),
        .columns = r->vector ? 1 : count_of(p, flip ? r->rows : r->columns),
        .shape = r->shape,
        .lower = p->uplo == TRP_LOWER,
        .unit = p->diag == TRP_UNIT,
        .kl = p->kl,
        .ku = p->ku,
        .banded = blas_has(p, BANDED) && place == REF_A,
    };
    x->align = ref_blas_size(x->view.type) * (p->step && p->type == TRP_I8 ? 4 : 1);
    if (r->vector)
        lay_out_vector(p, x);
    else if (place == REF_A && blas_has(p, PACKED))
        lay_out_packed(p, x);
    else
        lay_out_matrix(p, x);
    x->batch = p->batch;
    x->stride =
        x->use == IN && blas_below(3) == 0 ? 0 : rounded_up(p, x->extent + (int64_t)blas_below(7));
}

void blas_lay_out_rest(problem *p)
{
    trp_dtype real = ref_blas_real(p->type);
    static const int64_t elements[] = {
        [ELEMENT] = 1, [REAL] = 1, [INDEX] = 1, [PAIR] = 2, [FIVE] = 5};
    if (p->op->result != NO_RESULT) {
        operand *x = &p->operands[REF_RESULT];
        trp_dtype type = p->op->result == REAL ? real : p->op->result == INDEX ? TRP_I64 : p->type;
        int64_t n = elements[p->op->result];
        *x = (operand){.use = OUT, .batch = 1, .extent = n, .align = ref_blas_size(type)};
        x->view = (ref_operand){.type = type, .rows = n, .columns = 1, .down = 1};
    }
    if (p->on_device) {
        int64_t one = ref_blas_complex(p->type) ? 2 : 1;
        int64_t alpha = blas_has(p, REAL_ALPHA) ? 1 : one, beta = blas_has(p, REAL_BETA) ? 1 : one;
        trp_dtype scalars = ref_blas_real(blas_scalar_type(p));
        operand *x = &p->operands[SCALARS];
        *x = (operand){.use = IN, .batch = 1, .extent = alpha};
        if (blas_has(p, BETA | ROTATION))
            x->extent += beta;
        if (blas_has(p, MODIFIED))
            x->extent = 5;
        x->align = ref_blas_size(blas_has(p, REAL_ALPHA) ? real : blas_scalar_type(p));
        x->view = (ref_operand){.type = scalars, .rows = x->extent, .columns = 1, .down = 1};
    }
}

static size_t bytes_of(const operand *x)
{
    return (size_t)(x->extent + (x->batch - 1) * x->stride) * ref_blas_size(x->view.type);
}

/* Places an operand after the others in its block. */
static void append(problem *p, int place, int into)
{
    operand *x = &p->operands[place];
    block *b = &p->blocks[into];
    size_t gap = p->gaps ? blas_below(9) * x->align : 0;
    size_t start = (b->bytes + x->align - 1) / x->align * x->align + gap;
    x->start = (int64_t)(start / ref_blas_size(x->view.type));
    x->view.base += x->start;
    x->block = into;
    b->bytes = start + bytes_of(x);
    if (p->interleaved && place == REF_X) {
        operand *y = &p->operands[REF_Y];
        int64_t shift = 1 + (int64_t)blas_below(2);
        y->start = x->start + shift;
        y->view.base += y->start;
        y->block = into;
        b->bytes += (size_t)shift * x->align;
    }
}

static void make_block(problem *p, int number)
{
    block *b = &p->blocks[number];
    bool used = false;
    for (int i = 0; i < PLACES; i++)
        used = used || (p->operands[i].use != UNUSED && p->operands[i].block == number);
    if (!used)
        return;
    b->bytes += p->gaps || b->bytes == 0 ? 1 + blas_below(64) : 0;
    *b = block_make(b->bytes, NULL);
    ref_poison(b->before, b->bytes);
    for (int i = 0; i < PLACES; i++) {
        if (p->operands[i].block == number)
            p->operands[i].view.data = b->before;
    }
}

void blas_place_all(problem *p)
{
    int order[PLACES] = {0, 1, 2, 3, 4};
    for (int i = PLACES - 1; i > 0; i--) {
        size_t j = blas_below((size_t)i + 1);
        int other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    for (int i = 0; i < PLACES; i++) {
        if (p->operands[order[i]].use != UNUSED && !(p->interleaved && order[i] == REF_Y))
            append(p, order[i], p->one_block ? 0 : order[i]);
    }
    for (int i = 0; i < PLACES; i++)
        make_block(p, i);
}

ref_operand blas_view_of(const problem *p, ref_place place, int64_t number, bool after)
{
    const operand *x = &p->operands[place];
    ref_operand view = x->view;
    view.base += number * x->stride;
    if (after && x->use != UNUSED)
        view.data = p->blocks[x->block].after;
    return view;
}

/* ---- what is in them ---- */

/* BLAS does nothing then, not even to imaginary parts of the diagonal. */
static bool leaves_c(const problem *p)
{
    if (!blas_has(p, BETA)) /* updates of rank 1 and 2 */
        return blas_alpha_of(p) == 0;
    return blas_beta_of(p) == 1 && (p->k == 0 || blas_alpha_of(p) == 0);
}

static ref_complex random_element(const problem *p, ref_place place, int64_t i, int64_t j)
{
    const ref_operand *x = &p->operands[place].view;
    double re = blas_uniform(), im = ref_blas_complex(p->type) ? blas_uniform() : 0;
    if (blas_is_exact(p)) {
        const double wide = p->operands[place].view.type == TRP_I32 ? 0x1p31 : 128;
        if (p->extremes && place != REF_Y)
            return re < 0 ? -128 : 127;
        return fmin(floor(re * wide), wide - 1);
    }
    if (p->op->result == INDEX) { /* exact sums, many of which are equal */
        re = round(re * 8) / 8;
        im = round(im * 8) / 8;
    }
    if (place == REF_A && blas_has(p, SOLVES)) { /* dominated by the diagonal */
        double scale = 1 / (double)x->rows;
        re = i == j ? copysign(1 + fabs(re), re) : re * scale;
        im *= scale;
    }
    if (p->op->op == TRP_OP_ROTMG) /* all of its cases, and scales that it must bring back */
        re = blas_below(8) == 0 ? 0 : ldexp(re + (i == 0 ? 0.5 : 0), (int)blas_below(60) - 30);
    if (x->shape == REF_HERMITIAN && i == j) {
        if (place == REF_A && !blas_writes(p, place))
            im = NAN;
        else if (leaves_c(p))
            im = 0;
    }
    ref_complex value = re;
    ((double *)&value)[1] = im;
    return value;
}

static void fill(problem *p, ref_place place)
{
    const operand *x = &p->operands[place];
    for (int64_t b = 0; b < (x->stride == 0 ? 1 : x->batch); b++) {
        ref_operand v = blas_view_of(p, place, b, false);
        for (int64_t i = 0; i < v.rows; i++) {
            for (int64_t j = 0; j < v.columns; j++) {
                if (ref_operand_holds(&v, i, j))
                    ref_blas_store(v.type, p->blocks[x->block].before, ref_operand_index(&v, i, j),
                                   random_element(p, place, i, j));
            }
        }
    }
}

static void fill_scalars(problem *p)
{
    const operand *x = &p->operands[SCALARS];
    trp_scalar first = blas_has(p, ROTATION) ? p->c : p->alpha;
    trp_scalar second = blas_has(p, ROTATION) ? p->s : p->beta;
    bool complex_first = ref_blas_complex(p->type) && !blas_has(p, REAL_ALPHA);
    double numbers[] = {first.given ? first.re : 1, first.im, second.re, second.im};
    for (int64_t i = 0; blas_has(p, MODIFIED) && i < x->extent; i++)
        ref_blas_store(x->view.type, p->blocks[x->block].before, x->start + i, p->modified[i]);
    for (int64_t i = 0; !blas_has(p, MODIFIED) && i < x->extent; i++) {
        int64_t from = !ref_blas_complex(p->type) ? 2 * i : complex_first ? i : 2 * i;
        ref_blas_store(x->view.type, p->blocks[x->block].before, x->start + i, numbers[from]);
    }
}

void blas_fill_all(problem *p)
{
    for (ref_place place = REF_A; place <= REF_Y; place++) {
        if (blas_reads(p, place))
            fill(p, place);
    }
    if (p->on_device)
        fill_scalars(p);
}
