#include "actors/fft/host/plan.h"

#include "actors/fft/host/kernels.h"
#include "actors/fft/host/roots.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Lengths. */

static bool has_large_prime(int64_t n)
{
    for (int64_t p = 2; p <= TRP__FFT_PRIME_MAX; p++) {
        while (n % p == 0)
            n /= p;
    }
    return n > 1;
}

int64_t trp__fft_good_length(int64_t n)
{
    static const int64_t odd[] = {1, 3, 5, 7, 9, 15};
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        int64_t length = odd[i];
        while (length < n)
            length *= 2;
        best = length < best ? length : best;
    }
    return best;
}

static int64_t complex_length(int64_t n, bool real)
{
    return real && n % 2 == 0 ? n / 2 : n;
}

/* The length of the longest transform that is made of one of this length. */
static int64_t inner_length(int64_t length)
{
    return has_large_prime(length) ? trp__fft_good_length(2 * length - 1) : length;
}

/* The rows of a line as a matrix: a divisor near the square root, if possible one that leaves no
 * incomplete vectors. */
static int64_t choose_rows(int64_t n, int64_t lanes)
{
    int64_t root = 1, best = 1;
    while ((root + 1) * (root + 1) <= n)
        root++;
    for (int64_t d = root; d >= 1 && (best == 1 || d * 4 >= root); d--) {
        if (n % d != 0)
            continue;
        if (d % lanes == 0 && n / d % lanes == 0)
            return d;
        best = best == 1 ? d : best;
    }
    return best;
}

bool trp__fft_is_single(int64_t n, bool real, bool wide, int64_t lines)
{
    const int64_t m = inner_length(complex_length(n, real)), lanes = wide ? 4 : 8;
    return m > TRP__FFT_STRIP_MAX || (m >= TRP__FFT_SPLIT_MIN && lines * 2 <= lanes);
}

/* Tables. */

static void put(bool wide, void *table, int64_t at, trp__fft_root root)
{
    if (wide) {
        ((double *)table)[2 * at] = (double)root.re;
        ((double *)table)[2 * at + 1] = (double)root.im;
    } else {
        ((float *)table)[2 * at] = (float)root.re;
        ((float *)table)[2 * at + 1] = (float)root.im;
    }
}

static void *allocate(bool wide, int64_t complex_numbers)
{
    const size_t bytes = (size_t)complex_numbers * (wide ? 16 : 8);
    return aligned_alloc(TRP__FFT_PAIR_BYTES, (bytes | (TRP__FFT_PAIR_BYTES - 1)) + 1);
}

/* Cuts a length into passes; returns how many complex numbers their tables have. */
static int64_t cut(trp__fft_smooth *s)
{
    static const int powers[] = {8, 4, 2};
    int64_t rest = s->n, numbers = 0, twos = 0;
    int radix[TRP__FFT_PASSES_MAX], count = 0;
    for (; rest % 2 == 0; rest /= 2)
        twos++;
    for (; twos == 4 || (twos > 4 && twos % 3 == 1); twos -= 2)
        radix[count++] = 4; /* two passes of 4 for one of 8 and one of 2 */
    for (int i = 0; i < 3; i++) {
        for (const int64_t log = 3 - i; twos >= log; twos -= log)
            radix[count++] = powers[i];
    }
    for (int p = 3; rest > 1; p += 2) {
        for (; rest % p == 0; rest /= p)
            radix[count++] = p;
    }
    int64_t stride = 1;
    for (int i = 0; i < count; i++) {
        const int64_t groups = s->n / stride / radix[i];
        s->pass[i] = (trp__fft_pass){.radix = radix[i], .groups = groups, .stride = stride};
        numbers += radix[i] + (radix[i] - 1) * (groups - 1);
        stride *= radix[i];
    }
    s->count = count;
    return numbers;
}

/* The roots of order n come from those of order of->n, a multiple of it. */
static trp__fft_root root_of(const trp__fft_roots *of, int64_t n, int64_t k)
{
    return trp__fft_roots_at(of, k % n * (of->n / n));
}

static bool make_smooth(trp__fft_smooth *s, int64_t n, bool wide, const trp__fft_roots *roots)
{
    s->n = n;
    const int64_t numbers = cut(s);
    const size_t size = wide ? 16 : 8;
    int64_t at = 0;
    s->table = allocate(wide, numbers);
    if (!s->table)
        return false;
    for (int i = 0; i < s->count; i++) {
        trp__fft_pass *pass = &s->pass[i];
        pass->roots = (char *)s->table + (size_t)at * size;
        for (int k = 0; k < pass->radix; k++)
            put(wide, s->table, at++, root_of(roots, pass->radix, k));
        pass->twiddles = (char *)s->table + (size_t)at * size;
        const int64_t order = n / pass->stride;
        for (int64_t g = 1; g < pass->groups; g++) {
            for (int k = 1; k < pass->radix; k++)
                put(wide, s->table, at++, root_of(roots, order, g * k));
        }
    }
    return true;
}

static bool make_split(trp__fft_plan *p, const trp__fft_roots *roots)
{
    trp__fft_split *s = &p->split;
    const bool wide = p->key.wide;
    const int64_t rows = choose_rows(p->m, p->lanes), columns = p->m / rows;
    s->strips = (columns + p->lanes - 1) / p->lanes;
    if (!make_smooth(&s->rows, rows, wide, roots) ||
        !make_smooth(&s->columns, columns, wide, roots))
        return false;
    s->step = allocate(wide, rows * p->lanes);
    s->base = allocate(wide, rows * s->strips);
    if (!s->step || !s->base)
        return false;
    for (int64_t i = 0; i < rows; i++) {
        for (int k = 0; k < p->lanes; k++) { /* a vector of real parts, then one of imaginary */
            const trp__fft_root root = root_of(roots, p->m, i * k);
            const int64_t at = 2 * i * p->lanes + k;
            if (wide) {
                ((double *)s->step)[at] = (double)root.re;
                ((double *)s->step)[at + p->lanes] = (double)root.im;
            } else {
                ((float *)s->step)[at] = (float)root.re;
                ((float *)s->step)[at + p->lanes] = (float)root.im;
            }
        }
    }
    for (int64_t k = 0; k < s->strips; k++) {
        for (int64_t i = 0; i < rows; i++)
            put(wide, s->base, k * rows + i, root_of(roots, p->m, k * p->lanes % p->m * i));
    }
    return true;
}

static bool make_inner(trp__fft_plan *p)
{
    trp__fft_roots roots;
    if (!trp__fft_roots_make(&roots, p->m))
        return false;
    const bool made =
        p->key.single ? make_split(p, &roots) : make_smooth(&p->smooth, p->m, p->key.wide, &roots);
    trp__fft_roots_free(&roots);
    return made;
}

static bool make_half_roots(trp__fft_plan *p)
{
    trp__fft_roots roots;
    p->half_roots = allocate(p->key.wide, p->length / 2 + 1);
    if (!p->half_roots || !trp__fft_roots_make(&roots, p->key.n))
        return false;
    for (int64_t k = 0; k <= p->length / 2; k++)
        put(p->key.wide, p->half_roots, k, trp__fft_roots_at(&roots, k));
    trp__fft_roots_free(&roots);
    return true;
}

static bool make_turns(trp__fft_plan *p)
{
    trp__fft_roots roots;
    const int64_t n = p->key.waves;
    p->turns = allocate(true, n + 1);
    if (!p->turns || !trp__fft_roots_make(&roots, 8 * n))
        return false;
    for (int64_t t = 0; t <= n; t++) {
        const trp__fft_root root = trp__fft_roots_at(&roots, t);
        put(true, p->turns, t, (trp__fft_root){root.re, -root.im});
    }
    trp__fft_roots_free(&roots);
    return true;
}

/* The transform of the chirp's conjugate, wrapped around, over m: in f64 for either type. */
static bool make_spectrum(trp__fft_plan *p, const trp__fft_roots *roots)
{
    const int64_t n = p->length, m = p->m;
    const trp__fft_key key = {
        .n = m, .wide = true, .single = trp__fft_is_single(m, false, true, 1)};
    trp__fft_plan *inner = NULL;
    double *x = allocate(true, m);
    p->spectrum = allocate(p->key.wide, m);
    bool made = x && p->spectrum && trp__fft_plan_make(&key, &inner, NULL) == TRP_OK;
    if (made) {
        memset(x, 0, (size_t)m * 16);
        int64_t square = 0; /* j * j modulo 2 n */
        for (int64_t j = 0; j < n; j++) {
            const trp__fft_root root = trp__fft_roots_at(roots, square);
            put(true, x, j, (trp__fft_root){root.re, -root.im});
            if (j > 0)
                put(true, x, m - j, (trp__fft_root){root.re, -root.im});
            square = (square + 2 * j + 1) % (2 * n);
        }
        made = trp__fft_line(inner, x, 1 / (double)m);
    }
    for (int64_t k = 0; made && k < m; k++)
        put(p->key.wide, p->spectrum, k,
            (trp__fft_root){(long double)x[2 * k], (long double)x[2 * k + 1]});
    trp__fft_plan_drop(inner);
    free(x);
    return made;
}

static bool make_chirp(trp__fft_plan *p)
{
    trp__fft_roots roots;
    p->chirp = allocate(p->key.wide, p->length);
    if (!p->chirp || !trp__fft_roots_make(&roots, 2 * p->length))
        return false;
    int64_t square = 0;
    for (int64_t j = 0; j < p->length; j++) {
        put(p->key.wide, p->chirp, j, trp__fft_roots_at(&roots, square));
        square = (square + 2 * j + 1) % (2 * p->length);
    }
    const bool made = make_spectrum(p, &roots);
    trp__fft_roots_free(&roots);
    return made;
}

trp_status trp__fft_plan_make(const trp__fft_key *key, trp__fft_plan **out, trp_error *error)
{
    trp__fft_plan *p = calloc(1, sizeof *p);
    if (p) {
        p->key = *key;
        p->users = 1;
        p->lanes = key->wide ? 4 : 8;
        p->half = key->real && key->n % 2 == 0;
        p->length = complex_length(key->n, key->real);
        p->m = inner_length(p->length);
        p->chirps = p->m != p->length;
    }
    if (p && make_inner(p) && (!p->half || make_half_roots(p)) && (!p->chirps || make_chirp(p)) &&
        (!key->waves || make_turns(p))) {
        *out = p;
        return TRP_OK;
    }
    trp__fft_plan_drop(p);
    return trp__error_set(error, TRP_E_MEMORY, "no memory for the tables of a transform of %lld",
                          (long long)key->n);
}

void trp__fft_plan_hold(trp__fft_plan *plan)
{
    atomic_fetch_add(&plan->users, 1);
}

void trp__fft_plan_drop(trp__fft_plan *plan)
{
    if (!plan || atomic_fetch_sub(&plan->users, 1) > 1)
        return;
    free(plan->chirp);
    free(plan->spectrum);
    free(plan->half_roots);
    free(plan->turns);
    free(plan->smooth.table);
    free(plan->split.rows.table);
    free(plan->split.columns.table);
    free(plan->split.step);
    free(plan->split.base);
    free(plan);
}
