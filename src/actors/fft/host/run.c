#include "actors/fft/host/kernels.h"
#include "base/os/cpu.h"
#include "base/os/team.h"

#include <stdlib.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t trp__fft_buffer_pairs(const trp__fft_plan *plan)
{
    const int64_t ends = plan->key.single ? 0 : plan->length + 1;
    const int64_t inside = plan->key.single
                               ? larger(plan->split.rows.n, plan->split.columns.n + plan->lanes)
                               : plan->m;
    /* An odd number: buffers that are a multiple of a page apart would evict each other. */
    return (larger(inside, ends) + 3) | 1;
}

size_t trp__fft_scratch_bytes(const trp__fft_plan *plan)
{
    int64_t pairs = 2 * (int64_t)trp__team_width() * trp__fft_buffer_pairs(plan);
    if (plan->key.single) {
        pairs += plan->split.rows.n * trp__fft_row_pairs(plan);
        pairs += larger(plan->m, plan->length + 1) / plan->lanes + 2;
    }
    return (size_t)pairs * TRP__FFT_PAIR_BYTES;
}

static int64_t distance(const trp__fft_other *d)
{
    const int64_t x = d->x_step < 0 ? -d->x_step : d->x_step;
    const int64_t y = d->y_step < 0 ? -d->y_step : d->y_step;
    return larger(x, y);
}

void trp__fft_job_settle(trp__fft_job *job)
{
    job->lines = 1;
    for (int i = 0; i < job->others; i++) {
        const trp__fft_other d = job->other[i];
        int at = i;
        job->lines *= d.n;
        for (; at > 0 && distance(&job->other[at - 1]) > distance(&d); at--)
            job->other[at] = job->other[at - 1];
        job->other[at] = d;
    }
}

void trp__fft_run(const trp__fft_job *job)
{
#if defined(__x86_64__)
    if (trp__cpu_has_avx2()) {
        if (job->plan->key.wide)
            trp__fft_run_f64_avx2(job);
        else
            trp__fft_run_f32_avx2(job);
        return;
    }
#endif
    if (job->plan->key.wide)
        trp__fft_run_f64(job);
    else
        trp__fft_run_f32(job);
}

bool trp__fft_line(const trp__fft_plan *plan, void *line, double scale)
{
    trp__fft_job job = {.plan = plan,
                        .sides = TRP__FFT_COMPLEX,
                        .scale = scale,
                        .x = line,
                        .y = line,
                        .x_step = 2,
                        .y_step = 2,
                        .have = plan->key.n};
    job.scratch = aligned_alloc(TRP__FFT_PAIR_BYTES, trp__fft_scratch_bytes(plan));
    if (!job.scratch)
        return false;
    trp__fft_job_settle(&job);
    trp__fft_run(&job);
    free(job.scratch);
    return true;
}
