/* Plans of one-dimensional transforms on the host: factors and tables, which depend on the length
 * alone. A plan is made once, and read by any number of threads. */
#ifndef TRP_ACTORS_FFT_HOST_PLAN_H
#define TRP_ACTORS_FFT_HOST_PLAN_H

#include <troupe/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TRP__FFT_VECTOR_BYTES = 32,
    TRP__FFT_PAIR_BYTES = 2 * TRP__FFT_VECTOR_BYTES, /* real and imaginary parts of one element of
                                                      * as many lines as a vector has lanes */
    TRP__FFT_PASSES_MAX = 40,
    TRP__FFT_PRIME_MAX = 61,   /* primes that have a pass; lengths with larger ones are convolved */
    TRP__FFT_STRIP_MAX = 4096, /* elements of a line that are transformed with those of its
                                * neighbours, in the second-level cache */
    TRP__FFT_SPLIT_MIN =
        64, /* shorter lines may be prime, or not worth cutting into two dimensions */
};

/* What a plan depends on, compared whole. */
typedef struct trp__fft_key {
    int64_t n;      /* length in the time domain */
    int64_t waves;  /* the length of the cosine or sine transform that it is for; 0: none */
    uint8_t wide;   /* f64 */
    uint8_t real;   /* one side is real */
    uint8_t single; /* for one line at a time, cut into two dimensions */
    uint8_t reserved[5];
} trp__fft_key;

/* One pass of Stockham's algorithm: `groups` groups of `stride` butterflies. */
typedef struct trp__fft_pass {
    int radix;
    int64_t groups, stride;
    const void *twiddles; /* radix - 1 for each group but the first */
    const void *roots;    /* of order `radix`, for odd ones */
} trp__fft_pass;

/* A length without prime factors above TRP__FFT_PRIME_MAX. */
typedef struct trp__fft_smooth {
    int64_t n;
    int count;
    trp__fft_pass pass[TRP__FFT_PASSES_MAX];
    void *table;
} trp__fft_smooth;

/* One line as a matrix of rows x columns: its columns are transformed, multiplied by roots, and
 * then its rows. The root of (row, column) is step[row][lane] * base[strip][row], with column =
 * strip * lanes + lane. */
typedef struct trp__fft_split {
    trp__fft_smooth rows, columns; /* `rows` has the length of a column */
    int64_t strips;                /* of columns, the last of which may be incomplete */
    void *step, *base;
} trp__fft_split;

typedef struct trp__fft_plan {
    trp__fft_key key;
    atomic_int users;
    int lanes;
    bool half;      /* real and even: complex of half the length, then made real */
    int64_t length; /* complex elements that are transformed */
    /* Bluestein: the transform as a convolution, with one of length `m`. Else m is `length`. */
    bool chirps;
    int64_t m;
    void *chirp;            /* `length` complex numbers */
    void *spectrum;         /* m, over m */
    void *turns;            /* in f64: cosine and sine of turn * t / (8 waves), to t = waves */
    void *half_roots;       /* of order key.n, 0 to length / 2 */
    trp__fft_smooth smooth; /* of length m, unless key.single */
    trp__fft_split split;   /* of length m, with key.single */
} trp__fft_plan;

/* Whether lines of this kind are best transformed one by one, not beside each other. */
bool trp__fft_is_single(int64_t n, bool real, bool wide, int64_t lines);

/* Makes a plan with one user. TRP_E_MEMORY. */
trp_status trp__fft_plan_make(const trp__fft_key *key, trp__fft_plan **out, trp_error *error);
void trp__fft_plan_hold(trp__fft_plan *plan);
/* Frees it after its last user. NULL is ignored. */
void trp__fft_plan_drop(trp__fft_plan *plan);

/* The shortest length with few factors that is at least n. */
int64_t trp__fft_good_length(int64_t n);

#endif
