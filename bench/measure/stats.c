#include "stats.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the smallest sample that at least `fraction` of all samples do not exceed. */
static double percentile(const double *sorted, uint64_t count, double fraction)
{
    double position = fraction * (double)count;
    uint64_t rank = (uint64_t)position;
    if ((double)rank < position)
        rank++;
    return sorted[rank == 0 ? 0 : rank - 1];
}

stats_summary stats_summarise(double *samples, uint64_t count)
{
    stats_summary s = {.samples = count, .operations = count};
    if (count == 0)
        return s;
    qsort(samples, count, sizeof *samples, compare_doubles);
    double sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += samples[i];
    s.min = samples[0];
    /* With an even number of samples the median is the mean of the middle two: there are few block
     * means. */
    s.p50 = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    s.p90 = percentile(samples, count, 0.90);
    s.p99 = percentile(samples, count, 0.99);
    s.max = samples[count - 1];
    s.mean = sum / (double)count;
    return s;
}

static bool run_block(const stats_plan *plan, stats_side side, double *samples, uint64_t *taken)
{
    if (plan->warm > 0 && !side.run(side.context, plan->warm))
        return false;
    uint64_t samples_wanted = plan->each ? plan->count : 1;
    uint64_t operations = plan->each ? 1 : plan->count;
    for (uint64_t i = 0; i < samples_wanted; i++) {
        int64_t start = stats_now();
        bool ok = side.run(side.context, operations);
        int64_t end = stats_now();
        if (!ok)
            return false;
        samples[(*taken)++] = (double)(end - start) / (double)operations;
    }
    return true;
}

/* Returns the median of the blocks' 99th percentiles; sorts each block. */
static double tail_of_blocks(double *samples, uint64_t blocks, uint64_t count, double *room)
{
    for (uint64_t i = 0; i < blocks; i++)
        room[i] = stats_summarise(samples + i * count, count).p99;
    return stats_summarise(room, blocks).p50;
}

bool stats_compare(const stats_plan *plan, stats_side raw, stats_side troupe,
                   stats_summary *raw_out, stats_summary *troupe_out)
{
    uint64_t room = plan->blocks * (plan->each ? plan->count : 1);
    double *samples[2] = {calloc(room, sizeof(double)), calloc(room, sizeof(double))};
    double *tails = calloc(plan->blocks, sizeof *tails), tail[2];
    const stats_side sides[2] = {raw, troupe};
    uint64_t taken[2] = {0};
    bool ok = samples[0] && samples[1] && tails;
    for (uint32_t turn = 0; turn < 2 * plan->blocks && ok; turn++) {
        const uint32_t block = turn / 2, side = turn % 2;
        if (!sides[side].run)
            continue;
        if (plan->placement)
            placement_set(plan->placement, block, side == 1);
        ok = run_block(plan, sides[side], samples[side], &taken[side]);
    }
    if (ok) {
        for (int side = 0; side < 2 && plan->each; side++)
            tail[side] = tail_of_blocks(samples[side], taken[side] > 0 ? plan->blocks : 0,
                                        plan->count, tails);
        *raw_out = stats_summarise(samples[0], taken[0]);
        *troupe_out = stats_summarise(samples[1], taken[1]);
        if (plan->each) {
            raw_out->p99 = tail[0];
            troupe_out->p99 = tail[1];
        }
        raw_out->operations = raw.run ? plan->blocks * plan->count : 0;
        troupe_out->operations = troupe.run ? plan->blocks * plan->count : 0;
    }
    free(samples[0]);
    free(samples[1]);
    free(tails);
    return ok;
}

uint64_t stats_calibrate(stats_side side, double target_ns, uint64_t most)
{
    if (!side.run(side.context, 1)) /* the first operation may load and plan */
        return 0;
    for (uint64_t count = 1;; count *= 2) {
        int64_t start = stats_now();
        if (!side.run(side.context, count))
            return 0;
        double ns = (double)(stats_now() - start);
        if (ns * 4 >= target_ns || count >= most) {
            double wanted = ns > 0 ? target_ns / ns * (double)count : (double)most;
            return wanted < 1 ? 1 : wanted > (double)most ? most : (uint64_t)wanted;
        }
    }
}

double stats_least(stats_side side)
{
    enum { BLOCKS = 5, BLOCK_NS = 2000000 };
    uint64_t count = 1;
    double best = -1;
    for (int block = -1; block < BLOCKS; block++) {
        int64_t from = stats_now();
        if (!side.run(side.context, count))
            return -1;
        double ns = (double)(stats_now() - from) / (double)count;
        if (block < 1)
            count = ns < BLOCK_NS ? (uint64_t)(BLOCK_NS / ns) + 1 : 1;
        else
            best = best < 0 || ns < best ? ns : best;
    }
    return best;
}
