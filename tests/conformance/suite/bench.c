/* Times each variant of each operation at the size of the largest of some problems. See
 * conformance.h. SPDX-License-Identifier: Apache-2.0 */
#include "conformance/conformance.h"

enum { DRAWS = 64, TIMES = 21, WARM = 2 };

static size_t bytes_of(const cf_problem *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->block_count; i++)
        bytes += p->blocks[i].before ? p->blocks[i].bytes : 0;
    return bytes;
}

static void draw_largest(cf_bench *bench, cf_problem *p, const cf_operation *o, unsigned variant)
{
    cf_draw(p, o, variant, CF_RANDOM);
    for (int i = 1; i < DRAWS; i++) {
        cf_problem other;
        cf_draw(&other, o, variant, CF_RANDOM);
        if (bytes_of(&other) > bytes_of(p)) {
            const cf_problem smaller = *p;
            *p = other;
            other = smaller;
        }
        cf_drop(bench, &other);
    }
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void refill(const cf_bench *bench, const cf_problem *p)
{
    for (int i = 0; i < p->block_count; i++) {
        if (p->blocks[i].before)
            h_write(bench->world.device, p->blocks[i].buffer, 0, p->blocks[i].before,
                    p->blocks[i].bytes);
    }
}

/* Returns the median time from sending to completion; 0: it was refused. Refills the buffers first,
 * since a request that reads its own output would find other numbers the second time. */
static int64_t median_ns(cf_bench *bench, const cf_problem *p)
{
    int64_t took[TIMES];
    for (int i = -WARM; i < TIMES; i++) {
        trp_completion done = {0};
        refill(bench, p);
        const int64_t begin = h_now();
        trp_status status = p->operation->family->send(bench->at, p, &done);
        if (status == TRP_OK)
            status = h_await_any(done);
        if (status != TRP_OK)
            return 0;
        took[i < 0 ? 0 : i] = h_now() - begin;
    }
    qsort(took, TIMES, sizeof *took, ascending);
    return took[TIMES / 2];
}

void cf_time(const cf_actor *actor)
{
    cf_bench bench = cf_open(actor);
    printf("%-24s %-16s %12s %12s %9s\n", "operation", "variant", "bytes", "median us", "GB/s");
    for (size_t i = 0; i < actor->count; i++) {
        const cf_operation *o = &actor->operations[i];
        for (unsigned v = 0; v < o->variant_count && cf_chosen(o); v++) {
            cf_problem p;
            if (cf_excluded(actor, o, v, h_backend(), &(const char *){NULL}))
                continue;
            draw_largest(&bench, &p, o, v);
            cf_upload(&bench, &p);
            const int64_t ns = median_ns(&bench, &p);
            printf("%-24s %-16s %12zu", o->name, o->variants[v].name, bytes_of(&p));
            if (ns > 0)
                printf(" %12.1f %9.3f\n", (double)ns / 1e3, (double)bytes_of(&p) / (double)ns);
            else
                printf(" %12s\n", "refused");
            cf_drop(&bench, &p);
        }
    }
    cf_close(&bench);
}
