/* The bytes of an array are offset + sum of i_k stride_k + u, with each i_k below its dimension and
 * u below the size of an element. Two arrays share a byte if and only if
 *
 *     sum of i_k stride_k + u  -  (sum of j_k other_stride_k + v)  =  distance
 *
 * has a solution. Terms with equal strides merge into one term, i_k - j_k. The search proceeds from
 * the largest stride to the smallest: the possible sums of the smaller strides leave few values for
 * each, one or two if strides nest, as in views of dense memory. */
#include "base/overlap.h"

#include <stdbool.h>

enum {
    TERMS = 2 * TRP__OVERLAP_RANK + 1,
    STEPS_MAX = 1 << 16 /* limit of the search: about a millisecond */
};

/* A stride in bytes and the range of its factor. */
typedef struct term {
    int64_t stride, least, most;
} term;

typedef struct search {
    term term[TERMS]; /* the largest stride first */
    int count, steps;
    int64_t least[TERMS + 1], most[TERMS + 1]; /* bounds of the sum of the terms from here on */
    int64_t divisor[TERMS + 1];                /* common divisor of their strides */
} search;

static void add_term(search *s, int64_t stride, int64_t least, int64_t most)
{
    int at = s->count;
    if (stride == 0 || (least == 0 && most == 0))
        return;
    for (int i = 0; i < s->count; i++) {
        if (s->term[i].stride == stride) {
            s->term[i].least += least;
            s->term[i].most += most;
            return;
        }
    }
    for (; at > 0 && s->term[at - 1].stride < stride; at--)
        s->term[at] = s->term[at - 1];
    s->term[at] = (term){stride, least, most};
    s->count++;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Tells whether the terms from `at` on can add up to `sum`. */
static bool reaches(search *s, int at, int64_t sum)
{
    if (sum < s->least[at] || sum > s->most[at])
        return false;
    if (at == s->count)
        return true; /* both bounds are 0 */
    if (sum % s->divisor[at] != 0 || ++s->steps > STEPS_MAX)
        return false;
    const term *t = &s->term[at];
    int64_t first = -divide_down(s->most[at + 1] - sum, t->stride); /* rounded up */
    int64_t last = divide_down(sum - s->least[at + 1], t->stride);
    first = first > t->least ? first : t->least;
    last = last < t->most ? last : t->most;
    for (int64_t i = first; i <= last && s->steps <= STEPS_MAX; i++) {
        if (reaches(s, at + 1, sum - i * t->stride))
            return true;
    }
    return false;
}

/* Whether the terms can add up to `sum`. */
static trp__overlap search_sum(search *s, int64_t sum)
{
    s->steps = 0;
    s->least[s->count] = s->most[s->count] = s->divisor[s->count] = 0;
    for (int i = s->count - 1; i >= 0; i--) {
        s->least[i] = s->least[i + 1] + s->term[i].stride * s->term[i].least;
        s->most[i] = s->most[i + 1] + s->term[i].stride * s->term[i].most;
        s->divisor[i] = common_divisor(s->term[i].stride, s->divisor[i + 1]);
    }
    if (reaches(s, 0, sum))
        return TRP__OVERLAP_SOME;
    return s->steps > STEPS_MAX ? TRP__OVERLAP_UNKNOWN : TRP__OVERLAP_NONE;
}

static bool is_empty(const trp__strided *a)
{
    bool empty = false;
    for (int i = 0; i < a->rank; i++)
        empty = empty || a->dim[i] == 0;
    return empty;
}

trp__overlap trp__overlap_between(const trp__strided *a, const trp__strided *b, int64_t distance)
{
    search s = {.count = 0};
    if (is_empty(a) || is_empty(b))
        return TRP__OVERLAP_NONE;
    for (int i = 0; i < a->rank; i++)
        add_term(&s, a->stride[i], 0, a->dim[i] - 1);
    for (int i = 0; i < b->rank; i++)
        add_term(&s, b->stride[i], 1 - b->dim[i], 0);
    add_term(&s, 1, 1 - b->size, a->size - 1);
    return search_sum(&s, distance);
}

/* Two elements differ in a first dimension k, by 1 or more, and in those behind it by anything. */
trp__overlap trp__overlap_within(const trp__strided *a)
{
    trp__overlap worst = TRP__OVERLAP_NONE;
    if (is_empty(a))
        return TRP__OVERLAP_NONE;
    for (int k = 0; k < a->rank; k++) {
        search s = {.count = 0};
        if (a->dim[k] == 1)
            continue;
        if (a->stride[k] == 0)
            return TRP__OVERLAP_SOME;
        add_term(&s, a->stride[k], 1, a->dim[k] - 1);
        for (int i = k + 1; i < a->rank; i++)
            add_term(&s, a->stride[i], 1 - a->dim[i], a->dim[i] - 1);
        add_term(&s, 1, 1 - a->size, a->size - 1);
        const trp__overlap found = search_sum(&s, 0);
        if (found == TRP__OVERLAP_SOME)
            return found;
        worst = found == TRP__OVERLAP_UNKNOWN ? found : worst;
    }
    return worst;
}
