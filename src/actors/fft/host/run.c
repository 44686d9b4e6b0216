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

/* The text of the processor's instruction set, for the type. */
#if defined(__x86_64__)
#define CHOOSE(name, wide)                                                                         \
    (trp__cpu_has_avx2() ? (wide) ? name##_f64_avx2 : name##_f32_avx2                              \
     : (wide)            ? name##_f64                                                              \
                         : name##_f32)
#else
#define CHOOSE(name, wide) ((wide) ? name##_f64 : name##_f32)
#endif

void trp__fft_run(const trp__fft_job *job)
{
    CHOOSE(trp__fft_run, job->plan->key.wide)(job);
}

void trp__fft_run_trig(const trp__fft_trig_job *trig)
{
    CHOOSE(trp__fft_run_trig, trig->outer.plan->key.wide)(trig);
}

int64_t trp__fft_trig_lines(const trp__fft_form *form, int64_t all)
{
    enum { NUMBERS = 1 << 18, LEAST = 64 };
    const int64_t room = 2 * trp__fft_form_room(form);
    const int64_t fit = NUMBERS / room, least = room > 2 * TRP__FFT_STRIP_MAX ? 1 : LEAST;
    const int64_t lines = larger(fit, least);
    return lines < all ? lines : all;
}

uint64_t trp__fft_trig_bytes(const trp__fft_form *form, bool wide, int64_t all)
{
    uint64_t bytes = wide ? 16 : 8;
    if (__builtin_mul_overflow(bytes, (uint64_t)trp__fft_form_room(form), &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)trp__fft_trig_lines(form, all), &bytes) ||
        bytes > UINT64_MAX >> 3)
        return 0;
    return bytes;
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
