/* troupe fft: the discrete Fourier transform of an array in a file. */
#ifndef TRP_CLI_COMMANDS_FFT_H
#define TRP_CLI_COMMANDS_FFT_H

#include "data/tensor.h"

#include <troupe/fft.h>

typedef struct fft {
    run_choice choice;
    bool check, quiet, inverse;
    int kind, norm;             /* a trp_fft_kind, -1: by the type of X; a trp_fft_norm */
    const char *axes, *lengths; /* options as given */
    tensor x, y;
    trp_fft_request request; /* buffers once they are placed */
    struct run run;

    /* Set by fft_plan(). */
    int count;                        /* axes */
    int axis[TRP_FFT_RANK_MAX];       /* from 0 on */
    int64_t length[TRP_FFT_RANK_MAX]; /* of each axis */
} fft;

/* Compares the downloaded result with sums in extended precision, all of it or a sample, and shows
 * the outcome. */
bool fft_check(const fft *job);

#endif
