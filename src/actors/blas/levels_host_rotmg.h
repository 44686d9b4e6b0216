/* rotmg for one real type. Included only by levels_host_type.h, which defines the macros.
 *
 * Source: the reference BLAS's srotmg and drotmg; S. Hammarling, "A note on modifications to the
 * Givens plane rotation", 1974. */

/* All elements of H of a modified rotation, and d1, d2 and x1, which it changes. */
typedef struct NAME(modified) {
    T flag, h11, h21, h12, h22, d1, d2, x1;
} NAME(modified);

/* Sets the elements that the flag implies. */
static void NAME(spell_out)(NAME(modified) * m)
{
    if (m->flag == 0) {
        m->h11 = 1;
        m->h22 = 1;
    } else if (m->flag > 0) {
        m->h21 = -1;
        m->h12 = 1;
    }
    m->flag = -1;
}

/* Scales d1 and d2 into [2^-24, 2^24], and adapts H and x1. */
static void NAME(rescale)(NAME(modified) * m)
{
    const T factor = 4096, square = factor * factor;
    while (m->d1 != 0 && isfinite(m->d1) && (m->d1 <= 1 / square || m->d1 >= square)) {
        bool small = m->d1 <= 1 / square;
        T by = small ? 1 / factor : factor;
        NAME(spell_out)(m);
        m->d1 = small ? m->d1 * square : m->d1 / square;
        m->x1 *= by;
        m->h11 *= by;
        m->h12 *= by;
    }
    while (m->d2 != 0 && isfinite(m->d2) && (fabs(m->d2) <= 1 / square || fabs(m->d2) >= square)) {
        bool small = fabs(m->d2) <= 1 / square;
        T by = small ? 1 / factor : factor;
        NAME(spell_out)(m);
        m->d2 = small ? m->d2 * square : m->d2 / square;
        m->h21 *= by;
        m->h22 *= by;
    }
}

/* Computes a rotation. If there is none, everything becomes 0. */
static NAME(modified) NAME(modify)(T d1, T d2, T x1, T y1)
{
    NAME(modified) m = {.flag = -1};
    T p1 = d1 * x1, p2 = d2 * y1, q1 = p1 * x1, q2 = p2 * y1;
    if (d1 < 0)
        return m;
    if (p2 == 0)
        return (NAME(modified)){.flag = -2, .d1 = d1, .d2 = d2, .x1 = x1};
    if (fabs(q1) > fabs(q2)) {
        m.h21 = -y1 / x1;
        m.h12 = p2 / p1;
        T u = 1 - m.h12 * m.h21;
        if (!(u > 0)) /* due to rounding */
            return (NAME(modified)){.flag = -1};
        m.flag = 0;
        m.d1 = d1 / u;
        m.d2 = d2 / u;
        m.x1 = x1 * u;
    } else {
        if (q2 < 0)
            return m;
        m.flag = 1;
        m.h11 = p1 / p2;
        m.h22 = x1 / y1;
        T u = 1 + m.h11 * m.h22;
        m.d1 = d2 / u;
        m.d2 = d1 / u;
        m.x1 = y1 * u;
    }
    NAME(rescale)(&m);
    return m;
}

static void NAME(rotmg_loop)(const operation *o)
{
    int64_t step = o->l.ld[TRP__BLAS_X];
    T *d1 = o->x, *d2 = d1 + step, *x1 = d2 + step, *param = o->result;
    NAME(modified) m = NAME(modify)(*d1, *d2, *x1, *(const T *)o->y);
    bool all = m.flag == -1;
    *d1 = m.d1;
    *d2 = m.d2;
    *x1 = m.x1;
    param[0] = m.flag;
    param[1] = all || m.flag == 1 ? m.h11 : 0;
    param[2] = all || m.flag == 0 ? m.h21 : 0;
    param[3] = all || m.flag == 0 ? m.h12 : 0;
    param[4] = all || m.flag == 1 ? m.h22 : 0;
}
