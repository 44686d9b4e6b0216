/* Determines the settings of a row's kernel: those used without a search, and those that a search
 * tries. */
#include "actors/cutlass/catalogue/catalogue.h"
#include "actors/cutlass/catalogue/parts.h"

#include <string.h>

static int64_t divide_up(int64_t x, int64_t y)
{
    return (x + y - 1) / y;
}

enum { PARTS_MAX = 32, STEPS_OF_PART = 8 };

/* Filter gradients have few tiles with very long sums, so the sums are split into as many parts as
 * there are processors for. CUTLASS's own division leaves half of the processors idle with an odd
 * number of tiles. Returns 1 to let CUTLASS divide. */
static int32_t parts_of_sums(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    const int64_t steps = divide_up(p->k, row->tile[2]);
    int64_t parts, tiles = divide_up(divide_up(p->m, row->tile[0]), row->cluster[0]) *
                           divide_up(divide_up(p->n, row->tile[1]), row->cluster[1]) *
                           row->cluster[0] * row->cluster[1];
    if (!row->stream_k || row->family != TRP__CUTLASS_SM90 || row->operation != TRP__CUTLASS_CONV ||
        p->conv.operation != TRP_CONV_WGRAD || tiles == 0)
        return 1;
    parts = p->processors / tiles;
    parts = parts < PARTS_MAX ? parts : PARTS_MAX;
    parts = parts * STEPS_OF_PART < steps ? parts : steps / STEPS_OF_PART;
    return parts > 1 ? (int32_t)parts : 1;
}

/* Stream-K rounds the tiles up to whole groups along both sides and computes the surplus tiles.
 * Returns the widest group that adds few of them. */
static int32_t rounded_swizzle(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                               int32_t wanted)
{
    const int64_t rows = divide_up(p->m, (int64_t)row->tile[0] * row->cluster[0]);
    const int64_t columns = divide_up(p->n, (int64_t)row->tile[1] * row->cluster[1]);
    int32_t swizzle = wanted;
    while (row->family == TRP__CUTLASS_SM90 && row->stream_k && swizzle > 1 &&
           (double)(divide_up(rows, swizzle) * divide_up(columns, swizzle)) * swizzle * swizzle >
               1.02 * (double)(rows * columns))
        swizzle /= 2;
    return swizzle;
}

static trp__cutlass_settings estimate(const trp__cutlass_row *row, const trp__cutlass_problem *p)
{
    /* Consecutive tiles form squares if A and B together exceed half of L2. */
    const double bytes = (double)p->m * (double)p->k * trp_dtype_bits((trp_dtype)p->a) / 8.0 +
                         (double)p->k * (double)p->n * trp_dtype_bits((trp_dtype)p->b) / 8.0;
    const int32_t parts = parts_of_sums(row, p);
    return (trp__cutlass_settings){.swizzle = rounded_swizzle(row, p,
                                                              bytes > 24e6  ? 8
                                                              : bytes > 8e6 ? 4
                                                                            : 1),
                                   .splits = parts,
                                   .stream_k = parts > 1 ? 2 : 0};
}

/* Adds settings unless they are already present. */
static uint32_t add_variant(trp__cutlass_settings out[TRP__CUTLASS_VARIANTS_MAX], uint32_t count,
                            trp__cutlass_settings one)
{
    for (uint32_t i = 0; i < count; i++) {
        if (memcmp(&out[i], &one, sizeof one) == 0)
            return count;
    }
    out[count] = one;
    return count + 1;
}

/* Adds the orders of tiles. In 2.x the order is compiled in; raster 0 groups along m like raster
 * 1. */
static uint32_t add_orders(const trp__cutlass_row *row,
                           trp__cutlass_settings out[TRP__CUTLASS_VARIANTS_MAX], uint32_t count)
{
    trp__cutlass_settings one = out[0];
    for (one.swizzle = 1; one.swizzle <= 8 && row->family == TRP__CUTLASS_SM90; one.swizzle *= 2) {
        for (one.raster = 1; one.raster <= 2; one.raster++) {
            bool again = row->operation == TRP__CUTLASS_GROUPED && one.raster == 1 &&
                         one.swizzle == out[0].swizzle;
            if (!again)
                count = add_variant(out, count, one);
        }
    }
    return count;
}

/* Adds the ways to divide sums. */
static uint32_t add_divisions(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                              trp__cutlass_settings out[TRP__CUTLASS_VARIANTS_MAX], uint32_t count)
{
    const int32_t parts[] = {2, 4, out[0].splits / 2, out[0].splits * 2};
    trp__cutlass_settings one = out[0];
    one.splits = 1;
    if (!row->stream_k)
        return count;
    if (row->family != TRP__CUTLASS_SM90) {
        one.stream_k = 1;
        count = add_variant(out, count, one);
        one.stream_k = 3;
        return trp__cutlass_row_mixed(row) ? add_variant(out, count, one) : count;
    }
    one.stream_k = 3;
    count = add_variant(out, count, one);
    one.stream_k = 0;
    count = add_variant(out, count, one);
    one.stream_k = 2;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        one.splits = parts[i];
        if (parts[i] > 1 && parts[i] <= PARTS_MAX && p->k >= (int64_t)4 * parts[i] * row->tile[2])
            count = add_variant(out, count, one);
    }
    return count;
}

uint32_t trp__cutlass_row_variants(const trp__cutlass_row *row, const trp__cutlass_problem *p,
                                   trp__cutlass_settings out[TRP__CUTLASS_VARIANTS_MAX])
{
    out[0] = estimate(row, p);
    return add_divisions(row, p, out, add_orders(row, out, 1));
}

void trp__cutlass_set(const trp__cutlass_settings *settings, trp_cutlass_args *args)
{
    args->swizzle = settings->swizzle;
    args->raster = settings->raster;
    args->splits = settings->splits;
    args->stream_k = settings->stream_k;
    args->reduction = settings->reduction;
}
