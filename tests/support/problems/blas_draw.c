/* Draws problems: options, sizes, scalars. See blas_problem.h. SPDX-License-Identifier: Apache-2.0
 */
#include "support/problems/blas_problem.h"

#include <math.h>

/* Up to some hundreds at level 2, whose reference is fast enough. */
static int64_t random_count(const problem *p)
{
    size_t i = blas_below(16);
    if (p->op->level == 2 && blas_below(24) == 0)
        return 100 + (int64_t)blas_below(200);
    return i < 2 ? (int64_t)i : 1 + (int64_t)blas_below(40);
}

static trp_scalar random_scalar(const problem *p, bool real)
{
    double re = blas_uniform() * 2, im = blas_uniform();
    switch (blas_below(5)) {
    case 0:
        return (trp_scalar){0};
    case 1:
        return trp_real(0);
    case 2:
        return trp_real(1);
    case 3:
        return trp_real(re);
    default:
        return ref_blas_complex(p->type) && !real ? trp_complex(re, im) : trp_real(re);
    }
}

/* Draws integers whose results f32 holds, or some whose sums exceed 32 bits, but not the 53 bits of
 * the reference: i32 with another beta than 0 needs fewer. */
static trp_scalar whole_scalar(const problem *p, bool beta)
{
    static const double any[] = {1, 0, -3, 77777, 1 << 20, INT32_MIN};
    const size_t most = beta ? 4 : p->extremes ? 5 : 6;
    return trp_real(p->type_c == TRP_I32 ? any[blas_below(most)] : (double)blas_below(3) - 1);
}

/* ---- options ---- */

static const struct {
    unsigned option, radix;
} digits[] = {{ORDER, 2}, {SIDE, 2}, {UPLO, 2}, {DIAG, 2}, {TRANS, 3}, {TRANS_B, 3}};
enum { DIGITS = sizeof digits / sizeof *digits };

unsigned blas_options(const operation *op)
{
    unsigned count = 1;
    for (int i = 0; i < DIGITS; i++)
        count *= op->options & digits[i].option ? digits[i].radix : 1;
    return count;
}

static bool allowed(const problem *p)
{
    if (p->trans == TRP_T && blas_has(p, NOT_T))
        return false;
    return !(p->trans == TRP_C && blas_has(p, NOT_COMPLEX_C) && ref_blas_complex(p->type));
}

bool blas_set_options(problem *p, unsigned number)
{
    unsigned digit[DIGITS] = {0};
    for (int i = 0; i < DIGITS; i++) {
        if (!blas_has(p, digits[i].option))
            continue;
        digit[i] = number % digits[i].radix;
        number /= digits[i].radix;
    }
    p->row_major = digit[0];
    p->side = (trp_side)digit[1];
    p->uplo = (trp_uplo)digit[2];
    p->diag = (trp_diag)digit[3];
    p->trans = (trp_transpose)digit[4];
    p->trans_b = (trp_transpose)digit[5];
    return allowed(p);
}

/* ---- sizes and scalars ---- */

/* Draws c or s. Half of those of 16 bits are near the middle between two numbers of the type, where
 * rounding twice gives another result. */
static double rotation_number(const problem *p)
{
    const double value = blas_uniform();
    if ((p->type != TRP_F16 && p->type != TRP_BF16) || blas_below(2))
        return value;
    int exponent;
    const double rounded = creal(ref_blas_rounded(p->type, value));
    frexp(rounded, &exponent);
    const double half = copysign(ldexp(ref_blas_unit(p->type), exponent - 1), value);
    return (rounded + half) * (1 + (blas_below(2) ? 0x1p-45 : -0x1p-45));
}

static void draw_scalars(problem *p)
{
    unsigned all = p->op->options;
    p->on_device = all & MODIFIED || (all & (ALPHA | ROTATION) && blas_below(3) == 0);
    p->modified[0] = (double)blas_below(4) - 2;
    for (int i = 1; i < 5; i++)
        p->modified[i] = creal(ref_blas_rounded(p->type, blas_uniform()));
    if (all & ALPHA)
        p->alpha = random_scalar(p, all & REAL_ALPHA);
    if (all & BETA)
        p->beta = random_scalar(p, all & REAL_BETA);
    if (blas_is_exact(p)) {
        p->extremes = blas_below(4) == 0;
        p->alpha = whole_scalar(p, false);
        p->beta = whole_scalar(p, true);
    }
    if (all & ROTATION) {
        p->c = trp_real(rotation_number(p));
        p->s = ref_blas_complex(p->type) ? trp_complex(blas_uniform(), blas_uniform())
                                         : trp_real(rotation_number(p));
    }
}

/* Rounds sizes to what every cuBLAS supports for i8, with some transposes. */
static void round_sizes(problem *p)
{
    p->m = (p->m + 15) / 16 * 16;
    p->n = (p->n + 15) / 16 * 16;
    p->k = (p->k + 15) / 16 * 16;
}

/* Sometimes many rows and columns, or long sums. */
static void draw_gemm(problem *p)
{
    if (p->type == TRP_F32 && p->compute == TRP_COMPUTE_DEFAULT && blas_below(4) == 0)
        p->compute = TRP_COMPUTE_TF32;
    else if (p->compute == TRP_COMPUTE_DEFAULT && blas_below(4) == 0)
        p->compute = TRP_COMPUTE_PEDANTIC;
    if (blas_below(40) == 0) {
        const bool wide = blas_below(2); /* beyond a tile of the host */
        *(wide ? &p->n : &p->m) += (int64_t)blas_below(1200);
        *(wide ? &p->m : &p->n) += (int64_t)blas_below(100);
        p->k = 1 + (int64_t)blas_below(8);
    } else if (blas_below(40) == 0 && p->type_c != TRP_F32) {
        p->k += (int64_t)blas_below(2100);
    }
    if (p->step && blas_below(4))
        round_sizes(p);
}

static void draw_sizes(problem *p)
{
    unsigned all = p->op->options;
    p->m = random_count(p);
    p->n = random_count(p);
    p->k = random_count(p);
    if (p->op->level == 0)
        draw_gemm(p);
    if (p->op->op == TRP_OP_ROTG || p->op->op == TRP_OP_ROTMG ||
        (p->op->level == 2 && p->op->rules[REF_A].rows != M))
        *(p->op->level == 1 ? &p->n : &p->m) -= 5; /* ignored */
    if (p->op->rules[REF_A].shape == REF_BAND) {
        p->kl = (int64_t)blas_below(6);
        p->ku = (int64_t)blas_below(6);
    }
    if (all & BANDED)
        p->kl = (int64_t)blas_below(6);
    p->batch = all & BATCHES && blas_below(2) ? 1 + (int64_t)blas_below(4) : 1;
    p->gaps = blas_below(4) > 0;
    p->one_block = blas_below(2);
    p->in_place = all & IN_PLACE && blas_below(2);
    p->same_place = p->in_place && blas_below(2);
    p->interleaved = p->op->level == 1 && p->op->rules[REF_X].rows == N &&
                     p->op->rules[REF_Y].use != UNUSED && blas_below(4) == 0;
}

static void make(problem *p)
{
    for (ref_place place = REF_A; place <= REF_Y; place++)
        blas_lay_out(p, place);
    blas_lay_out_rest(p);
    if (p->interleaved) { /* both operands go through memory in the same direction */
        int64_t length = p->operands[REF_X].extent;
        p->operands[REF_Y] = p->operands[REF_X];
        p->operands[REF_Y].use = p->op->rules[REF_Y].use;
        p->interleaved = length > 0;
    }
    blas_place_all(p);
    blas_fill_all(p);
}

void blas_draw(problem *p)
{
    draw_sizes(p);
    draw_scalars(p);
    make(p);
}

static void draw_tight_sizes(problem *p)
{
    const int64_t step = p->step > 0 ? p->step : 1;
    p->m = step * (2 + (int64_t)blas_below(6));
    p->n = step * (2 + (int64_t)blas_below(6));
    p->k = step * (2 + (int64_t)blas_below(6));
    p->batch = 1;
    if (blas_has(p, BANDED) || p->op->rules[REF_A].shape == REF_BAND)
        p->kl = 1 + (int64_t)blas_below(3);
    if (p->op->rules[REF_A].shape == REF_BAND)
        p->ku = 1 + (int64_t)blas_below(3);
}

static void draw_tight_scalars(problem *p)
{
    draw_scalars(p);
    if (blas_has(p, ALPHA)) /* with alpha 0 gemm has no A; with beta 0 geam has no B */
        p->alpha = trp_real(-1);
    if (blas_has(p, BETA))
        p->beta = trp_real(2);
}

void blas_draw_tight(problem *p)
{
    draw_tight_sizes(p);
    draw_tight_scalars(p);
    make(p);
}

/* Scalars in a buffer belong to the first item, alone: other items would wait for its completion.
 */
void blas_draw_list(problem *p, int count, bool own_sizes, bool tight)
{
    const bool whole = p->step > 0 && blas_below(4);
    draw_sizes(p);
    (tight ? draw_tight_scalars : draw_scalars)(p);
    p->gaps = p->gaps && !tight;
    p->one_block = p->one_block && !tight && !p->on_device;
    p->batch = 1;
    for (int i = 0; i < count; i++) {
        if (i > 0) {
            p[i] = *p;
            p[i].on_device = false;
            p[i].like = own_sizes ? NULL : p;
        }
        if (tight && (own_sizes || i == 0)) {
            draw_tight_sizes(&p[i]);
        } else if (own_sizes || i == 0) {
            p[i].m = random_count(p);
            p[i].n = random_count(p);
            p[i].k = random_count(p);
            if (whole)
                round_sizes(&p[i]);
        }
    }
    for (int i = 0; i < count; i++)
        make(&p[i]);
}

bool blas_runs_again(const problem *p)
{
    if (p->interleaved)
        return false;
    for (int i = 0; i < PLACES; i++) {
        const int use = p->operands[i].use;
        if (use == INOUT || (use == BY_BETA && (p->on_device || blas_beta_of(p) != 0)))
            return false;
    }
    return true;
}
