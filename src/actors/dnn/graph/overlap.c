/* The bytes of a tensor are offset + sum of i_k stride_k + u, with each i_k below its dimension and
 * u below the size of an element. Two tensors share a byte if and only if
 *
 *     sum of i_k stride_k + u  -  (sum of j_k other_stride_k + v)  =  other_offset - offset
 *
 * has a solution. Terms with equal strides merge into one term, i_k - j_k. The search proceeds from
 * the largest stride to the smallest: the possible sums of the smaller strides leave few values for
 * each, one or two if strides nest, as in views of dense memory. */
#include "actors/dnn/graph/overlap.h"

#include <troupe/types.h>

enum {
    TERMS = 2 * TRP__DNN_RANK + 1,
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

static int64_t element_size(const trp__dnn_tensor *t)
{
    return trp_dtype_bits((trp_dtype)t->type) / 8;
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

trp__overlap trp__dnn_overlap(const trp__dnn_tensor *t, uint64_t offset,
                              const trp__dnn_tensor *other, uint64_t other_offset)
{
    search s = {.count = 0};
    const int64_t size = element_size(t), other_size = element_size(other);
    if (trp__dnn_elements(t) == 0 || trp__dnn_elements(other) == 0)
        return TRP__OVERLAP_NONE;
    for (int i = 0; i < t->rank; i++)
        add_term(&s, t->stride[i] * size, 0, t->dim[i] - 1);
    for (int i = 0; i < other->rank; i++)
        add_term(&s, other->stride[i] * other_size, 1 - other->dim[i], 0);
    add_term(&s, 1, 1 - other_size, size - 1);
    for (int i = s.count - 1; i >= 0; i--) {
        s.least[i] = s.least[i + 1] + s.term[i].stride * s.term[i].least;
        s.most[i] = s.most[i + 1] + s.term[i].stride * s.term[i].most;
        s.divisor[i] = common_divisor(s.term[i].stride, s.divisor[i + 1]);
    }
    if (reaches(&s, 0, (int64_t)(other_offset - offset)))
        return TRP__OVERLAP_SOME;
    return s.steps > STEPS_MAX ? TRP__OVERLAP_UNKNOWN : TRP__OVERLAP_NONE;
}
