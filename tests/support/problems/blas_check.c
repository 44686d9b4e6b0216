/* Checks the outputs of a problem. See blas_problem.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/blas_problem.h"

#include <float.h>
#include <math.h>

static ref_blas reference_of(const problem *p, int64_t number)
{
    return (ref_blas){
        .op = p->op->op,
        .side = p->side,
        .trans = p->trans,
        .trans_b = p->trans_b,
        .alpha = blas_has(p, ALPHA) ? blas_alpha_of(p) : 1,
        .beta = blas_has(p, BETA) ? blas_beta_of(p) : 0,
        .c = blas_value_of(p, p->c, 0),
        .s = blas_value_of(p, p->s, 0),
        .modified = {p->modified[0], p->modified[1], p->modified[2], p->modified[3],
                     p->modified[4]},
        .a = blas_view_of(p, REF_A, number, false),
        .x = blas_view_of(p, REF_X, number, false),
        .y = blas_view_of(p, REF_Y, number, false),
        .solved = blas_view_of(p, REF_X, number, true),
    };
}

static void allow(problem *p, ref_place place, const ref_operand *v, int64_t i, int64_t j)
{
    size_t size = ref_blas_size(v->type);
    memset(p->blocks[p->operands[place].block].writable + (size_t)ref_operand_index(v, i, j) * size,
           1, size);
}

static bool check_element(const problem *p, ref_place place, const ref_number *number,
                          ref_complex got, double *worst)
{
    double bound = ref_blas_bound(number, p->type_c ? p->type_c : p->type);
    double error = blas_has(p, SOLVES) ? cabs(number->value) : cabs(got - number->value);
    if (p->compute == TRP_COMPUTE_TF32)
        bound += 0x1p-9 * number->size;
    if (blas_is_exact(p))
        bound = 0;
    if (p->type_c == TRP_I32) /* modulo 2^32 */
        error = (int32_t)(uint32_t)(int64_t)creal(number->value) == (int32_t)creal(got) ? 0 : 1;
    if (bound > 0 && error / bound > *worst)
        *worst = error / bound;
    if (!(error <= bound))
        return blas_wrong(p, "operand %d has %.17g%+.17gi, expected %.17g%+.17gi%s within %g",
                          (int)place, creal(got), cimag(got), creal(number->value),
                          cimag(number->value),
                          blas_has(p, SOLVES) ? " as residual, which is to be 0" : "", bound);
    return true;
}

static bool check_output(problem *p, ref_place place, double *worst)
{
    const operand *x = &p->operands[place];
    for (int64_t b = 0; b < x->batch; b++) {
        ref_operand v = blas_view_of(p, place, b, true);
        ref_blas r = reference_of(p, b);
        for (int64_t i = 0; i < v.rows; i++) {
            for (int64_t j = 0; j < v.columns; j++) {
                if (!ref_operand_holds(&v, i, j))
                    continue;
                ref_complex got = ref_blas_load(v.type, v.data, ref_operand_index(&v, i, j));
                ref_number number = ref_blas_element(&r, place, i, j);
                allow(p, place, &v, i, j);
                if (!check_element(p, place, &number, got, worst))
                    return blas_wrong(p, "that was element (%lld, %lld) of %lld", (long long)i,
                                      (long long)j, (long long)b);
                if (v.shape == REF_HERMITIAN && i == j && cimag(got) != 0)
                    return blas_wrong(p, "element (%lld, %lld) of the diagonal is not real",
                                      (long long)i, (long long)i);
            }
        }
    }
    return true;
}

/* Returns the z of BLAS's rotg, which encodes c and s. */
static double z_of(double a, double b, double c, double s)
{
    if (a == 0 && b == 0)
        return 0;
    if (fabs(a) > fabs(b))
        return s;
    return c != 0 ? 1 / c : 1;
}

/* Checks the properties of a rotation, since BLAS leaves its signs open. */
static bool check_rotation(problem *p, double *worst)
{
    ref_complex values[6]; /* a, b, r, z, c, s */
    for (int i = 0; i < 6; i++) {
        ref_place place = i >= 4 ? REF_RESULT : i % 2 == 0 ? REF_X : REF_Y;
        ref_operand v = blas_view_of(p, place, 0, i >= 2);
        int64_t row = i == 5;
        values[i] = ref_blas_load(v.type, v.data, ref_operand_index(&v, row, 0));
        if (i >= 2)
            allow(p, place, &v, row, 0);
    }
    ref_complex a = values[0], b = values[1], r = values[2], z = values[3], s = values[5];
    double c = creal(values[4]); /* its other half means nothing */
    double unit = 16 * ref_blas_unit(p->type), size = cabs(a) + cabs(b);
    double wanted_z = z_of(creal(a), creal(b), c, creal(s));
    double errors[] = {
        cabs(c * a + s * b - r) / (unit * size + DBL_MIN),
        cabs(c * b - conj(s) * a) / (unit * size + DBL_MIN),
        fabs(c * c + creal(s * conj(s)) - 1) / unit,
        ref_blas_complex(p->type) ? 0 : cabs(z - wanted_z) / (unit * fabs(wanted_z) + DBL_MIN),
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (!(errors[i] <= 1))
            return blas_wrong(
                p,
                "condition %zu is off by %g: a %g%+gi b %g%+gi gave r %g%+gi z %g%+gi c "
                "%g s %g%+gi",
                i, errors[i], creal(a), cimag(a), creal(b), cimag(b), creal(r), cimag(r), creal(z),
                cimag(z), c, creal(s), cimag(s));
        *worst = fmax(*worst, errors[i]);
    }
    return true;
}

/* Loads the elements of an operand, before or after, as real numbers. */
static void load_all(problem *p, ref_place place, bool after, double *out)
{
    ref_operand v = blas_view_of(p, place, 0, after);
    for (int64_t i = 0; i < v.rows; i++) {
        out[i] = creal(ref_blas_load(v.type, v.data, ref_operand_index(&v, i, 0)));
        if (after)
            allow(p, place, &v, i, 0);
    }
}

/* Returns H of a modified rotation by rows; false: the flag is not one of the four. */
static bool modified_matrix(const double param[5], double h[2][2])
{
    const double flag = param[0];
    h[0][0] = flag == 0 || flag == -2 ? 1 : param[1];
    h[1][1] = flag == 0 || flag == -2 ? 1 : param[4];
    h[1][0] = flag == 1 ? -1 : flag == -2 ? 0 : param[2];
    h[0][1] = flag == 1 ? 1 : flag == -2 ? 0 : param[3];
    return flag == -2 || flag == -1 || flag == 0 || flag == 1;
}

/* Checks the properties of a modified rotation: H (x1, y1) is (x1', 0), and H^T D' H is D. */
static bool check_modified(problem *p, double *largest)
{
    double old[3], now[3], y, param[5], h[2][2], worst = 0;
    load_all(p, REF_X, false, old);
    load_all(p, REF_X, true, now);
    load_all(p, REF_Y, false, &y);
    load_all(p, REF_RESULT, true, param);
    double q1 = old[0] * old[2] * old[2], q2 = old[1] * y * y;
    bool none = old[0] >= 0 && old[1] * y == 0;
    bool impossible = !none && (old[0] < 0 || (fabs(q1) <= fabs(q2) && q2 < 0));
    bool right = modified_matrix(param, h) && (param[0] == -2) == none;
    for (int i = 0; i < 3 && none; i++)
        right = right && now[i] == old[i];
    for (int i = 0; i < 4 && impossible; i++)
        right = right && param[0] == -1 && h[i / 2][i % 2] == 0 && now[i % 3] == 0;
    for (int i = 0; i < 2 && !none && !impossible; i++)
        right = right && (now[i] == 0 || (fabs(now[i]) > 0x1p-24 && fabs(now[i]) < 0x1p24));
    for (int i = 0; i < 5 && !none && !impossible; i++) {
        double terms[3];
        if (i < 2) {
            terms[0] = h[i][0] * old[2], terms[1] = h[i][1] * y, terms[2] = i == 0 ? -now[2] : 0;
        } else {
            const int row = i == 3, column = i == 4 ? 1 : row;
            terms[0] = h[0][row] * now[0] * h[0][column];
            terms[1] = h[1][row] * now[1] * h[1][column];
            terms[2] = row == column ? -old[row] : 0;
        }
        double size = fabs(terms[0]) + fabs(terms[1]) + fabs(terms[2]);
        double condition = (fabs(q1) + fabs(q2)) / fabs(q1 + q2);
        double error = fabs(terms[0] + terms[1] + terms[2]) /
                       (32 * ref_blas_unit(p->type) * condition * size + DBL_MIN);
        worst = fmax(worst, error);
        right = right && error <= 1;
    }
    *largest = fmax(*largest, worst);
    return right ||
           blas_wrong(p,
                      "d1 %g d2 %g x1 %g y1 %g became d1 %g d2 %g x1 %g with flag %g h11 %g h21 "
                      "%g h12 %g h22 %g, off by %g",
                      old[0], old[1], old[2], y, now[0], now[1], now[2], param[0], param[1],
                      param[2], param[3], param[4], worst);
}

bool blas_check_outputs(problem *p, double *worst)
{
    if (p->op->op == TRP_OP_ROTMG)
        return check_modified(p, worst);
    if (p->op->op == TRP_OP_ROTG)
        return check_rotation(p, worst);
    if (p->op->level == 2 && (p->n == 0 || (p->m == 0 && p->op->rules[REF_A].rows == M)))
        return true; /* BLAS does nothing, whatever beta is */
    for (ref_place place = REF_A; place <= REF_RESULT; place++) {
        if (blas_writes(p, place) && !check_output(p, place, worst))
            return false;
    }
    return true;
}
