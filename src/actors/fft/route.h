/* A request on a GPU as steps: plans of cuFFT for as many axes as it takes at once, copies between
 * layouts where no plan describes one, and plain sums where there is no plan.
 *
 * cuFFT knows up to three axes that are nested in memory, and one dimension of batches. What is
 * beside these is looped over; if that would be many small calls, or if a tensor lies otherwise, it
 * is copied to dense scratch memory first, or from there to y at last. Copies also crop and pad,
 * multiply by the scale, take conjugates (the inverse R2C and the forward C2R, which cuFFT lacks),
 * and save x of C2R, which cuFFT overwrites. */
#ifndef TRP_ACTORS_FFT_ROUTE_H
#define TRP_ACTORS_FFT_ROUTE_H

#include "actors/fft/fft_wire.h"
#include "actors/fft/kernels/problem.h"

#include <stdbool.h>

enum { TRP__FFT_AXES = 3 /* of one plan */, TRP__FFT_STEPS = 3 * TRP_FFT_RANK_MAX };

/* How one side of a plan lies in memory; elements of its type. Axes from the slowest to the
 * fastest: embed[i] is how many elements axis i has room for, but for i = 0. */
typedef struct trp__fft_layout {
    int64_t embed[TRP__FFT_AXES];
    int64_t stride, distance; /* of the last axis, and of the batch */
} trp__fft_layout;

/* What a plan of cuFFT depends on, compared whole. */
typedef struct trp__fft_problem {
    int64_t n[TRP__FFT_AXES]; /* the last axis is the one that the real kinds halve */
    trp__fft_layout x, y;
    int64_t batch;
    uint8_t rank, kind;
    uint8_t inverse; /* of C2C; R2C is always forward, C2R inverse */
    uint8_t wide;
    uint8_t in_place;
    uint8_t reserved[3];
} trp__fft_problem;

typedef enum trp__fft_buffer {
    TRP__FFT_X,
    TRP__FFT_Y,
    TRP__FFT_DENSE,  /* scratch */
    TRP__FFT_OTHER,  /* the same once more, for plain sums */
    TRP__FFT_MIDDLE, /* a dense real tensor between two axes, where y has 16 bits */
    TRP__FFT_BUFFERS,
} trp__fft_buffer;

typedef enum trp__fft_work {
    TRP__FFT_COPY,
    TRP__FFT_PLAN,
    TRP__FFT_SUMS,
    TRP__FFT_BEFORE, /* what is before the Fourier transform of a cosine or sine transform */
    TRP__FFT_BEHIND,
} trp__fft_work;

/* A dimension around a plan; bytes. */
typedef struct trp__fft_loop {
    int64_t n, x_step, y_step;
} trp__fft_loop;

typedef struct trp__fft_step {
    trp__fft_work work;
    trp__fft_buffer from, to;
    union {
        trp__fft_copy copy; /* without addresses, like these */
        trp__fft_sums sums;
        trp__fft_trig trig;
        struct {
            trp__fft_problem problem;
            int loops;
            trp__fft_loop loop[TRP_FFT_RANK_MAX];
        };
    };
} trp__fft_step;

/* Ways, in the order in which they are tried. */
typedef enum trp__fft_way {
    TRP__FFT_JOINT,  /* up to three axes in a plan */
    TRP__FFT_SINGLE, /* a plan for each axis */
    TRP__FFT_PLAIN,  /* a kernel of plain sums for each axis */
    TRP__FFT_WAYS,
} trp__fft_way;

typedef struct trp__fft_route {
    int count;
    trp__fft_step step[TRP__FFT_STEPS];
    uint64_t dense_bytes, other_bytes, middle_bytes; /* scratch memory */
    bool kernels;                                    /* some steps are kernels of ours */
} trp__fft_route;

/* Finds the steps of a request. x and y are the addresses of elements of index 0, of which
 * alignment and equality matter. TRP_E_UNSUPPORTED: this way can't do it. */
trp_status trp__fft_route_find(trp__fft_route *route, trp__fft_way way, const trp__fft *g,
                               const trp__fft_dim *dim, const void *x, const void *y,
                               trp_error *error);

#endif
