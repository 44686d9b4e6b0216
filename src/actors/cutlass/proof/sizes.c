/* How large a proof is: groups of its own, and what is too large. */
#include "actors/cutlass/proof/parts.h"
#include "tuning/prover_parts.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MOST    (UINT64_C(1) << 30) /* of operands */
#define GATHERED_MOST 5e7                 /* terms of the reference's sums */
#define WORK_MOST     1e11                /* products of numbers: some milliseconds at most */

enum {
    TILE = 256,        /* sizes that differ by multiples of it end in the same part of a tile */
    LITTLE = 2 * TILE, /* and are not made smaller than this */
    GROUPS = 4,        /* likewise */
    GROUPS_MOST = 16,  /* with places of their own */
};

typedef trp__cutlass_proving proving;

/* --- Groups --- */

static bool is_grouped(const proving *x)
{
    return x->trial->subject.problem.operation == TRP__CUTLASS_GROUPED;
}

static bool is_cut(const proving *x)
{
    return is_grouped(x) && x->args.grouping >= TRP_GROUPED_OF_M;
}

static int32_t *size_of(proving *x, int which)
{
    int32_t *const sizes[] = {&x->args.m, &x->args.n, &x->args.k};
    return sizes[which];
}

static bool take_rows(proving *x, size_t bytes)
{
    free(x->rows);
    x->rows = calloc(1, bytes);
    x->rows_bytes = x->rows ? bytes : 0;
    return x->rows;
}

/* Where the pieces of the dimension end: they have weights of 1 to 4, and every fifth none. */
static bool cut_groups(proving *x)
{
    const int cut = x->args.grouping - TRP_GROUPED_OF_M, l = x->args.l;
    const int64_t all = *size_of(x, cut), whole = x->trial->subject.problem.divides[cut];
    int64_t total = 0, sum = 0;
    if (!take_rows(x, (size_t)l * sizeof(int32_t)))
        return false;
    int32_t *ends = x->rows;
    for (int g = 0; g < l; g++)
        total += g % 5 == 3 ? 0 : 1 + g * 7 % 4;
    for (int g = 0; g < l; g++) {
        sum += g % 5 == 3 ? 0 : 1 + g * 7 % 4;
        ends[g] = (int32_t)(sum == total ? all : all * sum / total / whole * whole);
    }
    return true;
}

static int64_t padded(int64_t length)
{
    return (length + 15) / 16 * 16 + 16;
}

/* Groups that follow each other, with gaps between lines; of the second k is 0. */
static bool place_groups(proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    trp_cutlass_args *a = &x->args;
    const int64_t size[3] = {a->m, a->n, a->k};
    const int64_t ld[4] = {padded(p->a_row ? size[2] : size[0]),
                           padded(p->b_row ? size[1] : size[2]), padded(size[1]), padded(size[1])};
    const int64_t stride[4] = {ld[0] * (p->a_row ? size[0] : size[2]),
                               ld[1] * (p->b_row ? size[2] : size[1]), ld[2] * size[0],
                               ld[3] * size[0]};
    a->lda = ld[0];
    a->ldb = ld[1];
    a->ldc = ld[2];
    a->ldd = ld[3];
    a->batch_a = stride[0];
    a->batch_b = stride[1];
    a->batch_c = stride[2];
    a->batch_d = stride[3];
    if (!take_rows(x, (size_t)a->l * sizeof(trp_group_row)))
        return false;
    trp_group_row *row = x->rows;
    for (int g = 0; g < a->l; g++) {
        for (int i = 0; i < 4; i++) {
            const int to = a->group_turned && i < 2 ? 1 - i : i;
            row[g].at[to] = g * stride[i];
            row[g].ld[to] = ld[i];
            if (i < 3)
                row[g].size[to] = i == 2 && g == 1 ? 0 : size[i];
        }
    }
    return true;
}

static uint64_t bytes_of(const trp__proof_operand *o)
{
    return (uint64_t)trp__proof_extent(o) * trp__proof_width(o->type);
}

/* Groups end where their operands do. */
static void set_rooms(proving *x)
{
    const uint32_t operand[4] = {0, 1, x->c, x->d};
    for (int i = 0; i < 4; i++)
        x->args.group_room[i] = operand[i] < x->operands ? bytes_of(&x->operand[operand[i]]) : 0;
}

/* Sets mean sizes for groups that have places of their own. */
static void set_mean_sizes(proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const int64_t mean[3] = {p->m, p->n, p->k};
    x->args.l = x->args.l < GROUPS_MOST ? x->args.l : GROUPS_MOST;
    for (int i = 0; i < 3; i++) {
        const int64_t whole = p->divides[i], size = mean[i] / whole * whole;
        *size_of(x, i) = (int32_t)(size > whole ? size : whole);
    }
}

/* --- What is too large --- */

/* Whether the reference has too much to gather for its samples, and images are what it adds up. */
static bool gathers_too_much(const proving *x)
{
    const trp__cutlass_choice_key *p = &x->trial->subject.problem;
    const double results = (double)x->args.m * x->args.n;
    return p->operation == TRP__CUTLASS_CONV && p->conv == TRP_CONV_WGRAD &&
           (results < TRP__PROOF_SAMPLE ? results : TRP__PROOF_SAMPLE) * x->args.k > GATHERED_MOST;
}

static bool is_too_large(const proving *x)
{
    const trp_cutlass_args *a = &x->args;
    const double members = is_cut(x) ? 1 : (double)a->l;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < x->operands; i++)
        bytes += bytes_of(&x->operand[i]) * (x->operand[i].role == TRP__PROOF_OUTPUT ? 2 : 1);
    return bytes > BYTES_MOST || gathers_too_much(x) ||
           members * a->m * (double)a->n * a->k > WORK_MOST;
}

/* Half of a size, which ends in the same part of a tile. */
static bool halve(int32_t *size)
{
    if (*size < LITTLE)
        return false;
    *size = *size / 2 / TILE * TILE + *size % TILE;
    return true;
}

static bool halve_images(proving *x)
{
    trp_cutlass_args *a = &x->args;
    int32_t *pixels = x->trial->subject.problem.conv == TRP_CONV_WGRAD ? &a->k : &a->m;
    if (a->conv_images < 2)
        return false;
    const int32_t each = *pixels / a->conv_images;
    a->conv_images /= 2;
    *pixels = each * a->conv_images;
    return true;
}

static bool halve_members(proving *x)
{
    int32_t *cut = is_cut(x) ? size_of(x, x->args.grouping - TRP_GROUPED_OF_M) : NULL;
    if (x->args.l <= (is_grouped(x) ? GROUPS : 2))
        return cut && halve(cut);
    x->args.l /= 2;
    if (cut && *cut >= LITTLE)
        halve(cut);
    return true;
}

static bool halve_largest(proving *x)
{
    int which = 0;
    for (int i = 1; i < 3; i++) {
        if (*size_of(x, i) > *size_of(x, which))
            which = i;
    }
    if (!halve(size_of(x, which)))
        return false;
    if (x->args.group > x->args.k)
        x->args.group = x->args.k;
    return true;
}

static bool halve_something(proving *x)
{
    if (x->trial->subject.problem.operation == TRP__CUTLASS_CONV)
        return halve_images(x);
    return halve_members(x) || halve_largest(x);
}

bool trp__proving_lay_out(proving *x)
{
    if (is_grouped(x) && !is_cut(x))
        set_mean_sizes(x);
    for (;;) {
        if (is_grouped(x) && !(is_cut(x) ? cut_groups(x) : place_groups(x)))
            return false;
        trp__proving_add_operands(x);
        set_rooms(x);
        if (!is_too_large(x) || !halve_something(x))
            return true;
    }
}
