/* Which words of a kernel's parameter are found to be which of its arguments. */
#include "support/unit.h"

#include "actors/cutlass/run/refit.h"

/* A parameter as a builder could make it. */
typedef struct parameter {
    uint64_t a, d;
    float alpha;
    int32_t m;
    double beta;
    uint64_t row, row_distance;
    float number;
    uint32_t flags;
    uint64_t a_again;
} parameter;

typedef enum way { COPIED, ADDED, HALVED, TRUNCATED, BRANCHED, HOWS } way;

static parameter build(const trp_cutlass_args *x, way how)
{
    double number;
    parameter p;
    memset(&p, 0, sizeof p);
    memcpy(&number, &x->slot[3], sizeof number);
    p.a = how == ADDED ? x->a + 64 : x->a;
    p.d = how == HALVED ? x->d / 2 : x->d;
    p.alpha = (float)x->alpha;
    p.m = x->m;
    p.beta = x->beta;
    p.row = x->slot[0];
    p.row_distance = x->slot[1];
    p.number = (float)number;
    p.flags = how == TRUNCATED ? (uint32_t)x->d : x->beta != 0;
    if (how == BRANCHED && x->d > UINT64_C(1) << 60)
        p.flags = 77;
    p.a_again = x->a;
    return p;
}

static trp_cutlass_args arguments(uint64_t shift, double scale)
{
    trp_cutlass_args x;
    memset(&x, 0, sizeof x);
    x.a = 0x7f0000001000 + shift;
    x.d = 0x7f0000abc100 + 3 * shift;
    x.lda = 8;
    x.m = 5;
    x.alpha = 2 * scale;
    x.beta = 0.1 * scale;
    x.slot[0] = 0x7f0011110000 + shift;
    x.slot[1] = 40; /* behind an address: a distance */
    const double number = -3.7 * scale;
    memcpy(&x.slot[3], &number, sizeof number);
    return x;
}

static trp__refit_set addresses(void)
{
    trp__refit_set s = {{0}};
    trp__refit_add(&s, offsetof(trp_cutlass_args, a) / 8);
    trp__refit_add(&s, offsetof(trp_cutlass_args, d) / 8);
    trp__refit_add(&s, offsetof(trp_cutlass_args, slot) / 8);
    return s;
}

static bool learn(const trp_cutlass_args *x, const trp__refit_set *words, way how, trp__refit *out)
{
    const trp_cutlass_args marked[2] = {trp__refit_marked(x, words, 0),
                                        trp__refit_marked(x, words, 1)};
    const parameter p[] = {build(x, how), build(&marked[0], how), build(&marked[1], how)};
    const void *const built[] = {&p[0], &p[1], &p[2]};
    return trp__refit_learn(x, words, built, sizeof *p, out);
}

static void copied(void **state)
{
    (void)state;
    const trp_cutlass_args x = arguments(0, 1);
    trp__refit_set words = addresses();
    trp__refit r;
    trp__refit_add_numbers(&x, &words);
    assert_true(learn(&x, &words, COPIED, &r));
    assert_int_equal(r.count, 7);
    for (int i = 0; i < 50; i++) {
        const trp_cutlass_args y = arguments((uint64_t)i << 20, 1 + i / 7.0);
        const parameter want = build(&y, COPIED);
        unsigned char got[TRP_CUTLASS_PARAMS_MAX];
        trp__refit_apply(&r, &y, got);
        assert_memory_equal(got, &want, sizeof want);
    }
}

/* What is not a copy is told, whatever it is. */
static void not_copied(void **state)
{
    (void)state;
    const trp_cutlass_args x = arguments(0, 1);
    trp__refit_set words = addresses();
    trp__refit r;
    trp__refit_add_numbers(&x, &words);
    for (way how = ADDED; how < HOWS; how++)
        assert_false(learn(&x, &words, how, &r));
}

/* Addresses and numbers do not tell shapes apart; all else does, and whether they are 0. */
static void shapes(void **state)
{
    (void)state;
    const trp_cutlass_args x = arguments(0, 1), y = arguments(4096, -2);
    trp__refit_set words = addresses();
    trp__refit_add_numbers(&x, &words);
    const trp_cutlass_args shape = trp__refit_shape(&x, &words);
    trp_cutlass_args other = trp__refit_shape(&y, &words);
    assert_memory_equal(&shape, &other, sizeof shape);
    for (int i = 0; i < 5; i++) {
        other = y;
        other.m += i == 0;
        other.lda += i == 1;
        other.slot[1] += i == 2;
        other.beta = i == 3 ? 0 : other.beta;
        other.d = i == 4 ? 0 : other.d;
        other = trp__refit_shape(&other, &words);
        assert_memory_not_equal(&shape, &other, sizeof shape);
    }
}

/* Marks leave alone what they are not for, and differ from each other in either half. */
static void marks(void **state)
{
    (void)state;
    trp_cutlass_args x;
    trp__refit_set all = {{0}};
    uint32_t seen[4 * TRP__REFIT_WORDS], count = 0;
    memset(&x, 1, sizeof x);
    x.c = 0;
    for (uint32_t i = 0; i < TRP__REFIT_WORDS; i++)
        trp__refit_add(&all, i);
    for (uint32_t kind = 0; kind < 2; kind++) {
        const trp_cutlass_args marked = trp__refit_marked(&x, &all, kind);
        assert_int_equal(marked.c, 0);
        assert_int_equal(marked.a % 256, 0);
        memcpy(&seen[count], &marked, sizeof marked);
        count += 2 * TRP__REFIT_WORDS;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i % 2; j < i && seen[i] != 0; j += 2)
            assert_int_not_equal(seen[i], seen[j]);
    }
    const trp__refit_set none = {{0}};
    const trp_cutlass_args same = trp__refit_marked(&x, &none, 0);
    assert_memory_equal(&same, &x, sizeof x);
}

UNIT_MAIN(UNIT(copied), UNIT(not_copied), UNIT(shapes), UNIT(marks))
