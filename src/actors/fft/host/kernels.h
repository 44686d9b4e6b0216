/* Transforms along one axis of a tensor on the host. */
#ifndef TRP_ACTORS_FFT_HOST_KERNELS_H
#define TRP_ACTORS_FFT_HOST_KERNELS_H

#include "actors/fft/host/plan.h"
#include "actors/fft/kernels/problem.h"

#include <stddef.h>

enum { TRP__FFT_OTHERS_MAX = 8 };

typedef enum trp__fft_sides {
    TRP__FFT_COMPLEX,   /* both sides are complex */
    TRP__FFT_FROM_REAL, /* key.n real elements to key.n / 2 + 1 complex ones */
    TRP__FFT_TO_REAL,   /* and back: the other half is taken as their conjugate */
} trp__fft_sides;

/* A dimension that is not transformed. Steps count numbers: a complex element is two. */
typedef struct trp__fft_other {
    int64_t n, have; /* x has `have` of them; the rest is taken as zero */
    int64_t x_step, y_step;
} trp__fft_other;

/* The transform of all lines along one axis. Lines of y may be those of x, else nothing of y may
 * overlap x. */
typedef struct trp__fft_job {
    const trp__fft_plan *plan;
    trp__fft_sides sides;
    bool inverse; /* exp(+...) instead of exp(-...) */
    double scale;
    const void *x;
    void *y;
    uint8_t x_format, y_format; /* trp__fft_format, of a real side */
    int64_t x_step, y_step;     /* numbers between elements of a line */
    int64_t have;           /* elements that lines of x have; the rest is zero, what is too many is
                             * not read */
    int64_t x_turn, y_turn; /* elements of lines of x, which have all then, and of y lie so much
                             * further around */
    int others;
    trp__fft_other other[TRP__FFT_OTHERS_MAX]; /* the quickest first */
    int64_t lines;
    void *scratch; /* trp__fft_scratch_bytes(), aligned to TRP__FFT_PAIR_BYTES */
} trp__fft_job;

/* A cosine or sine transform of all lines along one axis. */
typedef struct trp__fft_trig_job {
    trp__fft_form form;
    trp__fft_job outer; /* its x and y are real; its plan is that of the Fourier transform */
    void *dense;        /* trp__fft_trig_bytes(), aligned to TRP__FFT_PAIR_BYTES */
} trp__fft_trig_job;

/* Lines of a part, which is transformed at once: the same for any number of threads, since the plan
 * depends on it. */
int64_t trp__fft_trig_lines(const trp__fft_form *form, int64_t all);
/* 0: more than any memory. */
uint64_t trp__fft_trig_bytes(const trp__fft_form *form, bool wide, int64_t all);

void trp__fft_run_trig(const trp__fft_trig_job *trig);

/* Sets `lines`, and the order of the others, from the rest. */
void trp__fft_job_settle(trp__fft_job *job);

/* Enough for any job with this plan in this process. */
size_t trp__fft_scratch_bytes(const trp__fft_plan *plan);

/* Shares its lines with the threads of the team. */
void trp__fft_run(const trp__fft_job *job);

/* Transforms one contiguous line of complex numbers in place. False: no memory. */
bool trp__fft_line(const trp__fft_plan *plan, void *line, double scale);

/* The text of all_real.h for each type and instruction set. All give the same bits. */
void trp__fft_run_f32(const trp__fft_job *job);
void trp__fft_run_f64(const trp__fft_job *job);
void trp__fft_run_f32_avx2(const trp__fft_job *job);
void trp__fft_run_f64_avx2(const trp__fft_job *job);
void trp__fft_run_trig_f32(const trp__fft_trig_job *trig);
void trp__fft_run_trig_f64(const trp__fft_trig_job *trig);
void trp__fft_run_trig_f32_avx2(const trp__fft_trig_job *trig);
void trp__fft_run_trig_f64_avx2(const trp__fft_trig_job *trig);

/* Of the scratch memory: vectors of one buffer of a thread, which has two. */
int64_t trp__fft_buffer_pairs(const trp__fft_plan *plan);
/* Pairs between rows of a line as a matrix. */
static inline int64_t trp__fft_row_pairs(const trp__fft_plan *plan)
{
    return plan->split.strips + 1; /* odd distances spread the rows over the cache */
}

#endif
